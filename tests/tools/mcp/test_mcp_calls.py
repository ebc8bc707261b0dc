"""Tools of a real server, over each transport and in both eras of the protocol: what a model reads, and what people see."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from tests.tools.mcp.everything import PIXEL, make_server
from tests.tools.mcp.serving import Watcher, call, config, http, listening, opened, program, until
from tests.tools.mcp.websocket_server import websocket_app

from ronda.core.parts import File, Image
from ronda.drive import ToolOutput
from ronda.errors import ToolFailed
from ronda.tools.mcp.config import Sse, WebSocket
from ronda.tools.mcp.servers import McpServers

KINDS = ["stdio-legacy", "stdio-modern", "http-legacy", "http-modern", "sse", "websocket"]


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(params=KINDS, scope="module", loop_scope="module")
async def servers(request: pytest.FixtureRequest) -> AsyncIterator[McpServers]:
    kind, _, era = request.param.partition("-")
    era = era or "legacy"
    async with AsyncExitStack() as stack:
        if kind == "stdio":
            server = program(era=era)
        elif kind == "http":
            url = await stack.enter_async_context(listening(make_server().streamable_http_app()))
            server = http(url, era=era)
        elif kind == "sse":
            url = await stack.enter_async_context(listening(make_server().sse_app()))
            server = config(Sse(f"{url}/sse"), era=era)
        else:
            url = await stack.enter_async_context(listening(websocket_app(make_server())))
            server = config(WebSocket(f"{url.replace('http', 'ws', 1)}/ws"), era=era)
        yield await stack.enter_async_context(opened(server))


async def test_its_tools_are_offered_under_its_name(servers: McpServers) -> None:
    [status] = servers.status()
    assert (status.state, status.last_error) == ("connected", None)
    names = [tool.spec.name for tool in servers.tools()]
    assert names == sorted(names)
    assert status.tools == len(names)
    add = next(tool for tool in servers.tools() if tool.spec.name == "every_add")
    assert (add.spec.kind, add.spec.approval, add.spec.description) == ("mcp", "auto", "Add two numbers.")
    assert b'"required"' in bytes(add.spec.parameters)


async def test_text_is_what_the_model_reads(servers: McpServers) -> None:
    output = await call(servers, "every_add", {"a": 2, "b": 3})
    assert output == ToolOutput("5", details={"mcp": {"server": "every", "tool": "add"}})


async def test_an_error_of_the_tool_is_a_failed_result(servers: McpServers) -> None:
    output = await call(servers, "every_fail")
    assert output.failed
    assert "no such luck" in output.content or "Error executing tool fail" in output.content


async def test_pictures_and_resources_go_along(servers: McpServers) -> None:
    picture = await call(servers, "every_picture")
    assert picture.attachments == (Image(f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"),)
    resources = await call(servers, "every_resources")
    assert resources.content == "one\n[file: file:///a/two.bin]\n[resource three: memo://three]"
    assert resources.attachments == (File("data:application/x-two;base64,AgI=", "two.bin"),)


async def test_structured_content_is_for_programs(servers: McpServers) -> None:
    output = await call(servers, "every_structured", {"a": 1, "b": 1})
    assert output.details == {"mcp": {"server": "every", "tool": "structured", "structured_content": {"total": 2}}}
    assert '"total"' in output.content


async def test_progress_is_shown_in_order(servers: McpServers) -> None:
    watcher = Watcher()
    output = await call(servers, "every_steps", {"count": 3}, watcher)
    assert output.content == "done"
    assert watcher.shown == ["step 1\n", "step 2\n", "step 3\n"]


async def test_calls_run_side_by_side(servers: McpServers) -> None:
    outputs = await asyncio.gather(*[call(servers, "every_add", {"a": one, "b": 1}) for one in range(20)])
    assert [output.content for output in outputs] == [str(one + 1) for one in range(20)]


async def test_a_call_that_is_cancelled_leaves_the_connection_alone(servers: McpServers) -> None:
    hanging = asyncio.create_task(call(servers, "every_hang"))
    await call(servers, "every_add", {"a": 1, "b": 1})
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert (await call(servers, "every_add", {"a": 1, "b": 2})).content == "3"
    assert servers.status()[0].state == "connected"


async def test_a_question_of_the_server_reaches_a_person(servers: McpServers) -> None:
    watcher = Watcher({"color": "green"}, None)
    assert (await call(servers, "every_ask", watcher=watcher)).content == "green"
    assert (await call(servers, "every_ask", watcher=watcher)).content == "decline"
    [(message, schema), _] = watcher.questions
    assert message == "every: Which color?"
    assert schema is not None
    assert schema["properties"]["color"]["type"] == "string"


async def test_a_question_that_nobody_can_answer_is_cancelled(servers: McpServers) -> None:
    assert (await call(servers, "every_ask")).content == "cancel"


async def test_new_tools_are_noticed(servers: McpServers) -> None:
    assert "every_extra" not in [tool.spec.name for tool in servers.tools()]
    await call(servers, "every_grow")
    await until(lambda: "every_extra" in [tool.spec.name for tool in servers.tools()])
    assert "extra" in (await call(servers, "every_extra")).content


async def test_a_server_may_not_use_our_model(servers: McpServers) -> None:
    with pytest.raises(ToolFailed, match=r"(?i)sampling"):
        await call(servers, "every_sample")
