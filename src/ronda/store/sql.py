"""What the stores of a catalog ask of a database: statements inside a transaction. SQLite and PostgreSQL both give it.

A job is a function of a `Sql` that does all it has to in one go. Its statements are written in the part of SQL that both know,
with the marks of SQLite: `?`, or `:name`. It may be called again after
the connection was lost: what it does besides the database must bear that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

_T = TypeVar("_T")

Values: TypeAlias = Sequence[Any] | Mapping[str, Any]


class Rows(Protocol):
    @property
    def rowcount(self) -> int: ...

    @property
    def description(self) -> Any:
        """Of each column its name, and more."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Sql(Protocol):
    def execute(self, statement: str, values: Values = ..., /) -> Rows: ...

    def executemany(self, statement: str, values: Sequence[Sequence[Any]], /) -> object: ...


class Duplicate(Exception):
    """What was to be new is there already."""


class Tables(ABC):
    """Where the stores of a catalog keep their rows."""

    @property
    @abstractmethod
    def is_there(self) -> bool:
        """False: nothing was ever kept, and looking must not be what makes a file."""

    @abstractmethod
    async def read(self, job: Callable[[Sql], _T]) -> _T:
        """Do something in one snapshot."""

    @abstractmethod
    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T:
        """Do something in one transaction. Of those that name the same thing in `alone` one is under way at a time, wherever
        they are. `may_be_lost`: with a crash of the database's machine, so no caller waits for its disk. Raises Duplicate, which
        is the caller's to understand."""


class TableStore:
    """Rows of one kind, in the tables of a catalog."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def _rows(self, question: str, values: Values = ()) -> list[Any]:
        """What answers it: nothing where nothing was ever kept, and nothing is made then."""
        if not self._tables.is_there:
            return []
        return await self._tables.read(lambda db: db.execute(question, values).fetchall())

    async def _change(self, statement: str, values: Values, alone: str = "") -> bool:
        """Update or delete rows: whether there were any. A new row is added by `write`, which also makes the store."""
        if not self._tables.is_there:
            return False
        return await self._tables.write(lambda db: db.execute(statement, values).rowcount > 0, alone)
