"""What is an owner's: every table says so, a stranger's feature joins in, and names that begin alike stay apart."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door
from tests.server.runs_door import HI, post_quietly, under_way
from tests.timeouts import soon

from ronda import tool
from ronda.host.sessions import SessionHost
from ronda.journal.memory import MemoryJournal
from ronda.server.features.contract import Feature
from ronda.server.features.owners.data import OwnerData
from ronda.server.features.owners.feature import Owners, Removals
from ronda.server.features.table import loadable
from ronda.store.catalog import Catalog
from ronda.store.memory import MemoryCatalog
from ronda.store.owners import OWNER_ROWS, SHARED_TABLES, OwnerRows, table_names
from ronda.store.sql import Sql
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.testing import ScriptedModel, calls, says

# Of features: about upstreams, and which notices were told, by hashes.
NO_OWNERS = frozenset(["upstream_call", "upstream_window", "upstream_pause", "notice_told"])


async def no_run(run: str, owner: str) -> None:
    return None


def data_of(catalog: Catalog, *features: type[Feature], folder: Path | None = None) -> OwnerData:
    made: list[type[Feature]] = [Owners, *features]
    for feature in made:
        if feature.tables:
            catalog.add_tables(feature.name, feature.tables)
    sessions = SessionHost(
        catalog.sessions, catalog.claims, find_run=no_run, cancel=lambda run, owner: None, clock=time.time
    )
    return OwnerData(catalog, MemoryJournal(), sessions, None, None, folder, made, time.time)


def box(*names: str) -> list[type[Feature]]:
    return [feature for feature in loadable() if feature.name in names]


async def test_every_table_says_which_rows_are_an_owners(tmp_path: Path) -> None:
    catalog = SqliteCatalog(str(tmp_path / "catalog.db"))
    features = [feature for feature in loadable() if feature.tables]
    for feature in features:
        catalog.add_tables(feature.name, feature.tables)
    there = await catalog.read(table_names)
    await catalog.close()
    owned = [row.table for row in OWNER_ROWS] + [row.table for feature in features for row in feature.owned]
    assert there - set(owned) - SHARED_TABLES - NO_OWNERS == set()
    assert [table for table in owned if table not in there] == []


class Parrot(Feature):
    """A feature of another package."""

    name = "parrot"
    tables = (("CREATE TABLE parrot_word (bird {text}, word {text})",),)
    owned = (OwnerRows("parrot_word", "bird = :owner"),)

    @classmethod
    def owned_folders(cls, data_folder: Path, owner: str) -> list[Path]:
        return [data_folder / "parrots" / owner]


def _teach(db: Sql, owner: str) -> None:
    db.execute("INSERT INTO parrot_word VALUES (?, 'hello')", (owner,))


async def test_a_feature_of_another_package_joins_in(tmp_path: Path) -> None:
    catalog = MemoryCatalog()
    data = data_of(catalog, Parrot, folder=tmp_path)
    for owner in ("ann", "bob"):
        (tmp_path / "parrots" / owner).mkdir(parents=True)
        (tmp_path / "parrots" / owner / "feathers").write_text("green")
        await catalog.write(partial(_teach, owner=owner))

    assert await data.count("ann") == {"folder": 1, "parrot_word": 1}
    assert await data.delete("ann") == {"folder": 1, "parrot_word": 1}

    assert await data.count("ann") == {}
    assert await data.count("bob") == {"folder": 1, "parrot_word": 1}
    assert not (tmp_path / "parrots" / "ann").exists()
    assert await Removals(catalog).all() == set()


ACCOUNTS = ("owner:a", "owner:a/b", "key:ka", "key:kab", "session:a/x", "session:a/b/x", "session:a/c/x", "owner:ab")


@pytest.mark.parametrize("owner", ["a", "a/b"])
async def test_accounts_of_owners_whose_names_begin_alike_are_told_apart(owner: str) -> None:
    catalog = MemoryCatalog()
    data = data_of(catalog, *box("budgets", "rates"))

    def fill(db: Sql) -> None:
        for key, of in (("ka", "a"), ("kab", "a/b")):
            db.execute("INSERT INTO key (id, owner, hash, created) VALUES (?, ?, ?, 0)", (key, of, key.encode()))
        for account in ACCOUNTS:
            db.execute("INSERT INTO ledger VALUES (?, '2026-11-18', 0, 0, 0, 0, 0, 0)", (account,))
            db.execute("INSERT INTO rate_window VALUES (?, 0, 0, 0)", (account,))

    def left(db: Sql) -> list[str]:
        return sorted([account for (account,) in db.execute("SELECT account FROM ledger")])

    await catalog.write(fill)
    await data.delete(owner)

    mine: dict[str, Any] = {
        "a": {"owner:a", "key:ka", "session:a/x", "session:a/c/x"},
        "a/b": {"owner:a/b", "key:kab", "session:a/b/x"},
    }
    assert await catalog.read(left) == sorted(set(ACCOUNTS) - mine[owner])


async def test_a_server_ends_the_runs_of_an_owner_who_is_being_deleted(door: Door) -> None:
    @tool
    async def endless() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return "never"

    catalog = MemoryCatalog()
    catalog.add_tables(Owners.name, Owners.tables)
    async with door.serving(ScriptedModel(calls("endless"), says("no")), endless, catalog=catalog) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": True}))
        run = await under_way(served)
        await Removals(catalog).add(served.server.runs.live[run].run.start.owner, time.time())
        owners = served.server.features.find(Owners.name)
        assert isinstance(owners, Owners)
        [chore] = owners.chores()
        await chore.do()
        await asking
        await served.all_over()
        [events] = await served.events
    assert getattr(events[-1], "reason", None) == "cancelled"
