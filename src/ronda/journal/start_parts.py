"""What is large in a run's start is stored once for all runs that share it: transcripts, tool tables, the files of agents.

    RunStarted ── split ──► a small RunStarted, and the ids of the rows that hold its large parts ── join ──► RunStarted

How such rows are written and found is the database's (`PartRows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from msgspec.structs import replace

from ronda.core.events import AgentFile, Event, RunStarted
from ronda.core.parts import KnownTurns
from ronda.core.plan import ToolSpec
from ronda.journal.chains import Chain, Chains
from ronda.journal.codecs import decode_file, decode_tools, decode_turn, encode, hash_value

# What is stored apart, in bytes of JSON.
LARGE_TRANSCRIPT: Final = 4 << 10
LARGE_TOOLS: Final = 1 << 10

KNOWN_TOOLS: Final = 64  # tool tables

Id = TypeVar("Id")
_Id = TypeVar("_Id", covariant=True)


class PartRows(Protocol[_Id]):
    """Rows that runs share: each is written once, and found by its hash."""

    def put_value(self, digest: bytes, write: Callable[[], bytes]) -> _Id:
        """`write` is not called for a value that is known."""

    def put_turns(self, chain: Chain) -> _Id:
        """The id of the last of them."""


class StartSplitter(Generic[Id]):
    def __init__(self) -> None:
        self._tools: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], bytes, bytes]] = {}
        self._chains = Chains()

    def split(self, start: RunStarted, rows: PartRows[Id]) -> tuple[RunStarted, Id | None, Id | None, Id | None]:
        """A start without those of its parts that are stored apart, and their ids: of the last turn of its input, of its tool
        table, and of its file."""
        tip = tools = file = None
        if start.plan.tools and (tools := self._put_tools(start.plan.tools, rows)) is not None:
            start = replace(start, plan=replace(start.plan, tools=()))
        bodies = None if type(start.turns) is KnownTurns else list(map(encode, start.turns))
        if bodies is None or sum(map(len, bodies)) > LARGE_TRANSCRIPT:
            chain = self._chains.of(start.turns, bodies)
            bodies = None  # each turn is encoded again when it is written: of 49 MB there need not be two copies
            if chain.size > LARGE_TRANSCRIPT:
                tip = rows.put_turns(chain)
                start = replace(start, turns=())
        if start.file is not None:
            file, start = _put_file(start.file, rows), replace(start, file=AgentFile(start.file.path, start.file.hash))
        return start, tip, tools, file

    def _put_tools(self, tools: tuple[ToolSpec, ...], rows: PartRows[Id]) -> Id | None:
        """None if the tool table is small. A server has few of them, made of the same objects for many runs."""
        objects = tuple(map(id, tools))
        seen = self._tools.get(objects)
        if seen is None:
            body = encode(tools)
            decode_tools(body)
            if len(self._tools) >= KNOWN_TOOLS:
                self._tools.clear()
            # Holding on to `tools` keeps the ids of its objects from being used again.
            seen = self._tools[objects] = (tools, body, hash_value(body))
        _, body, digest = seen
        return rows.put_value(digest, lambda: body) if len(body) > LARGE_TOOLS else None


def _put_file(file: AgentFile, rows: PartRows[Id]) -> Id:
    return rows.put_value(hash_file(file), lambda: encode((file.files, file.links)))


def hash_file(file: AgentFile) -> bytes:
    return hash_value(file.hash.encode())


def join_start(
    start: Event, *, tools: bytes | None = None, turns: Iterable[bytes] | None = None, file: bytes | None = None
) -> RunStarted:
    """A start with the parts that were stored apart in it again. Raises LookupError if it is none."""
    if type(start) is not RunStarted:
        raise LookupError("it is no RunStarted")
    if tools is not None:
        start = replace(start, plan=replace(start.plan, tools=decode_tools(tools)))
    if turns is not None:
        start = replace(start, turns=tuple([decode_turn(turn) for turn in turns]))
    if file is not None and start.file is not None:
        files, links = decode_file(file)
        start = replace(start, file=replace(start.file, files=files, links=links))
    return start
