"""MCP servers that a request names: who may be named, what becomes of their tools, and that nothing secret is kept."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anthropic
import openai
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.interaction.doors import Door, Served
from tests.timeouts import soon
from tests.tools.mcp.everything import make_server
from tests.tools.mcp.serving import listening, program

from ronda.providers.script import Call
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.loop_pools import close_shared
from ronda.wire.codec.json import encode

ADD = calls(Call("far_add", {"a": 1, "b": 2}))


class Noting:
    """An app, and the headers that it was sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.headers: list[dict[bytes, bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.headers.append(dict(scope["headers"]))
        await self._app(scope, receive, send)


@asynccontextmanager
async def far() -> AsyncIterator[tuple[str, Noting]]:
    app = Noting(make_server().streamable_http_app())
    async with listening(app) as url:
        try:
            yield f"{url}/mcp", app
        finally:
            await close_shared()


def allowing(url: str) -> dict[str, Any]:
    return {"mcp_allow_url": (url,), "fetch_allow": ("127.0.0.1",)}


def named(url: str, **more: Any) -> Any:
    return {"type": "mcp", "server_label": "far", "server_url": url, "require_approval": "never", **more}


async def respond(served: Served, stream: bool, **request: Any) -> Any:
    """Through the official SDK; of a stream the response that its events add up to."""
    async with soon():
        if not stream:
            return await served.client().responses.create(model="default", input="go", **request)
        async with served.client().responses.stream(model="default", input="go", **request) as events:
            async for _ in events:
                pass
            return await events.get_final_response()


async def test_a_named_server_is_listed_and_called(door: Door, stream: bool) -> None:
    async with far() as (url, _), door.serving(ScriptedModel(ADD, says("3")), **allowing(url)) as served:
        response = await respond(served, stream, tools=[named(url, allowed_tools=["add", "fail"])])
    listing, call, message = response.output
    assert listing.type == "mcp_list_tools"
    assert [tool.name for tool in listing.tools] == ["add", "fail"]
    assert call.type == "mcp_call"
    assert (call.server_label, call.name, json.loads(call.arguments)) == ("far", "add", {"a": 1, "b": 2})
    assert (call.output, call.error, call.status) == ("3", None, "completed")
    assert message.type == "message"
    assert response.output_text == "3"


async def test_a_listing_leaves_out_what_it_has_nothing_to_say_of(door: Door) -> None:
    async with far() as (url, _), door.serving(ScriptedModel(says("3")), **allowing(url)) as served:
        body = {"model": "default", "input": "go", "tools": [named(url, allowed_tools=["add"])]}
        async with soon(), served.http.post(f"{served.url}/responses", json=body) as answer:
            listing = (await answer.json())["output"][0]
    assert sorted(listing) == ["id", "server_label", "tools", "type"]
    assert {"annotations", "error"}.isdisjoint({*listing, *listing["tools"][0]})


async def test_a_call_that_fails_is_an_item_that_says_so(door: Door, stream: bool) -> None:
    async with far() as (url, _), door.serving(ScriptedModel(calls("far_fail"), says("no")), **allowing(url)) as served:
        response = await respond(served, stream, tools=[named(url)])
    call = response.output[1]
    assert call.type == "mcp_call"
    assert (call.status, call.output) == ("failed", None)
    assert call.error is not None
    assert "Error executing tool fail" in str(call.error)


async def test_a_stream_tells_of_the_listing_and_of_the_call(door: Door) -> None:
    async with far() as (url, _), door.serving(ScriptedModel(ADD, says("3")), **allowing(url)) as served:
        tools: Any = [named(url, allowed_tools=["add"])]
        async with soon():
            events = await served.client().responses.create(model="default", input="go", tools=tools, stream=True)
            types = [event.type async for event in events]
    wanted = [
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
    ]
    assert [kind for kind in types if "mcp" in kind or "output_item" in kind][: len(wanted)] == wanted


async def test_secrets_go_to_the_server_and_are_kept_nowhere(door: Door) -> None:
    tools = named("", headers={"X-Tenant": "tenant-secret"}, authorization="token-secret")
    async with far() as (url, app), door.serving(ScriptedModel(ADD, says("3")), **allowing(f"{url}*")) as served:
        response = await respond(served, False, tools=[{**tools, "server_url": f"{url}?key=url-secret"}])
        [events] = await served.events
        kept = b"".join(encode(event) for event in events)
        answer = response.to_json()
        async with served.http.get(f"{door.url}/responses/{response.id}") as stored:
            again = await stored.text()
    assert app.headers[0][b"authorization"] == b"Bearer token-secret"
    assert app.headers[0][b"x-tenant"] == b"tenant-secret"
    for text in (kept.decode(), answer, again):
        assert "secret" not in text
    [echo] = response.tools
    assert echo.type == "mcp"
    assert (echo.server_label, echo.server_url) == ("far", url)


async def test_a_named_server_asks_unless_the_request_says_otherwise(door: Door) -> None:
    cases: list[tuple[Any, dict[str, str]]] = [
        (None, {"far_add": "ask", "far_count": "ask"}),
        ("always", {"far_add": "ask", "far_count": "ask"}),
        ("never", {"far_add": "auto", "far_count": "auto"}),
        ({"never": {"tool_names": ["count"]}}, {"far_add": "ask", "far_count": "auto"}),
        ({"never": {"read_only": True}}, {"far_add": "auto", "far_count": "ask"}),
        ({"always": {"tool_names": ["add"]}, "never": {"read_only": True}}, {"far_add": "ask", "far_count": "ask"}),
    ]
    async with far() as (url, _):
        for require, approvals in cases:
            model = ScriptedModel(says("hi"))
            async with door.serving(model, **allowing(url)) as served:
                await respond(
                    served, False, tools=[named(url, require_approval=require, allowed_tools=["add", "count"])]
                )
            assert {spec.name: spec.approval for spec in model.requests[0].tools} == approvals


@pytest.mark.parametrize("approve", [True, False], ids=["approved", "denied"])
async def test_a_call_of_a_named_server_is_approved_with_the_next_response(
    door: Door, stream: bool, approve: bool
) -> None:
    """Also in a stream at once, as the API has it, although this server's streams may wait."""
    async with far() as (url, _), door.serving(ScriptedModel(ADD, says("3")), **allowing(url)) as served:
        tools = [named(url, require_approval="always", allowed_tools=["add"])]
        first = await respond(served, stream, tools=tools)
        request = first.output[-1]
        words: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}
        async with soon():
            second = await served.client().responses.create(
                model="default", previous_response_id=first.id, input=[words], tools=cast("Any", tools)
            )
    assert (request.type, request.server_label, request.name) == ("mcp_approval_request", "far", "add")
    call = second.output[0]
    assert call.type == "mcp_call"
    assert (call.approval_request_id, call.server_label, call.name) == (request.id, "far", "add")
    assert (call.status, call.output) == (("completed", "3") if approve else ("failed", None))
    assert second.output_text == "3"


@pytest.mark.parametrize(
    ("settings", "url", "message"),
    [
        ({}, "https://example.com/mcp", "this server has no MCP servers that a request may name"),
        ({"mcp_allow_url": ("https://a.example",)}, "https://b.example/mcp", "--mcp-allow-url"),
        ({"mcp_allow_url": ("https://a.example",)}, "http://a.example/mcp", "--mcp-allow-url"),
        ({"mcp_allow_url": ("https://a.example",)}, "https://a.example.evil.org/mcp", "--mcp-allow-url"),
        ({"mcp_allow_url": ("https://a.example",)}, "https://a.example@evil.org/mcp", "must be http or https"),
        ({"mcp_allow_url": ("https://a.example/mcp",)}, "https://a.example/mcp/../admin", "--mcp-allow-url"),
        ({"mcp_allow_url": ("https://a.example",)}, "file:///etc/passwd", "must be http or https"),
    ],
)
async def test_other_addresses_are_refused(door: Door, settings: Any, url: str, message: str) -> None:
    model = ScriptedModel(says("hi"))
    async with door.serving(model, **settings) as served:
        with pytest.raises(openai.BadRequestError, match=message):
            await respond(served, False, tools=[named(url)])
    assert model.requests == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/mcp", "http://[::1]:1/mcp", "http://169.254.169.254/mcp"])
async def test_a_private_address_is_not_called_although_its_url_is_allowed(door: Door, address: str) -> None:
    async with door.serving(ScriptedModel(says("hi")), mcp_allow_url=("http://*",)) as served:
        response = await respond(served, False, tools=[named(address)])
        await close_shared()
    listing = response.output[0]
    assert listing.type == "mcp_list_tools"
    assert listing.tools == []
    assert "has not allowed" in str(listing.error)


async def test_the_operators_server_is_named_by_its_label(door: Door) -> None:
    model = ScriptedModel(calls(Call("every_add", {"a": 1, "b": 2})), says("3"))
    async with door.serving(model, mcp=[program()]) as served:
        tools: Any = [{"type": "mcp", "server_label": "every", "allowed_tools": ["add"]}]
        response = await respond(served, False, tools=tools)
        with pytest.raises(
            openai.BadRequestError, match="names the MCP server 'nobody', which this server does not have"
        ):
            await respond(served, False, tools=[{"type": "mcp", "server_label": "nobody"}])
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message"]
    assert [spec.name for spec in model.requests[0].tools] == ["every_add"]


async def test_an_address_that_nobody_allowed_is_not_called_beside_the_operators_server(door: Door) -> None:
    async with (
        far() as (url, app),
        door.serving(ScriptedModel(), mcp=[program()], fetch_allow=("127.0.0.1",)) as served,
    ):
        with pytest.raises(openai.BadRequestError, match="--mcp-allow-url switches it on"):
            await respond(served, False, tools=[{"type": "mcp", "server_label": "every"}, named(url)])
    assert app.headers == []


async def test_a_choice_names_a_server_and_its_tool(door: Door) -> None:
    async with far() as (url, _):
        for choice in ({"type": "mcp", "server_label": "far"}, {"type": "mcp", "server_label": "far", "name": "add"}):
            model = ScriptedModel(ADD, says("3"))
            async with door.serving(model, **allowing(url)) as served:
                await respond(served, False, tools=[named(url)], tool_choice=choice)
            names = model.requests[0].choice.names
            assert "far_add" in names
            assert (len(names) == 1) == ("name" in choice)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"server_label": ""}, "server_label' is missing"),
    ({"headers": {"Host": "elsewhere"}}, "the connection has its own"),
    ({"headers": {"X-A": "a\r\nX-B: b"}}, "has a header that cannot be sent"),
    ({"tunnel_id": "t"}, "this server has no tunnels"),
    ({"require_approval": "sometimes"}, "require_approval"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
async def test_what_makes_no_sense_is_refused_with_its_place(door: Door, change: Any, message: str) -> None:
    async with door.serving(ScriptedModel(), mcp_allow_url=("https://*",)) as served:
        with pytest.raises(openai.BadRequestError, match=message):
            await respond(served, False, tools=[{**named("https://a.example/mcp"), **change}])


# ---- Messages ---------------------------------------------------------------------------------------------------------


async def message(served: Served, stream: bool, **request: Any) -> Any:
    client = anthropic.AsyncAnthropic(base_url=served.url.removesuffix("/v1"), api_key="test", max_retries=0)
    fields: Any = {"model": "default", "max_tokens": 99, "messages": [{"role": "user", "content": "go"}], **request}
    async with soon(), client:
        if not stream:
            return await client.beta.messages.create(**fields)
        async with client.beta.messages.stream(**fields) as events:
            return await events.get_final_message()


async def test_a_message_has_the_calls_of_named_servers_as_blocks(door: Door, stream: bool) -> None:
    model = ScriptedModel(ADD, calls("far_fail"), says("3"))
    async with far() as (url, app), door.serving(model, **allowing(url)) as served:
        answer = await message(
            served,
            stream,
            mcp_servers=[{"type": "url", "url": url, "name": "far", "authorization_token": "token-secret"}],
            tools=[{"type": "mcp_toolset", "mcp_server_name": "far", "configs": {"count": {"enabled": False}}}],
        )
        [events] = await served.events
    use, result, second, failed, text = answer.content
    assert (use.type, use.name, use.server_name, use.input) == ("mcp_tool_use", "add", "far", {"a": 1, "b": 2})
    assert (result.type, result.tool_use_id, result.is_error) == ("mcp_tool_result", use.id, False)
    assert result.content[0].text == "3"
    assert (failed.tool_use_id, failed.is_error) == (second.id, True)
    assert text.text == "3"
    assert answer.stop_reason == "end_turn"
    assert "far_count" not in [spec.name for spec in model.requests[0].tools]
    assert app.headers[0][b"authorization"] == b"Bearer token-secret"
    assert b"secret" not in b"".join(encode(event) for event in events)


TOOLSETS: list[tuple[dict[str, Any], list[str]]] = [
    ({"default_config": {"enabled": False}, "configs": {"add": {"enabled": True}}}, ["far_add"]),
    ({"tools": ["add", "count"]}, ["far_add", "far_count"]),
]


@pytest.mark.parametrize(("toolset", "names"), TOOLSETS)
async def test_a_toolset_says_which_tools_are_wanted(door: Door, toolset: Any, names: list[str]) -> None:
    model = ScriptedModel(says("hi"))
    async with far() as (url, _), door.serving(model, **allowing(url)) as served:
        await message(
            served,
            False,
            mcp_servers=[{"type": "url", "url": url, "name": "far"}],
            tools=[{"type": "mcp_toolset", "mcp_server_name": "far", **toolset}],
        )
    assert [spec.name for spec in model.requests[0].tools] == names


async def test_the_older_form_of_messages_names_allowed_tools_beside_the_server(door: Door) -> None:
    model = ScriptedModel(says("hi"))
    async with far() as (url, _), door.serving(model, **allowing(url)) as served:
        server = {"type": "url", "url": url, "name": "far", "tool_configuration": {"allowed_tools": ["add"]}}
        await message(served, False, mcp_servers=[server])
    assert [spec.name for spec in model.requests[0].tools] == ["far_add"]


async def test_a_toolset_may_be_of_the_operators_server(door: Door) -> None:
    model = ScriptedModel(calls(Call("every_add", {"a": 1, "b": 2})), says("3"))
    async with door.serving(model, mcp=[program()]) as served:
        answer = await message(
            served, False, tools=[{"type": "mcp_toolset", "mcp_server_name": "every", "tools": ["add"]}]
        )
    assert [block.type for block in answer.content] == ["mcp_tool_use", "mcp_tool_result", "text"]


# ---- Mistral ----------------------------------------------------------------------------------------------------------


async def test_a_connector_of_mistral_is_the_operators_server(door: Door) -> None:
    model = ScriptedModel(calls(Call("every_add", {"a": 1, "b": 2})), says("3"))
    connector = {"type": "connector", "connector_id": "every", "tool_configuration": {"include": ["add", "count"]}}
    body = {"model": "default", "inputs": "go", "tools": [connector]}
    async with soon(), door.serving(model, mcp=[program()]):
        async with door.http.post(f"{door.url}/conversations", json=body) as answer:
            outputs = (await answer.json())["outputs"]
        async with door.http.post(
            f"{door.url}/conversations", json={**body, "tools": [{"type": "connector", "connector_id": "nobody"}]}
        ) as answer:
            refused = await answer.text()
    assert [(entry["type"], entry.get("name")) for entry in outputs] == [
        ("tool.execution", "every_add"),
        ("message.output", None),
    ]
    assert outputs[0]["info"] == {"result": "3"}
    assert [spec.name for spec in model.requests[0].tools] == ["every_add", "every_count"]
    assert "names the MCP server 'nobody', which this server does not have; there is every" in refused
