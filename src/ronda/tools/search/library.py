"""For programs: tools with which a model searches the web and reads its pages.

agent = Agent("openai-chat:NAME", tools=web_search())
agent = Agent("openai-chat:NAME", tools=web_search({"folder": "handbook"}))
agent = Agent("openai-chat:NAME", tools=web_search(find))      # find(query) → [{"title", "description", "url", "content"}, …]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ronda.drive import Tool
from ronda.tools.search.settings import open_searcher
from ronda.tools.search.tool import search_tools
from ronda.wire.web_search import WebTools, read_search_options


def web_search(
    where: Mapping[str, Any] | Callable[[str], Any] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    fetch_allow: Sequence[str] = (),
) -> list[Tool]:
    """Tools with which a model searches the web and reads its pages.

    Args:
        where: What is searched: a table as `[search]` of a server's settings, or a function of the query. Else DuckDuckGo.
        options: What a request of Chat Completions may say in `web_search_options`, for every run.
        fetch_allow: Addresses beside public ones that may be read, such as `10.1.0.0/16`.
    """
    table, callback = ({}, where) if callable(where) else (where or {}, None)
    read = read_search_options(msgspec.json.encode(options or {}), "options")
    return search_tools(open_searcher(table, callback, fetch_allow), WebTools(read, read))
