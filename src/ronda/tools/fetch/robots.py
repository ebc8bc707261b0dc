"""What a site asks of programs that read it: `robots.txt`, by RFC 9309.

Of the groups that name us the rules are joined, else those of `*`; the longest rule that fits an address decides, and of two
equally long ones the kind one. `*` stands for any characters, `$` for the end.

Not `urllib.robotparser`, which takes the first rule that fits and knows no `*`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

MAX_BYTES: Final = 500 * 1024  # as RFC 9309 asks for
MAX_RULES: Final = 2_000
MAX_RULE: Final = 2_000  # characters


class Rules(Struct, frozen=True):
    """`(pattern, is it allowed)`; `delay` is the seconds between two requests that a site asks for."""

    rules: tuple[tuple[str, bool], ...] = ()
    delay: float = 0.0

    def allow(self, path: str) -> bool:
        path = _plain(path)
        fitting = [(len(pattern), allowed) for pattern, allowed in self.rules if _fits(pattern, path)]
        return max(fitting)[1] if fitting else True


ALL_ALLOWED: Final = Rules()
NONE_ALLOWED: Final = Rules((("/", False),))


def parse_robots(text: str, agent: str) -> Rules:
    groups: dict[str, list[tuple[str, bool]]] = {}
    delays: dict[str, float] = {}
    names: list[str] = []
    in_rules = False
    for line in text.splitlines():
        key, _, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if key == "user-agent":
            if in_rules:
                names, in_rules = [], False
            names.append(value.lower())
            groups.setdefault(value.lower(), [])
        elif key in ("allow", "disallow", "crawl-delay"):
            in_rules = True
            for name in names:
                if key == "crawl-delay":
                    delays[name] = _seconds(value)
                elif value and len(value) <= MAX_RULE and len(groups[name]) < MAX_RULES:  # an empty rule is none
                    groups[name].append((_plain(value), key == "allow"))
    name = agent if agent in groups else "*"
    return Rules(tuple(groups.get(name, ())), delays.get(name, 0.0))


def _plain(path: str) -> str:
    """One spelling for each path, whichever of its characters were escaped."""
    return quote(unquote(path, errors="replace"), safe="/?=&*$:;,@!'()+~")


def _fits(pattern: str, path: str) -> bool:
    """Piece by piece, each at the first place that it fits: no pattern takes longer than its length times the path's."""
    is_anchored = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    for index, piece in enumerate(rest):
        if is_anchored and index == len(rest) - 1:
            return len(path) - at >= len(piece) and path.endswith(piece)
        found = path.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return not is_anchored or at == len(path)


def _seconds(value: str) -> float:
    try:
        return max(0.0, min(float(value), 3600.0))
    except ValueError:
        return 0.0
