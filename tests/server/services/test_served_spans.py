"""A served run is traced as one of the library is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.interaction.doors import Door, soon
from tests.trace.conftest import spy as spy
from tests.trace.spying import Spy

from ronda import run_agent_async, tool
from ronda.core.parts import user
from ronda.errors import BadRequest
from ronda.prompty.connections import register_connection
from ronda.server.answering.opening import Job
from ronda.testing import ScriptedModel, calls, says
from ronda.trace import span
from ronda.wire.shared.door_request import DoorRequest


@tool
async def look_up(q: str) -> str:
    """Look something up."""
    with span("searching"):
        return f"<{q}>"


async def test_a_served_run_has_the_spans_of_the_library(door: Door, stream: bool, spy: Spy) -> None:
    async with door.serving(ScriptedModel(calls("look_up", q="a"), says("done")), look_up) as served:
        await served.ask(stream=stream)
        await served.all_over()

    assert spy.tree() == [("invoke_agent", ["execute", ("execute_tool", ["searching"]), "execute"])]
    assert spy.open == 0


FILE = """---
model: {id: m, connection: {kind: reference, name: traced}}
inputs: {q: {kind: string, required: true}}
outputs: {degrees: {kind: integer, required: true}}
tools:
  - {name: look_up, kind: function, parameters: [{name: q, kind: string, required: true}]}
  - {name: helper, kind: prompty, path: child.prompty, mode: agentic}
---
user:
{{q}}
"""
CHILD = """---
model: {id: m, connection: {kind: reference, name: traced}}
inputs: {q: {kind: string, required: true}}
---
user:
{{q}}
"""


async def test_a_served_file_has_the_spans_of_the_library(door: Door, stream: bool, spy: Spy, tmp_path: Path) -> None:
    (tmp_path / "agent.prompty").write_text(FILE)
    (tmp_path / "child.prompty").write_text(CHILD)
    lines = (calls("look_up", q="a"), calls("helper", q="b"), says("child"), says('{"degrees": 1}'))
    register_connection("traced", ScriptedModel(*lines))
    await run_agent_async(tmp_path / "agent.prompty", {"q": "go"}, [look_up])
    library = spy.tree()
    spy.spans.clear()

    register_connection("traced", ScriptedModel(*lines))
    async with door.serving(ScriptedModel(), look_up, agents=str(tmp_path)) as served:
        asked = [{"role": "user", "content": "go"}]
        await served.post({"model": "agent", "messages": asked, "stream": stream})
        await served.all_over()

    assert spy.tree() == library
    assert spy.open == 0


async def test_a_request_that_a_file_refuses_is_traced_as_in_the_library(door: Door, spy: Spy, tmp_path: Path) -> None:
    (tmp_path / "agent.prompty").write_text(FILE.replace("{q:", "{where: {kind: string, required: true}, q:", 1))
    (tmp_path / "child.prompty").write_text(CHILD)
    register_connection("traced", ScriptedModel())
    with pytest.raises(BadRequest):
        await run_agent_async(tmp_path / "agent.prompty", {})
    library, told = spy.tree(), spy.told("invoke_agent")[0]["result"]["exception"]
    spy.spans.clear()

    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
        await served.post({"model": "agent", "messages": [{"role": "user", "content": "go"}]})

    assert (spy.tree(), spy.told("invoke_agent")[0]["result"]["exception"]) == (library, told)
    assert spy.open == 0


async def test_the_span_of_a_run_that_is_cancelled_before_its_first_step_ends(door: Door, spy: Spy) -> None:
    async with door.serving(ScriptedModel()) as served, soon():
        asked = DoorRequest(model="default", turns=(user("go"),))
        [live] = await served.server.opening.open_runs("", Job(asked, await served.server.models.find("default")))
        is_over = asyncio.Event()
        live.start(lambda _: is_over.set())
        live.cancel()
        await is_over.wait()

    assert (spy.tree(), spy.open) == (["invoke_agent"], 0)
