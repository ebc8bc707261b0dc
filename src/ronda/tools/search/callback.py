"""A function of the program's → results: `fn(query) → [{title, description, url, content}]`, plain or async.

Its addresses are its own business: they may be paths of files, and nothing is fetched from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ronda.tools.function import call_either
from ronda.tools.search.backend import Query, Result, SearchFailed


class CallbackBackend:
    finds_pages = False

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._function = function

    async def search(self, query: Query) -> list[Result]:
        try:
            value = await call_either(self._function, query.text)
        except Exception as error:  # the program's own function: whatever it raises is news for the model
            raise SearchFailed(f"the search failed: {type(error).__name__}: {error}") from error
        try:
            return msgspec.convert(value, list[Result], from_attributes=True)[: query.count]
        except msgspec.ValidationError as error:
            raise SearchFailed(
                f"the search callback has to return a list of {{title, description, url, content}}: {error}"
            ) from error
