"""What the journal stands on: migrations, presence, and waiting for the disk."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ronda.store import StoreError
from ronda.store.presence import Presence
from ronda.store.sqlite import checkpoint, connect, open_database
from ronda.store.wal_sync import WalSync

FIRST = ("CREATE TABLE note (text TEXT)", "INSERT INTO note VALUES ('first')")
SECOND = ("ALTER TABLE note ADD COLUMN at REAL", "UPDATE note SET at = 2.0")


def notes(path: Path, *migrations: tuple[str, ...], kind: str = "notes") -> list[tuple[object, ...]]:
    with closing(open_database(str(path), migrations, kind=kind)) as db:
        return db.execute("SELECT * FROM note").fetchall()


def test_each_migration_is_done_once(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    assert notes(path, FIRST) == [("first",)]
    assert notes(path, FIRST) == [("first",)]
    assert notes(path, FIRST, SECOND) == [("first", 2.0)]
    assert notes(path, FIRST, SECOND) == [("first", 2.0)]


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    notes(path, FIRST)
    with pytest.raises(StoreError, match="no such table: diary"):
        notes(path, FIRST, SECOND, ("DELETE FROM note", "DELETE FROM diary"))
    assert notes(path, FIRST) == [("first",)]


def test_one_kind_of_database_is_not_taken_for_another(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    notes(path, FIRST)
    with pytest.raises(StoreError, match="not a diary; choose another path"):
        notes(path, FIRST, kind="diary")


def test_a_checkpoint_empties_a_log_that_has_grown(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with closing(open_database(str(path), [FIRST], kind="notes")) as db, closing(connect(str(path))) as other:
        db.execute("INSERT INTO note VALUES (?)", ("x" * 100_000,))
        checkpoint(other, str(path))
        assert os.path.getsize(f"{path}-wal") > 100_000  # moved, and to be written over
        checkpoint(other, str(path), shrink_above=0)
        assert os.path.getsize(f"{path}-wal") == 0
        assert db.execute("SELECT count(*) FROM note").fetchone() == (2,)


def test_a_checkpoint_does_not_insist_while_somebody_reads(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with closing(open_database(str(path), [FIRST], kind="notes")) as db, closing(connect(str(path))) as other:
        reader = sqlite3.connect(path)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM note").fetchall()
        db.execute("INSERT INTO note VALUES ('more')")
        checkpoint(other, str(path), shrink_above=0)
        assert db.execute("SELECT count(*) FROM note").fetchone() == (2,)
        reader.close()


def test_who_has_left_or_never_was_is_not_there(tmp_path: Path) -> None:
    one, other = Presence(str(tmp_path / "x.db")), Presence(str(tmp_path / "x.db"))
    assert one.is_there(other.id)
    assert other.is_there(one.id)
    assert one.is_there(one.id)
    assert not one.is_there(12345)
    other.leave()
    assert not one.is_there(other.id)
    one.leave()
    assert os.listdir(tmp_path) == []


def test_what_the_dead_left_behind_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / "x.db-open-00000000abcd").write_text("123\n")
    (tmp_path / "x.db-open-no-number").write_text("")
    (tmp_path / "y.db-open-00000000abcd").write_text("another's\n")
    one = Presence(str(tmp_path / "x.db"))
    assert not one.is_there(0xABCD)
    one.leave()
    assert sorted(os.listdir(tmp_path)) == ["x.db-open-no-number", "y.db-open-00000000abcd"]


async def test_a_disk_that_refused_once_is_not_trusted_again(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    sync = WalSync(str(path))
    with pytest.raises(StoreError, match="the disk did not take what was written"):
        await sync.reach(1)
    (tmp_path / "x.db-wal").write_text("")
    with pytest.raises(StoreError, match="the disk did not take what was written"):
        await sync.reach(2)


async def test_a_sync_serves_all_who_asked_before_it_began(tmp_path: Path) -> None:
    (tmp_path / "x.db-wal").write_text("")
    sync = WalSync(str(tmp_path / "x.db"))
    await sync.reach(3)
    (tmp_path / "x.db-wal").unlink()
    await sync.reach(2)  # needs no other
    with pytest.raises(StoreError):
        await sync.reach(4)
