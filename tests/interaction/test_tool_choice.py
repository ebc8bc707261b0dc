"""All forms of `tool_choice`: what reaches the upstream, round by round, and which are refused before anything is called."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from msgspec.json import encode
from tests.interaction.doors import Door, declared
from tests.interaction.upstreams import Upstream, call, completes

from ronda import tool
from ronda.core.parts import ToolResult, ToolTurn
from ronda.core.request import ModelRequest
from ronda.providers.openai_chat import OpenAIChat
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.wire.openai_chat.server_request import read_request


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


@tool
async def erase(q: str) -> str:
    """Erase something."""
    raise AssertionError("must never run here")


A, B = declared("a"), declared("b")


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named(name) for name in names]}}


def allowed_flat(mode: str | None, *names: str) -> dict[str, Any]:
    flat = {"type": "allowed_tools", "tools": [{"type": "function", "name": name} for name in names]}
    return flat if mode is None else {**flat, "mode": mode}


FORMS: dict[str, tuple[Any, Any]] = {
    "none": ("none", "none"),
    "auto": ("auto", "auto"),
    "required": ("required", "required"),
    "named": (named("a"), named("a")),
    "named flat": ({"type": "function", "name": "a"}, named("a")),
}
# What is allowed → the definitions that go out, and the choice between them. Only OpenAI's own servers know the form itself.
ALLOWED: dict[str, tuple[Any, Any, Any]] = {
    "nested": (allowed("auto", "a"), "auto", [A]),
    "nested required": (allowed("required", "a", "b"), "required", [A, B]),
    "flat": (allowed_flat("auto", "b"), "auto", [B]),
    "flat required": (allowed_flat("required", "b"), "required", [B]),
    "flat without a mode": (allowed_flat(None, "b"), "auto", [B]),
    "twice": (allowed("auto", "a", "a"), "auto", [A]),
}


async def sent(door: Door, stream: bool, tool_choice: Any, *tools: Any) -> list[dict[str, Any]]:
    called = "b" if tool_choice == allowed_flat("required", "b") else "a"
    async with Upstream(completes(None, call(called))) as upstream, door.serving(upstream.url) as served:
        asked = {} if tool_choice is None else {"tool_choice": tool_choice}
        await served.ask(stream=stream, tools=list(tools), **asked)
    return upstream.requests


@pytest.mark.parametrize(("said", "written"), FORMS.values(), ids=FORMS.keys())
async def test_every_form_reaches_the_upstream(door: Door, stream: bool, said: Any, written: Any) -> None:
    [request] = await sent(door, stream, said, A, B)

    assert request.get("tool_choice", "auto") == written
    assert request["tools"] == [A, B], "definitions stay in the prompt"


@pytest.mark.parametrize(("said", "written", "tools"), ALLOWED.values(), ids=ALLOWED.keys())
async def test_upstreams_that_do_not_know_allowed_tools_are_offered_what_is_allowed(
    door: Door, stream: bool, said: Any, written: Any, tools: Any
) -> None:
    [request] = await sent(door, stream, said, A, B)

    assert (request.get("tool_choice", "auto"), request["tools"]) == (written, tools)


@pytest.mark.parametrize("said", [allowed("auto", "a"), allowed_flat("required", "b"), allowed("required", "a", "b")])
@pytest.mark.parametrize("base_url", [None, "https://api.openai.com/v1", "https://eu.api.openai.com/v1"])
def test_openai_itself_is_told_what_is_allowed(base_url: str | None, said: Any) -> None:
    asked = read_request(encode({"messages": "go", "tools": [A, B], "tool_choice": said}))
    request = ModelRequest(asked.turns, asked.tools, asked.choice, asked.options, False, "r", 0, 1, {})

    body = json.loads(OpenAIChat("m", base_url, "key").project(request).body)

    names = [tool["function"]["name"] for tool in body["tool_choice"]["allowed_tools"]["tools"]]
    assert names == [name for name in ("a", "b") if asked.choice.allows(name)]
    assert body["tool_choice"]["allowed_tools"]["mode"] == asked.choice.mode
    assert body["tools"] == [A, B], "definitions stay in the prompt"


async def test_no_choice_is_auto(door: Door, stream: bool) -> None:
    [request] = await sent(door, stream, None, A)

    assert request.get("tool_choice", "auto") == "auto"


# ---- round by round --------------------------------------------------------------------------------------------------

OBLIGATIONS: dict[str, tuple[Any, Any, Any]] = {
    "required": ("required", "required", "auto"),
    "named": (named("lookup"), named("lookup"), "auto"),
    "allowed required": (allowed("required", "lookup"), "required", "auto"),
    "allowed": (allowed("auto", "lookup"), "auto", "auto"),
    "auto": ("auto", "auto", "auto"),
}


@pytest.mark.parametrize(("said", "first", "later"), OBLIGATIONS.values(), ids=OBLIGATIONS.keys())
async def test_an_obligation_binds_the_first_round_only(
    door: Door, stream: bool, said: Any, first: Any, later: Any
) -> None:
    acts = [completes(None, call("lookup", f"c{n}", q=str(n))) for n in range(2)]

    async with Upstream(*acts, completes("done")) as upstream, door.serving(upstream.url, lookup, erase) as served:
        answer = await served.ask(stream=stream, tool_choice=said)

    assert answer.content == "done"
    assert [request.get("tool_choice", "auto") for request in upstream.requests] == [first, later, later]
    offered = 1 if "allowed_tools" in said else 2
    assert [len(request["tools"]) for request in upstream.requests] == [offered] * 3


async def test_a_tool_that_is_not_allowed_does_not_run(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("erase", {"q": "all"}, "e1")), says("sorry"))

    async with door.serving(model, lookup, erase) as served:
        said = await served.ask(stream=stream, tool_choice=allowed("auto", "lookup"))

    assert said.content == "sorry"
    assert said.records == []
    assert model.heard[1][-1] == ToolTurn(
        (ToolResult("e1", "Error: Tool 'erase' is not available; this agent has 'lookup'.", failed=True),)
    )


async def test_a_callers_tool_that_is_not_allowed_is_not_handed_out(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("a", {}, "a1")), says("sorry"))

    async with door.serving(model, lookup) as served:
        said = await served.ask(stream=stream, tools=[A], tool_choice=allowed("auto", "lookup"))

    assert (said.content, said.calls, said.finish_reason) == ("sorry", [], "stop")


async def test_none_runs_no_tool_even_if_the_model_asks_for_one(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("erase", {"q": "all"}, "e1"), text="Erasing."), says("sorry"), says("sorry"))

    async with door.serving(model, erase) as served:
        said = await served.ask(stream=stream, tool_choice="none")

    assert said.records == []


async def test_none_stays_in_every_round(door: Door, stream: bool) -> None:
    async with Upstream(completes("hi")) as upstream, door.serving(upstream.url, lookup) as served:
        await served.ask(stream=stream, tool_choice="none")

    [request] = upstream.requests
    assert request["tool_choice"] == "none"
    assert [entry["function"]["name"] for entry in request["tools"]] == ["lookup"]


async def test_a_tool_of_the_server_can_be_named(door: Door, stream: bool) -> None:
    acts = [completes(None, call("lookup", q="x")), completes("hi")]

    async with Upstream(*acts) as upstream, door.serving(upstream.url, lookup) as served:
        await served.ask(stream=stream, tools=[A], tool_choice=named("lookup"))

    assert upstream.requests[0]["tool_choice"] == named("lookup")


async def test_a_model_that_does_not_call_though_it_must_is_asked_once_more(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("I would rather talk."), calls(Call("lookup", {"q": "x"}, "c1")), says("done"))

    async with door.serving(model, lookup) as served:
        said = await served.ask(stream=stream, tool_choice="required")

    assert [record["tool_call_id"] for record in said.records] == ["c1"]
    assert said.finish_reason == "stop"
    assert said.content.endswith("done")


async def test_a_model_that_never_calls_though_it_must_is_an_error_that_says_so(door: Door, stream: bool) -> None:
    model = ScriptedModel(*[says("I would rather talk.")] * 9)

    async with door.serving(model, lookup) as served:
        answer = await served.post({"messages": "go", "stream": stream, "tool_choice": "required"})
        [end] = await served.ends

    assert "Tool choice was required but no tools were called." in answer.error["message"]
    assert (end.reason, end.message) == ("failed", "Tool choice was required but no tools were called.")


# ---- refused ---------------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, list[Any], str]] = {
    "unknown name": (named("x"), [A], "tool_choice references unknown function tool `x`."),
    "unknown name flat": ({"type": "function", "name": "x"}, [A], "tool_choice references unknown function tool `x`."),
    "unknown allowed": (allowed("auto", "a", "x"), [A], "tool_choice references unknown function tool `x`."),
    "required without tools": ("required", [], 'tool_choice="required" requires at least one tool.'),
    "named without tools": (named("a"), [], "tool_choice"),
    "allowed nobody": (allowed("auto"), [A], "tool_choice.allowed_tools requires at least one tool."),
    "allowed nobody flat": (allowed_flat("auto"), [A], "tool_choice.allowed_tools requires at least one tool."),
    "allowed hosted": (
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]},
        [A],
        "tool_choice.allowed_tools contains hosted tool `web_search`; hosted tool forcing/filtering is not supported.",
    ),
    "hosted web_search": (
        {"type": "web_search"},
        [A],
        "tool_choice forcing hosted tool `web_search` is not supported.",
    ),
    "hosted preview": (
        {"type": "web_search_preview"},
        [A],
        "tool_choice forcing hosted tool `web_search_preview` is not supported.",
    ),
    "code that is not declared": (
        {"type": "code_interpreter"},
        [A],
        "tool_choice references unknown function tool `code_interpreter`.",
    ),
    "hosted shell": ({"type": "shell"}, [A], "tool_choice forcing hosted tool `shell` is not supported."),
    "another word": ("sometimes", [A], "tool_choice"),
    "another type": ({"type": "magic"}, [A], "tool_choice"),
    "no type": ({"name": "a"}, [A], "tool_choice"),
    "no name": ({"type": "function"}, [A], "tool_choice"),
    "a number": (5, [A], "tool_choice"),
    "a list": ([named("a")], [A], "tool_choice"),
    "another mode": (allowed("never", "a"), [A], "tool_choice"),
}


@pytest.mark.parametrize(("said", "tools", "text"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_choice_that_makes_no_sense_is_refused_before_the_model_is_called(
    door: Door, stream: bool, said: Any, tools: list[Any], text: str
) -> None:
    model = ScriptedModel(says("never said"))

    async with door.serving(model) as served:
        with pytest.raises(openai.BadRequestError) as refused:
            await served.ask(stream=stream, tools=tools, tool_choice=said)

    assert text in str(refused.value)
    assert refused.value.type == "invalid_request_error"
    assert str(refused.value.param).startswith("tool_choice")
    assert model.heard == []
