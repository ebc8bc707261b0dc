"""Servers that crash, hang, answer garbage or flood: a run continues with a clear result, and other servers are left alone."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.tools.mcp.everything import make_server
from tests.tools.mcp.serving import SECONDS, Watcher, call, config, http, listening, opened, program, until
from tests.tools.mcp.websocket_server import websocket_app

from ronda.drive import ToolContext
from ronda.drive.outgoing import OUTGOING, Outgoing
from ronda.errors import BadConfig, ToolFailed
from ronda.sandbox.processes import has_ended
from ronda.tools.mcp.call import OpenCall
from ronda.tools.mcp.config import Approvals, Http, McpServer, Process, Source, Sse, WebSocket
from ronda.tools.mcp.servers import McpServers

TINY = str(Path(__file__).with_name("tiny.py"))
NOBODY = "127.0.0.1:1"  # a port that only the system's own may open


def tiny(how: str = "", **changes: object) -> McpServer:
    return config(Process(sys.executable, (TINY, how)), "tiny", **{"era": "legacy", **changes})


def pid_of(text: str) -> int:
    return int(text)


async def test_one_that_fails_leaves_the_others_alone() -> None:
    broken = [
        config(Process("/no/such/program"), "none"),
        config(Http(f"http://{NOBODY}/mcp"), "http"),
        config(Sse(f"http://{NOBODY}/sse"), "sse"),
        config(WebSocket(f"ws://{NOBODY}/ws"), "socket"),
        config(Http("http://203.0.113.1/never"), "off", enabled=False),
        tiny("missing"),
    ]
    async with opened(*broken, program()) as servers:
        status = {one.name: (one.state, one.last_error) for one in servers.status()}
        assert status["none"] == (
            "failed",
            "the program '/no/such/program' cannot be started: No such file or directory",
        )
        assert status["http"] == ("failed", "it cannot be reached: All connection attempts failed")
        assert status["sse"][0] == "failed"
        assert status["socket"] == ("failed", f"cannot reach {NOBODY}: Connection refused")
        assert status["off"] == ("disabled", None)
        assert status["tiny"][0] == "failed"
        assert "its last words were: the key is missing" in str(status["tiny"][1])
        assert status["every"] == ("connected", None)
        assert (await call(servers, "every_add", {"a": 1, "b": 1})).content == "2"


async def test_a_crash_is_told_and_the_call_is_not_repeated() -> None:
    async with opened(program()) as servers:
        with pytest.raises(ToolFailed) as failure:
            await call(servers, "every_crash")
        assert str(failure.value) == (
            "the connection to the MCP server 'every' was lost while the call ran: it is not known whether it was carried out"
            "; its last words were: it hurts"
        )
        assert (await call(servers, "every_count", {"name": "a"})).content == "1"  # of a new process
        assert servers.status()[0].state == "connected"


async def test_a_server_that_dies_unasked_is_started_anew() -> None:
    async with opened(tiny()) as servers:
        first = pid_of((await call(servers, "tiny_pid")).content)
        names = [tool.spec.name for tool in servers.tools()]
        os.kill(first, signal.SIGKILL)
        await until(lambda: has_ended(first))
        second = pid_of((await call(servers, "tiny_pid")).content)
        assert second != first
        assert [tool.spec.name for tool in servers.tools()] == names


async def test_one_that_failed_is_tried_again_at_once_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ronda.tools.mcp.connection.FIRST_PAUSE", 3 * SECONDS)
    command = tmp_path / "server"
    off = config(Process(str(command)), "off", enabled=False)
    async with opened(config(Process(str(command), (TINY,)), "late", era="legacy"), off) as servers:
        late, disabled = servers.connection("late"), servers.connection("off")
        assert late is not None
        assert disabled is not None
        assert (late.state, disabled.state, disabled.retry()) == ("failed", "disabled", False)
        command.symlink_to(sys.executable)
        assert late.retry()
        await until(lambda: late.state == "connected")
        assert not late.retry()


async def test_many_calls_wait_for_one_attempt() -> None:
    async with opened(tiny(max_calls=50)) as servers:
        with pytest.raises(ToolFailed):
            await call(servers, "tiny_die")
        outputs = await asyncio.gather(*[call(servers, "tiny_pid") for _ in range(30)])
        assert len({output.content for output in outputs}) == 1


# The SDK's server over SSE leaves its streams to the collector where it is cut off.
@pytest.mark.filterwarnings("ignore:Exception ignored .*<function MemoryObject")
@pytest.mark.parametrize("kind", ["http-legacy", "http-modern", "sse", "websocket"])
async def test_the_last_known_tools_stay_while_a_server_is_away(kind: str) -> None:
    transport, _, era = kind.partition("-")

    def app() -> ASGIApp:
        server = make_server()
        if transport == "sse":
            return server.sse_app()
        return server.streamable_http_app() if transport == "http" else websocket_app(server)

    async with listening(app()) as url:
        port = int(url.rpartition(":")[2])
        sources: dict[str, Source] = {
            "http": Http(f"{url}/mcp"),
            "sse": Sse(f"{url}/sse"),
            "websocket": WebSocket(f"ws{url[4:]}/ws"),
        }
        source = sources[transport]
        servers = McpServers([config(source, era=era or "legacy")])
        await servers.ready()
        names = [tool.spec.name for tool in servers.tools()]
    try:
        if transport != "http":  # whose connections are made for each call
            await until(lambda: servers.status()[0].state == "degraded")
        with pytest.raises(ToolFailed, match="the MCP server 'every' cannot be used: "):
            await call(servers, "every_add", {"a": 1, "b": 1})
        [status] = servers.status()
        assert (status.state, status.tools) == ("degraded", len(names))
        assert status.last_error is not None
        assert [tool.spec.name for tool in servers.tools()] == names
        async with listening(app(), port):
            assert (await call(servers, "every_add", {"a": 1, "b": 1})).content == "2"
            assert servers.status()[0].state == "connected"
            await servers.close()
    finally:
        await servers.close()


class Counted:
    """An app whose requests are counted, and refused with a status while there is one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.bodies: list[bytes] = []
        self.headers: list[dict[bytes, bytes]] = []
        self.status: int | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        message = await receive()
        if message["type"] != "http.request":  # its client is gone
            return
        self.bodies.append(message["body"])
        self.headers.append(dict(scope["headers"]))
        if self.status is not None:
            await send({"type": "http.response.start", "status": self.status, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        parts = [message]

        async def again() -> object:
            return parts.pop() if parts else await receive()

        await self.app(scope, again, send)  # type: ignore[arg-type]  # the message is the one that came

    def asked(self, method: str) -> int:
        return sum(f'"method":"{method}"'.encode() in body for body in self.bodies)


async def test_a_lost_session_is_opened_anew_and_the_call_repeated_once() -> None:
    first = make_server()
    async with listening(Counted(first.streamable_http_app())) as url:
        port = int(url.rpartition(":")[2])
        servers = McpServers([http(url, era="legacy", max_calls=50)])
        await servers.ready()
        assert (await call(servers, "every_count", {"name": "a"})).content == "1"
    app = Counted(make_server().streamable_http_app())  # which knows nothing of the session
    async with listening(app, port):
        outputs = await asyncio.gather(*[call(servers, "every_count", {"name": "b"}) for _ in range(10)])
        assert sorted(int(output.content) for output in outputs) == list(range(1, 11))  # each ran once
        assert app.asked("initialize") == 1
        await servers.close()


async def test_a_refusal_names_its_status() -> None:
    app = Counted(make_server().streamable_http_app())
    async with listening(app) as url:
        app.status = 401
        async with opened(http(url)) as servers:
            [status] = servers.status()
            assert status.state == "failed"
            assert str(status.last_error).endswith("(HTTP 401)")
        app.status = None
        async with opened(http(url, bearer_token="secret")) as servers:
            assert (await call(servers, "every_count", {"name": "a"})).content == "1"
            assert app.headers[-1][b"authorization"] == b"Bearer secret"
            app.status = 500
            with pytest.raises(ToolFailed, match=r"refused the call: .*\(HTTP 500\)"):
                await call(servers, "every_count", {"name": "a"})
            app.status = None
            assert (await call(servers, "every_count", {"name": "a"})).content == "2"


async def test_a_call_has_its_time() -> None:
    async with opened(program(call_seconds=0.3)) as servers:
        with pytest.raises(ToolFailed, match=r"the MCP server 'every' did not answer within 0\.3 seconds"):
            await call(servers, "every_hang")
        assert servers.status()[0].state == "connected"


async def test_the_clock_stands_still_while_a_person_is_asked() -> None:
    async with asyncio.timeout(SECONDS) as clock:
        seen: list[float | None] = []

        class Slow(Watcher):
            async def ask(self, *_: object) -> None:
                seen.append(clock.when())

        await OpenCall(ToolContext("run", "", 0, "call", channel=Slow()), clock).ask("?", {})
        assert seen == [None]
        assert clock.when() is not None


async def test_a_question_never_reaches_the_user_of_another_run() -> None:
    async with opened(
        program(era="legacy")
    ) as servers:  # a pipe of the old protocol: a question does not name its call
        hanging = asyncio.create_task(call(servers, "every_hang", run="another"))
        await call(servers, "every_add", {"a": 1, "b": 1})
        watcher = Watcher({"color": "green"})
        with pytest.raises(ToolFailed, match="it is not clear whose call this question belongs to"):
            await call(servers, "every_ask", watcher=watcher)
        assert watcher.questions == []
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging


@pytest.mark.parametrize("how", ["endless", "chatter", "silent"])
async def test_what_is_no_server_is_given_up(how: str) -> None:
    seconds = 1.0 if how == "silent" else SECONDS
    async with opened(tiny(how, connect_seconds=seconds)) as servers:
        [status] = servers.status()
        assert (status.state, status.tools) == ("failed", 0)
        assert status.last_error


async def test_a_server_that_greets_its_user_is_understood() -> None:
    async with opened(tiny("loud")) as servers:
        assert servers.status()[0].state == "connected"


async def test_an_answer_that_makes_no_sense_fails_alone() -> None:
    async with opened(tiny("nonsense")) as servers:
        with pytest.raises(ToolFailed, match="the MCP server 'tiny' gave an answer that cannot be used: "):
            await call(servers, "tiny_pid")
        assert servers.status()[0].state == "connected"


async def test_a_list_that_cannot_be_had_is_asked_for_again() -> None:
    async with opened(tiny("fickle")) as servers:
        assert [tool.spec.name for tool in servers.tools()] == ["tiny_act1"]
        await call(servers, "tiny_act1")
        await until(lambda: servers.status()[0].state == "degraded")
        assert [tool.spec.name for tool in servers.tools()] == ["tiny_act1"]
        assert servers.status()[0].last_error == "its tools could not be listed anew: no such method"
        await until(lambda: servers.status()[0].state == "connected")
        assert [tool.spec.name for tool in servers.tools()] == ["tiny_act3"]


async def test_a_tool_whose_schema_is_none_is_left_out() -> None:
    async with opened(tiny("odd")) as servers:
        assert [tool.spec.name for tool in servers.tools()] == ["tiny_pid"]


async def test_lists_without_end_and_schemas_without_measure_are_cut() -> None:
    async with opened(tiny("pages")) as servers:
        assert len(servers.tools()) == 100
    async with opened(tiny("large")) as servers:
        assert [tool.spec.name for tool in servers.tools()] == ["tiny_pid"]


async def test_a_server_ends_with_its_children() -> None:
    async with opened(program()) as servers:
        child = pid_of((await call(servers, "every_leave_child")).content.strip('"{}result: \n'))
        assert not has_ended(child)
    await until(lambda: has_ended(child))


async def test_reconnecting_leaves_nothing_behind() -> None:
    def held() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())

    async with opened(tiny()) as servers:
        seen = set()
        for turn in range(40):
            output = await call(servers, "tiny_pid")
            seen.add(pid_of(output.content))
            if turn == 5:
                before = held()
            with pytest.raises(ToolFailed):
                await call(servers, "tiny_die")
        await call(servers, "tiny_pid")
        await until(lambda: held() == before)  # the tasks of the last lost connection may be about to end
    assert len(seen) == 40
    assert all(has_ended(pid) for pid in seen)


async def test_calls_are_capped_per_server() -> None:
    async with opened(program(max_calls=2)) as servers:
        outputs = await asyncio.gather(*[call(servers, "every_crowd") for _ in range(8)])
        assert max(int(output.content) for output in outputs) == 2


async def test_tools_that_wait_for_a_person_say_so() -> None:
    approvals = Approvals("ask", always=("add",), never=("count",), read_only="auto")
    async with opened(program(approvals=approvals, allowed_tools=("add", "count", "hang"))) as servers:
        found = {tool.tool: tool.spec.approval for tool in servers.tools()}
        assert found == {"add": "ask", "count": "auto", "hang": "ask"}


async def test_a_server_that_is_not_offered_is_connected_all_the_same() -> None:
    async with opened(tiny(offered=False)) as servers:
        assert servers.tools() == []
        assert servers.status()[0].state == "connected"


def test_without_the_package_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert McpServers([]).tools() == []
    with pytest.raises(BadConfig, match=r"pip install 'ronda\[mcp\]'"):
        McpServers([tiny()])


async def test_resources_are_read_within_the_patterns_alone() -> None:
    async with opened(program(resources=("memo://*",), allowed_tools=())) as servers:
        [tool] = servers.tools()
        assert (tool.spec.name, "memo://shown" in tool.spec.description) == ("every_read_resource", True)
        assert "secret://hidden" not in tool.spec.description
        assert (await call(servers, "every_read_resource", {"uri": "memo://shown"})).content == "what it says"
        with pytest.raises(ToolFailed, match="'secret://hidden' of the MCP server 'every' is not among those"):
            await call(servers, "every_read_resource", {"uri": "secret://hidden"})
    async with opened(program(allowed_tools=())) as servers:
        assert servers.tools() == []


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_prompts_are_read_within_the_patterns_alone(era: str) -> None:
    async with opened(program(prompts=("greet*",), allowed_tools=(), era=era)) as servers:
        [tool] = servers.tools()
        assert tool.spec.name == "every_get_prompt"
        assert "greeting(who): Greet somebody." in tool.spec.description
        assert "hidden_prompt" not in tool.spec.description
        output = await call(servers, "every_get_prompt", {"name": "greeting", "arguments": {"who": "Ada"}})
        assert output.content == "user: Say hello to Ada."
        with pytest.raises(ToolFailed, match="'hidden_prompt' of the MCP server 'every' is not among those"):
            await call(servers, "every_get_prompt", {"name": "hidden_prompt"})


async def test_a_server_is_told_which_trace_a_call_is_part_of() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with opened(tiny("meta")) as servers:
        before = json.loads((await call(servers, "tiny_pid")).content)
        token = OUTGOING.set(Outgoing(parent))
        try:
            during = json.loads((await call(servers, "tiny_pid")).content)
        finally:
            OUTGOING.reset(token)

    assert "traceparent" not in before
    assert during["traceparent"] == parent
