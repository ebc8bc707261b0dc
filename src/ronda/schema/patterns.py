"""A pattern as people write it → the same pattern in the strict spelling that every draft's own check takes.

Outside a class `]`, `{` and `}` may stand for themselves where they close or count nothing, and so may `]` at the beginning of
a class. The meta-schemas of the older drafts, as they are checked, want a backslash before each.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ronda.schema.bounds import REFERENCES
from ronda.schema.subschemas import subschemas

_BRACKETS: Final = re.compile(r"[\]{}]")
_ESCAPE: Final = re.compile(r"\\(?:[pPu]\{[^}\\]{0,100}\}|.)", re.DOTALL)
_OPENING: Final = re.compile(r"\[\^?")
_COUNT: Final = re.compile(r"\{\d+(?:,\d*)?\}")
_ORDINARY: Final = re.compile(r"[^\\\[\]{}]+")


def strictly_spelt(pattern: str) -> str:
    if not _BRACKETS.search(pattern):
        return pattern
    out: list[str] = []
    at, in_class = 0, False
    while at < len(pattern):
        piece = _ORDINARY.match(pattern, at) or _ESCAPE.match(pattern, at)
        if piece is None and not in_class:
            piece = _OPENING.match(pattern, at) or _COUNT.match(pattern, at)
        found = piece[0] if piece is not None else pattern[at]
        at += len(found)
        if not in_class and found[0] == "[":
            in_class = True
            if pattern[at : at + 1] == "]" and pattern.find("]", at + 1) > 0:  # else it is a class of nothing
                found += "\\]"
                at += 1
        elif in_class:
            in_class = found != "]"
        elif found in ("]", "{", "}"):
            found = "\\" + found
        out.append(found)
    return "".join(out)


def respell(schema: dict[str, Any]) -> None:
    """Spell the patterns of a schema strictly, in place."""
    spots = [spot.node for spot in subschemas(schema)]
    for node in spots:
        if isinstance(pattern := node.get("pattern"), str):
            node["pattern"] = strictly_spelt(pattern)
    # A reference may lead through a pattern's own spelling.
    if any("patternProperties" in str(node[keyword]) for node in spots for keyword in REFERENCES if keyword in node):
        return
    for node in spots:
        if isinstance(members := node.get("patternProperties"), dict):
            node["patternProperties"] = {strictly_spelt(str(name)): sub for name, sub in members.items()}


def needs_respelling(schema: dict[str, Any]) -> bool:
    return any(
        strictly_spelt(pattern) != pattern
        for spot in subschemas(schema)
        for pattern in (spot.node.get("pattern"), *(spot.node.get("patternProperties") or ()))
        if isinstance(pattern, str)
    )
