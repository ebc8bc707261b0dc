"""Anthropic's dialect on both sides: what its API signed, cited or ran comes to the client and goes back as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance import anthropic_naive as naive
from tests.conformance.anthropic_streams import told
from tests.conformance.anthropic_strict import refusals
from tests.interaction.doors import Door, Json
from tests.interaction.upstreams import Act, Exchange, Upstream, answers
from tests.server.messages_door import (
    CLAUDE,
    HI,
    PICK,
    answer,
    asking,
    claude_says,
    events,
    heard,
    post,
    result,
    said,
    says,
    text,
    thinking,
    usage,
    use,
)

from ronda import tool

DATA = Path(__file__).parents[4] / "shared" / "data"
SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/="


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def test_signatures_come_out_and_go_back_unchanged(door: Door, stream: bool) -> None:
    hidden, redacted = thinking("", "c2ln/hidden=="), {"type": "redacted_thinking", "data": "b3BhcXVl+/=="}
    content = [thinking("hm", SIGNATURE), redacted, hidden, text("So:"), use("toolu_1", "pick", color="red")]
    acts = (claude_says(*content, stop="tool_use"), claude_says(thinking("well", "c2ln"), text("Done.")))

    async with Upstream(*acts) as upstream, door.serving(upstream.url, model=CLAUDE), asking(door) as claude:
        asked: Json = {"tools": [PICK], "thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 9000}
        first = await answer(claude, stream=stream, **asked)
        back = heard(result("toolu_1", [text("ok")]))
        second = await answer(claude, HI, said(*first["content"]), back, stream=stream, **asked)

    assert first == says(*content, stop="tool_use", model="claude-sonnet-4-5")
    assert second == says(thinking("well", "c2ln"), text("Done."), model="claude-sonnet-4-5")
    assert upstream.requests[1]["messages"][1:] == [said(*content), back]
    assert [refusals(body) for body in upstream.bodies] == [[], []]


async def test_a_stream_has_each_block_in_its_place(door: Door) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result"}]}
    cited = {**text("It is."), "citations": [{"type": "char_location", "cited_text": "is"}, {"type": "page_location"}]}
    called = {**use("toolu_1", "pick", color="red"), "caller": {"type": "direct"}}
    content = [thinking("a", "s1"), thinking("b", "s2"), search, found, text("So: "), cited, text("Now."), called]

    async with (
        Upstream(claude_says(*content, stop="tool_use")) as upstream,
        door.serving(upstream.url, model=CLAUDE) as served,
    ):
        seen = events(await post(served, {"messages": [HI], "tools": [PICK], "stream": True}))

    marks = [(name.removeprefix("content_block_"), data["index"]) for name, data in seen if "index" in data]
    assert [mark for mark in marks if mark[0] != "delta"] == [
        (mark, index) for index in range(len(content)) for mark in ("start", "stop")
    ]
    deltas = [(data["index"], data["delta"]["type"]) for name, data in seen if name == "content_block_delta"]
    assert list(dict.fromkeys(deltas)) == [
        (0, "thinking_delta"),
        (0, "signature_delta"),
        (1, "thinking_delta"),
        (1, "signature_delta"),
        (4, "text_delta"),
        (5, "text_delta"),
        (5, "citations_delta"),
        (6, "text_delta"),
        (7, "input_json_delta"),
    ]


async def test_what_the_upstream_says_over_several_lines_comes_in_one(door: Door) -> None:
    """A line of an event's data ends at the first line break, wherever in the JSON it stands."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    cited = {**text("It is."), "citations": [{"type": "char_location", "cited_text": "is"}]}
    called = {**use("toolu_1", "pick", color="red"), "caller": {"type": "direct"}}

    async def pretty(exchange: Exchange) -> None:
        frames = told({"content": [search, cited, called], "stop_reason": "tool_use", "usage": usage()})
        lines = [json.dumps(frame, indent=2).replace("\n", "\ndata: ") for frame in frames]
        body = "".join([f"event: {frame['type']}\ndata: {said}\n\n" for frame, said in zip(frames, lines, strict=True)])
        await exchange.answer(body.encode(), kind="text/event-stream")

    async with (
        Upstream(pretty, pretty) as upstream,
        door.serving(upstream.url, model=CLAUDE) as served,
        asking(door) as claude,
    ):
        seen = events(await post(served, {"messages": [HI], "tools": [PICK], "stream": True}))
        whole = await answer(claude, stream=True, tools=[PICK])

    assert [data["type"] for _, data in seen][-1] == "message_stop"
    assert whole["content"] == [search, cited, called]


async def test_what_the_upstream_ran_is_shown_and_counted(door: Door, stream: bool) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    cited = {**text("It is."), "citations": [{"type": "char_location", "cited_text": "is"}]}
    acts = (claude_says(search, found, text("So: "), cited), claude_says(text("Bye.")))

    async with Upstream(*acts) as upstream, door.serving(upstream.url, model=CLAUDE), asking(door) as claude:
        tools = [{"type": "web_search_20250305", "name": "web_search"}]
        first = await answer(claude, stream=stream, tools=tools)
        await answer(claude, HI, said(*first["content"]), HI, stream=stream, tools=tools)

    assert first["content"] == [search, found, text("So: "), cited]
    assert first["usage"]["server_tool_use"] == {"web_search_requests": 1, "web_fetch_requests": 0}
    assert upstream.requests[1]["messages"][1] == said(search, found, text("So: "), cited)


async def test_a_turn_that_pauses_is_never_shown_as_done(door: Door, stream: bool) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    acts = (
        claude_says(text("One."), search, stop="pause_turn"),
        claude_says({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, text("Two.")),
    )

    async with Upstream(*acts) as upstream, door.serving(upstream.url, model=CLAUDE), asking(door) as claude:
        message = await answer(claude, stream=stream)

    assert [block["type"] for block in message["content"]] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    assert (message["stop_reason"], message["usage"]["output_tokens"]) == ("end_turn", 10)
    assert upstream.requests[1]["messages"][1] == said(text("One."), search)


async def test_our_rounds_keep_their_signatures_behind_the_caller_s_back(door: Door, stream: bool) -> None:
    """The caller sees thoughts and words of every round; the API gets each turn back whole, our calls with it."""
    rounds = (
        (thinking("one", "s1"), use("toolu_1", "lookup", q="a")),
        (thinking("two", "s2"), use("toolu_2", "lookup", q="b"), use("toolu_3", "pick", color="red")),
        (text("Done."),),
    )
    acts = [
        claude_says(*content, stop="tool_use" if content[0]["type"] == "thinking" else "end_turn") for content in rounds
    ]

    async with Upstream(*acts) as upstream, door.serving(upstream.url, lookup, model=CLAUDE), asking(door) as claude:
        first = await answer(claude, stream=stream, tools=[PICK])
        call_id = first["content"][-1]["id"]
        back = heard(result(call_id, "picked"))
        second = await answer(claude, HI, said(*first["content"]), back, stream=stream, tools=[PICK])

    assert first["content"] == [thinking("one", "s1"), thinking("two", "s2"), use(call_id, "pick", color="red")]
    assert second["content"] == [text("Done.")]
    assert upstream.requests[2]["messages"][1:] == [
        said(*rounds[0]),
        heard(result("toolu_1", "found a")),
        said(*rounds[1]),
        heard(result("toolu_2", "found b"), result("toolu_3", "picked")),
    ]


async def test_marks_for_the_cache_go_through(door: Door) -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    system = [{**text("Be kind."), **cached}]
    question = heard({**text("hi"), **cached})
    tools = [{**PICK, **cached}]
    counts = {"input_tokens": 1, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 5}

    acts = (claude_says(text("ok"), usage=counts),)
    async with Upstream(*acts) as upstream, door.serving(upstream.url, model=CLAUDE), asking(door) as claude:
        message = await answer(claude, question, stream=False, system=system, tools=tools)

    sent = upstream.requests[0]
    assert (sent["system"], sent["messages"], sent["tools"]) == (system, [question], tools)
    assert message["usage"] == usage(1, 5, cache_creation_input_tokens=20, cache_read_input_tokens=30)


async def test_an_answer_that_the_caller_has_begun_stays_begun_with_a_mark_for_the_cache(door: Door) -> None:
    begun = said({**text("The sky"), "cache_control": {"type": "ephemeral"}})

    acts = (claude_says(text(" is blue.")),)
    async with Upstream(*acts) as upstream, door.serving(upstream.url, model=CLAUDE), asking(door) as claude:
        message = await answer(claude, heard(text("hi")), begun, stream=False)

    assert upstream.requests[0]["messages"] == [heard(text("hi")), begun]
    assert message["content"] == [text(" is blue.")]


async def test_the_stop_sequence_and_the_container_are_handed_on(door: Door, stream: bool) -> None:
    acts = (
        claude_says(text("One"), stop="stop_sequence", stop_sequence="END"),
        claude_says(use("toolu_1", "pick", color="red"), stop="tool_use", container={"id": "box_1"}),
    )

    async with Upstream(*acts) as upstream, door.serving(upstream.url, model=CLAUDE), asking(door) as claude:
        stopped = await answer(claude, stream=stream, stop_sequences=["END"])
        called = await answer(claude, stream=stream, tools=[PICK])

    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", "END")
    assert called["container"]["id"] == "box_1"


async def test_the_first_arguments_are_here_before_the_last_are_sent(door: Door) -> None:
    def frame(**data: Any) -> Json:
        return data

    block = frame(type="content_block_start", index=0, content_block=use("toolu_1", "pick"))
    pieces = [frame(type="input_json_delta", partial_json=piece) for piece in ('{"color"', ':"red"}')]

    async def paced(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send(
            frame(type="message_start", message={"usage": {"input_tokens": 1, "output_tokens": 1}}),
            block,
            frame(type="content_block_delta", index=0, delta=pieces[0]),
            ...,
            frame(type="content_block_delta", index=0, delta=pieces[1]),
            frame(type="content_block_stop", index=0),
            frame(type="message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 5}),
            frame(type="message_stop"),
        )
        await exchange.end_stream()

    async with (
        Upstream(paced) as upstream,
        door.serving(upstream.url, model=CLAUDE),
        asking(door) as claude,
        claude.messages.stream(
            model="default",
            max_tokens=99,
            messages=[{"role": "user", "content": "hi"}],
            tools=[PICK],  # type: ignore[list-item]
        ) as seen,
    ):
        async for event in seen:
            if event.type == "input_json":
                upstream.shown.set()
        message = await seen.get_final_message()

    assert [block.to_dict() for block in message.content] == [use("toolu_1", "pick", color="red")]


# ---- counting --------------------------------------------------------------------------------------------------------


async def test_the_upstream_is_asked_to_count(door: Door) -> None:
    acts = (answers(b'{"input_tokens": 77}'),)
    async with Upstream(*acts) as upstream, door.serving(upstream.url, model=CLAUDE), asking(door) as claude:
        count = await claude.messages.count_tokens(
            model="default",
            system="Be kind.",
            messages=[{"role": "user", "content": "hi"}],
            tools=[PICK],  # type: ignore[list-item]
        )

    assert count.input_tokens == 77
    assert upstream.requests[0] == {
        "model": "claude-sonnet-4-5",
        "system": "Be kind.",
        "messages": [heard(text("hi"))],
        "tools": [PICK],
    }


@pytest.mark.parametrize("act", [answers(b"not found", 404), answers(b"{}")], ids=["no such address", "no number"])
async def test_an_upstream_that_cannot_count_leaves_an_estimate(door: Door, act: Act) -> None:
    async with Upstream(act) as upstream, door.serving(upstream.url, model=CLAUDE), asking(door) as claude:
        count = await claude.messages.count_tokens(model="default", messages=[{"role": "user", "content": "hi"}])

    assert count.input_tokens == 5


# ---- recorded conversations ------------------------------------------------------------------------------------------


def recorded() -> Iterator[Any]:
    """Answers of the real API that hold a signature, each with the request it answered."""
    for exchange in naive.exchanges(DATA) if DATA.is_dir() else []:
        if naive.is_answer(exchange) and any(block.get("signature") for block in naive.read(exchange).content):
            yield pytest.param(exchange, id=exchange.id.rpartition("/")[2])


@pytest.mark.conformance
@pytest.mark.skipif(not DATA.is_dir(), reason="the recordings are not here")
@pytest.mark.parametrize("exchange", [*recorded()])
async def test_recorded_signatures_survive_the_way_there_and_back(door: Door, exchange: Any) -> None:
    content = [block for block in naive.read(exchange).content if block != text("")]
    kind = "text/event-stream; charset=utf-8" if exchange.sse is not None else "application/json"
    asked = {**exchange.request, "stream": exchange.sse is not None}
    calls = [block["id"] for block in content if block["type"] == "tool_use"]
    back = heard(*[result(call_id, "ok") for call_id in calls], text("go on"))

    async with Upstream(answers(exchange.raw, kind=kind), claude_says(text("Done."))) as upstream:
        url = f"{upstream.url}?anthropic-version=2023-06-01"
        async with door.serving(url, model=f"anthropic:{asked['model']}", max_tool_rounds=0) as served:
            raw = await post(served, {**asked, "model": "default"})
            shown = naive.read(_exchange(raw)).content if exchange.sse is not None else raw.json["content"]
            messages = [*asked["messages"], said(*shown), back]
            again = await post(served, {**asked, "model": "default", "stream": False, "messages": messages})

    assert again.status == 200, again.body
    answered = upstream.requests[1]["messages"][-2]["content"][-len(content) :]
    assert [_known(block) for block in answered] == [_known(block) for block in content]


def _exchange(raw: Any) -> Any:
    class Seen:
        sse = raw.body.decode().replace('{"type":"text","text":""}', '{"type":"text","text":"","citations":[]}')

    return Seen


def _known(block: Json) -> Json:
    """Null and left out are the same, and so are no citations and none."""
    return {name: value for name, value in block.items() if value not in (None, [])}
