"""A run as a file that can be played again: JSON, one line after the other.

    header      the run's first event: plan, conversation, inputs, the agent's file; without its owner
    request     what a model was sent: what is new since the request before
    shown       what it showed of its answer, piece by piece          answer, failure     the result of the call
    event       every fact of the run, in order: results of tools and what people decided are among them

A cassette has no keys: it is taken from what the loop says to a provider, and the provider says to an upstream what it knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.core.events import Event, Fact, ModelFinished, Preview, RunStarted
from ronda.core.parts import Turn
from ronda.core.plan import ToolChoice
from ronda.errors import BadConfig, BadRequest, UpstreamError

VERSION: Final = 1


class BadCassette(BadConfig):
    """A file that is none, or a run that cannot be played."""

    status_hint = 409


class Header(Struct, frozen=True, tag="header", tag_field="line"):
    version: int
    start: RunStarted


class Request(Struct, frozen=True, tag="request", tag_field="line", omit_defaults=True):
    """The turns are the first `same` of the request before, and these."""

    round: int
    attempt: int
    same: int
    turns: tuple[Turn, ...]
    choice: ToolChoice = ToolChoice()


class ShownPreviews(Struct, frozen=True, tag="shown", tag_field="line"):
    previews: tuple[Preview, ...]


class Answer(Struct, frozen=True, tag="answer", tag_field="line"):
    finished: ModelFinished


class Failed(Struct, frozen=True, tag="failure", tag_field="line", omit_defaults=True):
    """`refused`: the provider cannot do what was asked for, and said so before it called a model."""

    message: str
    status: int | None = None
    retryable: bool = False
    retry_after: float | None = None
    connection: bool = False
    too_long: bool = False
    refused: bool = False

    @classmethod
    def of(cls, error: UpstreamError | BadRequest) -> Failed:
        if isinstance(error, BadRequest):
            return cls(str(error), error.status_hint, refused=True)
        return cls(str(error), error.status, error.retryable, error.retry_after, error.connection, error.too_long)

    @property
    def error(self) -> UpstreamError | BadRequest:
        if self.refused:
            refusal = BadRequest(self.message)
            refusal.status_hint = self.status or refusal.status_hint
            return refusal
        return UpstreamError(
            self.message,
            status=self.status,
            retryable=self.retryable,
            retry_after=self.retry_after,
            connection=self.connection,
            too_long=self.too_long,
        )


class RecordedEvents(Struct, frozen=True, tag="event", tag_field="line"):
    event: Fact


Line: TypeAlias = Header | Request | ShownPreviews | Answer | Failed | RecordedEvents

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class Exchange(Struct):
    """One call of a model. `outcome` is None where the run ended before the call did."""

    round: int
    attempt: int
    turns: tuple[Turn, ...] | None = None  # None: not known, and not compared
    choice: ToolChoice = ToolChoice()
    shown: list[tuple[Preview, ...]] = []
    outcome: ModelFinished | Failed | None = None


class Cassette(Struct, frozen=True):
    """`facts` are those after the start."""

    start: RunStarted
    exchanges: list[Exchange]
    facts: list[Fact]


class CassetteWriter:
    """Writes lines as things happen, so that what breaks off can be looked at, too."""

    def __init__(self, file: BinaryIO, start: RunStarted) -> None:
        self._file = file
        self._turns: Sequence[Turn] = ()
        self._put(Header(VERSION, replace(start, owner="")))

    @classmethod
    def at(cls, path: str | os.PathLike[str], start: RunStarted) -> CassetteWriter:
        try:
            return cls(open(path, "wb"), start)  # closed when the run is over
        except OSError as error:
            raise BadCassette(f"cannot write the cassette {os.fspath(path)!r}: {error.strerror}") from error

    def request(self, round_index: int, attempt: int, turns: tuple[Turn, ...], choice: ToolChoice) -> None:
        before = self._turns
        same = next(
            (index for index, turn in enumerate(turns) if index >= len(before) or turn != before[index]), len(turns)
        )
        self._turns = turns
        self._put(Request(round_index, attempt, same, turns[same:], choice))

    def show(self, previews: Sequence[Preview]) -> None:
        self._put(ShownPreviews(tuple(previews)))

    def answer(self, outcome: ModelFinished | Failed) -> None:
        self._put(outcome if isinstance(outcome, Failed) else Answer(outcome))

    def record_facts(self, facts: Iterable[Event]) -> None:
        for fact in facts:
            self._put(RecordedEvents(fact))  # type: ignore[arg-type]  # the teller of facts has left previews out

    def close(self) -> None:
        self._file.close()

    def _put(self, line: Line) -> None:
        if not self._file.closed:
            self._file.write(encode(line) + b"\n")
            self._file.flush()


def read_cassette(path: str | os.PathLike[str]) -> Cassette:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BadCassette(f"cannot read the cassette {os.fspath(path)!r}: {error.strerror}") from error
    return parse_cassette(data, os.fspath(path))


def parse_cassette(data: bytes, name: str) -> Cassette:
    start: RunStarted | None = None
    exchanges: list[Exchange] = []
    facts: list[Fact] = []
    for number, text in enumerate(data.splitlines(), 1):
        try:
            line: Line = _decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadCassette(f"line {number} of {name!r} is no line of a cassette: {error}") from error
        if (start is None) != isinstance(line, Header):
            raise BadCassette(f"line {number} of {name!r}: a cassette begins with its header, and has one")
        match line:
            case Header(version=version):
                if version > VERSION:
                    raise BadCassette(f"{name!r} is of version {version}, and this Ronda plays up to {VERSION}")
                start = line.start
            case Request():
                before = (exchanges[-1].turns if exchanges else None) or ()
                if not 0 <= line.same <= len(before):
                    raise BadCassette(f"line {number} of {name!r} goes on from turns that are not there")
                turns = (*before[: line.same], *line.turns)
                exchanges.append(Exchange(line.round, line.attempt, turns, line.choice))
            case RecordedEvents(event=event):
                facts.append(event)
            case _ if not exchanges or exchanges[-1].outcome is not None:
                raise BadCassette(f"line {number} of {name!r} answers no request")
            case ShownPreviews(previews=previews):
                exchanges[-1].shown.append(previews)
            case Answer(finished=finished):
                exchanges[-1].outcome = finished
            case Failed():
                exchanges[-1].outcome = line
            case _:
                assert_never(line)
    if start is None:
        raise BadCassette(f"{name!r} is empty: a cassette begins with its header")
    return Cassette(start, exchanges, facts)
