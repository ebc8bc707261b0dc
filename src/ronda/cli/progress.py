"""Events of a run → what a screen shows: the answer, and what happens on the way."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Final, assert_never

from ronda.cli.beside import ToolPrints
from ronda.cli.screen import Screen
from ronda.core import events
from ronda.core.parts import AssistantTurn
from ronda.core.run import Run

_WIDTH: Final = 100  # characters of a tool's arguments and result that are shown


async def show_events(run: AsyncIterable[events.Event], screen: Screen, *, prints: ToolPrints) -> None:
    """What tools print is shown while one of them runs."""
    running: dict[str, str] = {}  # names of the calls under way, as far as they are shown
    prints.hold()
    arguments: dict[str, str] = {}  # by call
    questions: dict[str, str] = {}  # which call they are about
    async for event in run:
        match event:
            case events.TextDelta(text=text):
                screen.text(text)
            case events.ModelStarted():
                screen.status("thinking")
            case events.ModelFinished(turn=turn):
                arguments |= {call.id: call.arguments for call in turn.calls}
                if turn.calls and turn.text:
                    screen.end_text()
            case events.Asked(id=id, call_id=call):
                questions[id] = call
            case events.Answered(id=id, arguments=edited):
                if edited is not None:
                    arguments[questions[id]] = edited
            case events.ToolStarted(call_id=id, name=name):
                running[id] = name
                screen.note(f"{name} {short(arguments[id])}", "tool")
                screen.status(", ".join(running.values()))
                prints.release()
            case events.ToolFinished(result=result, name=name):
                prints.release()
                prints.end_line()
                running.pop(result.call_id, None)
                screen.status(", ".join(running.values()) or None)
                if not running:
                    prints.hold()
                if result.failed:
                    screen.note(f"{name} failed: {_why(name, result.content)}", "failure")
                else:
                    screen.note(f"{name} → {short(result.content)}", "result")
            case events.ModelRetried(attempt=attempt, tries=tries, reason=reason, wait=wait):
                screen.note(f"{reason}; trying again in {wait:.0f} s ({attempt} of {tries})")
            case events.Warned(message=message):
                screen.warn(message)
            case events.ToolProgressed(text=text):
                if screen.as_they_come:
                    screen.note(short(text))
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


def warn_if_cut_off(run: Run, screen: Screen) -> None:
    """After the answer: half a sentence looks like a fault of the model's."""
    if run.turns and isinstance(last := run.turns[-1], AssistantTurn) and last.stop == "length":
        screen.warn("the answer was cut off at the model's limit of tokens; --max-tokens N sets another")


def _why(name: str, content: str) -> str:
    """Why a tool failed, to the end: the reason is what a person looks for here."""
    return " ".join(content.removeprefix(f"Error: Tool '{name}' failed: ").split())


def short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
