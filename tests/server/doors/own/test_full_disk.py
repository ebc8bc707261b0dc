"""A disk that is full: what is kept can still be deleted, so that there is room again."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.interaction.doors import Door, user

from ronda.journal.sqlite import SqliteJournal
from ronda.store import StoreError
from ronda.store.reserve import Reserve, is_full
from ronda.store.sql import Sql
from ronda.store.sqlite import explain
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.testing import ScriptedModel, says

_T = TypeVar("_T")


class Disk:
    """Full from a moment on, for as long as what is held in reserve is there; or for good."""

    def __init__(self, folder: Path) -> None:
        self._reserve = folder / "reserve"
        self.is_full = False
        self.is_full_for_good = False

    def check(self) -> None:
        if not (self.is_full and self._reserve.exists()) and not self.is_full_for_good:
            return
        small = sqlite3.connect(":memory:")
        try:
            small.execute("PRAGMA max_page_count = 1")
            small.execute("CREATE TABLE t (x)")
        except sqlite3.Error as error:
            raise explain("disk", error) from error
        finally:
            small.close()


class CatalogOnDisk(SqliteCatalog):
    def __init__(self, folder: Path, disk: Disk) -> None:
        super().__init__(str(folder / "catalog.db"))
        self._disk = disk

    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T:
        self._disk.check()
        return await super().write(job, alone, may_be_lost=may_be_lost)


class JournalOnDisk(SqliteJournal):
    def __init__(self, folder: Path, disk: Disk) -> None:
        super().__init__(str(folder / "journal.db"))
        self._disk = disk

    async def forget(self, run: str) -> bool:
        self._disk.check()
        return await super().forget(run)


@pytest.mark.parametrize("kind", ["session", "file", "response"])
async def test_what_is_kept_can_be_deleted_on_a_full_disk(door: Door, tmp_path: Path, kind: str) -> None:
    disk, reserve = Disk(tmp_path), Reserve(tmp_path)
    catalog, journal = CatalogOnDisk(tmp_path, disk), JournalOnDisk(tmp_path, disk)
    async with door.serving(ScriptedModel(says("hi"), says("ho")), catalog=catalog, journal=journal) as served:
        served.server.reserve = reserve
        reserve.take()
        if kind == "session":
            assert (await served.post({"messages": [user("hi")], "session_id": "s"})).status == 200
            address = "sessions/s"
        elif kind == "file":
            form = {"purpose": "user_data", "file": io.BytesIO(b"some text")}
            async with served.http.post(f"{served.url}/files", data=form) as answer:
                address = f"files/{(await answer.json())['id']}"
        else:
            async with served.http.post(f"{served.url}/responses", json={"input": "hi"}) as answer:
                address = f"responses/{(await answer.json())['id']}"
        disk.is_full = True
        async with served.http.delete(f"{served.url}/{address}") as answer:
            deleted = answer.status
        async with served.http.get(f"{served.url}/{address}") as answer:
            found = answer.status
        disk.is_full_for_good = True
        async with served.http.delete(f"{served.url}/sessions/other") as answer:
            refused = answer.status
        disk.is_full = disk.is_full_for_good = False

    assert (deleted, found, refused) == (200, 404, 503)


def test_a_reserve_takes_room_and_gives_it_back(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path)
    assert not reserve.give_up()
    reserve.take()
    reserve.take()
    size = (tmp_path / "reserve").stat().st_size

    assert size == 4 << 20
    assert reserve.give_up()
    assert not (tmp_path / "reserve").exists()


def test_another_problem_is_no_full_disk() -> None:
    assert not is_full(StoreError("disk", "it is damaged"))
