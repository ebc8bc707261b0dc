"""A tool whose result is too long for a model, and a model that reads the rest of it."""

from __future__ import annotations

import json
import re
from typing import Any

from ronda.core.events import ModelFinished
from ronda.core.limits import RESULT_CHARS
from ronda.core.parts import AssistantTurn, ToolCall, ToolTurn, Turn
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.testing import ScriptedModel
from ronda.tools.files.reading import READ
from ronda.tools.function import tool

LONG = "".join([f"line {number}\n" for number in range(20_000)])
MIDDLE = len(LONG) // 2


@tool(repeatable=True)
async def report(length: int = len(LONG)) -> str:
    """Write a report."""
    return LONG[:length]


class ReadsOn(ScriptedModel):
    """Reads of a file that a result before names, where its script calls the reader."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        finished = await super().call(request, show)
        parts = finished.turn.parts
        if not any(type(part) is ToolCall and part.name == READ for part in parts):
            return finished
        [call_id] = set(re.findall(r"the file (file\S+):", " ".join(results(request.turns))))
        arguments = json.dumps({"file_id": call_id, "start": MIDDLE, "end": MIDDLE + 40})
        call = ToolCall(f"read{len(self.heard)}", READ, arguments)
        return ModelFinished(AssistantTurn((call,), "tool_calls"))


def results(turns: Any) -> list[str]:
    return [result.content for turn in turns if type(turn) is ToolTurn for result in turn.results]


def last_result(turns: list[Turn]) -> str:
    return results(turns)[-1]


def offered(model: ScriptedModel) -> list[bool]:
    """Whether the model was shown what reads files, call by call."""
    return [READ in [spec.name for spec in request.tools] for request in model.requests]


def check_reading(model: ScriptedModel) -> None:
    shown = last_result(model.heard[1])
    half = RESULT_CHARS // 2
    assert (shown[:half], shown[-half:]) == (LONG[:half], LONG[-half:])
    assert len(shown) < RESULT_CHARS + 400
    assert json.loads(last_result(model.heard[2]))["text"] == LONG[MIDDLE : MIDDLE + 40]
    assert offered(model) == [False, True, True]
