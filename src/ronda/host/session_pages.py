"""The conversation of a session, page by page from its end: each turn with the run that said it, its round, when, and its tokens.

A document of a session (`session_documents`) is for moving it; this is for showing it. When a round was, and what it used, the
journal knows for as long as it keeps the run; a turn of a run that is gone has when the run ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.events import Event, ModelFinished, ModelStarted, RunStarted, ToolFinished
from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolTurn, Turn, Usage, UserTurn
from ronda.drive.offload import aside
from ronda.host.history import history_of
from ronda.host.leases import Key
from ronda.host.session_documents import branch_number, branches_of, find, no_branch, summary_of
from ronda.host.sessions import SessionHost
from ronda.store.values.sessions import NodeRow
from ronda.wire.own.sessions import write_messages

ReadRun = Callable[[str], Awaitable[list[Event]]]


class TurnPlace(Struct):
    """Where a turn comes from. `round` is that of a model's turn, and of the results of its calls."""

    run: str
    at: float
    is_asked: bool
    round: int | None = None
    usage: Usage | None = None


async def write_page(
    host: SessionHost, key: Key, limit: int, before: int | None, branch: str | None, read_run: ReadRun
) -> dict[str, Any]:
    """The last `limit` turns before the turn `before`, of the session as it stands or of one of its branches; `next` is the
    `before` of the page that comes before this one."""
    row = await find(host, key)
    tip = row.head if branch is None else branch_number(branch)
    path = await host.store.path(*key, tip)
    if branch is not None and not path:
        raise no_branch(row, branch)
    turns = (await aside(history_of, path)).turns
    places = _places(path)
    end = len(turns) if before is None else min(before, len(turns))
    begin = max(0, end - limit)
    for run in dict.fromkeys([place.run for place in places[begin:end] if place.run]):
        placed_turns = [(turn, place) for turn, place in zip(turns, places, strict=True) if place.run == run]
        _fill_in(placed_turns, await read_run(run))
    data = [_write_turn(number, turns[number], places[number]) for number in range(begin, end)]
    shown = {**summary_of(row), "branch": str(tip), "branches": await branches_of(host, key, row)}
    return {**shown, "data": data, "has_more": begin > 0, "next": str(begin) if begin else None}


def _places(path: Sequence[NodeRow]) -> list[TurnPlace]:
    """Of each turn on the path, in its order: a node may stand behind the first turns of the one before it."""
    places: list[TurnPlace] = []
    for node in path:
        del places[node.upto :]
        places += [TurnPlace(node.run, node.created, number < node.asked) for number in range(node.count)]
    return places


def _fill_in(placed_turns: Sequence[tuple[Turn, TurnPlace]], events: Sequence[Event]) -> None:
    """What the events of a run say about its turns; without events, rounds are counted."""
    started = [event.at for event in events if type(event) is RunStarted]
    finished = _finished_rounds(events)
    counted, last = -1, None
    for turn, place in placed_turns:
        if place.is_asked:
            place.at = started[0] if started else place.at
        elif type(turn) is AssistantTurn:
            counted += 1
            place.round = counted
            last = next((one for one in finished if one.event.turn == turn), None)
            if last is not None:
                finished = finished[finished.index(last) + 1 :]
                place.round, place.at, place.usage = last.number, last.event.at, last.event.usage
        elif type(turn) is ToolTurn and counted >= 0:
            place.round = counted if last is None else last.number
            place.at = place.at if last is None else last.tools_at


class _FinishedRound(Struct):
    number: int
    event: ModelFinished
    tools_at: float  # when the last of its calls had a result


def _finished_rounds(events: Sequence[Event]) -> list[_FinishedRound]:
    found: list[_FinishedRound] = []
    number = 0
    for event in events:
        if type(event) is ModelStarted:
            number = event.round
        elif type(event) is ModelFinished:
            found.append(_FinishedRound(number, event, event.at))
        elif type(event) is ToolFinished and found:
            found[-1].tools_at = event.at
    return found


def _beyond_messages(turn: Turn) -> Turn | None:
    """A turn of which messages do not say all that is shown: names of files, thinking, figures, and which of its calls failed."""
    if type(turn) is UserTurn and any(type(part) is not Text for part in turn.parts):
        return replace(turn, native=None)
    if type(turn) is AssistantTurn and any(type(part) not in (Text, ToolCall) for part in turn.parts):
        return replace(turn, native=None)
    if type(turn) is ToolTurn and any(result.failed or result.attachments for result in turn.results):
        return ToolTurn(tuple([replace(result, native=None) for result in turn.results]))
    return None


def _write_turn(number: int, turn: Turn, place: TurnPlace) -> dict[str, Any]:
    usage, beyond = place.usage, _beyond_messages(turn)
    return {
        "index": number,
        "run": place.run or None,
        "round": place.round,
        "at": place.at,
        "usage": None
        if usage is None
        else {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cached_tokens": usage.cached,
            "reasoning_tokens": usage.reasoning,
            "cost": usage.cost,
        },
        "messages": Raw(write_messages((turn,))),
        **({} if beyond is None else {"turn": beyond}),
    }
