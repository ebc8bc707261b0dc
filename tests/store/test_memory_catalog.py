"""The catalog that forgets keeps what every catalog promises."""

from __future__ import annotations

from tests.store.catalogs import (
    AgentsContract,
    ClaimsContract,
    ContainersContract,
    ConversationsContract,
    FilesContract,
    KeysContract,
)
from tests.store.sessions import SessionsContract

from ronda.store.catalog import Catalog
from ronda.store.memory import MemoryCatalog


class TestMemoryCatalog(
    AgentsContract,
    ConversationsContract,
    FilesContract,
    ContainersContract,
    KeysContract,
    ClaimsContract,
    SessionsContract,
):
    async def open(self) -> Catalog:
        return MemoryCatalog()
