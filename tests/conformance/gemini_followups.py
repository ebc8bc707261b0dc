"""Every recorded second request, made by us out of the first and its answer: the same conversation in meaning.

A follow-up is a request whose contents are those of an earlier one, then what that one was answered, then results or what
the user said. The answer is read by our reader and goes back through the loop's own settling, so signatures must still
stand on their very parts, and results must bear the names and ids of their calls.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

from msgspec import Struct
from tests.conformance import gemini_recorded as recorded
from tests.conformance import loop
from tests.conformance.followups import result_of
from tests.conformance.gemini_answers import read as read_answer
from tests.conformance.gemini_recorded import exchanges, meaning, model_in
from tests.conformance.gemini_turns import read_contents, read_request
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.core.events import RunStarted
from ronda.core.parts import AssistantTurn, ToolResult, ToolTurn, Turn
from ronda.core.plan import Plan
from ronda.core.run import Run
from ronda.core.transcript import settle
from ronda.wire.gemini.client_request import Body


class FollowUp(Struct):
    """`at` is where the answer of `before` stands in the contents of `exchange`."""

    exchange: Exchange
    before: Exchange
    at: int

    @property
    def is_tool_round(self) -> bool:
        return any(
            "functionCall" in part for part in recorded.camel(self.exchange.request["contents"][self.at])["parts"]
        )


def run(data: Path) -> PartResult:
    found = [exchange for exchange in exchanges(data) if isinstance(exchange.request, dict)]
    tally = Tally()
    followups, others = find(found, tally)
    if not followups:
        return absent("a recorded conversation with Gemini that goes on from another")
    ids = recorded.given_ids(tally.select(found, lambda one: one.status < 400 and recorded.read(one)))
    for followup in followups:
        kind = "tool rounds" if followup.is_tool_round else "further questions"
        tally.check(kind, followup.exchange.id, lambda followup=followup: _compare(followup, ids))  # type: ignore[misc]
        tally.check("driven", followup.exchange.id, lambda followup=followup: _compare(followup, ids, driven=True))  # type: ignore[misc]
    return result_of(tally, len(followups), others)


def find(found: list[Exchange], tally: Tally) -> tuple[list[FollowUp], Counter[str]]:
    cassettes = defaultdict(list)
    for exchange in found:
        cassettes[exchange.file, exchange.cassette].append(exchange)
    followups: list[FollowUp] = []
    others: Counter[str] = Counter()
    for cassette in cassettes.values():
        starts = defaultdict(list)
        for exchange in cassette:
            with tally.guard(exchange.id):
                if exchange.status < 400 and recorded.read(exchange):
                    starts[_key(exchange.request["contents"])].append(exchange)
        for exchange in cassette:
            with tally.guard(exchange.id):
                contents = exchange.request["contents"]
                said = [at for at, one in enumerate(contents) if one.get("role") == "model"]
                pairs = (_pair(exchange, at, starts[_key(contents[:at])]) for at in reversed(said))
                if followup := next((pair for pair in pairs if pair is not None), None):
                    followups.append(followup)
                elif any(starts[_key(contents[:at])] for at in said):
                    others["whose beginning has other answers than this in the recording"] += 1
                elif said:
                    others["whose beginning was never asked, or was answered with an error"] += 1
    return followups, others


def _key(contents: Json) -> str:
    return json.dumps(meaning(contents, set()), sort_keys=True)


def _pair(exchange: Exchange, at: int, asked: list[Exchange]) -> FollowUp | None:
    """The answer is known by its calls and their arguments, or by its text."""
    said = meaning([exchange.request["contents"][at]], set())
    found = [
        before
        for before in asked
        if before is not exchange and _gist(said) == _gist(meaning([_content(before)], set()))
    ]
    return FollowUp(exchange, found[-1], at) if found else None


def _content(exchange: Exchange) -> Json:
    return {"role": "model", "parts": recorded.read(exchange).parts}


def _gist(contents: list[Json]) -> list[Json]:
    return [
        [part["functionCall"]["name"], part["functionCall"]["args"]] if "functionCall" in part else part.get("text")
        for part in recorded.parts_of(contents)
    ]


def _compare(followup: FollowUp, ids: set[str], driven: bool = False) -> None:
    """`driven`: the second request is the loop's own."""
    contents = followup.exchange.request["contents"]
    model = model_in(followup.before)
    request = read_request(followup.before)
    turn = _settled(followup.before, model)
    rest = read_contents(contents[followup.at :], model)  # the recorded answer first, so that results find their calls
    calls = {theirs.id: ours.id for theirs, ours in zip(rest[0].calls, turn.calls, strict=True)}  # type: ignore[union-attr]

    # One body for both requests, as in a run: what the first wrote is not written again.
    body = Body()
    body.write(model, request)
    request.turns = [*request.turns, turn, *[_renamed(one, calls) for one in rest[1:]]]
    written = body.write(model, request)
    same(written, Body().write(model, request), "written with what was written before")
    sent = json.loads(written)
    if driven:
        start = read_request(followup.before).turns
        after = request.turns[len(start) + 1 :]
        sent = loop.next_request(f"gemini:{model}", followup.before, start, turn, after)
    same(meaning(sent["contents"], ids), meaning(contents, ids), "contents")


def _settled(before: Exchange, model: str) -> AssistantTurn:
    """As the loop would store it."""
    run = Run(RunStarted("run", Plan(model), ()))
    run.round = 1
    finished = read_answer(before)
    settled = settle(finished, run)[0].turn
    same(settled.native, finished.turn.native, "the upstream's own JSON after settling")
    return settled


def _renamed(turn: Turn, calls: dict[str, str]) -> Turn:
    if type(turn) is not ToolTurn:
        return turn
    return ToolTurn(
        tuple([ToolResult(calls.get(r.call_id, r.call_id), r.content, r.failed, r.attachments) for r in turn.results])
    )
