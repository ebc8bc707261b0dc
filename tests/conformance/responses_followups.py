"""Every recorded second request to the Responses API, made by us out of the first request and its answer.

A follow-up is a request whose input is that of an earlier one, then what that one was answered, then what a client adds:
results, or what the user says. Clients echo an answer with more or less of its members, and leave out what they do not
know; we send back all of it, unchanged. So what we send for the answer must be the answer, JSON value for JSON value,
encrypted thoughts included; whatever the recorded client sent of it must be in there, in its order; and everything before
and behind it must be the same in meaning. No call and no word of an answer may be missing from the client's echo: then it
is no echo of that answer.

A request that goes on by naming a response which the server keeps says less than ours, which has it all: it is made out of
the request and the answer it names. Conversations that the server keeps have no beginning to compare, and are counted.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

from msgspec import Struct
from tests.conformance import loop
from tests.conformance import responses_recorded as recorded
from tests.conformance import responses_turns as turns_of
from tests.conformance.followups import result_of
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import PartResult, Tally, absent, same
from tests.conformance.responses_answers import read, sent_back

from ronda.core.parts import SystemTurn, Turn
from ronda.core.plan import AUTO, NO_OPTIONS
from ronda.core.request import ModelRequest
from ronda.wire.openai_responses.client_request import Body

WORDS = ("message", "function_call", "custom_tool_call")


class FollowUp(Struct):
    """The input of `exchange` is `start`, then `echo` of the answer to `before`, then `rest`."""

    exchange: Exchange
    before: Exchange
    start: list[Json]
    echo: list[Json]
    rest: list[Json]

    @property
    def kind(self) -> str:
        said = (
            "tool rounds" if any(turns_of.kind(item).endswith("_output") for item in self.rest) else "further questions"
        )
        return f"{said}, by id" if _is_kept_there(self.exchange) else said


def run(data: Path) -> PartResult:
    exchanges = [one for one in recorded.exchanges(data) if isinstance(one.request, dict)]
    tally = Tally()
    followups, others = find(exchanges, tally)
    if not followups:
        return absent("a recorded request to the Responses API that goes on from another")
    for followup in followups:
        tally.check(followup.kind, followup.exchange.id, lambda followup=followup: _compare(followup))  # type: ignore[misc]
        tally.check("driven", followup.exchange.id, lambda followup=followup: _compare(followup, driven=True))  # type: ignore[misc]
    return result_of(tally, len(followups), others)


def find(exchanges: list[Exchange], tally: Tally) -> tuple[list[FollowUp], Counter[str]]:
    """The follow-ups, and why other requests with a model's words in them are none."""
    cassettes = defaultdict(list)
    for exchange in exchanges:
        cassettes[exchange.file, exchange.cassette].append(exchange)
    found: list[FollowUp] = []
    others: Counter[str] = Counter()
    for cassette in cassettes.values():
        cassette.sort(key=lambda exchange: exchange.index)
        answered = tally.select(cassette, _is_answered)
        for exchange in cassette:
            with tally.guard(exchange.id):
                said = turns_of.items(exchange.request.get("input") or [])
                if _is_kept_there(exchange):
                    if (before := _named(exchange, answered)) is not None:
                        found.append(FollowUp(exchange, before, turns_of.items(before.request["input"]), [], said))
                    else:
                        others["that name what the server keeps, and whose beginning is kept there too"] += 1
                    continue
                pairs = [_pair(exchange, said, before) for before in answered if before is not exchange]
                good = [pair for pair in pairs if pair is not None]
                # The longest beginning, and of those the last one before it; a recording made again may have its order lost.
                good.sort(key=lambda pair: (len(pair.start), pair.before.index < exchange.index, pair.before.index))
                if good:
                    found.append(good[-1])
                elif any(not turns_of.is_clients(item) for item in said):
                    others[_why_not(exchange, said, answered)] += 1
    return found, others


def _is_answered(exchange: Exchange) -> bool:
    """Raises for a recording that cannot be held against others."""
    if not recorded.is_answer(exchange):
        return False
    turns_of.meaning(turns_of.items(exchange.request.get("input") or []))
    return all(item["type"] for item in recorded.read(exchange).output)


def _pair(exchange: Exchange, said: list[Json], before: Exchange) -> FollowUp | None:
    start = _start(said, before)
    if start is None:
        return None
    rest = said[start:]
    # What stands between the beginning and the client's next item; an answer may hold what looks like a client's.
    output = recorded.read(before).output
    sizes = [size for size in range(len(rest), 0, -1) if size <= len(output) + 1]
    echo = next((rest[:size] for size in sizes if _is_echo(rest[:size], before)), None)
    if echo is None:
        return None
    return FollowUp(exchange, before, said[:start], echo, rest[len(echo) :])


def _is_kept_there(exchange: Exchange) -> bool:
    return bool(exchange.request.get("previous_response_id") or exchange.request.get("conversation"))


def _named(exchange: Exchange, answered: list[Exchange]) -> Exchange | None:
    """The answered request that this one goes on from by its id, if all of that is in the recording."""
    named = exchange.request.get("previous_response_id")
    found = [before for before in answered if named and recorded.read(before).id == named]
    return next((before for before in found if not _is_kept_there(before)), None)


def _start(said: list[Json], before: Exchange) -> int | None:
    if _is_kept_there(before):
        return None
    first = turns_of.items(before.request.get("input") or [])
    is_start = len(first) < len(said) and turns_of.meaning(said[: len(first)]) == turns_of.meaning(first)
    return len(first) if is_start else None


def _is_echo(echo: list[Json], before: Exchange) -> bool:
    """Items of the answer, in its order: all of its words and calls, and perhaps the rest."""
    answer = recorded.read(before)
    echo = [item for item in echo if not turns_of.says_nothing(item)]
    at = 0
    for item, done in zip(answer.output, answer.done, strict=True):
        if at < len(echo) and (turns_of.covers(item, echo[at]) or turns_of.covers(done, echo[at])):
            at += 1
        elif item["type"] in WORDS or recorded.waits(item):
            return False
    return at == len(echo)


def _why_not(exchange: Exchange, said: list[Json], answered: list[Exchange]) -> str:
    asked = [before for before in answered if before is not exchange and _start(said, before) is not None]
    if asked:
        return "whose beginning has other answers than this in the recording"
    return "whose beginning was never asked, or was answered elsewhere"


def _compare(followup: FollowUp, driven: bool = False) -> None:
    """`driven`: the second request is the loop's own."""
    finished = read(followup.before)
    instructions = followup.before.request.get("instructions")
    first: list[Turn] = [SystemTurn(instructions)] if instructions else []
    first += turns_of.turns(followup.start)
    turns = [*first, finished.turn, *turns_of.turns(followup.rest)]

    # One body for both requests, as in a run: what the first wrote is not written again.
    body = Body()
    body.write("model", _request(first))
    written = body.write("model", _request(turns))
    same(written, Body().write("model", _request(turns)), "written with what was written before")

    request = json.loads(written)
    if driven:
        after = turns[len(first) + 1 :]
        request = loop.next_request("openai:model", followup.before, first, finished.turn, after)
    system = [instructions] if instructions else []
    start = list(followup.start)
    while start and start[0].get("role") == "system":  # instructions as well, in other words
        system.append("".join(part["text"] for part in turns_of.content(start.pop(0)["content"])))
    same(request.get("instructions", ""), "\n\n".join(system), "instructions")
    ours = request["input"]
    output = sent_back(recorded.read(followup.before).output)
    asked = turns_of.meaning(start)
    same(turns_of.meaning(ours[: len(asked)]), asked, "what was asked before")
    same(ours[len(asked) : len(asked) + len(output)], output, "the answer")
    same(turns_of.meaning(ours[len(asked) + len(output) :]), turns_of.meaning(followup.rest), "what was added")


def _request(turns: list[Turn]) -> ModelRequest:
    return ModelRequest(turns, (), AUTO, NO_OPTIONS, False, "run", 0, 1, scratch={})
