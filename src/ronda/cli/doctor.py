"""`ronda doctor`: how code that a model writes is isolated on this machine, and what would help where it is not."""

from __future__ import annotations

from ronda.sandbox.doctor import examine, this_place, write_line
from ronda.sandbox.layers import find_layers


def doctor() -> int:
    lines = examine(find_layers(), this_place())
    print("\n".join(map(write_line, lines)))
    return 0 if lines[0].state == "works" else 1
