"""What a model's server sealed (thoughts, signatures, ids) goes back to that server and that account, and to no other."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.interaction.doors import Door, Json, Remembering, Served, soon
from tests.interaction.upstreams import Act, Upstream, answers, refuses, streams

from ronda import tool
from ronda.core.events import ModelFinished
from ronda.core.parts import Native
from ronda.drive import Tool
from ronda.journal.memory import MemoryJournal
from ronda.providers import Where, open_provider
from ronda.store.memory import MemoryCatalog

GPT, CLAUDE = "openai:gpt-5", "anthropic:claude-opus-4-1"
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA-of-the-first"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}
PATCH = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "patch", "input": "- a"}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Sunny.", "annotations": []}],
}
SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "signed-by-the-first"}
INVALID = "The encrypted content gAAA...irst could not be verified."
FORGED = "messages.1.content.0: Invalid `signature` in `thinking` block"
ROUND = {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "look", "arguments": "{}"}


def responds(*output: Json) -> Act:
    body = {"id": "resp_up", "object": "response", "status": "completed", "output": output}
    return answers(json.dumps(body).encode())


def says(*content: Json, stop: str = "end_turn") -> Act:
    body = {"type": "message", "role": "assistant", "content": content, "stop_reason": stop}
    return answers(json.dumps(body).encode())


def serving(
    door: Door, model: str, url: str, key: str = "k1", *, tools: Sequence[Tool] = (), **more: Any
) -> AbstractAsyncContextManager[Served]:
    """A server of ours in front of a model's server that is called with this key."""
    return door.serving(open_provider(model, Where(url, key)), *tools, model=model, **more)


async def respond(served: Served, **request: Any) -> Json:
    async with soon(), served.http.post(f"{served.url}/responses", json={"input": "hi", **request}) as answer:
        body: Json = await answer.json()
        assert answer.status == 200, body
        return body


ASKED = {"responses": (GPT, responds(MESSAGE)), "messages": (CLAUDE, says({"type": "text", "text": "Yes."}))}  # fmt: skip
FIRST = {"responses": responds(THOUGHT, SEARCH, MESSAGE), "messages": says(SIGNED, {"type": "text", "text": "Sunny."})}

# How the second question comes to its server: (the first server's journal) → the journal that the second one has.
Keep = Callable[[Remembering], Awaitable[MemoryJournal]]


async def same(journal: Remembering) -> MemoryJournal:
    return journal


async def of_before(journal: Remembering) -> MemoryJournal:
    """As an earlier version wrote it: it said which API a turn's own JSON is of, and no more."""
    older = Remembering()
    for run in journal.runs:
        events = []
        for event in await journal.read(run):
            if isinstance(event, ModelFinished) and event.turn.native is not None:
                native = Native(event.turn.native.api.partition(":")[0], event.turn.native.payload)
                event = replace(event, turn=replace(event.turn, native=native))
            events.append(event)
        older.append(run, events)
    return older


async def conversation(
    door: Door, dialect: str, keep: Keep = same, *, elsewhere: bool = False, key: str = "k1", **question: Any
) -> Json:
    """What the model's server is asked when a conversation goes on, there or `elsewhere`, with this key."""
    model, answer = ASKED[dialect]
    journal, catalog = Remembering(), MemoryCatalog()
    async with Upstream(FIRST[dialect], answer) as first, Upstream(answer) as second:
        async with serving(door, model, first.url, journal=journal, catalog=catalog) as served:
            begun = await respond(served)
        kept = await keep(journal)
        url = second.url if elsewhere else first.url
        async with serving(door, model, url, key, journal=kept, catalog=catalog) as served:
            await respond(served, input="And now?", previous_response_id=begun["id"])
        return (second if elsewhere else first).requests[-1]


MARKS = ["encrypted", "gAAA", "rs_1", "ws_1", "msg_1", "signed-by-the-first", "thinking"]


def sealed(request: Json) -> list[str]:
    request = {name: value for name, value in request.items() if name not in ("include", "thinking")}
    return [mark for mark in MARKS if mark in json.dumps(request)]


@pytest.mark.parametrize("dialect", ASKED)
async def test_a_turn_goes_back_as_it_came_to_the_server_that_made_it(door: Door, dialect: str) -> None:
    request = await conversation(door, dialect)

    if dialect == "responses":
        assert request["input"][1:4] == [THOUGHT, SEARCH, MESSAGE]
    else:
        assert request["messages"][1]["content"] == [SIGNED, {"type": "text", "text": "Sunny."}]


@pytest.mark.parametrize("dialect", ASKED)
@pytest.mark.parametrize(
    ("elsewhere", "key", "keep"),
    [(True, "k1", same), (False, "k2", same), (False, "k1", of_before)],
    ids=["another host", "another key", "a journal of before"],
)
async def test_nothing_sealed_goes_to_another_server_or_account(
    door: Door, dialect: str, elsewhere: bool, key: str, keep: Keep
) -> None:
    request = await conversation(door, dialect, keep, elsewhere=elsewhere, key=key)

    assert sealed(request) == []
    assert "Sunny." in json.dumps(request)


async def test_the_key_is_in_no_journal(door: Door) -> None:
    journal = Remembering()
    async with (
        Upstream(FIRST["responses"]) as upstream,
        serving(door, GPT, upstream.url, "sk-canary-123", journal=journal) as served,
    ):
        await respond(served)

    assert b"canary" not in b"".join([msgspec.json.encode(await journal.read(run)) for run in journal.runs])


async def test_a_seal_that_a_client_carries_opens_at_no_other_server(door: Door) -> None:
    async with Upstream(FIRST["responses"]) as first, Upstream(responds(MESSAGE)) as second:
        async with serving(door, GPT, first.url) as served:
            begun = await respond(served, store=False, include=["reasoning.encrypted_content"])
        assert "ronda.turn" in json.dumps(begun["output"])
        history = [{"role": "user", "content": "hi"}, *begun["output"], {"role": "user", "content": "And now?"}]
        async with serving(door, GPT, second.url) as served:
            await respond(served, input=history, store=False)

    assert sealed(second.requests[-1]) == []


async def test_a_call_of_the_client_s_goes_on_at_another_server_without_its_id(door: Door) -> None:
    tools = [{"type": "custom", "name": "patch"}]
    journal, catalog = Remembering(), MemoryCatalog()
    async with Upstream(responds(THOUGHT, PATCH)) as first, Upstream(responds(MESSAGE)) as second:
        async with serving(door, GPT, first.url, journal=journal, catalog=catalog) as served:
            begun = await respond(served, tools=tools)
        output = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "done"}
        async with serving(door, GPT, second.url, journal=journal, catalog=catalog) as served:
            await respond(served, input=[output], tools=tools, previous_response_id=begun["id"])

    _, call, result = second.requests[-1]["input"]
    assert call == {"type": "custom_tool_call", "call_id": "call_1", "name": "patch", "input": "- a"}
    assert result == {"type": "custom_tool_call_output", "call_id": "call_1", "output": "done"}


# ---- a seal that is refused --------------------------------------------------------------------------------------------

CARRIED = [
    {"role": "user", "content": "hi"},
    {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "gAAA-of-another"},
    MESSAGE,
    {"role": "user", "content": "And now?"},
]
REFUSALS = {
    "by its code": refuses(400, INVALID, "invalid_encrypted_content"),
    "in words, by a gateway": refuses(400, f"litellm.BadRequestError: OpenAIException - {INVALID}"),
    "in a stream": streams(
        {"type": "response.created", "response": {"id": "resp_up", "status": "in_progress", "output": []}},
        {"type": "error", "code": "invalid_encrypted_content", "message": INVALID},
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_seal_that_does_not_open_costs_one_try_and_a_warning(door: Door, refusal: Act) -> None:
    async with Upstream(refusal, responds(MESSAGE)) as upstream, serving(door, GPT, upstream.url) as served:
        answer = await respond(served, input=CARRIED, store=False)

    first, second = upstream.requests
    assert "gAAA-of-another" in json.dumps(first["input"])
    assert sealed(second) == []
    assert answer["output"][-1]["content"][0]["text"] == "Sunny."
    assert ["could not open it" in warning for warning in answer["warnings"]] == [True]


async def test_a_seal_is_left_out_only_once(door: Door) -> None:
    refusal = refuses(400, INVALID, "invalid_encrypted_content")
    async with (
        Upstream(refusal, refusal) as upstream,
        serving(door, GPT, upstream.url) as served,
        soon(),
        served.http.post(f"{served.url}/responses", json={"input": CARRIED}) as answer,
    ):
        body = await answer.json()

    assert (answer.status, len(upstream.bodies)) == (400, 2)
    assert body["error"]["code"] == "invalid_encrypted_content"


async def test_what_the_server_seals_after_a_refusal_goes_back_to_it(door: Door) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    again = {**THOUGHT, "id": "rs_2", "encrypted_content": "gAAA-new"}
    acts = [refuses(400, INVALID, "invalid_encrypted_content"), responds(again, ROUND), responds(MESSAGE)]
    async with Upstream(*acts) as upstream, serving(door, GPT, upstream.url, tools=[look]) as served:
        await respond(served, input=CARRIED)

    last = json.dumps(upstream.requests[-1]["input"])
    assert ("gAAA-of-another" in last, "gAAA-new" in last) == (False, True)


async def test_a_signature_that_does_not_hold_costs_one_try_and_a_warning(door: Door) -> None:
    body = {
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [SIGNED, {"type": "text", "text": "Sunny."}]},
            {"role": "user", "content": "And now?"},
        ],
    }
    forged = {"type": "error", "error": {"type": "invalid_request_error", "message": FORGED}}
    async with (
        Upstream(answers(json.dumps(forged).encode(), 400), says({"type": "text", "text": "Yes."})) as upstream,
        serving(door, CLAUDE, upstream.url) as served,
        soon(),
        served.http.post(f"{served.url}/messages", json=body) as answer,
    ):
        assert answer.status == 200
        said = await answer.json()

    first, second = upstream.requests
    assert first["messages"][1]["content"][0] == SIGNED
    assert sealed(second) == []
    assert said["content"][-1]["text"] == "Yes."
    assert any("signature" in warning for warning in said["warnings"])
