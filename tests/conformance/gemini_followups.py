"""Every recorded second request, made by us out of the first and its answer: the same conversation in meaning.

A follow-up is a request whose contents are those of an earlier one, then what that one was answered, then results or what
the user said. The answer is read by our reader and goes back through the loop's own settling, so signatures must still
stand on their very parts, and results must bear the names and ids of their calls.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance import gemini_recorded as recorded
from tests.conformance import loop
from tests.conformance.followups import FollowUp, History, find, renamed, result_of, settled
from tests.conformance.gemini_answers import read as read_answer
from tests.conformance.gemini_recorded import exchanges, meaning, model_in
from tests.conformance.gemini_turns import read_contents, read_request
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.wire.gemini.client_request import Body


def run(data: Path) -> PartResult:
    found = [exchange for exchange in exchanges(data) if isinstance(exchange.request, dict)]
    tally = Tally()
    followups, others = find(found, tally, HISTORY)
    if not followups:
        return absent("a recorded conversation with Gemini that goes on from another")
    ids = recorded.given_ids(tally.select(found, lambda one: one.status < 400 and recorded.read(one)))
    for followup in followups:
        kind = "tool rounds" if _is_tool_round(followup) else "further questions"
        tally.check(kind, followup.exchange.id, lambda followup=followup: _compare(followup, ids))  # type: ignore[misc]
        tally.check("driven", followup.exchange.id, lambda followup=followup: _compare(followup, ids, driven=True))  # type: ignore[misc]
    return result_of(tally, len(followups), others)


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


def _is_tool_round(followup: FollowUp) -> bool:
    answer = recorded.camel(followup.exchange.request["contents"][followup.at])
    return any("functionCall" in part for part in answer["parts"])


HISTORY = History(
    "contents",
    "model",
    lambda one: one.status < 400 and recorded.read(one),
    lambda contents: meaning(contents, set()),
    _pair,
)


def _compare(followup: FollowUp, ids: set[str], driven: bool = False) -> None:
    """`driven`: the second request is the loop's own."""
    contents = followup.exchange.request["contents"]
    model = model_in(followup.before)
    request = read_request(followup.before)
    turn = settled(read_answer(followup.before), model)
    rest = read_contents(contents[followup.at :], model)  # the recorded answer first, so that results find their calls
    calls = {theirs.id: ours.id for theirs, ours in zip(rest[0].calls, turn.calls, strict=True)}  # type: ignore[union-attr]

    # One body for both requests, as in a run: what the first wrote is not written again.
    body = Body()
    body.write(model, request)
    request.turns = [*request.turns, turn, *[renamed(one, calls) for one in rest[1:]]]
    written = body.write(model, request)
    same(written, Body().write(model, request), "written with what was written before")
    sent = json.loads(written)
    if driven:
        start = read_request(followup.before).turns
        after = request.turns[len(start) + 1 :]
        sent = loop.next_request(f"gemini:{model}", followup.before, start, turn, after)
    same(meaning(sent["contents"], ids), meaning(contents, ids), "contents")
