"""How long the texts of a string are, in characters and in bytes of JSON; and whether a pattern finds one."""

from __future__ import annotations

import re

from ronda.schema.grammar.regex import analyse
from ronda.schema.grammar.shapes import String, Unsupported


def search(pattern: str, text: str) -> bool:
    """Whether a pattern of JSON Schema finds something in a text, as near as Python comes to it."""
    try:
        return re.search(re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern), text, re.ASCII) is not None
    except re.error:
        raise Unsupported(f"the pattern {pattern!r} cannot be enforced") from None


def shortest(shape: String) -> int | None:
    """The length of the shortest text that fits; None if there is none. Of several patterns, of each by itself."""
    found = [analyse(pattern).shortest(shape.least, shape.most) for pattern in shape.patterns]
    return None if None in found else max([shape.least, *(size for size in found if size is not None)])


def byte_size(shape: String) -> int:
    """The most bytes a character takes, as JSON: \\u0001 is the longest way to write one."""
    return 1 if any(analyse(pattern).plain for pattern in shape.patterns) else 6


def longest(shape: String) -> int | None:
    """The bytes of the longest text there may be; None if there is no limit."""
    limits = [shape.most, *(analyse(pattern).longest for pattern in shape.patterns)]
    sizes = [limit for limit in limits if limit is not None]
    return min(sizes) * byte_size(shape) if sizes else None
