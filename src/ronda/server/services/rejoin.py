"""Our half of a conversation that a caller sends whole, put back where the caller's half stands, and what we did before it.

A caller sends back its own calls and their results, under ids that are ours (`wire.shared.call_ids`). The run that handed them
out knows the whole turn: the rounds the caller never saw, the sibling calls, their results. A run is used only if the calls have
the names that it gave them.

Calls that ran here come back as the caller was told about them (`wire.shared.told_calls`). That is the caller's word, and stands
but for one thing: of a call that people were asked about, the journal knows its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ronda.core.events import Asked, Event
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, ToolTurn, Turn
from ronda.core.run import Run, rebuild
from ronda.core.transcript import join_turns
from ronda.errors import BadRequest
from ronda.journal import Journal
from ronda.wire.shared.call_ids import open_calls, rename_calls, stored_id, stored_ids
from ronda.wire.shared.told_calls import approval_of, is_told, run_of

_AT_ONCE: Final = 256  # turns that are looked at before other requests have their turn

_NO_IDS: Final[set[str]] = set()

Parent = tuple[str, int]


class RejoinedTurns(Struct, frozen=True):
    """`ids`: what the caller calls the calls that were found → what the model calls them."""

    turns: tuple[Turn, ...]
    parent: Parent | None = None
    ids: dict[str, str] = {}


class _Asker(Struct, frozen=True):
    """The run that handed calls out."""

    run: Run
    parent: Parent
    ids: dict[str, str]


class _Runs:
    """The runs that handed these calls out, or asked about them: found with one question to each journal."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Journal, str]] = {}  # by the ids under which a journal has a call or a question
        self._read: dict[str, tuple[Run, list[Event]] | None] = {}

    async def find(self, journals: Sequence[Journal], owner: str, turns: Sequence[Turn]) -> bool:
        ids = dict.fromkeys([call_id for turn in turns for call_id in _ids(turn)])
        if not ids:
            return False
        ours = [*stored_ids(ids), *[question for call_id in ids if (question := approval_of(call_id)) is not None]]
        for journal in journals:
            if left := [call_id for call_id in ours if call_id not in self._places]:
                found = await journal.runs_of_calls(owner, left)
                self._places |= {call_id: (journal, run) for call_id, run in found.items()}
        return bool(self._places)

    async def of(self, call_id: str) -> tuple[Run, list[Event]] | None:
        if call_id not in self._places:
            return None
        journal, name = self._places[call_id]
        if name not in self._read:
            events = await journal.read(name)
            self._read[name] = (rebuild(events), events) if events else None
        return self._read[name]


async def rejoin(journals: Sequence[Journal], turns: tuple[Turn, ...], owner: str) -> RejoinedTurns:
    runs = _Runs()
    if not await runs.find(journals, owner, turns):  # nearly always: the caller runs all tools itself
        return RejoinedTurns(turns)
    joined: list[Turn] = []
    parent: Parent | None = None
    renamed: dict[str, str] = {}
    asker: _Asker | None = None  # of the turn that stands last
    decided: dict[str, ToolResult] = {}  # the results of calls of the turn before that people were asked about
    for index, turn in enumerate(turns):
        if index % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)
        if type(turn) is AssistantTurn:
            asker = await _find(runs, {call.id: call.name for call in turn.calls if not is_told(call.id)})
            if asker is not None:
                _drop_told(joined, asker.run.id)
                joined += _unsaid(asker.run.generated, joined)
                parent, renamed = asker.parent, renamed | asker.ids
                continue
            _add_results(joined, decided)
            turn, decided = await _as_decided(runs, turn)
        elif type(turn) is ToolTurn:
            if asker is None and not _is_asked(turn, joined):  # the caller sent the results only
                asker = await _find(runs, dict.fromkeys([one.call_id for one in turn.results]))
                if asker is not None:
                    joined += asker.run.turns if index == 0 else asker.run.generated
                    parent, renamed = asker.parent, renamed | asker.ids
            if asker is not None:
                theirs = ToolTurn(tuple([one for one in turn.results if not is_told(one.call_id)]))
                joined[-1:] = join_turns(joined[-1:], (rename_calls(theirs, asker.ids),), asker.run.results)
                asker = None
                continue
            turn = ToolTurn(tuple([decided.pop(one.call_id, one) for one in turn.results]))
        else:
            asker = None
            _add_results(joined, decided)
        joined.append(turn)
    _add_results(joined, decided)
    return RejoinedTurns(tuple(joined), parent, renamed)


def _add_results(joined: list[Turn], results: dict[str, ToolResult]) -> None:
    """Those that the caller has not brought; where it has brought some, beside them."""
    if results:
        last = joined[-1]
        if type(last) is ToolTurn:
            joined[-1] = ToolTurn((*last.results, *results.values()))
        else:
            joined.append(ToolTurn(tuple(results.values())))
        results.clear()


async def _find(runs: _Runs, calls: Mapping[str, str | None]) -> _Asker | None:
    """The run that handed all these calls out; their names are not known where the caller brings results only."""
    for call_id in calls:
        found = await runs.of(stored_id(call_id))
        if found is None:
            continue
        run, events = found
        known = open_calls(run)
        matches = {one: known.get(stored_id(one)) for one in calls}
        ids = {one: call.id for one, call in matches.items() if call is not None and calls[one] in (None, call.name)}
        if len(ids) == len(calls):
            return _Asker(run, (run.id, len(events)), ids)
    return None


# ---- calls that ran here ----------------------------------------------------------------------------------------------


def _drop_told(joined: list[Turn], run: str) -> None:
    """What the caller was told about the rounds of a run whose own turns take their place."""
    while joined and (ids := _ids(joined[-1])) and all(run_of(call_id) == run for call_id in ids):
        joined.pop()


async def _as_decided(runs: _Runs, turn: AssistantTurn) -> tuple[AssistantTurn, dict[str, ToolResult]]:
    """A turn with what was called once people had decided, and the results of that. Raises BadRequest for a call that waits."""
    results: dict[str, ToolResult] = {}
    calls: dict[str, ToolCall] = {}
    for call in turn.calls:
        question = approval_of(call.id)
        found = None if question is None else await runs.of(question)
        if question is None or found is None:
            continue
        asked = next((one for one in found[1] if type(one) is Asked and one.id == question), None)
        if asked is None or asked.child:  # an agent's own question is not about a call of this turn
            continue
        made, result = _outcome(found[0], asked.call_id)
        if made is None or result is None:
            raise BadRequest(
                f"a person has not decided about the call of '{asked.tool}' yet, or it still runs: nothing can have come of it; "
                f"decide about '{question}', or leave it out",
                param="messages",
                code="call_not_finished",
            )
        calls[call.id] = replace(made, id=call.id)
        results[call.id] = replace(result, call_id=call.id)
    if not calls:
        return turn, {}
    parts = [calls.get(part.id, part) if type(part) is ToolCall else part for part in turn.parts]
    return replace(turn, parts=tuple(parts), native=None), results


def _outcome(run: Run, call_id: str) -> tuple[ToolCall | None, ToolResult | None]:
    """The last call of this id in a run, and its result if there is one."""
    call: ToolCall | None = None
    result: ToolResult | None = None
    for turn in run.generated:
        if type(turn) is AssistantTurn:
            made = next((one for one in turn.calls if one.id == call_id), None)
            call, result = (made, None) if made is not None else (call, result)
        elif type(turn) is ToolTurn:
            result = next((one for one in turn.results if one.call_id == call_id), result)
    if result is None:
        result = next((one for one in run.results if one.call_id == call_id), None)
    return call, result


# ---- where it stands --------------------------------------------------------------------------------------------------


def _is_asked(turn: ToolTurn, joined: Sequence[Turn]) -> bool:
    before = joined[-1] if joined else None
    ids = {call.id for call in before.calls} if type(before) is AssistantTurn else set()
    return not ids.isdisjoint([result.call_id for result in turn.results])


def _ids(turn: Turn) -> set[str]:
    if type(turn) is AssistantTurn:
        return {call.id for call in turn.calls}
    return {result.call_id for result in turn.results} if type(turn) is ToolTurn else _NO_IDS


def _unsaid(generated: Sequence[Turn], turns: Sequence[Turn]) -> Sequence[Turn]:
    """A run's turns without its earlier rounds, where the caller has sent those back itself."""
    before = generated[:-1]
    tail = turns[-len(before) :] if before else []
    same = [type(a) is type(b) and _ids(a) == _ids(b) for a, b in zip(tail, before, strict=False)]
    return generated[-1:] if len(same) == len(before) and all(same) else generated
