"""Calls sent to an address of the operator's: what is sent, how the answer is read, and what happens when there is none."""

from __future__ import annotations

import json
import socket
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door, Said, declared
from tests.interaction.upstreams import Act, Exchange, Upstream, answers

from ronda import tool
from ronda.core.parts import ToolResult, ToolTurn
from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.tools.dispatch import MAX_RESULT, DispatchTool

SEARCH = declared("search", query="string")


def script() -> ScriptedModel:
    return ScriptedModel(calls(Call("search", {"query": "é"}, "s1")), says("done"))


async def heard(door: Door, stream: bool, act: Act, **config: Any) -> ToolResult:
    """What the model reads of a dispatched call; the run always goes on to its answer."""
    model = script()
    async with Upstream(act) as elsewhere, door.serving(model, tool_dispatch_url=elsewhere.url, **config) as served:
        said = await served.ask(stream=stream, tools=[SEARCH])
    assert (said.content, said.finish_reason) == ("done", "stop")
    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    [result] = turn.results
    assert [record["result_content"] for record in said.records] == [result.content]
    return result


ANSWERS = {
    "a JSON string is its value": (b'"plain \\"text\\""', 'plain "text"'),
    "content": (b'{"content": "from content"}', "from content"),
    "content beside others": (b'{"content": "this", "more": 1}', "this"),
    "content that is a number": (b'{"content": 1}', "1"),
    "content that is an object": (b'{"content": {"a": [1, null]}}', '{"a":[1,null]}'),
    "content that is null": (b'{"content": null}', "null"),
    "another object": (b'{"result": 5}', '{"result": 5}'),
    "a list": (b"[1, 2]", "[1, 2]"),
    "a number": (b"42", "42"),
    "plain text": (b"just text", "just text"),
    "text with quotes": (b'say "hi"', 'say "hi"'),
    "half a JSON": (b'{"content": ', '{"content": '),
    "nothing": (b"", ""),
    "unicode": ("naïve ☃".encode(), "naïve ☃"),
}


@pytest.mark.parametrize(("body", "content"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_an_answer_is_read_as_the_contract_says(door: Door, stream: bool, body: bytes, content: str) -> None:
    assert await heard(door, stream, answers(body)) == ToolResult("s1", content)


async def test_bytes_that_are_no_text_do_not_end_the_run(door: Door, stream: bool) -> None:
    assert await heard(door, stream, answers(b"\xff\xfe")) == ToolResult("s1", "\ufffd\ufffd")


async def test_any_2xx_is_an_answer(door: Door, stream: bool) -> None:
    assert await heard(door, stream, answers(b"made", 201)) == ToolResult("s1", "made")


@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_another_status_is_a_failed_result(door: Door, stream: bool, status: int) -> None:
    model = script()
    async with (
        Upstream(answers(b"secret details", status)) as elsewhere,
        door.serving(model, tool_dispatch_url=elsewhere.url) as served,
    ):
        said = await served.ask(stream=stream, tools=[SEARCH])

    text = f"Error: Tool 'search' failed: HTTP {status} from tool callback URL: {elsewhere.url}"
    assert model.heard[1][-1] == ToolTurn((ToolResult("s1", text, failed=True),))
    assert [(record["result_content"], record["failed"]) for record in said.records] == [(text, True)]
    assert len(elsewhere.bodies) == 1


async def test_a_redirect_is_not_followed(door: Door, stream: bool) -> None:
    async with Upstream(answers(b"stolen")) as other:
        result = await heard(door, stream, answers(b"", 307, location=other.url))

    assert result.failed
    assert "HTTP 307" in result.content
    assert other.bodies == []


async def test_an_answer_that_takes_too_long_is_a_failed_result(door: Door, stream: bool) -> None:
    async def waits(exchange: Exchange) -> None:
        await exchange.until_gone()

    result = await heard(door, stream, waits, tool_dispatch_timeout=0.05)

    assert result == ToolResult("s1", "Error: Tool 'search' failed: timed out after 0.05 seconds", failed=True)


async def test_an_answer_that_is_too_large_is_a_failed_result(door: Door) -> None:
    result = await heard(door, False, answers(b"x" * (MAX_RESULT + 1)))

    assert result.failed
    assert str(MAX_RESULT) in result.content


async def test_an_answer_that_breaks_off_is_a_failed_result(door: Door, stream: bool) -> None:
    async def cuts(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")

    result = await heard(door, stream, cuts)

    assert result.failed
    assert result.content.startswith("Error: Tool 'search' failed: ")


async def test_nobody_there_is_a_failed_result(door: Door, stream: bool) -> None:
    model = script()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/tools"
        async with door.serving(model, tool_dispatch_url=url) as served:
            said = await served.ask(stream=stream, tools=[SEARCH])

    assert said.content == "done"
    [record] = said.records
    assert record["failed"] is True
    assert url in record["result_content"]


async def test_what_is_sent(door: Door, stream: bool) -> None:
    async with Upstream(answers(b"ok")) as elsewhere, door.serving(script(), tool_dispatch_url=elsewhere.url) as served:
        await served.ask(stream=stream, tools=[SEARCH])

    assert elsewhere.requests == [{"name": "search", "arguments": {"query": "é"}}]
    [head] = elsewhere.heads
    assert head["content-type"] == "application/json"
    assert head["idempotency-key"]
    assert "authorization" not in head


async def test_every_call_has_an_idempotency_key_of_its_own(door: Door, stream: bool) -> None:
    twice = calls(Call("search", {"query": "a"}, "s1"), Call("search", {"query": "a"}, "s2"))
    model = ScriptedModel(twice, calls(Call("search", {"query": "a"}, "s1")), says("done"))
    ok = answers(b"ok")

    async with Upstream(ok, ok, ok) as elsewhere, door.serving(model, tool_dispatch_url=elsewhere.url) as served:
        await served.ask(stream=stream, tools=[SEARCH])

    assert len({head["idempotency-key"] for head in elsewhere.heads}) == 3


async def test_the_same_call_tried_again_has_the_same_idempotency_key() -> None:
    context = ToolContext("run_1", "sess", 0, "s1")

    async with Upstream(answers(b"ok"), answers(b"ok")) as elsewhere:
        sent = DispatchTool(ToolSpec("search"), elsewhere.url)
        await sent.run({}, context)
        await sent.run({}, context)

    first, second = (head["idempotency-key"] for head in elsewhere.heads)
    assert first == second


async def test_secrets_of_the_address_are_told_nobody(door: Door, stream: bool) -> None:
    model = script()
    async with Upstream(answers(b"", 500)) as elsewhere:
        url = elsewhere.url.replace("http://", "http://me:hunter2@") + "?token=t0p"
        async with door.serving(model, tool_dispatch_url=url) as served:
            said = await served.ask(stream=stream, tools=[SEARCH])

    shown = json.dumps(said.records) + repr(model.heard)
    assert "HTTP 500" in shown
    assert "hunter2" not in shown
    assert "t0p" not in shown


async def test_arguments_that_do_not_fit_are_not_sent(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("search", {"query": 5}, "s1")), says("done"))

    async with Upstream(answers(b"ok")) as elsewhere, door.serving(model, tool_dispatch_url=elsewhere.url) as served:
        said = await served.ask(stream=stream, tools=[SEARCH])

    assert elsewhere.bodies == []
    assert said.records[0]["failed"] is True


# ---- who runs a call -------------------------------------------------------------------------------------------------


async def test_the_address_in_a_request_is_refused_by_name(door: Door, stream: bool) -> None:
    model = script()
    async with door.serving(model) as served:
        with pytest.raises(openai.BadRequestError, match="tool_dispatch_url") as refused:
            await served.ask(stream=stream, tools=[SEARCH], tool_dispatch_url="http://127.0.0.1:1/")

    assert refused.value.param == "tool_dispatch_url"
    assert model.heard == []


async def test_a_callback_comes_before_the_address(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("search", {"query": "a"}, "s1"), Call("other", {}, "s2")), says("done"))

    async def search(query: str) -> str:
        return f"here: {query}"

    async with (
        Upstream(answers(b"there")) as elsewhere,
        door.serving(model, callbacks={"search": search}, tool_dispatch_url=elsewhere.url) as served,
    ):
        await served.ask(stream=stream, tools=[SEARCH, declared("other")])

    assert model.heard[1][-1] == ToolTurn((ToolResult("s1", "here: a"), ToolResult("s2", "there")))
    assert elsewhere.requests == [{"name": "other", "arguments": {}}]


async def test_a_callback_takes_its_definition_from_the_request(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("search", {"query": "a"}, "s1")), says("done"))

    def search(name: str, arguments: dict[str, Any]) -> str:
        return f"{name} {arguments}"

    async with door.serving(model, callbacks={"search": search}) as served:
        said = await served.ask(stream=stream, tools=[SEARCH])

    assert said.content == "done"
    [spec] = model.requests[0].tools
    assert (spec.name, spec.description, json.loads(bytes(spec.parameters))) == (
        "search",
        "searchs",
        SEARCH["function"]["parameters"],
    )
    assert model.heard[1][-1] == ToolTurn((ToolResult("s1", "search {'query': 'a'}"),))


async def test_a_callback_nobody_declares_is_not_offered(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("hi"))

    async with door.serving(model, callbacks={"search": lambda query: query}) as served:
        said = await served.ask(stream=stream)

    assert said == Said("hi", finish_reason="stop", usage=(10, 5))
    assert model.requests[0].tools == ()


async def test_a_registered_tool_makes_an_equal_name_in_a_request_a_400(door: Door, stream: bool) -> None:
    @tool
    async def search(query: str) -> str:
        """Search."""
        return query

    async with door.serving(script(), search) as served:
        with pytest.raises(openai.BadRequestError) as refused:
            await served.ask(stream=stream, tools=[SEARCH])

    assert "Tool 'search' conflicts with a registered internal tool. Internal tool names cannot be overridden." in str(
        refused.value
    )


async def test_a_registered_tool_comes_before_the_address(door: Door, stream: bool) -> None:
    @tool
    async def mine(q: str) -> str:
        """Mine."""
        return f"here: {q}"

    model = ScriptedModel(calls(Call("mine", {"q": "a"}, "m1"), Call("search", {"query": "b"}, "s1")), says("done"))

    async with (
        Upstream(answers(b"there")) as elsewhere,
        door.serving(model, mine, tool_dispatch_url=elsewhere.url) as served,
    ):
        await served.ask(stream=stream, tools=[SEARCH])

    assert model.heard[1][-1] == ToolTurn((ToolResult("m1", "here: a"), ToolResult("s1", "there")))


async def test_cap_zero_leaves_declared_tools_to_the_caller(door: Door, stream: bool) -> None:
    async with Upstream() as elsewhere, door.serving(script(), tool_dispatch_url=elsewhere.url) as served:
        said = await served.ask(stream=stream, tools=[SEARCH], max_tool_rounds=0)

    assert said.calls == [("s1", "search", '{"query":"é"}')]
    assert elsewhere.bodies == []
