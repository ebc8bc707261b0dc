"""Handing a conversation over: agents to hand over to → tools for the model; a run that ended with a call of one → who goes on.

The loop knows nothing of this. To it these tools are the caller's, so a run ends where one is called; what is kept with the
run says which of its tools mean that. Another run, of the next agent, goes on from there: in the same request, or in the next.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import AssistantTurn, ToolCall, ToolResult
from ronda.core.plan import ToolSpec
from ronda.core.run import Run
from ronda.wire.codec.json import encode

Execution: TypeAlias = Literal["client", "server"]

MOST_HANDOFFS: Final = 8  # in one request; agents that hand over to each other in circles are ended there

_PARAMETERS: Final = Raw(b'{"type":"object","properties":{}}')
_LONGEST_NAME: Final = 64
_HEAD: Final = 300  # characters of an agent's instructions that describe it, where it has no description


class HandoffName(Struct, frozen=True):
    id: str
    name: str


class Ways(Struct, frozen=True):
    """Whose run it is, which of its tools hand over to whom, and who makes the next run: we, or the client by asking again."""

    agent: HandoffName
    to: dict[str, HandoffName] = {}
    execution: Execution = "server"


class Handoff(Struct, frozen=True):
    call: ToolCall
    previous: HandoffName
    next: HandoffName


# ---- tools ------------------------------------------------------------------------------------------------------------


def tool_names(names: Sequence[str], taken: Collection[str]) -> list[str]:
    """A name for each agent's tool: one that every upstream takes, and that no other tool has."""
    found: list[str] = []
    for name in names:
        ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        word = "handoff_to_" + (re.sub(r"[^A-Za-z0-9]+", "_", ascii_only).strip("_") or "agent")
        tool = word[:_LONGEST_NAME]
        number = 1
        while tool in taken or tool in found:
            number += 1
            tool = f"{word[: _LONGEST_NAME - len(str(number)) - 1]}_{number}"
        found.append(tool)
    return found


def tool_for(tool: str, name: str, description: str | None, instructions: str | None) -> ToolSpec:
    text = (description or "").strip() or " ".join((instructions or "").split())[:_HEAD]
    about = f"Hand the conversation over to the agent '{name}', which answers from then on."
    return ToolSpec(
        name=tool,
        description=f"{about} {text}".strip(),
        parameters=_PARAMETERS,
        kind="caller",
        no_arguments_needed=True,
    )


# ---- runs -------------------------------------------------------------------------------------------------------------


def about_ways(ways: Ways | None, handed: int) -> dict[str, Raw]:
    """What is kept with a run of it. `handed` counts the handoffs of this request that came before."""
    fields: dict[str, Any] = {"ways": ways, "handed": handed or None}
    return {name: Raw(encode(value)) for name, value in fields.items() if value is not None}


_decode_ways = msgspec.json.Decoder(Ways).decode
_decode_count = msgspec.json.Decoder(int).decode


def ways_of(run: Run) -> Ways | None:
    raw = run.start.about.get("ways")
    return None if raw is None else _decode_ways(raw)


def ways_out(run: Run) -> Collection[str]:
    """Names of the tools that hand over: their calls are not the caller's."""
    ways = ways_of(run)
    return ways.to.keys() if ways is not None else ()


def handed_before(run: Run) -> int:
    """How many handoffs its request had seen when the run began: above 0 it is a run that others made necessary."""
    raw = run.start.about.get("handed")
    return 0 if raw is None else _decode_count(raw)


def first_leg(run: Run) -> str:
    """The name of the run that its request began with."""
    handed = handed_before(run)
    return run.id.removesuffix(f"h{handed}") if handed else run.id


def next_leg(run: Run) -> str:
    """The name of the run that goes on from this one, so that a reader of one finds the other."""
    return f"{first_leg(run)}h{handed_before(run) + 1}"


def handoff_of(run: Run) -> Handoff | None:
    """The handoff that a run ended with: the first, if its model asked for several."""
    if run.ended is None or run.ended.reason != "tool_calls" or (ways := ways_of(run)) is None:
        return None
    for call in run.open_calls:
        if call.name in ways.to:
            return Handoff(call, ways.agent, ways.to[call.name])
    return None


def calls_for_caller(run: Run) -> list[ToolCall]:
    """The open calls that are the caller's to answer."""
    ways = ways_out(run)
    return [call for call in run.open_calls if call.name not in ways]


def hands_over(run: Run) -> bool:
    """Whether the next agent's run follows in the same request. What the caller must answer, it answers first."""
    ways = ways_of(run)
    return ways is not None and ways.execution == "server" and handoff_of(run) is not None and not calls_for_caller(run)


def answers_to_handoffs(run: Run) -> dict[str, ToolResult]:
    """What becomes of the calls that would hand over, by id: one does, others do not."""
    ways, handoff = ways_of(run), handoff_of(run)
    if ways is None or handoff is None:
        return {}
    fields: dict[str, ToolResult] = {}
    for call in run.open_calls:
        if call.id == handoff.call.id:
            fields[call.id] = ToolResult(
                call.id, f"The conversation was handed over to the agent '{handoff.next.name}'."
            )
        elif call.name in ways.to:
            text = f"Error: not handed over: a turn hands over once, and '{handoff.next.name}' was asked for first."
            fields[call.id] = ToolResult(call.id, text, failed=True)
    return fields


def answers_of(run: Run) -> tuple[ToolResult, ...]:
    """Our results of the turn that a run ended with, in the order of its calls."""
    results = {**{result.call_id: result for result in run.results}, **answers_to_handoffs(run)}
    last = run.turns[-1] if run.turns else None
    calls = last.calls if isinstance(last, AssistantTurn) else ()
    return tuple([results[call.id] for call in calls if call.id in results])
