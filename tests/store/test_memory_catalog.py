"""The catalog that forgets keeps what every catalog promises."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from tests.store.catalogs import CatalogContract, FeatureTablesContract
from tests.store.file_stores import ContainersContract, FilesContract, SkillsContract
from tests.store.session_stores import SessionsContract
from tests.timeouts import TIMEOUT

from ronda.store.catalog import Catalog
from ronda.store.memory import MemoryCatalog
from ronda.store.sql import Sql


class TestMemoryCatalog(
    CatalogContract, FeatureTablesContract, FilesContract, SkillsContract, ContainersContract, SessionsContract
):
    async def open(self) -> Catalog:
        return MemoryCatalog()


def test_threads_share_it() -> None:
    """One of them is inside a transaction when the other begins one."""
    catalog, began = MemoryCatalog(), threading.Event()

    def first(db: Sql) -> None:
        began.set()
        other.join(0.05)  # it cannot end before this one has

    def keep(job: Callable[[Sql], object]) -> None:
        asyncio.run(catalog.write(job))

    def second() -> None:
        assert began.wait(TIMEOUT)
        keep(lambda db: kept.append(1))

    kept = list[int]()
    other = threading.Thread(target=second)
    other.start()
    keep(first)
    other.join(TIMEOUT)

    assert kept == [1]
