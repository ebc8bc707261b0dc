"""What MCP tools give, ask and tell, at every door: images, resources, questions to a person, progress, cancellation."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace
from tests.interaction.doors import Door, Served
from tests.server.runs_door import asked_of, get, post
from tests.timeouts import soon
from tests.tools.mcp.everything import PIXEL
from tests.tools.mcp.serving import opened, program, until

from ronda import Agent, run_agent_async, tool
from ronda.core.events import RunFinished, ToolFinished
from ronda.core.parts import File, Image, ToolTurn, Usage, user
from ronda.drive import ToolContext
from ronda.providers.script import Call
from ronda.server.app import Server, create_app
from ronda.testing import ScriptedModel, calls, says

HI = [{"role": "user", "content": "go"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": HI},
    "responses": {"input": "go"},
    "messages": {"messages": HI, "max_tokens": 99},
    "conversations": {"model": "default", "inputs": "go"},
}
EVERY_DOOR = pytest.mark.parametrize("where", BODIES)


async def ask(served: Served, where: str, **more: Any) -> bytes:
    headers = {"authorization": "Bearer test"}
    async with (
        soon(),
        served.http.post(f"{served.url}/{where}", json={**BODIES[where], **more}, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return await answer.read()


@EVERY_DOOR
async def test_a_model_sees_images_and_reads_resources(door: Door, where: str) -> None:
    sums = Call("every_structured", {"a": 1, "b": 2})
    model = ScriptedModel(calls("every_picture", "every_resources", sums, "every_fail"), says("done"))
    async with door.serving(model, mcp=[program()]) as served:
        body = await ask(served, where)
    assert b"done" in body
    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    picture, resources, structured, failed = turn.results
    assert picture.attachments == (Image(f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"),)
    assert resources.content is not None
    assert "one" in resources.content
    assert "[resource three: memo://three]" in resources.content
    assert isinstance(resources.attachments[0], File)
    assert structured.content is not None
    assert '"total": 3' in structured.content.replace('":3', '": 3')
    assert [result.failed for result in turn.results] == [False, False, False, True]
    assert failed.content


@EVERY_DOOR
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_resources_and_prompts_are_read_within_the_patterns_alone(door: Door, where: str, era: Any) -> None:
    read = [Call("every_read_resource", {"uri": uri}) for uri in ("memo://shown", "secret://hidden")]
    prompts = [
        Call("every_get_prompt", {"name": "greeting", "arguments": {"who": "Ada"}}),
        Call("every_get_prompt", {"name": "hidden_prompt"}),
    ]
    model = ScriptedModel(calls(*read, *prompts), says("done"))
    config = program(resources=("memo://*",), prompts=("greet*",), allowed_tools=(), era=era)
    async with door.serving(model, mcp=[config]) as served:
        assert b"done" in await ask(served, where)
    assert [spec.name for spec in model.requests[0].tools] == ["every_read_resource", "every_get_prompt"]
    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    shown, hidden, greeting, hidden_prompt = turn.results
    assert (shown.content, greeting.content) == ("what it says", "user: Say hello to Ada.")
    for refused in (hidden, hidden_prompt):
        assert refused.failed
        assert "is not among those that may be read" in refused.content


@EVERY_DOOR
async def test_what_a_server_asks_is_a_question_of_the_run(door: Door, where: str) -> None:
    model = ScriptedModel(calls("every_ask"), says("done"))
    async with door.serving(model, mcp=[program()]) as served, soon():
        asking = asyncio.create_task(ask(served, where))
        run, question = await asked_of(served)
        wrong, _ = await post(served, f"/runs/{run}/answer", {"id": question["id"], "arguments": {"color": 5}})
        status, _ = await post(
            served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve", "arguments": {"color": "red"}}
        )
        body = await asking
    assert (question["kind"], question["tool"], question["message"]) == ("input", "every_ask", "every: Which color?")
    assert question["schema"]["properties"]["color"]["type"] == "string"
    assert wrong == 400
    assert status == 200
    assert b"done" in body
    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    assert turn.results[0].content == "red"


async def test_a_run_waits_while_a_server_waits_for_an_answer(door: Door) -> None:
    model = ScriptedModel(calls("every_ask"), says("done"))
    async with door.serving(model, mcp=[program()]) as served, soon():
        asking = asyncio.create_task(ask(served, "chat/completions"))
        run, question = await asked_of(served)
        lists = {state: await listed(served, state) for state in ("waiting", "running", "")}
        _, shown = await get(served, f"/runs/{run}")
        _, approvals = await get(served, "/agent/approvals")
        await post(
            served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve", "arguments": {"color": "red"}}
        )
        await asking
        after = {state: await listed(served, state) for state in ("waiting", "running", "finished")}

    assert lists == {"waiting": [(run, "waiting")], "running": [], "": [(run, "waiting")]}
    assert shown["state"] == "waiting"
    assert [one["run_id"] for one in approvals["data"]] == [run]
    assert after == {"waiting": [], "running": [], "finished": [(run, "finished")]}


async def test_a_run_that_waits_in_another_process_is_listed_as_waiting(door: Door) -> None:
    model = ScriptedModel(calls("every_ask"), says("done"))
    async with door.serving(model, mcp=[program()]) as served, soon():
        asking = asyncio.create_task(ask(served, "chat/completions"))
        run, question = await asked_of(served)
        # Another server with the same journal, which does not drive the run.
        other = create_app(Server(served.server.config, served.server.runs.journal, provider=ScriptedModel()))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(other), base_url="http://127.0.0.1", headers={"authorization": "Bearer test"}
        ) as client:
            answers = {state: (await client.get(f"/v1/runs?state={state}")).json() for state in ("waiting", "running")}
        await post(
            served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve", "arguments": {"color": "red"}}
        )
        await asking

    assert {state: [(one["id"], one["state"]) for one in said["data"]] for state, said in answers.items()} == {
        "waiting": [(run, "waiting")],
        "running": [],
    }


async def listed(served: Served, state: str) -> list[tuple[str, str]]:
    _, answer = await get(served, f"/runs?state={state}" if state else "/runs")
    return [(one["id"], one["state"]) for one in answer["data"]]


async def test_a_run_with_another_tool_at_work_does_not_wait(door: Door) -> None:
    model = ScriptedModel(calls(Call("every_ask"), Call("every_hang")), says("done"))
    async with door.serving(model, mcp=[program()]) as served, soon():
        asking = asyncio.create_task(ask(served, "chat/completions"))
        run, _ = await asked_of(served)
        assert served.mcp is not None
        await until(lambda: len(served.server.runs.live[run].run.open_calls) == 2)
        states = await listed(served, "")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    assert states == [(run, "running")]


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        ({"arguments": {"color": "red"}}, {"color": "red", "shade": "dark", "count": 2}),
        ({"arguments": {"color": "red", "shade": "light", "count": 0}}, {"color": "red", "shade": "light", "count": 0}),
        ({"arguments": {}}, None),  # no color is given
    ],
)
async def test_an_answer_gets_the_defaults_of_what_it_leaves_out(door: Door, answer: Any, known: Any) -> None:
    schema = {
        "type": "object",
        "properties": {
            "color": {"type": "string"},
            "shade": {"type": "string", "default": "dark"},
            "count": {"type": "integer", "default": 2},
            "note": {"type": "string"},
        },
        "required": ["color", "shade"],
    }
    heard: list[Any] = []

    @tool
    async def paint(context: ToolContext) -> str:
        """Paint."""
        heard.append(await context.ask("How?", schema))
        return "painted"

    async with door.serving(ScriptedModel(calls("paint"), says("done")), paint) as served, soon():
        asking = asyncio.create_task(ask(served, "chat/completions"))
        run, question = await asked_of(served)
        status, _ = await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve", **answer})
        if known is None:
            await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "deny"})
        await asking

    assert (status, heard) == ((200, [known]) if known is not None else (400, [None]))


@EVERY_DOOR
async def test_progress_is_told_to_those_who_follow_the_run(door: Door, where: str) -> None:
    model = ScriptedModel(calls(Call("every_steps", {"count": 2})), says("done"))
    async with door.serving(model, mcp=[program()]) as served:
        await ask(served, where, on_disconnect="detach", stream=True)
        [run] = served.server.runs.journal.runs  # type: ignore[attr-defined]  # the tests' own
        _, events = await get(served, f"/runs/{run}/events")
    assert b'"text":"step 1\\n"' in events
    assert b'"text":"step 2\\n"' in events


@EVERY_DOOR
async def test_a_client_that_leaves_cancels_the_call(door: Door, where: str) -> None:
    model = ScriptedModel(calls("every_hang"), calls(Call("every_add", {"a": 1, "b": 2})), says("3"))
    async with door.serving(model, mcp=[program()]) as served:
        asking = asyncio.create_task(ask(served, where))
        assert served.mcp is not None
        servers = served.mcp.here()
        await until(lambda: any(one.is_busy for one in servers._connections))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: not any(one.is_busy for one in servers._connections))
        await served.all_over()
        events = (await served.events)[0]
        assert b"3" in await ask(served, where)  # the connection is as it was
    assert isinstance(events[-1], RunFinished)
    assert events[-1].reason == "cancelled"


@pytest.mark.parametrize("where", ["chat/completions", "responses"])
async def test_a_server_that_may_asks_the_model_of_the_run(door: Door, where: str) -> None:
    model = ScriptedModel(calls("every_sample"), says("A rose.", usage=Usage(5, 7)), says("done"))
    async with door.serving(model, mcp=[program(sampling=True, era="legacy")]) as served:
        assert b"done" in await ask(served, where)
        [events] = await served.events
    [finished] = [event for event in events if isinstance(event, ToolFinished)]
    assert "A rose." in (finished.result.content or "")
    assert finished.usage == Usage(5, 7)  # it is the run's
    assert model.heard[1] == [user("A poem!")]  # and the model sees nothing of the run


class Asked(ScriptedModel):
    """Remembers how many tokens each answer may have."""

    def __init__(self, *lines: Any) -> None:
        super().__init__(*lines)
        self.most: list[int | None] = []

    async def call(self, request: Any, show: Any) -> Any:
        self.most.append(request.options.max_tokens)
        return await super().call(request, show)


async def test_a_server_is_answered_no_more_than_the_run_has_left() -> None:
    model = Asked(replace(calls("every_sample"), usage=Usage(60, 30)), says("A"), says("done"))
    async with soon(), opened(program(sampling=True, era="legacy")) as servers:
        await run_agent_async(Agent(model, tools=[*servers.tools()]), "go", max_tokens=100)
    assert model.most == [None, 10, None]  # it wanted a hundred


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_server_that_may_not_is_refused(door: Door, era: str) -> None:
    """In the newer protocol no client may."""
    model = ScriptedModel(calls("every_sample"), says("done"))
    config = program(sampling=era == "auto", era=era)
    async with door.serving(model, mcp=[config]) as served:
        await ask(served, "chat/completions")
        [events] = await served.events
    [finished] = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.result.failed
