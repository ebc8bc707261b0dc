"""Each queue keeps what every queue promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.store.queues import WIDE, QueueContract

from ronda.store.memory import MemoryCatalog
from ronda.store.queue import Queue
from ronda.store.sqlite_catalog import SqliteCatalog


class TestMemoryQueue(QueueContract):
    @pytest.fixture(autouse=True)
    def place(self) -> None:
        self.queue = MemoryCatalog().queue

    async def open(self) -> Queue:
        return self.queue


class TestSqliteQueue(QueueContract):
    @pytest.fixture(autouse=True)
    async def place(self, tmp_path: Path) -> AsyncIterator[None]:
        self.path = tmp_path / "catalog.db"
        self.catalogs: list[SqliteCatalog] = []
        yield
        for catalog in self.catalogs:
            await catalog.close()

    async def open(self) -> Queue:
        self.catalogs.append(SqliteCatalog(str(self.path)))
        return self.catalogs[-1].queue

    async def test_a_queue_that_is_only_looked_at_makes_no_file(self) -> None:
        queue = await self.open()
        assert await queue.claim("w", WIDE, 1.0, 2.0) == []
        assert (await queue.list(1.0), await queue.renew("w", 2.0), await queue.cancel("a", 1.0)) == ([], [], False)
        assert not self.path.exists()
