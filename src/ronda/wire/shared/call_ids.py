"""Ids of our own for calls that go out to a caller and whose results must find their run again.

Models count their calls as they like, and give the same ids in every conversation. What the caller gets is made of the run,
the round and the place of the call in its turn: no other call has it, a stream that is written again says the same, and the
model's own stays in the journal. It has nine letters and digits, which is what Mistral's clients take; other dialects put a
word before it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ronda.core.events import RunStarted
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, ToolTurn, Turn
from ronda.core.run import Run
from ronda.wire.codec.json import encode

# Kept with the run of an agent that another handed over to: the caller goes on naming the first.
INSTEAD: Final = "instead"

_ABOUT: Final = "call_ids"
_LENGTH: Final = 9
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_OURS: Final = re.compile(r"(?:call_|toolu_)?([A-Za-z0-9]{9})")


def are_ours(start: RunStarted) -> bool:
    """Whether calls of the caller's go out under ids of ours: where half of a turn may be ours, or another agent's."""
    return any(tool.kind != "caller" for tool in start.plan.tools) or INSTEAD in start.about


def own_id(run: str, round_index: int, place: int) -> str:
    """`place` counts all calls of the turn."""
    return nine(f"{run} {round_index} {place}")


def nine(text: str) -> str:
    """Nine characters of a text's hash."""
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])
    found = ""
    for _ in range(_LENGTH):
        number, digit = divmod(number, 62)
        found += _DIGITS[digit]
    return found


def stored_id(call_id: str) -> str:
    """Under which id a journal has a call: without the word that a dialect puts before one of ours."""
    ours = _OURS.fullmatch(call_id)
    return call_id if ours is None else ours[1]


def stored_ids(ids: Iterable[str]) -> list[str]:
    """Under which ids a journal may have these calls: no other than one of ours."""
    return [ours[1] for call_id in ids if (ours := _OURS.fullmatch(call_id)) is not None]


def handed_out(run: Run) -> dict[str, ToolCall]:
    """The calls that a run leaves to its caller, by the ids that are ours; none where they are the model's."""
    last = run.turns[-1] if run.turns else None
    if not isinstance(last, AssistantTurn) or not are_ours(run.start):
        return {}
    is_open = {call.id for call in run.open_calls}
    return {own_id(run.id, run.round - 1, index): call for index, call in enumerate(last.calls) if call.id in is_open}


def open_calls(run: Run) -> dict[str, ToolCall]:
    """The same, and by the model's ids, too: runs that were journaled before there were others are found by these."""
    return {call.id: call for call in run.open_calls} | handed_out(run)


def model_ids(run: Run, turns: Sequence[Turn]) -> dict[str, str]:
    """The ids by which the caller has results of a run's calls → the model's."""
    calls = open_calls(run)
    found = {
        one.call_id: calls.get(stored_id(one.call_id))
        for turn in turns
        if type(turn) is ToolTurn
        for one in turn.results
    }
    return {call_id: call.id for call_id, call in found.items() if call is not None and call.id != call_id}


def rename_calls(turn: Turn, ids: Mapping[str, str]) -> Turn:
    """A turn whose calls, or results, have other ids."""
    if isinstance(turn, ToolTurn):
        return ToolTurn(tuple([_renamed_result(one, ids) for one in turn.results]))
    return with_ids(turn, ids) if isinstance(turn, AssistantTurn) else turn


def with_ids(turn: AssistantTurn, ids: Mapping[str, str]) -> AssistantTurn:
    if ids.keys().isdisjoint([call.id for call in turn.calls]):
        return turn
    parts = [replace(part, id=ids.get(part.id, part.id)) if isinstance(part, ToolCall) else part for part in turn.parts]
    return replace(turn, parts=tuple(parts))


def _renamed_result(result: ToolResult, ids: Mapping[str, str]) -> ToolResult:
    if (call_id := ids.get(result.call_id)) is None:
        return result
    native = result.native
    if native is not None:  # an item of the caller's, which names its call
        text = bytes(native.payload).replace(encode(result.call_id), encode(call_id))
        native = replace(native, payload=Raw(text))
    return replace(result, call_id=call_id, native=native)


def all_renamed(turns: Sequence[Turn], ids: Mapping[str, str]) -> tuple[Turn, ...]:
    return tuple([rename_calls(turn, ids) for turn in turns]) if ids else tuple(turns)


# ---- what a run remembers of its input ---------------------------------------------------------------------------------


def about_ids(ids: Mapping[str, str]) -> dict[str, Raw]:
    """Kept with a run: what the caller calls the calls that it was told about (`ids`: the caller's → the model's)."""
    return {_ABOUT: Raw(encode({model: caller for caller, model in ids.items()}))} if ids else {}


def caller_ids(start: RunStarted) -> dict[str, str]:
    """The model's ids of calls in a run's input → what its caller calls them."""
    raw = start.about.get(_ABOUT)
    return {} if raw is None else msgspec.json.decode(raw, type=dict[str, str])
