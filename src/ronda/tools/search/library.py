"""For programs: tools with which a model searches the web, reads its pages, or searches a folder of documents.

agent = Agent("openai-chat:NAME", tools=[web_search()])
agent = Agent("openai-chat:NAME", tools=[web_search(find)])    # find(query) → [{"title", "description", "url", "content"}, …]
agent = Agent("openai-chat:NAME", tools=[fetch(), folder("handbook")])
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ronda._extras import check_extra
from ronda.drive import Tool
from ronda.wire.web.search import WebTools, read_search_options

MAX_NAME: Final = 64  # characters of a tool's name that every provider takes, and none but these:
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]+")


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
        fetch_allow: Addresses besides public ones that may be read, such as `10.1.0.0/16`.
    """
    table, callback = ({}, where) if callable(where) else (where or {}, None)
    read = read_search_options(msgspec.json.encode(options or {}), "options")
    return _tools("web_search()", WebTools(read, read), table, callback, fetch_allow)


def fetch(*, name: str = "fetch", options: Mapping[str, Any] | None = None, fetch_allow: Sequence[str] = ()) -> Tool:
    """A tool with which a model reads web pages and PDFs by their addresses.

    Args:
        name: What the model calls it.
        options: What a request of Chat Completions may say in `web_search_options`, for every run.
        fetch_allow: Addresses besides public ones that may be read, such as `10.1.0.0/16`.
    """
    read = read_search_options(msgspec.json.encode(options or {}), "options")
    [made] = _tools("fetch()", WebTools(None, read), {"backend": "none"}, None, fetch_allow)
    return _Renamed(made, name)


def folder(path: str | os.PathLike[str], *, name: str = "", index: str | os.PathLike[str] | None = None) -> Tool:
    """A tool with which a model searches a folder of documents, without a network.

    Args:
        path: The folder.
        name: What the model calls the tool; without one, `search_` and the name of the folder.
        index: A file to keep the index in; without one it is made anew by each program.
    """
    own = Path(path).resolve().name
    table = {"folder": os.fspath(path)} | ({} if index is None else {"index": os.fspath(index)})
    check_extra("web", "folder()")
    from ronda.tools.search.tool import CITE

    about = f"Search the documents of '{own}'. The result holds the passages that fit the query best. {CITE}"
    read = read_search_options(msgspec.json.encode({"search_description": about}), "options")
    [made] = _tools("folder()", WebTools(read, None), table)
    return _Renamed(made, name or f"search_{_NO_NAME.sub('_', own)}"[:MAX_NAME])


def _tools(
    user: str,
    web: WebTools,
    table: Mapping[str, Any],
    callback: Callable[[str], Any] | None = None,
    fetch_allow: Sequence[str] = (),
) -> list[Tool]:
    check_extra("web", user)
    from ronda.tools.search.settings import open_searcher  # with aiohttp behind it
    from ronda.tools.search.tool import search_tools

    return search_tools(open_searcher(table, callback, fetch_allow), web)


class _Renamed:
    """A tool under another name, so that an agent may have several of its kind."""

    def __init__(self, tool: Tool, name: str) -> None:
        self.spec = replace(tool.spec, name=name)
        self.run = tool.run
