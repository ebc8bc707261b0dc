"""The Responses API over a WebSocket: one response after the other, state that only the connection has, errors that say so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from starlette.types import Message
from tests.interaction.doors import Door, Json, soon
from tests.server.responses_door import ask, code, connected, function, output, schemas, text

from ronda import tool
from ronda.core.events import ModelFinished, RunFinished, RunStarted, TextDelta
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, UserTurn, user
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.providers.script import Call, Line, ScriptedModel, calls, fails, says
from ronda.server.doors.responses.websocket import WAITING, Connection
from ronda.server.features.doors.responses import Responses

PICK = function("pick", color="string")


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


# ---- turns -----------------------------------------------------------------------------------------------------------


async def test_responses_come_one_after_the_other(door: Door) -> None:
    model = ScriptedModel(says("first"), says("second"))
    async with door.serving(model) as served, connected(served) as socket:
        first = await socket.turn(store=False, input="Say first.")
        second = await socket.turn(store=False, input="Say second.")

    assert (text(first), text(second)) == ("first", "second")
    assert first["response"]["id"] != second["response"]["id"]
    assert model.heard == [[user("Say first.")], [user("Say second.")]]


async def test_a_request_written_over_several_lines_has_whole_events(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hi."))) as served, connected(served) as socket:
        request = {"type": "response.create", "model": "default", "input": "x", "tools": [PICK]}
        await socket.raw.send_str(json.dumps(request, indent=2))
        last = (await socket.rest())[-1]

    assert text(last) == "Hi."
    assert last["response"]["tools"] == [PICK]


async def test_events_are_those_of_a_stream(door: Door) -> None:
    lines = (Line(text="Looking.", reasoning="Hm.", calls=(Call("lookup", {"q": "a"}, "c1"),)), says("It is a."))
    async with door.serving(ScriptedModel(*lines), lookup) as served:
        async with connected(served) as socket:
            await socket.say(input="go")
            heard = await socket.rest()
        async with served.http.get(
            f"{served.url}/responses/{heard[0]['response']['id']}?stream=true", headers={"authorization": "Bearer test"}
        ) as answer:
            frames = (await answer.read()).decode().split("\n\n")

    assert heard == [json.loads(frame.split("data: ", 1)[1]) for frame in frames if frame.startswith("event: ")]


async def test_requests_that_come_too_early_wait_for_their_turn(door: Door) -> None:
    model = Gated(2)
    async with door.serving(model) as served, connected(served) as socket:
        await socket.say(input="one")
        await socket.say(input="two")
        await model.asked[0].wait()
        assert len(model.heard) == 1  # the second has not begun
        model.let[0].set()
        first = await socket.rest()
        model.let[1].set()
        second = await socket.rest()

    assert [text(events[-1]) for events in (first, second)] == ["one", "two"]


# ---- continuing ------------------------------------------------------------------------------------------------------


async def test_a_response_goes_on_from_the_last_event_of_the_one_before(door: Door) -> None:
    model = ScriptedModel(calls("lookup", q="x"), says("First."), says("Second."))
    async with door.serving(model, lookup) as served, connected(served) as socket:
        first = await socket.turn(store=False, input="Go.")
        second = await socket.turn(store=False, input="On.", previous_response_id=first["response"]["id"])
        runs = ["run_" + event["response"]["id"].removeprefix("resp_") for event in (first, second)]
        before, after = [await served.server.runs.memory.read(run) for run in runs]

    assert isinstance(after[0], RunStarted)
    assert after[0].parent == (runs[0], len(before))


async def test_what_is_not_stored_goes_on_on_its_own_connection(door: Door) -> None:
    model = ScriptedModel(says("OK."), says("cobalt"), says("never said"))
    async with door.serving(model) as served:
        async with connected(served) as socket:
            first = await socket.turn(store=False, input="The code word is cobalt.")
            second = await socket.turn(store=False, input="Which?", previous_response_id=first["response"]["id"])
        async with connected(served) as socket:
            lost = await socket.turn(store=False, input="Which?", previous_response_id=second["response"]["id"])
            found = await socket.turn(store=False, input="The code word is cobalt. Which?")

    assert text(second) == "cobalt"
    assert model.heard[1] == [user("The code word is cobalt."), AssistantTurn((Text("OK."),)), user("Which?")]
    assert code(lost) == "previous_response_not_found"
    assert (lost["status"], lost["error"]["param"]) == (404, "previous_response_id")
    assert found["type"] == "response.completed"


@pytest.mark.parametrize("store", [True, False])
async def test_a_response_can_be_prepared_without_a_model_being_called(door: Door, store: bool) -> None:
    model = ScriptedModel(says("cobalt"))
    choice: Json = {"tools": [function("pick", color="string")], "tool_choice": "required"}
    async with door.serving(model) as served, connected(served) as socket:
        prepared = await socket.turn(store=store, input="The code word is cobalt.", generate=False, **choice)
        call_id = prepared["response"]["id"]
        answer = await socket.turn(store=store, input="Which?", previous_response_id=call_id)

    assert (prepared["response"]["status"], prepared["response"]["output"]) == ("completed", [])
    assert prepared["response"]["usage"]["total_tokens"] == 0
    assert text(answer) == "cobalt"
    assert model.heard == [[user("The code word is cobalt."), user("Which?")]]


@pytest.mark.parametrize("around", [{}, {"instructions": "Be brief."}], ids=["nothing around it", "instructions"])
async def test_nothing_at_all_can_be_prepared(door: Door, around: Json) -> None:
    model = ScriptedModel(says("Hi."))
    async with door.serving(model) as served, connected(served) as socket:  # as Codex does when it starts
        prepared = await socket.turn(store=False, input=[], generate=False, **around)
        response_id = prepared["response"]["id"]
        answer = await socket.turn(store=False, input="hi", **around, previous_response_id=response_id)

    assert (prepared["response"]["output"], text(answer)) == ([], "Hi.")
    assert model.heard == [[*[SystemTurn(text) for text in around.values()], user("hi")]]


async def test_what_is_stored_goes_on_anywhere(door: Door) -> None:
    model = ScriptedModel(says("One."), says("Two."), says("Three."), says("Four."))
    async with door.serving(model) as served:
        over_http = await ask(served.client(), False, input="a")
        async with connected(served) as socket:
            second = await socket.turn(input="b", previous_response_id=over_http.id)
        async with connected(served) as socket:
            third = await socket.turn(input="c", previous_response_id=second["response"]["id"])
        fourth = await ask(served.client(), False, input="d", previous_response_id=third["response"]["id"])
        async with connected(served, "eve") as socket:
            refused = await socket.turn(input="e", previous_response_id=fourth.id)

    assert fourth.output_text == "Four."
    assert [turn for turn in model.heard[3] if isinstance(turn, UserTurn)] == [user(word) for word in "abcd"]
    assert code(refused) == "previous_response_not_found"


async def test_tools_of_both_sides_work_over_a_connection_that_stores_nothing(door: Door) -> None:
    mixed = Line(calls=(Call("lookup", {"q": "a"}, "c1"), Call("pick", {"color": "red"}, "c2")))
    model = ScriptedModel(mixed, says("Done."))
    async with door.serving(model, lookup) as served, connected(served) as socket:
        first = await socket.turn(store=False, input="go", tools=[PICK])
        (item,) = first["response"]["output"]
        second = await socket.turn(
            store=False,
            input=[output(item["call_id"], "ok")],
            tools=[PICK],
            previous_response_id=first["response"]["id"],
        )

    assert item["call_id"] != "c2"
    assert text(second) == "Done."
    asked = AssistantTurn(
        (ToolCall("c1", "lookup", '{"q":"a"}'), ToolCall("c2", "pick", '{"color":"red"}')), "tool_calls"
    )
    assert model.heard[1] == [user("go"), asked, ToolTurn((ToolResult("c1", "found a"), ToolResult("c2", "ok")))]


@pytest.mark.parametrize("how", ["refused", "failed"])
async def test_a_continuation_that_fails_takes_what_it_went_on_from_with_it(door: Door, how: str) -> None:
    model = ScriptedModel(says("OK."), fails("broken", 400), says("stale"))
    async with door.serving(model) as served, connected(served) as socket:
        first = await socket.turn(store=False, input="ember")
        response_id = first["response"]["id"]
        if how == "refused":
            failed = await socket.turn(
                store=False, input=[output("call_missing", "1")], previous_response_id=response_id
            )
        else:
            failed = await socket.turn(store=False, input="and?", previous_response_id=response_id)
        retried = await socket.turn(store=False, input="Try again.", previous_response_id=response_id)

    assert (failed["type"], failed["status"]) == ("error", 400)
    assert code(retried) == "previous_response_not_found"


async def test_what_is_stored_survives_a_continuation_that_fails(door: Door) -> None:
    model = ScriptedModel(says("OK."), says("Again."))
    async with door.serving(model) as served, connected(served) as socket:
        first = await socket.turn(input="ember")
        response_id = first["response"]["id"]
        failed = await socket.turn(input=[output("call_missing", "1")], previous_response_id=response_id)
        again = await socket.turn(input="Try again.", previous_response_id=response_id)

    assert (failed["status"], text(again)) == (400, "Again.")


async def test_a_compacted_conversation_begins_a_new_chain(door: Door) -> None:
    model = ScriptedModel(says("OK."), says("The code word is jade."), says("jade"), says("still jade"))
    async with door.serving(model) as served, connected(served) as socket:
        said: list[Any] = [{"type": "message", "role": "user", "content": "The code word is jade."}]
        await socket.turn(store=False, input=said)
        compacted = await served.client().responses.compact(model="default", input=said)
        base = [item.to_dict(warnings=False) for item in compacted.output]
        asked = {"type": "message", "role": "user", "content": "Which?"}
        first = await socket.turn(store=False, previous_response_id=None, input=[*base, asked])
        second = await socket.turn(store=False, input="Sure?", previous_response_id=first["response"]["id"])

    assert (text(first), text(second)) == ("jade", "still jade")
    assert first["response"]["previous_response_id"] is None


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("nonsense", None),
        ("[]", None),
        ("{}", "type"),
        ('{"type": "response.steer", "input": "x"}', "type"),
        ('{"type": 5}', "type"),
        ('{"type": "response.create", "input": "x", "stream": false}', "stream"),
        ('{"type": "response.create", "input": "x", "background": false}', "background"),
        ('{"type": "response.create", "input": "x", "stream_options": {}}', "stream_options"),
        ('{"type": "response.create", "input": "x", "stream_id": "a"}', "stream_id"),
        ('{"type": "response.create", "input": "x", "generate": "no"}', "generate"),
        ('{"type": "response.create"}', "input"),
        ('{"type": "response.create", "input": "x", "model": "nobody"}', "model"),
        ('{"type": "response.create", "input": "\\ud800"}', None),
        ('{"type": "response.create", "input": "x", "previous_response_id": 5}', "previous_response_id"),
    ],
)
async def test_a_message_that_makes_no_sense_is_an_error_and_the_connection_goes_on(
    door: Door, message: str, param: str | None
) -> None:
    model = ScriptedModel(says("Hi."))
    async with door.serving(model) as served, connected(served) as socket:
        await socket.raw.send_str(message)
        (event,) = await socket.rest()
        after = await socket.turn(input="hi")

    assert 400 <= event["status"] < 500
    assert event["error"]["param"] == param
    assert text(after) == "Hi."


async def test_a_message_may_be_bytes(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hi."))) as served, connected(served) as socket:
        await socket.raw.send_bytes(b'{"type": "response.create", "input": "x"}')
        heard = await socket.rest()

    assert text(heard[-1]) == "Hi."


async def test_a_client_that_goes_away_takes_its_run_with_it(door: Door) -> None:
    model = Gated(1)
    async with door.serving(model) as served:
        async with connected(served) as socket:
            await socket.say(input="one")
            await model.asked[0].wait()
        await served.server.runs.journal.until(RunFinished)  # type: ignore[attr-defined]  # the tests' own journal
        (end,) = await served.ends

    assert end.reason == "cancelled"


async def test_too_many_waiting_requests_end_the_connection(door: Door) -> None:
    model = Gated(1)
    async with door.serving(model) as served, connected(served) as socket:
        await socket.say(input="one")
        await model.asked[0].wait()
        for _ in range(WAITING + 1):
            await socket.say(input="more")
        while not socket.raw.closed:
            await socket.raw.receive()
        await served.all_over()

    assert socket.raw.close_code == 1008
    assert len(model.heard) == 1


async def test_other_places_take_no_websockets(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await served.http.ws_connect(served.url.replace("http", "ws") + "/chat/completions")


async def test_the_official_sdk_speaks_it(door: Door) -> None:
    model = ScriptedModel(says("Hello."), says("Again."))
    async with door.serving(model) as served, soon(), served.client().responses.connect() as connection:
        await connection.response.create(model="default", input="hi", store=False)
        first = await _until_the_end(connection)
        await connection.response.create(
            model="default", input="again", store=False, previous_response_id=first.response.id
        )
        second = await _until_the_end(connection)
        await connection.response.create(model="default", input="x", previous_response_id="resp_nothing")
        third = await _until_the_end(connection)

    assert (first.response.output_text, second.response.output_text) == ("Hello.", "Again.")
    assert (third.type, third.error.code, third.status) == ("error", "previous_response_not_found", 404)


async def _until_the_end(connection: Any) -> Any:
    async for event in connection:
        if event.type in ("response.completed", "error"):
            return event
    raise AssertionError("the connection was closed")


# ---- an hour ---------------------------------------------------------------------------------------------------------


async def test_a_connection_has_its_time_and_what_is_under_way_is_finished(door: Door) -> None:
    model = Gated(1)
    sent: list[Message] = []
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    done = asyncio.Event()

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "websocket.close":
            done.set()

    async with door.serving(model) as served, soon():
        scope = {"type": "websocket", "path": "/v1/responses", "headers": []}
        door_feature = served.server.features.find(Responses.name)
        assert isinstance(door_feature, Responses)
        connection = Connection(door_feature.socket, scope, incoming.get, send, lifetime=60.0)
        await incoming.put({"type": "websocket.connect"})
        await incoming.put({"type": "websocket.receive", "text": '{"type": "response.create", "input": "one"}'})
        task = asyncio.create_task(connection.run())
        await model.asked[0].wait()
        connection.end_of_time()
        model.let[0].set()
        await done.wait()
        await task

    said = [json.loads(message["text"]) for message in sent if message["type"] == "websocket.send"]
    schemas().check(said[-1], "WebSocketErrorEvent")
    assert [event["type"] for event in said[-2:]] == ["response.completed", "error"]
    assert code(said[-1]) == "websocket_connection_limit_reached"
    assert sent[-1]["code"] == 1001


class Gated:
    """A model that says what it was last told, when it is let."""

    def __init__(self, times: int) -> None:
        self.asked = [asyncio.Event() for _ in range(times)]
        self.let = [asyncio.Event() for _ in range(times)]
        self.heard: list[str] = []

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        at = len(self.heard)
        said = request.turns[-1].parts[0].text  # type: ignore[union-attr]
        self.heard.append(said)
        self.asked[at].set()
        await self.let[at].wait()
        show([TextDelta(said)])
        return ModelFinished(AssistantTurn((Text(said),)))


# ---- who may connect -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "http://127.0.0.1:1", "null", "", "http://["])
async def test_a_page_of_another_origin_cannot_connect(door: Door, origin: str) -> None:
    """Browsers let a page open a WebSocket to anywhere, and leave it to the server to look where it is from."""
    model = ScriptedModel()
    async with door.serving(model) as served:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            async with soon(), served.http.ws_connect(f"{served.url}/responses", headers={"origin": origin}):
                pass

    assert refusal.value.status == 403
    assert model.heard == []


async def test_a_page_of_the_servers_own_can_connect(door: Door) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        own = served.url.removesuffix("/v1")
        async with soon(), served.http.ws_connect(f"{served.url}/responses", headers={"origin": own}) as socket:
            await socket.send_str(json.dumps({"type": "response.create", "model": "default", "input": "x"}))
            event = json.loads(await socket.receive_str())

    assert event["type"] == "response.created"


# ---- text that is none -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY])
@pytest.mark.parametrize("data", [b"\xff\xfe", b'{"type": "\xff"}', b"\x00", b"", b"[", b"\xed\xa0\x80"])
async def test_text_that_is_none_is_an_error_and_writes_no_traceback(
    door: Door, caplog: pytest.LogCaptureFixture, data: bytes, kind: aiohttp.WSMsgType
) -> None:
    async with door.serving(ScriptedModel(says("Hi."))) as served, connected(served) as socket:
        await socket.raw.send_frame(data, kind)
        (event,) = await socket.rest()
        after = await socket.turn(input="hi")

    assert event["status"] == 400
    assert text(after) == "Hi."
    assert caplog.text == ""


def write_raw(socket: Any, data: bytes) -> None:
    """Past the client library, which writes no such frames."""
    socket._conn.transport.write(data)


async def test_a_message_in_fragments_without_end_ends_the_connection(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    """A frame of one byte takes seven: forty thousand come in one read."""
    first, more = b"\x01\x81\0\0\0\0a", b"\x00\x81\0\0\0\0a"
    async with door.serving(ScriptedModel()) as served, connected(served) as socket:
        write_raw(socket.raw, first + more * 40_000)
        closed = await socket.raw.receive()

    assert closed.type is aiohttp.WSMsgType.CLOSE
    assert closed.extra == "more than 10000 fragments"
    assert caplog.text == ""


async def test_a_message_that_is_too_large_ends_the_connection(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    async with door.serving(ScriptedModel()) as served, connected(served) as socket:
        write_raw(socket.raw, b"\x82\xff" + (51 << 20).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 100)
        closed = await socket.raw.receive()

    assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1009)
    assert caplog.text == ""
