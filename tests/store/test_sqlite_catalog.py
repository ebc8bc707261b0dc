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
from tests.store.catalogs import CatalogContract
from tests.store.file_stores import ContainersContract, FilesContract, SkillsContract
from tests.store.session_stores import SessionsContract
from tests.timeouts import soon

from ronda.store import StoreError
from ronda.store.catalog import Catalog
from ronda.store.claims import hold_claim
from ronda.store.conversations import RunRow
from ronda.store.keys import new_key
from ronda.store.sessions import NewNode
from ronda.store.sqlite_catalog import SqliteCatalog


class TestSqliteCatalog(CatalogContract, FilesContract, SkillsContract, ContainersContract, SessionsContract):
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


async def test_a_catalog_of_an_older_ronda_is_read_and_gets_what_is_new(path: Path) -> None:
    """Its tables as they were before there were keys."""
    with sqlite3.connect(path) as old:
        old.executescript(
            """PRAGMA application_id = 1637515144;
            CREATE TABLE agent (
                id TEXT PRIMARY KEY, owner TEXT NOT NULL, version INTEGER NOT NULL, deployment_chat INTEGER NOT NULL,
                created REAL NOT NULL, updated REAL NOT NULL
            );
            CREATE TABLE agent_version (
                agent TEXT NOT NULL REFERENCES agent ON DELETE CASCADE, version INTEGER NOT NULL, created REAL NOT NULL,
                body BLOB NOT NULL, PRIMARY KEY (agent, version)
            ) WITHOUT ROWID;
            INSERT INTO agent VALUES ('ag_1', 'ann', 0, 0, 1.0, 1.0);
            INSERT INTO agent_version VALUES ('ag_1', 0, 1.0, x'7b7d');
            PRAGMA user_version = 1;"""
        )
    old.close()

    catalog = SqliteCatalog(str(path))
    assert [row.id for row in await catalog.agents.of("ann")] == ["ag_1"]
    assert await catalog.keys.all() == []
    assert len(await catalog.secret("seal")) == 32
    await catalog.close()


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
