"""Names that a provider may refuse → names it takes, no two the same, and the way back.

What a thing is called depends on what other things there are, not on their order, and a name that is fine stays: a model
works better with words that a person chose.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from ronda.schema.lower_rules import Rules


def lower_names(names: Sequence[str], rules: Rules) -> dict[str, str]:
    """What to call each tool, by the tool's own name. To go back, turn it round: no two tools are called the same."""
    return allowed_names(names, rules.tool_name)


def allowed_names(names: Sequence[str], allowed: str) -> dict[str, str]:
    """Each name → one that matches `allowed`: as it is, or with underscores, or with a hash where that was not enough."""
    fits = re.compile(allowed)
    wanted = {name: _plain(name, fits) for name in names}
    takers: dict[str, int] = {}
    for plain in wanted.values():
        takers[plain] = takers.get(plain, 0) + 1
    taken = {name for name in wanted if fits.fullmatch(name)}
    called = {name: name for name in taken}
    for name, plain in sorted(wanted.items()):
        if name not in called:
            alone = takers[plain] == 1 and fits.fullmatch(plain)
            called[name] = plain if alone else _with_hash(name, plain, taken.union(wanted.values()), fits)
            taken.add(called[name])
    return {name: called[name] for name in wanted}


def _plain(name: str, fits: re.Pattern[str]) -> str:
    if fits.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    bare = plain.replace("-", "_")
    return next((one for one in (plain, f"_{plain}", bare, f"_{bare}") if fits.fullmatch(one)), bare)


def _with_hash(name: str, plain: str, taken: set[str], fits: re.Pattern[str]) -> str:
    """As much of the plain name as there is room for, and eight digits of a hash of the real one."""
    start = plain[:54] if fits.fullmatch(plain[:1] or "-") else f"_{plain[:54]}"
    attempt = 0
    while True:
        mark = hashlib.sha256(f"{attempt}:{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
        marked = f"{start}_{mark}"
        if marked not in taken:
            return marked
        attempt += 1
