"""Which version the tables of a database have, and which Ronda may use them.

A database that a newer Ronda has migrated stays open to older ones for as long as its changes only add: a table, or a column that
may be left out. So old and new run side by side while a deploy is rolling. A change that older ones cannot live with raises
`least`, and they are refused with the way out. Both numbers are one integer where a version is kept: SQLite has room for one.
"""

from __future__ import annotations

from typing import Final

_BITS: Final = 16


def pack_version(version: int, least: int = 0) -> int:
    """`version` migrations have been done, and a Ronda that knows fewer than `least` of them may not use the tables."""
    return least << _BITS | version


def version_of(stored: int) -> int:
    return stored & (1 << _BITS) - 1


def must_migrate(stored: int, known: int) -> bool:
    """Whether migrations are to be done by a Ronda that knows so many. Raises TooNew where it may not use the tables."""
    version, least = version_of(stored), stored >> _BITS
    if known < least:
        raise TooNew(version, least, known)
    return version < known


class TooNew(Exception):
    def __init__(self, version: int, least: int, known: int) -> None:
        super().__init__(
            f"has version {version}, which needs a Ronda that knows version {least}, and this one knows {known}"
        )
