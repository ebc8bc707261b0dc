"""Python and the shell for clients that cannot ask: with `--offer` every request has them, within what the operator allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Json
from tests.server.coding import post, serving, stream
from tests.server.coding import root as root

from ronda.cli.main import parse
from ronda.cli.settings import read_config
from ronda.core.parts import ToolTurn
from ronda.errors import BadConfig
from ronda.server import create_app
from ronda.server.features.code.settings import CodeSettings
from ronda.testing import ScriptedModel, calls, says

PYTHON, RESET, SHELL, SURFACE = (
    "mistralrs_execute_python",
    "mistralrs_reset_python_session",
    "mistralrs_shell",
    "mistralrs_surface_shell_files",
)
HI = [{"role": "user", "content": "go"}]
PLAIN: dict[str, tuple[str, Json]] = {
    "chat": ("chat/completions", {"messages": HI}),
    "responses": ("responses", {"input": "go"}),
    "messages": ("messages", {"messages": HI, "max_tokens": 99}),
    "conversations": ("conversations", {"model": "default", "inputs": "go"}),
}


def results(model: ScriptedModel) -> list[str]:
    return [turn.results[0].content for turn in model.heard[-1] if isinstance(turn, ToolTurn)]


def offered(model: ScriptedModel) -> set[str]:
    return {tool.name for tool in model.requests[0].tools} & {PYTHON, RESET, SHELL, SURFACE}


@pytest.mark.parametrize(("path", "body"), PLAIN.values(), ids=PLAIN.keys())
async def test_a_client_that_declares_nothing_has_python(door: Door, root: Path, path: str, body: Json) -> None:
    model = ScriptedModel(calls(PYTHON, code="6 * 7"), says("42"))
    async with serving(door, model, root, offer=("code",)):
        status, answer = await post(door, path, body)
    assert status == 200, answer
    assert json.loads(results(model)[-1])["result"] == "42"
    assert offered(model) == {PYTHON, RESET}


async def test_a_plain_stream_has_the_shell(door: Door, root: Path) -> None:
    model = ScriptedModel(calls(SHELL, commands=["echo hello"]), says("done"))
    async with serving(door, model, root, offer=("shell",)):
        await stream(door, "chat/completions", {"messages": HI})
    assert json.loads(results(model)[-1])["stdout"] == "hello\n"
    assert SHELL in offered(model)
    assert PYTHON not in offered(model)


async def test_each_request_works_in_a_session_of_its_own_unless_it_names_one(door: Door, root: Path) -> None:
    look = "'x' in globals()"
    model = ScriptedModel(
        calls(PYTHON, code="x = 1"), says("one"), calls(PYTHON, code=look), says("two"),
        calls(PYTHON, code="x = 1"), says("three"), calls(PYTHON, code=look), says("four"),
    )  # fmt: skip
    seen = []
    async with serving(door, model, root, offer=("code",)):
        for session in ({}, {}, {"session_id": "s"}, {"session_id": "s"}):
            await post(door, "chat/completions", {"messages": HI, **session})
            seen.append(json.loads(results(model)[-1]).get("result"))
    assert (seen[1], seen[3]) == ("False", "True")


@pytest.mark.parametrize("more", [{"tool_choice": "none"}, {"max_tool_rounds": 0}])
async def test_a_request_may_do_without(door: Door, root: Path, more: Json) -> None:
    model = ScriptedModel(says("done"))
    async with serving(door, model, root, offer=("code", "shell")):
        status, answer = await post(door, "chat/completions", {"messages": HI, **more})
    assert status == 200, answer
    assert offered(model) == set()


async def test_who_asks_as_well_has_each_tool_once(door: Door, root: Path) -> None:
    model = ScriptedModel(calls(PYTHON, code="1"), says("done"))
    async with serving(door, model, root, offer=("code", "code")):
        body = {"messages": HI, "enable_code_execution": True, "enable_shell": True}
        status, answer = await post(door, "chat/completions", body)
    assert status == 200, answer
    names = [tool.name for tool in model.requests[0].tools]
    assert len(names) == len(set(names))
    assert {PYTHON, SHELL} <= set(names)


async def test_the_clients_own_tools_stay_the_clients(door: Door, root: Path) -> None:
    own = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    model = ScriptedModel(calls(PYTHON, code="1 + 1"), calls("look"))
    async with serving(door, model, root, offer=("code",)):
        _, answer = await post(door, "chat/completions", {"messages": HI, "tools": [own]})
    assert [call["function"]["name"] for call in answer["choices"][0]["message"]["tool_calls"]] == ["look"]
    assert json.loads(results(model)[-1])["result"] == "2"


async def test_the_operators_permission_holds(door: Door, root: Path) -> None:
    model = ScriptedModel(calls(PYTHON, code="1"), says("done"))
    async with serving(door, model, root, offer=("code",), agent_permission="deny"):
        await post(door, "chat/completions", {"messages": HI, "agent_permission": "auto"})
    assert "not permitted" in results(model)[-1]
    assert not (root / "work").exists()


def test_the_flag_is_repeated() -> None:
    config = read_config(parse(["serve", "--agent", "--offer", "code", "--offer", "shell"]))
    assert config.part(CodeSettings).offer == ("code", "shell")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"offer": ("code",)}, "--offer code is of no use without --enable-code-execution (or --agent)"),
        ({"offer": ("shell",), "enable_code_execution": True}, "--offer shell is of no use without --enable-shell"),
        ({"offer": ("pyton",)}, "Invalid enum value 'pyton'"),
    ],
)
def test_what_cannot_be_offered_is_refused_at_the_start(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadConfig) as refused:
        create_app(ScriptedModel(), **settings)
    assert problem in str(refused.value)


def test_the_flag_names_what_it_can_be(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["serve", "--offer", "pyton"])
    assert "code" in capsys.readouterr().err
