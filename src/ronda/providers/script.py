"""A model that says what it was told to: for tests, for trying an agent offline, for examples.

    ScriptedModel(calls("lookup", q="Paris"), says("Sunny."))     in Python, one turn after the other
    script:FILE.json                                              as a model spec

The file is a JSON list of turns. A turn is a string (the model says it) or an object with any of

    "text": "…"            what it says                    "reasoning": "…"     what it thinks aloud before
    "calls": [{"name": "…", "arguments": {…}, "id": "…"}]  tools it asks for; "arguments" may be a string, sent as it is
    "stop": "length"       why it stopped, if not as usual "usage": {"input": 9, "output": 3}
    "error": "…"           the call fails; with "status": 429 and "retry_after": 1 as an HTTP answer would
    "chunks": ["…", "…"]   the text in these pieces        "cut": true          the stream breaks off after the text

Each user message is answered from the first turn on: which turn comes is counted from the conversation, so a server can
serve any number of them at once. A list of lists has one script per user message, and begins again when it is used up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

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
    UserTurn,
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
        self._lines = [_playable(line, at) for at, line in enumerate(lines)]
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
        return await _say(self._lines[at], at, request, show)


def _playable(line: Line | str | Mapping[str, Any], at: int) -> Line:
    """A line that can be played: here its types are looked at, too."""
    if isinstance(line, str):
        return Line(text=line)
    try:
        read = msgspec.convert(msgspec.to_builtins(line), Line)
    except (msgspec.ValidationError, TypeError) as error:
        raise BadConfig(f"a scripted model cannot play its turn {at}: {error}") from error
    if (problem := _contradiction(read)) is not None:
        raise BadConfig(f"a scripted model cannot play its turn {at}: {problem}")
    return read


def _contradiction(line: Line) -> str | None:
    if line.error is not None:
        content = next((name for name in ("text", "reasoning", "calls", "chunks", "cut") if getattr(line, name)), None)
        return None if content is None else f"a turn with an 'error' says nothing else, and has '{content}'"
    for name in ("status", "retry_after"):
        if getattr(line, name) is not None:
            return f"'{name}' belongs to an 'error', and there is none"
    if line.text and line.chunks and "".join(line.chunks) != line.text:
        return "'chunks' are the pieces of 'text', and say something else"
    return None


class Script:
    """Plays turns by how far the conversation is: keeps no state, so that any number of runs can share it, and one that goes on
    after a crash hears what comes next. `name` is for errors."""

    def __init__(self, turns: Sequence[Line | str | list[Line | str]], name: str) -> None:
        scripts = [item for item in turns if isinstance(item, list)]
        if scripts and len(scripts) < len(turns):
            raise BadConfig(f"{name} mixes turns and lists of turns")
        self._scripts = [
            [Line(text=line) if isinstance(line, str) else line for line in script]
            for script in scripts or [[item for item in turns if not isinstance(item, list)]]
        ]
        if not all(self._scripts):
            raise BadConfig(f"{name} has no turns")
        for script in self._scripts:
            for at, line in enumerate(script):
                if (problem := _contradiction(line)) is not None:
                    raise BadConfig(f"{name} cannot be played at its turn {at}: {problem}")

    @classmethod
    def of(cls, turns: Any, name: str) -> Script:
        """Turns as they stand in a file of another kind: plain JSON values."""
        try:
            return Script(msgspec.convert(turns, _Turns), name)
        except msgspec.ValidationError as error:
            raise BadConfig(f"{name} is not a list of turns: {error}") from error

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        users = [at for at, turn in enumerate(request.turns) if type(turn) is UserTurn]
        script = self._scripts[max(0, len(users) - 1) % len(self._scripts)]
        since = request.turns[users[-1] :] if users else request.turns
        count = sum(type(turn) is AssistantTurn for turn in since)
        return await _say(script[count % len(script)], count, request, show)


_Turns: TypeAlias = list[Line | str | list[Line | str]]


class ScriptFile(Script):
    """The provider behind `script:FILE.json`."""

    def __init__(self, path: str) -> None:
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise BadConfig(f"cannot read the script {path!r}: {error.strerror}") from error
        try:
            msgspec.json.decode(text)  # first: of JSON that is cut off, the decoder for turns may name another problem
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadConfig(f"the script {path!r} is not JSON: {error}") from error
        try:
            turns = msgspec.json.decode(text, type=_Turns)
        except msgspec.DecodeError as error:
            raise BadConfig(f"the script {path!r} is not a list of turns: {error}") from error
        super().__init__(turns, f"the script {path!r}")


async def _say(line: Line, at: int, request: ModelRequest, show: Show) -> ModelFinished:
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
