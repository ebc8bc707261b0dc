"""The schema of a function's parameters."""

from __future__ import annotations

from typing import Any

from ronda.schema.signature import describe
from ronda.schema.validate import check_schema


def properties(fn: Any, **options: Any) -> Any:
    """The properties of a function's parameters, once the whole is known to be a JSON Schema."""
    parameters = describe(fn, **options).parameters
    assert check_schema(parameters) is None
    return parameters["properties"]


async def read_page(url: str, max_chars: int = 20_000) -> str:
    """Read a web page as plain text.

    Follows redirects.

    Args:
        url: Absolute http or https address.
        max_chars: Cut the text after this many characters.
    """
    return url[:max_chars]
