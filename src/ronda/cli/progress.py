"""Events of a run → lines at a terminal: the answer as it comes, if it is to, and in brackets what happens on the way."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterable
from typing import Final, TextIO, assert_never

from ronda.core import events

_WIDTH: Final = 100  # characters of a tool's arguments and result that are shown


async def show_events(run: AsyncIterable[events.Event], out: TextIO, *, as_they_come: bool) -> None:
    """The answer goes to `out`, the rest to standard error."""
    arguments: dict[str, str] = {}  # by call
    questions: dict[str, str] = {}  # which call they are about
    async for event in run:
        match event:
            case events.TextDelta(text=text):
                if as_they_come:
                    print(text, end="", flush=True, file=out)
            case events.ModelFinished(turn=turn):
                arguments |= {call.id: call.arguments for call in turn.calls}
                if turn.calls and turn.text and as_they_come:
                    print(flush=True, file=out)
            case events.Asked(id=id, call_id=call):
                questions[id] = call
            case events.Answered(id=id, arguments=edited):
                if edited is not None:
                    arguments[questions[id]] = edited
            case events.ToolStarted(call_id=id, name=name):
                _note(f"{name} {short(arguments[id])}")
            case events.ToolFinished(result=result, name=name):
                _note(
                    f"{name} failed: {_why(name, result.content)}"
                    if result.failed
                    else f"{name} → {short(result.content)}"
                )
            case events.ModelRetried(reason=reason, wait=wait):
                _note(f"{reason}; trying again in {wait:.0f} s")
            case events.Warned(message=message):
                print(f"ronda: {message}", file=sys.stderr)
            case events.ToolProgressed(text=text):
                if as_they_come:
                    _note(short(text))
            case (
                events.ReasoningDelta()
                | events.RefusalDelta()
                | events.CallDelta()
                | events.LogprobsDelta()
                | events.NativeDelta()
            ):
                pass
            case (
                events.RunStarted()
                | events.ModelStarted()
                | events.ModelInterrupted()
                | events.ModelFailed()
                | events.Checked()
                | events.Steered()
                | events.Recovered()
            ):
                pass
            case events.Compacted() | events.Released() | events.RunFinished():
                pass
            case _:
                assert_never(event)


def _note(text: str) -> None:
    """What happens on the way to the answer, which alone goes to standard output."""
    print(f"[{text}]", file=sys.stderr, flush=True)


def _why(name: str, content: str) -> str:
    """Why a tool failed, to the end: the reason is what somebody looks for here."""
    return " ".join(content.removeprefix(f"Error: Tool '{name}' failed: ").split())


def short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
