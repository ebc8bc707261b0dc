"""The operator's table `[search]` → a backend.

[search]
backend = "searxng"
address = "http://127.0.0.1:8888"
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, assert_never

import msgspec
from msgspec import Struct

from ronda.errors import BadConfig
from ronda.tools.search.backend import Backend
from ronda.tools.search.duckduckgo import ADDRESS, DuckDuckGo
from ronda.tools.search.folder import FolderBackend
from ronda.tools.search.json_api import JsonApi, JsonBackend
from ronda.tools.search.searxng import Searxng


class DuckDuckGoSettings(Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="duckduckgo"):
    address: str = ADDRESS


class SearxngSettings(Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="searxng"):
    address: str


class FolderSettings(Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="folder"):
    """`address` comes before a document's path in the address that is cited; `index` is a file to keep the index in."""

    folder: str
    address: str = ""
    index: str = ""


Settings: TypeAlias = DuckDuckGoSettings | SearxngSettings | JsonApi | FolderSettings


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Raises BadConfig."""
    try:
        found: Settings = msgspec.convert({"backend": "duckduckgo", **table}, Settings)
    except msgspec.ValidationError as error:
        raise BadConfig(f"[search] cannot be used: {error}") from error
    return found


def open_backend(settings: Settings) -> Backend:
    """Raises BadConfig."""
    match settings:
        case DuckDuckGoSettings(address=address):
            return DuckDuckGo(address)
        case SearxngSettings(address=address):
            return Searxng(address)
        case JsonApi():
            return JsonBackend(settings)
        case FolderSettings():
            index = Path(settings.index) if settings.index else None
            return FolderBackend(Path(settings.folder), index=index, address=settings.address)
    assert_never(settings)
