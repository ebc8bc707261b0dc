"""However a run ends, its session has its result before the answer ends, and a model can go on from there."""

from __future__ import annotations

import asyncio

import pytest
from tests.interaction.doors import Door, Json, soon
from tests.server.session_doors import DOORS, looks, sessions_at, told, weather

from ronda.core.transcript import NO_RESULT
from ronda.testing import ScriptedModel, calls, fails
from ronda.tools.function import tool

GO_ON = ("user", "Go on.")
CANCELLED = "result: Error: cancelled while it was running; it may have taken effect."


@pytest.fixture(params=[False, True], ids=["plain", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


ROUND = [
    "user: Weather?",
    "assistant: Let me look.",
    'calls: weather({"city":"Paris"})',
    "result: sunny in Paris",
]
AT_EACH_DOOR = pytest.mark.parametrize("dialect", DOORS)


@AT_EACH_DOOR
async def test_the_cap(door: Door, dialect: str, stream: bool) -> None:
    model = ScriptedModel(looks("Paris"), looks("Rome", "c2"), "Enough.", "On we go.")
    async with sessions_at(door, dialect, model) as sessions:
        await sessions.send(("user", "Weather?"), session_id="s", stream=stream, max_tool_rounds=1)
        await sessions.ask(GO_ON, session_id="s")
    last = told(model.heard[-1])
    assert last[:4] == ROUND
    assert last[-1] == "user: Go on."


@AT_EACH_DOOR
async def test_an_error_after_a_round(door: Door, dialect: str, stream: bool) -> None:
    model = ScriptedModel(looks("Paris"), fails("no", status=400), "Sunny.")
    async with sessions_at(door, dialect, model) as sessions:
        status, _ = await sessions.send(("user", "Weather?"), session_id="s", stream=stream)
        assert stream or status >= 400
        await sessions.ask(GO_ON, session_id="s")
    assert told(model.heard[2]) == [*ROUND, "user: Go on."]


async def test_an_error_before_anything_was_said_leaves_the_session_as_it_was(door: Door) -> None:
    model = ScriptedModel("Hi.", fails("no", status=400), "Sunny.")
    async with sessions_at(door, "chat", model) as sessions:
        await sessions.ask(("user", "Hello"), session_id="s")
        status, _ = await sessions.send(("user", "Weather?"), session_id="s")
        assert status >= 400
        await sessions.ask(("user", "Weather?"), session_id="s")
    assert told(model.heard[2]) == ["user: Hello", "assistant: Hi.", "user: Weather?"]


async def test_a_cancelled_run(door: Door, stream: bool) -> None:
    """One call had its result, the other one had none, and it is not said that it did not happen."""
    started, never = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_for_ever() -> str:
        """Wait."""
        started.set()
        await never.wait()
        return "done"

    model = ScriptedModel(
        {
            "calls": [
                {"name": "weather", "arguments": {"city": "Paris"}, "id": "c1"},
                {"name": "wait_for_ever", "id": "c2"},
            ]
        },
        "On we go.",
    )
    async with door.serving(model, weather, wait_for_ever) as served:
        body: Json = {"messages": "Weather?", "stream": stream, "session_id": "s"}
        asking = asyncio.create_task(served.post(body, headers={"x-ronda-run": "run_cancelled1"}))
        async with soon():
            await started.wait()
            await served.http.post(f"{served.url}/runs/run_cancelled1/cancel")
            await asking
        answer = await served.post({"messages": "Go on.", "session_id": "s"})
        assert answer.status == 200
    assert told(model.heard[1]) == [
        "user: Weather?",
        'calls: weather({"city":"Paris"})',
        "calls: wait_for_ever({})",
        "result: sunny in Paris",
        CANCELLED,
        "user: Go on.",
    ]


async def test_a_client_that_leaves(door: Door) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_for_ever() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "done"

    model = ScriptedModel(calls("wait_for_ever"), "On we go.")
    async with door.serving(model, wait_for_ever) as served:
        asking = asyncio.create_task(served.post({"messages": "Weather?", "session_id": "s"}))
        async with soon():
            await started.wait()
            asking.cancel()
            await ended.wait()
        answer = await served.post({"messages": "Go on.", "session_id": "s"})  # waits until the session is free
        assert answer.status == 200
    assert told(model.heard[1]) == [
        "user: Weather?",
        "calls: wait_for_ever({})",
        CANCELLED,
        "user: Go on.",
    ]


PICK: Json = {"type": "function", "function": {"name": "pick", "parameters": {"type": "object"}}}
MIXED: Json = {
    "calls": [
        {"name": "weather", "arguments": {"city": "Paris"}, "id": "c1"},
        {"name": "pick", "arguments": {}, "id": "c2"},
    ]
}


async def test_calls_that_are_left_to_the_caller(door: Door, stream: bool) -> None:
    """The caller brings its half alone, or with all it saw; ours is there."""
    for whole in (False, True):
        model = ScriptedModel(MIXED, "Red it is.", "Bye.")
        async with door.serving(model, weather) as served:
            first = await served.ask("Pick.", stream=stream, session_id="s", tools=[PICK])
            result = {"role": "tool", "tool_call_id": first.calls[0][0], "content": "red"}
            before = [{"role": "user", "content": "Pick."}, first.message] if whole else []
            await served.ask([*before, result], stream=stream, session_id="s", tools=[PICK])
            await served.ask("Thanks.", stream=stream, session_id="s", tools=[PICK])
        asked = ["user: Pick.", 'calls: weather({"city":"Paris"})', "calls: pick({})"]
        assert told(model.heard[1]) == [*asked, "result: sunny in Paris", "result: red"]
        assert told(model.heard[2]) == [*told(model.heard[1]), "assistant: Red it is.", "user: Thanks."]


async def test_calls_that_the_caller_never_answers(door: Door) -> None:
    model = ScriptedModel(MIXED, "Never mind.")
    async with door.serving(model, weather) as served:
        await served.ask("Pick.", stream=False, session_id="s", tools=[PICK])
        await served.ask("Forget it.", stream=False, session_id="s", tools=[PICK])
    assert told(model.heard[1])[3:] == ["result: sunny in Paris", f"result: {NO_RESULT}", "user: Forget it."]


async def test_of_several_choices_the_first_goes_on(door: Door) -> None:
    model = ScriptedModel("One.", "Two.", "Three.")
    async with door.serving(model) as served:
        first, second = await served.ask_for("Say.", stream=False, session_id="s", n=2)
        await served.ask("Go on.", stream=False, session_id="s")
    assert told(model.heard[2]) == ["user: Say.", f"assistant: {first.content}", "user: Go on."]
    assert {first.content, second.content} == {"One.", "Two."}


async def test_what_is_not_to_be_stored_has_no_session(door: Door) -> None:
    model = ScriptedModel("never")
    async with sessions_at(door, "responses", model) as sessions:
        status, answer = await sessions.send(("user", "Hello"), session_id="s", store=False)
    assert (status, answer["error"]["param"]) == (400, "session_id")
    assert model.heard == []


async def test_a_response_that_names_the_one_before_goes_on_with_the_session_it_is_in(door: Door) -> None:
    model = ScriptedModel(looks("Paris"), "Sunny.", "Take a hat.", "Bye.")
    async with sessions_at(door, "responses", model) as sessions:
        _, first = await sessions.send(("user", "Weather?"), session_id="s")
        await sessions.ask(
            ("user", "A hat?"), session_id="s", previous_response_id=first["id"], instructions="Be kind."
        )
        await sessions.ask(("user", "Thanks."), session_id="s")
    rounds = [
        "user: Weather?",
        "assistant: Let me look.",
        'calls: weather({"city":"Paris"})',
        "result: sunny in Paris",
        "assistant: Sunny.",
    ]
    assert told(model.heard[2]) == ["system: Be kind.", *rounds, "user: A hat?"]
    assert told(model.heard[3]) == [*rounds, "user: A hat?", "assistant: Take a hat.", "user: Thanks."]


async def test_a_websocket_goes_on_with_a_session(door: Door) -> None:
    model = ScriptedModel("One.", "Two.")
    async with door.serving(model) as served, soon(), served.http.ws_connect(f"{served.url}/responses") as socket:
        for text in ("First?", "Second?"):
            await socket.send_json({"type": "response.create", "model": "default", "input": text, "session_id": "s"})
            while (await socket.receive_json())["type"] != "response.completed":
                pass
    assert told(model.heard[1]) == ["user: First?", "assistant: One.", "user: Second?"]
