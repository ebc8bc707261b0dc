"""Our half of mixed turns, put back where the caller's half stands, and what we did before it.

A caller sends back its own calls and their results, under ids that are ours (`wire.call_ids`). The run that handed them out
knows the whole turn: the rounds the caller never saw, the sibling calls, their results. A run is used only if the calls have
the names that it gave them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ronda.core.parts import AssistantTurn, ToolTurn, Turn
from ronda.core.run import Run, rebuild
from ronda.core.transcript import join_turns
from ronda.journal import Journal
from ronda.wire.call_ids import open_calls, rename_calls, stored_id

_AT_ONCE: Final = 256  # turns that are looked at before other requests have their turn

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


async def rejoin(journals: Sequence[Journal], turns: tuple[Turn, ...], owner: str) -> RejoinedTurns:
    joined: list[Turn] = []
    parent: Parent | None = None
    ids: dict[str, str] = {}
    asker: _Asker | None = None  # of the turn that stands last
    for at, turn in enumerate(turns):
        if at % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)
        if type(turn) is AssistantTurn:
            asker = await _find(journals, owner, {call.id: call.name for call in turn.calls})
            if asker is not None:
                joined += _unsaid(asker.run.generated, joined)
                parent, ids = asker.parent, ids | asker.ids
                continue
        elif type(turn) is ToolTurn:
            if asker is None and not _is_asked(turn, joined):  # the caller sent the results alone
                asker = await _find(journals, owner, dict.fromkeys([one.call_id for one in turn.results]))
                if asker is not None:
                    joined += asker.run.turns if at == 0 else asker.run.generated
                    parent, ids = asker.parent, ids | asker.ids
            if asker is not None:
                joined[-1:] = join_turns(joined[-1:], (rename_calls(turn, asker.ids),), asker.run.results)
                asker = None
                continue
        else:
            asker = None
        joined.append(turn)
    return RejoinedTurns(tuple(joined), parent, ids)


async def _find(journals: Sequence[Journal], owner: str, calls: Mapping[str, str | None]) -> _Asker | None:
    """The run that handed all these calls out; their names are not known where the caller brings results alone."""
    for id in calls:
        for journal in journals:
            name = await journal.run_of_call(owner, stored_id(id))
            if name is None or not (events := await journal.read(name)):
                continue  # nearly always: the caller runs all tools itself
            run = rebuild(events)
            known = open_calls(run)
            found = {one: known.get(stored_id(one)) for one in calls}
            ids = {one: call.id for one, call in found.items() if call is not None and calls[one] in (None, call.name)}
            if len(ids) == len(calls):
                return _Asker(run, (name, len(events)), ids)
    return None


def _is_asked(turn: ToolTurn, joined: Sequence[Turn]) -> bool:
    before = joined[-1] if joined else None
    ids = {call.id for call in before.calls} if type(before) is AssistantTurn else set()
    return not ids.isdisjoint([result.call_id for result in turn.results])


def _ids(turn: Turn) -> set[str]:
    if type(turn) is AssistantTurn:
        return {call.id for call in turn.calls}
    return {result.call_id for result in turn.results} if type(turn) is ToolTurn else set()


def _unsaid(generated: Sequence[Turn], turns: Sequence[Turn]) -> Sequence[Turn]:
    """A run's turns without its earlier rounds, where the caller has sent those back itself."""
    before = generated[:-1]
    tail = turns[-len(before) :] if before else []
    same = [type(a) is type(b) and _ids(a) == _ids(b) for a, b in zip(tail, before, strict=False)]
    return generated[-1:] if len(same) == len(before) and all(same) else generated
