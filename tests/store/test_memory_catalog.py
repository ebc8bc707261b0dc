"""The catalog that forgets keeps what every catalog promises."""

from __future__ import annotations

from ronda.store.catalog import Catalog
from ronda.store.memory import MemoryCatalog
from ronda.testing.catalogs import CatalogContract
from ronda.testing.file_stores import ContainersContract, FilesContract, SkillsContract
from ronda.testing.session_stores import SessionsContract


class TestMemoryCatalog(CatalogContract, FilesContract, SkillsContract, ContainersContract, SessionsContract):
    async def open(self) -> Catalog:
        return MemoryCatalog()
