"""A model that says what it was told to: for tests, for trying an agent offline, for examples.

    ScriptedModel(calls("lookup", q="Paris"), says("Sunny."))     one turn after the other

The same turns in a file are `script_file`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ronda.core.events import CallDelta, ModelFinished, Preview, ReasoningDelta, TextDelta
from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
    Reasoning,
    Stop,
    Text,
    ToolCall,
    Turn,
    Usage,
)
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.errors import BadConfig, UpstreamBroken, UpstreamError


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    """One call of a tool, for `calls(Call(…), Call(…))`: several in one turn."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str | None = None


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a script."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    stop: Stop | None = None
    usage: Usage = Usage(10, 5)
    chunks: tuple[str, ...] = ()
    error: str | None = None
    status: int | None = None
    retry_after: float | None = None
    cut: bool = False


def says(text: str, **more: Any) -> Line:
    """Answer with this text."""
    return Line(text=text, **more)


def calls(*asked: str | Call, text: str = "", **arguments: Any) -> Line:
    """Ask for tools by their names, with the arguments as keywords."""
    return Line(text=text, calls=tuple([call if isinstance(call, Call) else Call(call, arguments) for call in asked]))


def fails(error: str, status: int | None = None, retry_after: float | None = None) -> Line:
    """Fail as a model's server does, with this HTTP status."""
    return Line(error=error, status=status, retry_after=retry_after)


class ScriptedModel:
    """Says its lines one after the other, for every caller. `heard` is what it was asked, call by call.

    A line is a text, what `says`, `calls` and `fails` make, or a mapping as in a script file.
    """

    def __init__(self, *lines: Line | str | Mapping[str, Any]) -> None:
        self._lines = [_playable(line, index) for index, line in enumerate(lines)]
        self.requests: list[ModelRequest] = []
        self.heard: list[list[Turn]] = []

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(takes_addresses=True)  # and looks at none

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        at = len(self.heard)
        self.heard.append(list(request.turns))
        self.requests.append(msgspec.structs.replace(request, turns=self.heard[-1]))
        if at >= len(self._lines):
            raise UpstreamError(f"the script is over: it has {len(self._lines)} turns and was asked for one more")
        return await say_line(self._lines[at], at, request, show)


def _playable(line: Line | str | Mapping[str, Any], at: int) -> Line:
    """A line that can be played: here its types are looked at, too."""
    if isinstance(line, str):
        return Line(text=line)
    try:
        read = msgspec.convert(msgspec.to_builtins(line), Line)
    except (msgspec.ValidationError, TypeError) as error:
        raise BadConfig(f"a scripted model cannot play its turn {at}: {error}") from error
    if (problem := contradiction(read)) is not None:
        raise BadConfig(f"a scripted model cannot play its turn {at}: {problem}")
    return read


def contradiction(line: Line) -> str | None:
    if line.error is not None:
        content = next((name for name in ("text", "reasoning", "calls", "chunks", "cut") if getattr(line, name)), None)
        return None if content is None else f"a turn with an 'error' says nothing else, and has '{content}'"
    for name in ("status", "retry_after"):
        if getattr(line, name) is not None:
            return f"'{name}' belongs to an 'error', and there is none"
    if line.text and line.chunks and "".join(line.chunks) != line.text:
        return "'chunks' are the pieces of 'text', and say something else"
    return None


async def say_line(line: Line, at: int, request: ModelRequest, show: Show) -> ModelFinished:
    if line.error is not None:
        retryable = line.status is None or line.status in (408, 429) or line.status >= 500
        raise UpstreamError(line.error, status=line.status, retryable=retryable, retry_after=line.retry_after)
    parts: list[AssistantPart] = []
    if line.reasoning:
        parts.append(Reasoning(line.reasoning))
    text = line.text or "".join(line.chunks)
    if text:
        parts.append(Text(text))
    parts += [ToolCall(call.id or f"call_{at}_{n}", call.name, _text(call)) for n, call in enumerate(line.calls)]
    if request.stream:
        for batch in _previews(line, text, parts):
            if show(batch) is False and request.room is not None:
                await request.room()
    if line.cut:
        raise UpstreamBroken("the script breaks off here", retryable=True)
    stop: Stop = line.stop or ("tool_calls" if line.calls else "stop")
    return ModelFinished(AssistantTurn(tuple(parts), stop), line.usage)


def _text(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()


def _previews(line: Line, text: str, parts: list[AssistantPart]) -> list[list[Preview]]:
    """As a real stream would come: word by word, then the calls, their arguments in two pieces."""
    batches: list[list[Preview]] = []
    if line.reasoning:
        batches.append([ReasoningDelta(line.reasoning)])
    batches += [[TextDelta(piece)] for piece in line.chunks or re.findall(r"\S+\s*|\s+", text)]
    for n, call in enumerate([part for part in parts if type(part) is ToolCall]):
        half = len(call.arguments) // 2
        batches.append([CallDelta(n, call.id, call.name, call.arguments[:half])])
        batches.append([CallDelta(n, call.id, call.name, call.arguments[half:])])
    return batches
