"""Every recorded second request, made by us out of the first request and its answer: the same conversation in meaning.

A follow-up is a request whose messages are those of an earlier one, then what that one was answered, then tool results or
what the user said. We read the earlier request and its answer, add the rest, and write it. Where several answers are
recorded to the same messages, the ids of the calls (or the text) tell which one it was, read the naive way; where a recording
was made again and the ids are new, the same calls with the same arguments do.

A rule may excuse words the recorded client changed. It never excuses calls or results: those are compared anyway.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from tests.conformance import loop, meaning, naive
from tests.conformance.followups import FollowUp, History, find, renamed, result_of, settled
from tests.conformance.naive import Said
from tests.conformance.openai_chat_answers import read as read_answer
from tests.conformance.openai_chat_requests import acceptable, model_request, read
from tests.conformance.recordings import Exchange, Json, chat_exchanges
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.core.parts import AssistantTurn, Turn
from ronda.wire.openai_chat.client_request import Body


def run(data: Path) -> PartResult:
    exchanges = [exchange for exchange in chat_exchanges(data) if isinstance(exchange.request, dict)]
    tally = Tally()
    followups, others = find(exchanges, tally, HISTORY)
    if not followups:
        return absent("a recorded chat completion that goes on from another")
    for followup in followups:
        kind = "tool rounds" if _is_tool_round(followup) else "further questions"
        tally.check(kind, followup.exchange.id, lambda followup=followup: _compare(followup))  # type: ignore[misc]
        tally.check("driven", followup.exchange.id, lambda followup=followup: _compare(followup, driven=True))  # type: ignore[misc]
    return result_of(tally, len(followups), others)


def _pair(exchange: Exchange, at: int, asked: list[Exchange]) -> FollowUp | None:
    message = exchange.request["messages"][at]
    asked = [before for before in asked if before is not exchange]
    found = [before for before in asked if _is_answer(message, naive.read(before)[0])]
    found = found or [before for before in asked if _asks_the_same(message, naive.read(before)[0])]
    # The last one before it; a recording made again may have its order lost.
    found = [before for before in found if before.index < exchange.index] or found
    return FollowUp(exchange, found[-1], at) if found else None


def _is_tool_round(followup: FollowUp) -> bool:
    return "tool_calls" in meaning.message(followup.exchange.request["messages"][followup.at])


HISTORY = History(
    "messages", "assistant", lambda one: naive.is_answer(one) and naive.read(one), meaning.messages, _pair
)


def _is_answer(message: Json, said: Said) -> bool:
    """Known by the ids of its calls; by how many there are if the server gave none; by the text if there are no calls."""
    calls = message.get("tool_calls") or []
    if calls or said.calls:
        names = [(call.get("function") or {}).get("name") for call in calls]
        ids = [call.get("id") or "" for call in calls]
        blank = not any(call[0] for call in said.calls)
        return names == [call[1] for call in said.calls] and (blank or ids == [call[0] for call in said.calls])
    return bool(_without_thoughts(message, said) == said.text)


def _asks_the_same(message: Json, said: Said) -> bool:
    calls = meaning.message(message).get("tool_calls") or []
    recorded = [(call[1], meaning.arguments(call[2])) for call in said.calls]
    return bool(calls) and [(call["function"]["name"], call["function"]["arguments"]) for call in calls] == recorded


def _without_thoughts(message: Json, said: Said) -> Json:
    """Some clients put the reasoning into the text, between tags: one more place where it may stand or not."""
    content = meaning.message(message).get("content", "")
    thought = f"<think>\n{said.reasoning}\n</think>"
    if said.reasoning and isinstance(content, str) and content.startswith(thought):
        return content.removeprefix(thought).removeprefix("\n\n")
    return content


def _compare(followup: FollowUp, driven: bool = False) -> None:
    """`driven`: the second request is the loop's own."""
    recorded = followup.exchange.request["messages"]
    said = naive.read(followup.before)[0]
    answer = recorded[followup.at]
    start = read(acceptable(followup.before)[0])
    turn = settled(read_answer(followup.before)[0], start.model)
    rest = _rest(recorded, followup.at)
    ours = _call_ids_of(turn, answer)
    turns: tuple[Turn, ...] = (*start.turns, turn, *[renamed(turn, ours) for turn in rest])

    # One body for both requests, as in a run: what the first wrote is not written again.
    body = Body()
    request = model_request(start)
    body.write(start.model, request)
    request.turns = turns
    written = body.write(start.model, request)
    same(written, Body().write(start.model, request), "written with what was written before")
    sent = json.loads(written)
    if driven:
        after = turns[len(start.turns) + 1 :]
        sent = loop.next_request(f"openai-chat:{start.model}", followup.before, start.turns, turn, after)

    theirs = {our: their for their, our in ours.items()}
    got = [_with_ids(one, theirs) for one in meaning.messages(sent["messages"])]
    expected = meaning.messages([*recorded[: followup.at], _in_place(answer, said), *recorded[followup.at + 1 :]])
    # A client may leave out the text that came with the calls: nothing of ours is lost by it, and all else must be the same.
    if "tool_calls" in answer and said.text and not meaning.message(answer).get("content"):
        at = len(meaning.messages(recorded[: followup.at]))
        got[at].pop("content", None)
    if driven:  # results go back in the order the model asked; some clients send them as they come
        got, expected = _sorted(got), _sorted(expected)
    same(got, expected, "messages")


def _sorted(messages: list[Json]) -> list[Json]:
    """Results of one turn in one order."""
    found: list[Json] = []
    for is_result, run in itertools.groupby(messages, lambda one: one["role"] == "tool"):
        messages_in_it = list(run)
        found += sorted(messages_in_it, key=lambda one: one["tool_call_id"]) if is_result else messages_in_it
    return found


def _in_place(answer: Json, said: Said) -> Json:
    return {**answer, "content": _without_thoughts(answer, said)}


def _rest(recorded: list[Json], at: int) -> tuple[Turn, ...]:
    rest = recorded[at + 1 :]
    return read({"messages": rest}).turns if rest else ()


def _call_ids_of(turn: AssistantTurn, answer: Json) -> dict[str, str]:
    """The recorded client's id of a call → ours. They differ where the server gave none, or was asked again."""
    calls = answer.get("tool_calls") or []
    return {theirs["id"]: ours.id for theirs, ours in zip(calls, turn.calls, strict=True)}


def _with_ids(message: Json, theirs: dict[str, str]) -> Json:
    if "tool_calls" in message:
        calls = [{**call, "id": theirs.get(call.get("id"), call.get("id"))} for call in message["tool_calls"]]
        return {**message, "tool_calls": calls}
    if "tool_call_id" in message:
        return {**message, "tool_call_id": theirs.get(message["tool_call_id"], message["tool_call_id"])}
    return message
