"""The catalog in a file: what every catalog promises, and what only one that outlives its process can."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import sys
from pathlib import Path

import pytest
from tests.store.catalogs import CatalogContract, FeatureTablesContract
from tests.store.file_stores import ContainersContract, FilesContract, SkillsContract
from tests.store.session_stores import SessionsContract
from tests.timeouts import soon

from ronda.store import StoreError
from ronda.store.catalog import Catalog
from ronda.store.claims import hold_claim
from ronda.store.conversations import RunRow
from ronda.store.keys import new_key
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.store.values.sessions import NewNode
from ronda.store.versions import pack_version


class TestSqliteCatalog(
    CatalogContract, FeatureTablesContract, FilesContract, SkillsContract, ContainersContract, SessionsContract
):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "catalog.db"

    async def open(self) -> Catalog:
        return SqliteCatalog(str(self.path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


async def test_what_was_kept_is_there_when_it_is_opened_again(path: Path) -> None:
    first = SqliteCatalog(str(path))
    _, key = new_key("ann", 1.0)
    await first.agents.create("ann", "ag_1", b"{}", 1.0)
    await first.conversations.create("ann", "conv_1", b"{}", 1.0, [RunRow("run_1")])
    await first.keys.add(key)
    await first.sessions.add("ann", "s", NewNode(0, 0, b"[1]", 1, 1), 1.0, stood_at=0)
    seal = await first.secret("seal")
    kept = (await first.agents.of("ann"), await first.conversations.of("ann"), await first.sessions.find("ann", "s"))
    await first.close()

    again = SqliteCatalog(str(path))
    assert (
        await again.agents.of("ann"),
        await again.conversations.of("ann"),
        await again.sessions.find("ann", "s"),
    ) == kept
    assert [node.turns for node in await again.sessions.path("ann", "s", 1)] == [b"[1]"]
    assert (await again.keys.all(), await again.secret("seal")) == ([key], seal)
    await again.close()


async def test_two_that_share_a_file_have_the_same_secret(path: Path) -> None:
    one, other = SqliteCatalog(str(path)), SqliteCatalog(str(path))
    seals = await asyncio.gather(*[catalog.secret("seal") for catalog in (one, other, one, other)])
    assert len(set(seals)) == 1
    await one.close()
    await other.close()


async def test_looking_for_keys_makes_no_file(path: Path) -> None:
    catalog = SqliteCatalog(str(path))
    assert await catalog.keys.all() == []
    assert list(path.parent.iterdir()) == []
    await catalog.close()


async def test_nobody_else_may_read_the_file(path: Path) -> None:
    catalog = SqliteCatalog(str(path))
    await catalog.secret("seal")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    await catalog.close()


async def test_a_key_is_nowhere_in_the_files(path: Path) -> None:
    catalog = SqliteCatalog(str(path))
    key, row = new_key("ann", 1.0)
    await catalog.keys.add(row)
    kept = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    await catalog.close()
    assert row.hash in kept
    assert key.encode() not in kept
    assert key.removeprefix("rk_").encode() not in kept


async def test_a_file_that_another_holds_is_an_error_of_the_store_and_holds_nobody_up(path: Path) -> None:
    catalog = SqliteCatalog(str(path), timeout=0.1)
    await catalog.secret("seal")
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.ensure_future(catalog.agents.create("ann", "ag_1", b"{}", 1.0))
        await asyncio.sleep(0)  # the loop goes round although the writer waits
        assert not writing.done()
        with pytest.raises(StoreError, match="another program holds a lock"):
            await writing
    other.close()
    await catalog.close()


@pytest.fixture
def damaged(path: Path) -> Path:
    path.write_bytes(b"not a database, but long enough to be looked at " * 50)
    return path


async def test_a_file_that_is_no_database_is_an_error_of_the_store(damaged: Path) -> None:
    catalog = SqliteCatalog(str(damaged))
    with pytest.raises(StoreError, match="move that file away"):
        await catalog.keys.all()
    await catalog.close()


async def test_two_that_share_a_file_share_its_claims(path: Path) -> None:
    one, other = SqliteCatalog(str(path)), SqliteCatalog(str(path))
    assert await one.claims.claim("ann", "x") is True
    assert await other.claims.claim("ann", "x") is False
    await one.close()  # lets go of all it had
    assert await other.claims.claim("ann", "x") is True
    await other.close()


async def test_whoever_waits_for_a_claim_gets_it_when_it_is_let_go(path: Path) -> None:
    one, other = SqliteCatalog(str(path)), SqliteCatalog(str(path))
    order: list[str] = []

    async def second() -> None:
        async with hold_claim(other.claims, "ann", "x"):
            order.append("second")

    async with soon():
        async with hold_claim(one.claims, "ann", "x"):
            waiting = asyncio.create_task(second())
            await asyncio.sleep(0)
            order.append("first")
        await waiting
    assert order == ["first", "second"]
    await one.close()
    await other.close()


CHILD = """
import asyncio, sys
from ronda.store.sqlite_catalog import SqliteCatalog

async def main():
    catalog = SqliteCatalog(sys.argv[1])
    print(await catalog.claims.claim("ann", "x"), flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


async def test_the_claims_of_a_process_end_with_it(path: Path) -> None:
    catalog = SqliteCatalog(str(path))
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    async with soon():
        assert await child.stdout.readline() == b"True\n"
        assert await catalog.claims.claim("ann", "x") is False
        child.kill()
        assert await child.wait() == -signal.SIGKILL
    assert await catalog.claims.claim("ann", "x") is True
    await catalog.close()


async def test_tables_of_others_are_changed_when_the_file_is_opened_again(path: Path) -> None:
    first = SqliteCatalog(str(path))
    first.add_tables("budgets", FeatureTablesContract.FIRST)
    await first.write(lambda db: db.execute("INSERT INTO spent VALUES (?, ?)", ("ann", 3)))
    await first.close()
    again = SqliteCatalog(str(path))
    again.add_tables("budgets", FeatureTablesContract.SECOND)
    rows = await again.read(lambda db: db.execute("SELECT owner, cents, at FROM spent").fetchall())
    await again.close()
    older = SqliteCatalog(str(path))
    older.add_tables("budgets", FeatureTablesContract.FIRST)

    assert [tuple(row) for row in rows] == [("ann", 3, 7.0)]
    # One that knows less than what is there passes over what was added.
    assert await older.read(lambda db: db.execute("SELECT cents FROM spent").fetchone()[0]) == 3
    await older.close()


async def test_a_file_with_newer_tables_of_others_is_refused_and_closed(path: Path) -> None:
    first = SqliteCatalog(str(path))
    first.add_tables("budgets", FeatureTablesContract.FIRST)
    await first.write(lambda db: db.execute("UPDATE feature_version SET version = ?", (pack_version(9, 9),)))
    await first.close()
    older = SqliteCatalog(str(path))
    older.add_tables("budgets", FeatureTablesContract.FIRST)

    with pytest.raises(
        StoreError, match=r"the table of 'budgets' in it .*; update Ronda, or choose another path"
    ) as refusal:
        await older.read(lambda db: db.execute("SELECT 1").fetchone())

    assert refusal.value is not None  # its traceback would keep a connection that was only dropped
    assert str(path) not in open_files()
    await older.close()


async def test_what_comes_while_it_is_closed_is_refused_and_leaves_no_file_open(path: Path) -> None:
    catalog = SqliteCatalog(str(path))
    await catalog.write(lambda db: db.execute("SELECT 1"))

    closing = asyncio.ensure_future(catalog.close())
    await asyncio.sleep(0)  # it is closed in its thread now
    with pytest.raises(StoreError, match="closed"):
        await catalog.read(lambda db: db.execute("SELECT 1").fetchone())
    await closing

    assert str(path) not in open_files()
    await catalog.close()


def open_files() -> list[str]:
    return [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
