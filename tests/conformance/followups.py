"""Recorded follow-ups, in any dialect: how they are found and counted, and how many of them may be excepted.

A follow-up is a request whose messages are those of an earlier one, then what that one was answered, then results or what the
user said. What its answer is held against is the dialect's to say.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import PartResult, Tally, same

from ronda.core.events import ModelFinished, RunStarted
from ronda.core.parts import AssistantTurn, ToolResult, ToolTurn, Turn
from ronda.core.plan import Plan
from ronda.core.run import Run
from ronda.core.transcript import settle

EXCEPTIONS_IN_100: Final = 3


class FollowUp(Struct):
    """`at` is where the answer of `before` stands in the messages of `exchange`."""

    exchange: Exchange
    before: Exchange
    at: int


class History(Struct, frozen=True):
    """Where a dialect's requests keep a conversation. `pair` chooses the request that was answered so, of those that began so."""

    member: str  # of a request
    role: str  # of the model's messages
    is_answered: Callable[[Exchange], object]
    meaning: Callable[[Json], Json]  # a client may spell its own history differently the second time
    pair: Callable[[Exchange, int, list[Exchange]], FollowUp | None]
    never_asked: str = "whose beginning was never asked, or was answered with an error"


def find(exchanges: list[Exchange], tally: Tally, history: History) -> tuple[list[FollowUp], Counter[str]]:
    """The follow-ups, and why other requests with a model's words in them are none."""

    def key(messages: Json) -> str:
        return json.dumps(history.meaning(messages or []), sort_keys=True)

    cassettes = defaultdict(list)
    for exchange in exchanges:
        cassettes[exchange.file, exchange.cassette].append(exchange)
    found: list[FollowUp] = []
    others: Counter[str] = Counter()
    for cassette in cassettes.values():
        cassette.sort(key=lambda exchange: exchange.index)
        starts = defaultdict(list)
        for exchange in cassette:
            with tally.guard(exchange.id):
                if history.is_answered(exchange):
                    starts[key(exchange.request.get(history.member))].append(exchange)
        for exchange in cassette:
            with tally.guard(exchange.id):
                messages = exchange.request.get(history.member)
                of_model = (
                    [at for at, one in enumerate(messages) if one.get("role") == history.role]
                    if isinstance(messages, list)
                    else []
                )
                pairs = (history.pair(exchange, at, starts[key(messages[:at])]) for at in reversed(of_model))
                if followup := next((pair for pair in pairs if pair is not None), None):
                    found.append(followup)
                elif any(starts[key(messages[:at])] for at in of_model):
                    others["whose beginning has other answers than this in the recording"] += 1
                elif of_model:
                    others[history.never_asked] += 1
    return found, others


def settled(finished: ModelFinished, model: str) -> AssistantTurn:
    """As the loop would store it: every call with an id of its own."""
    run = Run(RunStarted("run", Plan(model), ()))
    run.round = 1
    turn = settle(finished, run)[0].turn
    if all(call.id for call in finished.turn.calls):  # else it would go back without ids
        same(turn.native, finished.turn.native, "the upstream's own JSON after settling")
    return turn


def renamed(turn: Turn, ours: dict[str, str]) -> Turn:
    """Results under our ids of their calls."""
    if type(turn) is not ToolTurn:
        return turn
    return ToolTurn(
        tuple([ToolResult(ours.get(r.call_id, r.call_id), r.content, r.failed, r.attachments) for r in turn.results])
    )


def result_of(tally: Tally, followups: int, others: Counter[str]) -> PartResult:
    """`others` says why requests that might have been follow-ups are none."""
    for why, count in others.items():
        tally.note(f"not follow-ups: {count} {why}")
    skipped = tally.result().skipped
    allowed = -(-followups * EXCEPTIONS_IN_100 // 100)
    if skipped > allowed:
        tally.failed("exceptions", f"{skipped} of {followups}", f"at most {allowed} are allowed")
    return tally.result()
