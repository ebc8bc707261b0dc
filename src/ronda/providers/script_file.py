"""`script:FILE.json`: turns in a file → a model that says them.

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

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ronda.core.events import ModelFinished
from ronda.core.parts import AssistantTurn, UserTurn
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import BadConfig
from ronda.providers.script import Line, contradiction, say_line


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
            for index, line in enumerate(script):
                if (problem := contradiction(line)) is not None:
                    raise BadConfig(f"{name} cannot be played at its turn {index}: {problem}")

    @classmethod
    def of(cls, turns: Any, name: str) -> Script:
        """Turns as they stand in a file of another kind: plain JSON values."""
        try:
            return Script(msgspec.convert(turns, _Turns), name)
        except msgspec.ValidationError as error:
            raise BadConfig(f"{name} is not a list of turns: {error}") from error

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        users = [index for index, turn in enumerate(request.turns) if type(turn) is UserTurn]
        script = self._scripts[max(0, len(users) - 1) % len(self._scripts)]
        since = request.turns[users[-1] :] if users else request.turns
        count = sum(type(turn) is AssistantTurn for turn in since)
        return await say_line(script[count % len(script)], count, request, show)


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
