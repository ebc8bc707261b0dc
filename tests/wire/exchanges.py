"""What every wire's client is tested with: a request to write, a stream to watch, and what is kept of an answer."""

import json
from typing import Any, Protocol

from ronda.core.events import ModelFinished, Preview
from ronda.core.parts import Turn
from ronda.core.plan import AUTO, NO_OPTIONS, Options, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest


class Reader(Protocol):
    @property
    def broken(self) -> bool: ...
    def feed(self, data: bytes) -> list[Preview]: ...
    def close(self) -> list[Preview]: ...
    def finish(self) -> ModelFinished: ...


def watched(reader: Reader, *pieces: bytes) -> tuple[list[Preview], ModelFinished]:
    previews = [preview for piece in pieces for preview in reader.feed(piece)]
    previews += reader.close()
    return previews, reader.finish()


def native_of(finished: ModelFinished) -> Any:
    native = finished.turn.native
    return None if native is None else json.loads(bytes(native.payload))


def request(
    *turns: Turn,
    tools: tuple[ToolSpec, ...] = (),
    choice: ToolChoice = AUTO,
    options: Options = NO_OPTIONS,
    stream: bool = False,
) -> ModelRequest:
    return ModelRequest(turns, tools, choice, options, stream, "run", 0, 1, scratch={})
