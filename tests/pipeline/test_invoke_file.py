"""A prompty file as an agent: `invoke_agent`, `stream_agent`, `run`, `invoke`, in both colours and from anywhere."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.interaction.upstreams import Upstream, answers, call, completes, refuses
from tests.pipeline.files import BODY, INPUTS, WEATHER, scripted, text_of, weather

from ronda import (
    Agent,
    invoke,
    invoke_agent,
    invoke_agent_async,
    invoke_async,
    list_models_async,
    prepare,
    run,
    run_async,
    stream_agent,
)
from ronda.core.parts import SystemTurn, ToolCall, ToolResult, ToolTurn, user
from ronda.errors import BadConfig, BadRequest, ExecuteError, LimitExceeded, ToolMissing, UpstreamError
from ronda.prompty import ModelInfo, StructuredResult, load, loads
from ronda.prompty.model import KeyConnection
from ronda.testing import ScriptedModel, calls, fails, says

UNIT = [*INPUTS, {"name": "unit", "kind": "string", "default": "celsius"}]


def asking(*lines: Any) -> ScriptedModel:
    return ScriptedModel(calls("weather", city="Paris"), *lines or [says("Sunny.")])


# ---- the loop ---------------------------------------------------------------------------------------------------------


def test_a_path_a_loaded_file_and_an_agent_are_run_alike(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('["Sunny."]')
    path = tmp_path / "agent.prompty"
    path.write_text(text_of({"model": "script:script.json", "inputs": INPUTS}, BODY))

    answers = [
        invoke_agent(str(path)),
        invoke_agent(path, {"q": "How?"}),
        invoke_agent(load(path)),
        invoke_agent(Agent(f"script:{tmp_path / 'script.json'}"), "How is Paris?"),
    ]
    assert answers == ["Sunny."] * 4


def test_the_model_is_shown_the_messages_and_the_tools_of_the_file() -> None:
    model = asking()
    prompty = scripted(model, inputs=UNIT, tools=[WEATHER])

    assert invoke_agent(prompty, {"q": "hi", "unit": "f"}, tools=[weather]) == "Sunny."

    assert model.heard[0] == [SystemTurn("Be nice."), user("hi")]
    assert model.heard[1][-1] == ToolTurn((ToolResult("call_0_0", "sun in Paris, in f"),))
    spec = model.requests[0].tools[0]
    assert json.loads(bytes(spec.parameters)) == {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }


def test_tools_for_one_run_change_neither_the_file_nor_a_registry() -> None:
    prompty = scripted(
        ScriptedModel(*[line for _ in range(2) for line in (calls("weather", city="Paris"), says("ok"))])
    )
    before = prompty.tools

    assert invoke_agent(prompty, tools={"weather": weather}) == "ok"

    assert prompty.tools == before == ()
    with pytest.raises(ValueError, match=r"^Tool not registered: weather$"):
        invoke_agent(prompty)


def test_the_errors_of_the_loop_have_their_types_and_texts() -> None:
    polls = ScriptedModel(*[calls("weather", city=str(number)) for number in range(11)])
    with pytest.raises(RuntimeError, match=r"^Agent loop exceeded 10 iterations$") as limit:
        invoke_agent(scripted(polls), tools=[weather])
    assert type(limit.value) is LimitExceeded
    again = ScriptedModel(*[calls("weather", city=str(number)) for number in range(4)])
    with pytest.raises(RuntimeError, match=r"^Agent loop exceeded 3 iterations$"):
        invoke_agent(scripted(again), tools=[weather], max_iterations=3)

    with pytest.raises(ValueError, match=r"^Tool not registered: weather$") as unknown:
        invoke_agent(scripted(asking()))
    assert type(unknown.value) is ToolMissing

    with pytest.raises(ValueError, match=r"^No handler registered for tool: weather \(kind: function\)$"):
        invoke_agent(scripted(asking(), tools=[WEATHER]))
    with pytest.raises(ValueError, match=r"^No handler registered for tool: weather \(kind: oracle\)$"):
        invoke_agent(scripted(asking(), tools=[{"name": "weather", "kind": "oracle"}]))

    with pytest.raises(ExecuteError, match=r"^the key is wrong$") as failed:
        invoke_agent(scripted(ScriptedModel(fails("the key is wrong", 401))))
    assert failed.value.messages == [SystemTurn("Be nice."), user("How is Paris?")]


def test_a_conversation_can_be_gone_on_with() -> None:
    model = ScriptedModel(says("first"), says("second"))
    prompty = scripted(model)
    invoke_agent(prompty)

    assert invoke_agent(prompty, [*model.heard[0], user("And Rome?")]) == "second"
    assert model.heard[1] == [SystemTurn("Be nice."), user("How is Paris?"), user("And Rome?")]


@pytest.mark.parametrize("inputs", ["text", [], [7], [{"content": "no role"}]])
def test_inputs_that_are_none_are_refused(inputs: Any) -> None:
    with pytest.raises(BadRequest, match=r"mapping|list of messages"):
        invoke_agent(scripted(ScriptedModel()), inputs)


@pytest.mark.parametrize("agent", [7, None, object()])
def test_what_is_no_agent_is_refused(agent: Any) -> None:
    with pytest.raises(BadConfig, match="is no agent"):
        invoke_agent(agent, {})


def test_an_agent_made_in_code_has_no_template() -> None:
    with pytest.raises(BadConfig, match="has no template"):
        prepare(Agent(ScriptedModel()))


# ---- structured -------------------------------------------------------------------------------------------------------

OUTPUTS = [{"name": "degrees", "kind": "integer", "required": True}, {"name": "city", "kind": "string"}]


def test_outputs_give_a_structured_result() -> None:
    model = ScriptedModel(says('{"degrees": 24, "city": null}'))

    result = invoke_agent(scripted(model, outputs=OUTPUTS))

    assert (type(result), result) == (StructuredResult, {"degrees": 24, "city": None})
    asked = model.requests[0].options.response_format
    assert asked is not None
    assert (asked.name, asked.strict) == ("structured_output", True)


def test_an_answer_in_the_wrong_form_is_asked_for_once_more_and_then_taken_as_it_is() -> None:
    model = ScriptedModel(says("hot"), says("very hot"))
    assert invoke_agent(scripted(model, outputs=OUTPUTS)) == "very hot"
    assert len(model.heard) == 2
    assert invoke_agent(scripted(ScriptedModel(says("hot")), outputs=OUTPUTS)) == "hot"  # the second call fails


def test_one_model_call_is_one_even_if_its_answer_is_in_the_wrong_form() -> None:
    model = ScriptedModel(says("hot"), says("never asked for"))
    assert invoke(scripted(model, outputs=OUTPUTS)) == "hot"
    assert len(model.heard) == 1


def test_a_result_is_cast() -> None:
    class Weather(dict[str, Any]):
        pass

    model = ScriptedModel(says('{"degrees": 24, "city": "Paris"}'))
    assert invoke(scripted(model, outputs=OUTPUTS), target_type=dict[str, Any]) == {"degrees": 24, "city": "Paris"}


# ---- one model call ---------------------------------------------------------------------------------------------------


def test_run_and_invoke_hand_calls_over() -> None:
    call = [ToolCall("call_0_0", "weather", '{"city":"Paris"}')]
    messages = prepare(scripted(ScriptedModel()))
    strict = {**WEATHER, "strict": True}

    assert run(scripted(asking(), tools=[WEATHER]), messages) == call
    assert invoke(scripted(asking(), tools=[strict])) == call
    assert run(scripted(ScriptedModel(says("hi"))), [{"role": "user", "content": "hello"}]) == "hi"


async def test_a_strict_tool_is_declared_so_whoever_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = {"name": "weather", "kind": "function", "strict": True, "parameters": [{"name": "city", "kind": "string"}]}
    function = {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": ["string", "null"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    }
    async with Upstream(completes(None, call("weather")), completes("ok"), completes("ok")) as upstream:
        model = {"id": "m", "connection": {"kind": "key", "endpoint": upstream.url}}
        prompty = loads(text_of({"model": model, "tools": [tool]}, "user:\nhi"))
        await invoke_agent_async(prompty, tools={"weather": lambda city="Rome": city})
        await invoke_async(prompty)
    said = [request["tools"][0]["function"] for request in upstream.requests]
    assert [{**one, "description": ""} for one in said] == [{**function, "description": ""}] * 3


# ---- both colours -----------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["text", "call", "fail"]), max_size=4), st.text(max_size=20))
def test_sync_and_async_give_equal_results(kinds: list[str], question: str) -> None:
    lines = {"text": says("hm"), "call": calls("weather", city="Paris"), "fail": fails("no", 400)}

    def outcome(work: Any) -> Any:
        model = ScriptedModel(*[lines[kind] for kind in kinds], says("end"))
        prompty = scripted(model)
        try:
            return work(prompty), model.heard
        except Exception as error:
            return type(error), str(error), model.heard

    inputs = {"q": question}
    doors = [
        lambda file: invoke_agent(file, inputs, tools=[weather]),
        lambda file: asyncio.run(invoke_agent_async(file, inputs, tools=[weather])),
    ]
    assert outcome(doors[0]) == outcome(doors[1])
    once = [lambda file: invoke(file, inputs), lambda file: asyncio.run(invoke_async(file, inputs))]
    assert outcome(once[0]) == outcome(once[1])
    messages = [{"role": "user", "content": question}]
    runs = [lambda file: run(file, messages), lambda file: asyncio.run(run_async(file, messages))]
    assert outcome(runs[0]) == outcome(runs[1])


async def test_the_synchronous_doors_work_inside_a_running_loop() -> None:
    assert invoke_agent(scripted(asking(), tools=[WEATHER]), tools=[weather]) == "Sunny."
    assert invoke(scripted(ScriptedModel(says("hi")))) == "hi"


async def test_stream_agent_shows_every_event_of_a_file() -> None:
    async with stream_agent(scripted(asking(), tools=[WEATHER]), {"q": "hi"}, tools=[weather]) as events:
        seen = [type(event).__name__ async for event in events]
    assert (seen[0], seen[-1], events.result) == ("RunStarted", "RunFinished", "Sunny.")
    assert "ToolFinished" in seen


# ---- over HTTP --------------------------------------------------------------------------------------------------------


async def test_a_key_goes_where_its_connection_says_and_an_anonymous_one_sends_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the environment's")
    async with Upstream(*[completes("ok")] * 3) as upstream:
        for connection in (
            {"kind": "key", "endpoint": upstream.url, "apiKey": "mine"},
            {"kind": "key", "endpoint": upstream.url},
            {"kind": "anonymous", "endpoint": upstream.url},
        ):
            await invoke_async(loads(text_of({"model": {"id": "m", "connection": connection}}, "user:\nhi")))
    assert [head.get("authorization") for head in upstream.heads] == ["Bearer mine", None, None]


async def test_an_oauth_connection_gets_a_token_keeps_it_and_asks_again_when_it_is_refused() -> None:
    def token(name: str) -> Any:
        return answers(json.dumps({"access_token": name, "expires_in": 3600}).encode())

    acts = [token("one"), completes("a"), completes("b"), refuses(401, "expired"), token("two"), completes("c")]
    async with Upstream(*acts) as upstream:
        said = {"tokenUrl": f"{upstream.url}/token", "clientId": "me", "clientSecret": "s 1", "scopes": ["x", "y"]}
        model = {"id": "m", "connection": {"kind": "oauth", "endpoint": upstream.url, **said}}
        prompty = loads(text_of({"model": model}, "user:\nhi"))
        assert [await invoke_async(prompty) for _ in range(3)] == ["a", "b", "c"]
    form = b"grant_type=client_credentials&client_id=me&client_secret=s+1&scope=x+y"
    assert [upstream.bodies[at] for at in (0, 4)] == [form, form]
    sent = [head.get("authorization") for head in upstream.heads]
    assert sent == [None, "Bearer one", "Bearer one", "Bearer one", None, "Bearer two"]


async def test_a_token_that_cannot_be_had_is_named() -> None:
    async with Upstream(refuses(403, "who are you"), answers(b"<html>")) as upstream:
        said = {"tokenUrl": f"{upstream.url}/token", "clientId": "you", "clientSecret": "s"}
        model = {"id": "m", "connection": {"kind": "oauth", "endpoint": upstream.url, **said}}
        prompty = loads(text_of({"model": model}, "user:\nhi"))
        with pytest.raises(ExecuteError, match=r"no token from http://127.0.0.1:\d+/v1/token: 403 .*who are you"):
            await invoke_async(prompty)
        with pytest.raises(ExecuteError, match="its answer cannot be read"):
            await invoke_async(prompty)


async def test_embeddings_and_images_are_asked_for_through_every_door() -> None:
    vector = answers(json.dumps({"data": [{"embedding": [0.5]}]}).encode())
    image = answers(json.dumps({"data": [{"url": "https://x/y.png"}]}).encode())
    async with Upstream(vector, vector, image, refuses(400, "no such size")) as upstream:

        def file(api: str) -> Any:
            connection = {"kind": "key", "endpoint": upstream.url, "apiKey": "k"}
            return loads(text_of({"model": {"id": "m", "apiType": api, "connection": connection}}, "user:\nA cat"))

        assert await run_async(file("embedding"), prepare(file("embedding"))) == [0.5]
        assert await invoke_agent_async(file("embedding")) == [0.5]
        assert await invoke_async(file("image")) == "https://x/y.png"
        with pytest.raises(UpstreamError, match="no such size"):
            await invoke_async(file("image"))
        with pytest.raises(BadRequest, match="comes in one piece"):
            await invoke_agent_async(file("image"), stream=True)
    assert upstream.requests[1:3] == [{"model": "m", "input": "A cat"}, {"model": "m", "prompt": "A cat"}]


async def test_the_models_of_a_connection_are_listed() -> None:
    listed = answers(json.dumps({"data": [{"id": "gpt-5", "owned_by": "openai"}]}).encode())
    claude = answers(json.dumps({"data": [{"id": "claude-5", "display_name": "Claude 5"}]}).encode())
    async with Upstream(listed, claude, refuses(401, "no key"), answers(b"<html>")) as upstream:
        where = KeyConnection(endpoint=upstream.url, api_key="k")
        record = {"id": "gpt-5", "owned_by": "openai"}
        assert await list_models_async(where) == [ModelInfo("gpt-5", None, "openai", additional_properties=record)]
        found = await list_models_async(where, "anthropic")
        assert [(one.id, one.display_name, one.owned_by) for one in found] == [("claude-5", "Claude 5", "anthropic")]
        with pytest.raises(UpstreamError, match="no key"):
            await list_models_async(where)
        with pytest.raises(ValueError, match="Unexpected response format"):
            await list_models_async(where)
    assert [head.get("authorization") or head.get("x-api-key") for head in upstream.heads][:2] == ["Bearer k", "k"]
    with pytest.raises(BadRequest, match="lists no models"):
        await list_models_async(loads(text_of({"model": "local:any"})))


def test_a_changed_file_is_run_as_it_is_now_even_if_its_size_and_time_are_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps([name]))
    path = tmp_path / "agent.prompty"
    said = []
    for name in ("a", "b", "a"):
        path.write_text(text_of({"model": f"script:{name}.json"}, "user:\nhi"))
        os.utime(path, (1, 1))
        said.append(invoke_agent(path))
    assert said == ["a", "b", "a"]


def test_a_file_sees_the_environment_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps([name]))
    path = tmp_path / "agent.prompty"
    path.write_text(text_of({"model": "${env:WHICH}"}, "user:\nhi"))
    said = []
    for name in ("a", "b"):
        monkeypatch.setenv("WHICH", f"script:{name}.json")
        said.append(invoke_agent(path))
    assert said == ["a", "b"]
