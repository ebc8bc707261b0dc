"""A line of `ronda doctor`: one thing that was looked at, how it fares, and what would help."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

# "missing" is not here, and not asked for; "fails" is asked for by the settings, and does not work.
State: TypeAlias = Literal["works", "partly", "missing", "fails"]


class Line(Struct, frozen=True):
    """`help` is a command or an option that would make it work."""

    name: str
    state: State
    text: str
    help: str | None = None


def write_line(line: Line) -> str:
    helps = f"  → {line.help}" if line.help else ""
    return f"{line.name:<11} {line.state:<8} {line.text}{helps}"
