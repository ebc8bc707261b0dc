"""What a service would do itself: asked for in any dialect, had or not had by the server, and said in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interaction.doors import Door, Json

from ronda import tool
from ronda.core.plan import ToolChoice
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks

HI = [{"role": "user", "content": "go"}]
CALLERS = {"type": "function", "name": "mine", "parameters": {"type": "object", "properties": {}}}


def body(door: str, **more: Any) -> tuple[str, Json]:
    """An ordinary request to a door, and where it goes."""
    bodies: dict[str, Json] = {
        "chat/completions": {"messages": HI},
        "responses": {"input": "go"},
        "messages": {"messages": HI, "max_tokens": 99},
        "agents/completions": {"agent_id": "default", "messages": HI},
        "conversations": {"model": "default", "inputs": "go"},
        "transcripts/check": {"messages": HI},
    }
    return door, {**bodies[door], **more}


SEARCH = {
    "chat": (body("chat/completions", web_search_options={}), "web_search_options", "web_search_options"),
    "responses": (body("responses", tools=[{"type": "web_search"}]), "web_search", "tools[0].type"),
    "responses, dated": (
        body("responses", tools=[{"type": "web_search_preview_2025_03_11"}]),
        "web_search_preview_2025_03_11",
        "tools[0].type",
    ),
    "messages": (
        body("messages", tools=[{"type": "web_search_20250305", "name": "web_search"}]),
        "web_search_20250305",
        "tools[0].type",
    ),
    "messages, a field": (body("messages", web_search_options={}), "web_search_options", "web_search_options"),
    "agents": (body("agents/completions", tools=[{"type": "web_search"}]), "web_search", "tools.0.type"),
    "conversations": (
        body("conversations", tools=[{"type": "web_search_premium"}]),
        "web_search_premium",
        "tools.0.type",
    ),
}
ASKING = pytest.mark.parametrize(("request_", "name", "place"), SEARCH.values(), ids=SEARCH.keys())


async def post(door: Door, asked: tuple[str, Json]) -> tuple[int, Json]:
    async with door.http.post(f"{door.url}/{asked[0]}", json=asked[1]) as answer:
        return answer.status, await answer.json()


def message_of(answer: Json) -> tuple[str, str | None]:
    if "detail" in answer:
        [problem] = answer["detail"]
        assert problem["type"] == "unavailable"
        return problem["msg"], ".".join(map(str, problem["loc"][1:]))
    error = answer.get("error", answer)
    return error["message"], error.get("param")


@ASKING
async def test_what_is_not_here_is_refused_in_the_same_words_and_the_dialects_shape(
    door: Door, request_: tuple[str, Json], name: str, place: str
) -> None:
    model = ScriptedModel()

    async with door.serving(model):
        status, answer = await post(door, request_)

    message, where = message_of(answer)
    assert message == f"'{name}' cannot be used here: this server has no web search; --enable-search switches it on"
    assert status == (422 if "detail" in answer else 400)
    assert where == (None if request_[0] == "messages" else place)  # Anthropic's errors have no place for it
    assert model.heard == []


@tool
async def look_it_up(query: str) -> str:
    """Search."""
    return f"all about {query}"


@ASKING
async def test_what_is_asked_for_and_had_is_offered_and_run(
    door: Door, request_: tuple[str, Json], name: str, place: str
) -> None:
    model = ScriptedModel(asks("look_it_up", query="tides"), says("There."))

    async with door.serving(model, capabilities={"search": [look_it_up]}):
        status, answer = await post(door, request_)

    assert status == 200, answer
    assert [spec.name for spec in model.requests[0].tools] == ["look_it_up"]
    assert "all about tides" in str(model.heard[1][-1])


@pytest.mark.parametrize("name", ["chat/completions", "responses", "messages", "agents/completions", "conversations"])
async def test_what_nobody_asks_for_is_not_offered(door: Door, name: str) -> None:
    model = ScriptedModel(says("Hm."))

    async with door.serving(model, capabilities={"search": [look_it_up]}):
        status, _ = await post(door, body(name))

    assert (status, model.requests[0].tools) == (200, ())


@tool
async def search_the_web(query: str) -> str:
    """Search."""
    return f"found {query}"


@ASKING
async def test_a_tool_of_the_operators_does_what_is_asked_for(
    door: Door, request_: tuple[str, Json], name: str, place: str
) -> None:
    model = ScriptedModel(asks("search_the_web", query="tides"), says("There."))

    async with door.serving(model, search_the_web):
        status, answer = await post(door, request_)

    assert status == 200, answer
    assert "found tides" in str(model.heard[1][-1])


@pytest.mark.parametrize(
    "asked",
    [
        body("responses", tools=[{"type": "web_search"}], tool_choice={"type": "web_search"}),
        body(
            "messages",
            tools=[{"type": "web_search_20250305", "name": "web_search"}],
            tool_choice={"type": "tool", "name": "web_search"},
        ),
    ],
    ids=["responses", "messages"],
)
async def test_the_choice_of_what_a_service_has_is_the_choice_of_what_is_here(
    door: Door, asked: tuple[str, Json]
) -> None:
    model = ScriptedModel(asks("look_it_up", query="tides"), says("There."))

    async with door.serving(model, capabilities={"search": [look_it_up]}):
        status, answer = await post(door, asked)

    assert status == 200, answer
    assert model.requests[0].choice == ToolChoice("required", ("look_it_up",), named=True)


async def test_a_callers_own_function_may_be_called_as_the_services_tool_is(door: Door) -> None:
    model = ScriptedModel(asks("web_search", query="tides"))
    mine = {**CALLERS, "name": "web_search"}

    async with door.serving(model):
        choice = {"type": "function", "name": "web_search"}
        status, answer = await post(door, body("responses", tools=[mine], tool_choice=choice))

    assert status == 200, answer
    assert [item["name"] for item in answer["output"]] == ["web_search"]


@pytest.mark.parametrize("value", [False, None, []])
@pytest.mark.parametrize("name", ["chat/completions", "responses", "messages"])
async def test_a_field_that_asks_for_nothing_is_no_lack(door: Door, name: str, value: Any) -> None:
    fields = dict.fromkeys(("enable_code_execution", "enable_shell", "files"), value)
    model = ScriptedModel(says("Hm."))

    async with door.serving(model):
        status, answer = await post(door, body(name, **fields))

    assert status == 200, answer
    assert not {*fields} & {*model.requests[0].options.extra}


NO_PYTHON = (
    "'code_interpreter' cannot be used here: this server has no code execution; --enable-code-execution switches it on"
)


async def test_python_is_asked_for_with_a_tool_in_chat(door: Door) -> None:
    model = ScriptedModel()

    async with door.serving(model):
        status, answer = await post(door, body("chat/completions", tools=[{"type": "code_interpreter"}]))

    assert (status, message_of(answer)) == (
        400,
        (NO_PYTHON, "tools[0].type"),
    )


async def test_a_transcript_that_asks_for_what_is_not_here_is_refused_as_its_request_would_be(door: Door) -> None:
    async with door.serving(ScriptedModel()):
        checked = await post(door, body("transcripts/check", web_search_options={}))
        asked = await post(door, body("chat/completions", web_search_options={}))

    assert checked == asked


async def test_an_agent_is_not_made_with_what_is_not_here(door: Door) -> None:
    agent = {"model": "default", "name": "a", "tools": [{"type": "code_interpreter"}]}

    async with door.serving(ScriptedModel()):
        status, answer = await post(door, ("agents", agent))

    assert (status, message_of(answer)) == (
        422,
        (NO_PYTHON, "tools.0.type"),
    )


async def test_an_agent_that_was_made_with_what_is_here_has_it_whenever_it_is_asked(door: Door) -> None:
    model = ScriptedModel(asks("look_it_up", query="tides"), says("There."))
    agent = {"model": "default", "name": "a", "tools": [{"type": "web_search"}]}

    async with door.serving(model, capabilities={"search": [look_it_up]}):
        _, made = await post(door, ("agents", agent))
        status, answer = await post(door, body("agents/completions", agent_id=made["id"]))

    assert status == 200, answer
    assert made["tools"] == [{"type": "web_search"}]
    assert "all about tides" in str(model.heard[1][-1])
