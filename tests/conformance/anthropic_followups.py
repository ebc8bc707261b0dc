"""Every recorded second request, made by us out of the first request and its answer: the same conversation in meaning.

A follow-up is a request whose messages are those of an earlier one, then what that one was answered, then tool results or
what the user said. We read the earlier request and its answer, add the rest, and write it.

Recorded clients rebuild an answer from what they understand of it; we send it back as it was. So the answer itself must be
the API's own, thinking byte for byte, and must hold every block that the client sent. All else must be the same.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance import anthropic_meaning as meaning
from tests.conformance import anthropic_naive as naive
from tests.conformance import loop
from tests.conformance.anthropic_answers import read as read_answer
from tests.conformance.anthropic_naive import Said
from tests.conformance.anthropic_requests import read, read_messages
from tests.conformance.followups import FollowUp, History, find, result_of, settled
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import Excepted, PartResult, Tally, absent, same

from ronda.core.parts import AssistantTurn
from ronda.wire.anthropic import OLD_VERSION
from ronda.wire.anthropic.client_request import Body

# Members of an answer that clients do not know of, and leave out.
LEFT_OUT = {"caller", "citations"}


def run(data: Path) -> PartResult:
    tally = Tally()
    followups, others = find([one for one in naive.exchanges(data) if isinstance(one.request, dict)], tally, HISTORY)
    if not followups:
        return absent("a recorded message that goes on from another")
    for followup in followups:
        kind = "tool rounds" if naive.read(followup.before).calls else "further questions"
        if any(str(block.get("type")).endswith("thinking") for block in naive.read(followup.before).content):
            kind += " after thinking"
        tally.check(kind, followup.exchange.id, lambda followup=followup: _compare(followup))  # type: ignore[misc]
        tally.check("driven", followup.exchange.id, lambda followup=followup: _compare(followup, driven=True))  # type: ignore[misc]
    return result_of(tally, len(followups), others)


def _pair(exchange: Exchange, at: int, asked: list[Exchange]) -> FollowUp | None:
    content = exchange.request["messages"][at]["content"]
    found = [before for before in asked if before is not exchange and _is_answer(content, naive.read(before))]
    found = [before for before in found if before.index < exchange.index] or found
    return FollowUp(exchange, found[-1], at) if found else None


def _unmarked(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _unmarked(one) for name, one in value.items() if name != "cache_control"}
    return [_unmarked(one) for one in value] if isinstance(value, list) else value


def _meaning(messages: Json) -> Json:
    """Marks for the cache move on with each request of a client that sets them."""
    return _unmarked(meaning.messages(messages))


HISTORY = History(
    "messages",
    "assistant",
    lambda one: naive.is_answer(one) and naive.read(one).content,
    _meaning,
    _pair,
    "whose beginning was never asked, or asked of another provider",
)


def _is_answer(content: Json, said: Said) -> bool:
    """Known by the ids of its calls; by the text if there are none."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if calls or said.calls:
        return calls == [call["id"] for call in said.calls]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    return text.strip() == said.all("text", "text").strip() and bool(text.strip())


def _compare(followup: FollowUp, driven: bool = False) -> None:
    """`driven`: the second request is the loop's own."""
    recorded = followup.exchange.request["messages"]
    said = naive.read(followup.before)
    request = read(followup.before.request)
    turn = settled(read_answer(followup.before), "model")

    # One body for both requests, as in a run: what the first wrote is not written again.
    body = Body()
    model = followup.exchange.request["model"]
    body.write(model, request, OLD_VERSION)
    request.turns = [*request.turns, turn, *read_messages(recorded[followup.at + 1 :])]
    written = body.write(model, request, OLD_VERSION)
    same(written, Body().write(model, request, OLD_VERSION), "written with what was written before")

    sent = json.loads(written)
    if driven:
        start = read(followup.before.request).turns
        after = request.turns[len(start) + 1 :]
        if after and isinstance(after[0], AssistantTurn) and after[0].calls and turn.calls:
            raise Excepted(
                "the client made a call in the assistant's name: ours are two rounds, each answered by itself"
            )
        sent = loop.next_request(f"anthropic:{model}", followup.before, start, turn, after, OLD_VERSION)

    ours = _unmarked(meaning.messages(sent["messages"]))
    theirs = _unmarked(meaning.messages(recorded))
    at = len(meaning.messages(recorded[: followup.at]))
    same([message["role"] for message in ours], [message["role"] for message in theirs], "roles")
    same(ours[:at] + ours[at + 1 :], theirs[:at] + theirs[at + 1 :], "messages around the answer")
    _compare_answer(ours[at]["content"], theirs[at]["content"], said)
    if said.container is not None and said.calls:
        same(sent.get("container"), followup.exchange.request.get("container"), "container")


def _compare_answer(ours: list[Json], theirs: list[Json], said: Said) -> None:
    """`ours` may go on behind the answer, where the recorded client says more in the assistant's name."""
    expected = [meaning.block(block) for block in said.content if block != {"type": "text", "text": ""}]
    same(ours[: len(expected)], expected, "the answer")
    rest = [_known(block) for block in ours]
    for block in theirs:
        if _known(block) in rest:
            rest.remove(_known(block))
        elif block.get("type") != "text" or block["text"].strip():  # a client that cannot do without text sends a blank
            raise AssertionError(f"the client sends {json.dumps(block)[:300]}; we have {json.dumps(rest)[:300]}")


def _known(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _known(one) for name, one in value.items() if name not in LEFT_OUT and one is not None}
    return [_known(one) for one in value] if isinstance(value, list) else value
