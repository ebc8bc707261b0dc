"""The spans of a prompty file's stages and runs: names and nesting, as each door has them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.upstreams import Upstream, answers
from tests.pipeline.files import WEATHER, scripted, text_of, weather
from tests.trace.spying import Spy

from ronda import (
    invoke,
    invoke_agent,
    invoke_agent_async,
    load,
    load_async,
    loads,
    prepare,
    process,
    run,
    turn,
)
from ronda.testing import ScriptedModel, calls, says
from ronda.trace import Tracer

PREPARE = ("prepare", ["render", "parse"])


@pytest.fixture
def spy() -> Iterator[Spy]:
    spy = Spy()
    Tracer.add("spy", spy)
    yield spy
    Tracer.remove("spy")


def lines() -> ScriptedModel:
    return ScriptedModel(calls("weather", city="Paris"), says("Sunny."))


def test_loading_is_a_span_wherever_it_is_asked_for(spy: Spy, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('["hi"]')
    path = tmp_path / "agent.prompty"
    path.write_text(
        "---\nname: a\nmodel: {id: 'script:script.json', connection: {kind: key, apiKey: k}}\n---\nuser:\nhi"
    )

    load(path)
    asyncio.run(load_async(path))
    invoke_agent(path)

    assert spy.tree() == ["load", "load", ("invoke_agent", ["load", PREPARE, "execute", "process"])]
    assert [said["inputs"] for said in spy.told("load")] == [{"path": str(path)}] * 3
    assert {said["result"]["model"]["connection"]["apiKey"] for said in spy.told("load")} == {"[REDACTED]"}


async def test_what_an_embedding_used_is_told(spy: Spy) -> None:
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    answer = json.dumps({"data": [{"embedding": [0.5]}], "usage": usage}).encode()
    async with Upstream(answers(answer)) as upstream:
        connection = {"kind": "key", "endpoint": upstream.url}
        file = loads(text_of({"model": {"id": "m", "apiType": "embedding", "connection": connection}}, "hi"))
        assert await invoke_agent_async(file) == [0.5]

    assert spy.tree() == [("invoke_agent", [PREPARE, "execute", "process"])]
    assert spy.told("execute")[0]["result"] == {"usage": usage}
    assert spy.told("invoke_agent")[0]["result"] == [0.5]


def test_the_stages_alone(spy: Spy) -> None:
    prompty = scripted(ScriptedModel())
    prepare(prompty)
    process(prompty, {"choices": [{"message": {"content": "hi"}}]})
    assert spy.tree() == [PREPARE, "process"]


async def test_an_agent_has_one_span_around_everything_even_from_inside_a_loop(spy: Spy) -> None:
    invoke_agent(scripted(lines(), tools=[WEATHER]), tools=[weather])
    expected: list[Any] = [("invoke_agent", [PREPARE, "execute", "execute_tool", "execute", "process"])]
    assert spy.tree() == expected
    assert spy.told("invoke_agent")[0]["result"] == "Sunny."
    assert {key for said in spy.told("parse") for key in said} == {"signature", "inputs", "result"}
    assert spy.told("parse")[0]["inputs"] == {"rendered": "system:\nBe nice.\n\nuser:\nHow is Paris?"}
    assert spy.told("process")[0]["inputs"]["response"]["turn"]["parts"] == [{"type": "text", "text": "Sunny."}]


def test_one_model_call_and_a_turn(spy: Spy) -> None:
    invoke(scripted(ScriptedModel(says("hi"))))
    run(scripted(ScriptedModel(says("hi"))), [{"role": "user", "content": "hi"}])
    turn(scripted(lines(), tools=[WEATHER]), tools=[weather])
    turn(scripted(ScriptedModel(says("hi"))), turn=3)
    assert spy.tree() == [
        ("invoke", [PREPARE, "execute", "process"]),
        ("run", ["execute", "process"]),
        ("turn", [PREPARE, "execute", "execute_tool", "execute", "process"]),
        ("turn 3", [PREPARE, "execute", "process"]),
    ]


def test_a_stream_has_a_span_of_its_own_when_it_is_over(spy: Spy) -> None:
    stream = invoke_agent(scripted(ScriptedModel(says("a b"))), stream=True)
    assert spy.tree() == []
    assert list(stream) == ["a ", "b"]
    assert spy.tree() == [("invoke_agent", [PREPARE, "execute", "PromptyStream", "process"])]
    assert spy.told("PromptyStream")[0]["result"] == ["a ", "b"]


@pytest.mark.parametrize(
    ("door", "name", "inside"),
    [
        (invoke_agent, "invoke_agent", [PREPARE]),
        (invoke, "invoke", [PREPARE]),
        (turn, "turn", [PREPARE]),
        (lambda path: run(path, [{"role": "user", "content": "hi"}]), "run", []),
    ],
)
def test_a_file_that_asks_for_a_stream_has_one_span_from_loading_to_the_result(
    spy: Spy, tmp_path: Path, door: Callable[[Path], Any], name: str, inside: list[Any]
) -> None:
    (tmp_path / "script.json").write_text('["a b"]')
    path = tmp_path / "agent.prompty"
    path.write_text(
        "---\nmodel:\n  id: script:script.json\n  options: {additionalProperties: {stream: true}}\n---\nuser:\nhi"
    )

    stream = door(path)

    assert spy.tree() == []
    assert list(stream) == ["a ", "b"]
    assert spy.tree() == [(name, ["load", *inside, "execute", "PromptyStream", "process"])]
    assert spy.told(name)[0]["result"] == "a b"


def test_what_is_wrong_with_a_stream_is_traced_although_none_begins(spy: Spy, tmp_path: Path) -> None:
    path = tmp_path / "agent.prompty"
    path.write_text("---\nmodel: openai-chat:m\ninputs: {q: {kind: string, required: true}}\n---\nuser:\n{{q}}")

    with pytest.raises(ValueError, match="Missing required input: q"):
        invoke_agent(path, stream=True)
    with pytest.raises(FileNotFoundError):
        invoke_agent(tmp_path / "gone.prompty", stream=True)

    assert spy.tree() == [("invoke_agent", ["load"]), ("invoke_agent", ["load"])]
    assert [said["result"]["exception"] for said in spy.told("invoke_agent")] == ["BadRequest", "PromptyNotFound"]
