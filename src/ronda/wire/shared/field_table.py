"""The fields of a dialect's requests as one table: what becomes of each, for the documentation, and how it is read.

`fields.read_members` reads the fields that are a member of a request as they are. A field of which a dialect's reader makes more
than one value, or which it checks together with others, has a row without `into`: the reader of the dialect reads it itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Raw, Struct

from ronda.wire.shared import fields as fields_of
from ronda.wire.shared.fields import (
    Members,
    read_background,
    read_bounded,
    read_disabled_tools,
    read_disconnect,
    read_members,
    read_permission,
    whole,
)


class Reads(Struct, frozen=True):
    """A function in the place of a type, for what no type of msgspec describes: it gets all fields, and the name of this one."""

    read: Callable[[Mapping[str, Raw], str], Any]


class Field(NamedTuple):
    """`type` is msgspec's type of its value, or `Reads`. `into` is a member of the request, of its options (`options.top_p`)
    or of what its answer must know (`answer.user`). `fate` is what becomes of it, in the words of docs/compatibility.md.

    A field that is two members has a row for each.
    """

    name: str
    type: Any = None
    into: str = ""
    fate: str = "read"


class Table:
    def __init__(self, rows: Iterable[Field]) -> None:
        self.rows: Final = tuple(rows)
        self.fates: Final[dict[str, str]] = {}
        for row in self.rows:
            self.fates.setdefault(row.name, row.fate)
        readers = [
            (row.name, row.type.read if isinstance(row.type, Reads) else _reader(row.type), *_target(row.into))
            for row in self.rows
            if row.into
        ]
        self.read: Final[Callable[[Mapping[str, Raw]], Members]] = partial(read_members, readers)

    def names(self, fate: str) -> frozenset[str]:
        """Those whose fate begins with this word."""
        return frozenset([name for name, its_fate in self.fates.items() if its_fate.startswith(fate)])


def _reader(kind: Any) -> Callable[[Mapping[str, Raw], str], Any]:
    return lambda fields, name: fields_of.field(fields, name, kind, None)


def _target(into: str) -> tuple[int, str]:
    """Which part of `Members`, and its member there."""
    part, dot, member = into.partition(".")
    return (Members._fields.index(part), member) if dot else (0, into)


def bounded(least: int, most: int | None = None) -> Reads:
    return Reads(lambda fields, name: read_bounded(fields, name, least, most))


def _read_stop(fields: Mapping[str, Raw], name: str) -> tuple[str, ...]:
    stop: str | list[str] = fields_of.field(fields, name, str | list[str], [])
    return (stop,) if isinstance(stop, str) else tuple(stop)


WHOLE: Final = Reads(whole)
STOP: Final = Reads(_read_stop)
BACKGROUND: Final = Reads(lambda fields, _: read_background(fields))
LINGERS: Final = Reads(
    lambda fields, _: read_disconnect(fields)
)  # of `on_disconnect`, and of `background`, which says it, too
PERMISSION: Final = Reads(lambda fields, _: read_permission(fields))
DISABLED_TOOLS: Final = Reads(lambda fields, _: read_disabled_tools(fields))
