"""Settings of search. What may be fetched, and through which proxy, is the core's: files and MCP servers go by it, too."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Struct

from ronda.server.setting import WEB, Setting

_web = partial(Setting, WEB)


class WebSettings(Struct, frozen=True):
    enable_search: Annotated[bool, _web("--enable-search", "let models search the web and read its pages")] = False
    search_mode: Annotated[
        Literal["always", "on-request"],
        _web("--search-mode", "offer the search to every request, or only to those that ask for it"),
    ] = "always"
    search_embedding_model: Annotated[
        str | None,
        _web(
            "--search-embedding-model MODEL",
            "rank what a search finds with the embeddings of this model",
            default="by words, BM25",
        ),
    ] = None
    search: Annotated[dict[str, Any], _web("", "what is searched with: see [search](search.md)")] = {}
