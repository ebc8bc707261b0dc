"""A folder of prompt files: each one a model name on every door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Served, declared, soon
from tests.server.responses_door import post

from ronda import tool
from ronda.core.events import RunStarted
from ronda.core.parts import SystemTurn, Turn, user
from ronda.server.services.agent_files import AgentFiles
from ronda.server.services.toolbox import Toolbox
from ronda.testing import ScriptedModel, says

PLAIN = """---
name: plain
model: script:plain.json
---
system:
Be brief.
"""
QUESTION = """---
model: script:plain.json
inputs:
  question:
    kind: string
    required: true
  tone: friendly
---
system:
Be {{tone}}.

user:
Asked: {{question}}
"""
THREAD = """---
model: script:plain.json
inputs:
  - name: talk
    kind: thread
---
system:
Be brief.

{{talk}}

user:
Now answer.
"""
TOOLS = """---
model: script:tools.json
inputs:
  unit: celsius
tools:
  - name: weather
    kind: function
    parameters:
      - name: city
        kind: string
        required: true
      - name: unit
        kind: string
    bindings:
      unit: unit
  - name: calendar
    kind: function
---
system:
Look it up.
"""


@tool
def weather(city: str, unit: str) -> str:
    """The weather."""
    return f"24 {unit} in {city}"


@tool
def other() -> str:
    """Of the server, and none of the file's."""
    return "other"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plain.json").write_text(json.dumps(["Hello."]))
    calls = [{"name": "weather", "arguments": {"city": "Lisbon"}}]
    (tmp_path / "tools.json").write_text(json.dumps([{"calls": calls}, "Warm."]))
    (tmp_path / "plain.prompty").write_text(PLAIN)
    (tmp_path / "question.prompty").write_text(QUESTION)
    (tmp_path / "thread.prompty").write_text(THREAD)
    (tmp_path / "tools.prompty").write_text(TOOLS)
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "triage.prompty").write_text(PLAIN)
    (tmp_path / "support" / "plain.json").write_text(json.dumps(["Hello."]))
    return tmp_path


async def ask(served: Served, model: str, messages: list[Any], **more: Any) -> Any:
    async with soon():
        answer = await served.client().chat.completions.create(model=model, messages=messages, extra_body=more)
    return answer.to_dict()


async def started(served: Served) -> tuple[Turn, ...]:
    start = (await served.events)[-1][0]
    assert isinstance(start, RunStarted)
    return start.turns


HI = {"role": "user", "content": "Hi"}


async def test_a_file_answers_under_its_name(door: Door, folder: Path) -> None:
    async with door.serving(ScriptedModel(says("no")), agents=str(folder)) as served:
        answer = await ask(served, "plain", [HI])
        nested = await ask(served, "support/triage", [HI])
        listed = [model.id async for model in await served.client().models.list()]

        assert (answer["model"], answer["choices"][0]["message"]["content"]) == ("plain", "Hello.")
        assert nested["choices"][0]["message"]["content"] == "Hello."
        assert listed == ["default", "test", "plain", "question", "support/triage", "thread", "tools"]
        assert await started(served) == (SystemTurn("Be brief."), user("Hi"))


async def test_the_list_of_models_says_what_an_agent_wants_to_be_asked_with(door: Door, folder: Path) -> None:
    about = "name: q\ndescription: Answers.\nmodel"
    (folder / "question.prompty").write_text(QUESTION.replace("model", about, 1))
    async with door.serving(ScriptedModel(says("no")), agents=str(folder)) as served:
        listed: dict[str, Any] = {model.id: model.to_dict() async for model in await served.client().models.list()}
        by_title = (await served.client().models.retrieve("q")).to_dict()

    assert listed["question"]["agent"] == {
        "title": "q",
        "description": "Answers.",
        "inputs": {
            "type": "object",
            "properties": {"question": {"type": "string"}, "tone": {"type": "string"}},
            "required": ["question"],
        },
        "question": "question",
        "tools": [],
    }
    assert by_title["agent"] == listed["question"]["agent"]
    assert [(tool["name"], tool["kind"]) for tool in listed["tools"]["agent"]["tools"]] == [
        ("weather", "function"),
        ("calendar", "function"),
    ]
    assert listed["thread"]["agent"]["inputs"]["properties"] == {}
    assert "agent" not in listed["default"]


async def test_a_default_that_comes_from_the_environment_is_not_listed(
    door: Door, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_SECRET", "canary-5712")
    (folder / "question.prompty").write_text(QUESTION.replace("tone: friendly", "tone: ${env:HOUSE_SECRET}"))
    async with door.serving(ScriptedModel(says("no")), agents=str(folder)) as served:
        listed = [model.to_dict() async for model in await served.client().models.list()]
    assert "canary-5712" not in str(listed)


async def test_a_conversation_goes_on_from_the_files_messages(door: Door, folder: Path) -> None:
    talk = [HI, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And now?"}]
    async with door.serving(ScriptedModel(says("no")), agents=str(folder)) as served:
        await ask(served, "question", talk, inputs={"tone": "curt"})
        asked = await started(served)
        await ask(served, "thread", talk)
        threaded = await started(served)

    assert asked[0] == SystemTurn("Be curt.")
    assert asked[1] == user("Hi")
    assert asked[3] == user("Asked: And now?")
    assert threaded[0] == SystemTurn("Be brief.")
    assert threaded[1] == user("Hi")
    assert threaded[3:] == (user("And now?"), user("Now answer."))


async def test_a_files_tools_are_its_own_and_the_servers_functions_run_them(door: Door, folder: Path) -> None:
    async with door.serving(ScriptedModel(says("no")), weather, other, agents=str(folder)) as served:
        answer = await ask(served, "tools", [HI], inputs={"unit": "kelvin"})
        start = (await served.events)[-1][0]

    [record] = answer["agentic_tool_calls"]
    assert record["result_content"] == "24 kelvin in Lisbon"
    assert answer["choices"][0]["message"]["content"] == "Warm."
    assert isinstance(start, RunStarted)
    assert [(spec.name, spec.kind) for spec in start.plan.tools] == [("weather", "function"), ("calendar", "caller")]


async def test_a_requests_own_tools_stand_beside_a_files_and_go_out_to_the_caller(door: Door, folder: Path) -> None:
    mine = [declared("pick", color="string"), declared("weather", city="string")]
    async with door.serving(ScriptedModel(says("no")), weather, other, agents=str(folder)) as served:
        answer = await served.post({"model": "tools", "messages": [HI], "inputs": {"unit": "kelvin"}, "tools": mine})
        start = (await served.events)[-1][0]

    assert isinstance(start, RunStarted)
    found = {spec.name: spec.kind for spec in start.plan.tools}
    assert found == {"calendar": "caller", "pick": "caller", "weather": "caller"}  # of two of one name the request's
    assert answer.json["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("path", ["/chat/completions", "/responses", "/messages"])
async def test_an_input_that_a_file_does_not_have_is_refused_by_name(door: Door, folder: Path, path: str) -> None:
    said = {"input": "hi"} if path == "/responses" else {"messages": [HI], "max_tokens": 9}
    async with door.serving(ScriptedModel(says("no")), weather, agents=str(folder)) as served:
        answer = await post(served, {"model": "tools", "inputs": {"unit": "kelvin", "untit": "x"}, **said}, path)

    assert answer.status == 400
    assert answer.json["error"]["message"] == "the agent has no input 'untit'; it has 'unit'"


async def test_a_files_children_have_the_servers_functions_too(door: Door, folder: Path) -> None:
    child = "  - name: ask\n    kind: prompty\n    path: tools.prompty\n    mode: agentic\n"
    (folder / "parent.json").write_text(json.dumps([{"calls": [{"name": "ask", "arguments": {}}]}, "Done."]))
    (folder / "parent.prompty").write_text(f"---\nmodel: script:parent.json\ntools:\n{child}---\nsystem:\nAsk.\n")
    async with door.serving(ScriptedModel(says("no")), weather, agents=str(folder)) as served:
        answer = await ask(served, "parent", [HI])

    [record] = answer["agentic_tool_calls"]
    assert (record["name"], record["result_content"]) == ("ask", "Warm.")


async def test_a_change_on_disk_is_picked_up_and_a_broken_file_leaves_the_others_alone(
    door: Door, folder: Path
) -> None:
    async with door.serving(ScriptedModel(says("no")), agents=str(folder)) as served:
        await ask(served, "plain", [HI])
        (folder / "plain.prompty").write_text(PLAIN.replace("Be brief.", "Be loud and clear."))
        (folder / "question.prompty").write_text("---\nmodel: [\n---\nHi")
        (folder / "new.prompty").write_text(PLAIN)
        await ask(served, "plain", [HI])
        changed = await started(served)
        await ask(served, "new", [HI])
        broken = await served.post({"model": "question", "messages": [HI]})
        listed = {model.id: model.to_dict()["status"] async for model in await served.client().models.list()}
        (folder / "thread.prompty").unlink()
        gone = await served.post({"model": "thread", "messages": [HI]})

    assert changed[0] == SystemTurn("Be loud and clear.")
    assert broken.status == 503
    assert "the agent 'question' cannot be used: line 3: Invalid frontmatter YAML" in broken.error["message"]
    assert [name for name, status in listed.items() if status == "broken"] == ["question"]
    assert gone.status == 404


@pytest.mark.parametrize(
    "name", ["../secret", "support/../../secret", "support/../plain", "./plain", "/etc/passwd", "a\0b", "x" * 5000]
)
async def test_no_name_leads_out_of_the_folder(door: Door, folder: Path, name: str) -> None:
    (folder.parent / "secret.prompty").write_text(PLAIN)
    async with door.serving(ScriptedModel(says("no")), agents=str(folder)) as served:
        answer = await served.post({"model": name, "messages": [HI]})

    assert answer.status == 404


async def test_inputs_that_are_missing_or_for_nobody_are_named(door: Door, folder: Path) -> None:
    two = QUESTION.replace("  tone: friendly", "  tone:\n    kind: string\n    required: true")
    (folder / "two.prompty").write_text(two)
    async with door.serving(ScriptedModel(says("no")), agents=str(folder)) as served:
        missing = await served.post({"model": "two", "messages": [HI]})
        nobody = await served.post({"messages": [HI], "inputs": {"a": 1}})

    assert (missing.status, missing.error["message"]) == (400, "Missing required input: question")
    assert (nobody.status, nobody.error["param"]) == (400, "inputs")


NAMED = PLAIN.replace("name: plain", "name: My greeter")


async def test_a_file_answers_under_the_name_it_gives_itself_too(door: Door, folder: Path) -> None:
    (folder / "support" / "hello.prompty").write_text(NAMED)
    async with door.serving(ScriptedModel(says("no")), agents=str(folder)) as served:
        by_name = await ask(served, "My greeter", [HI])
        by_path = await ask(served, "support/hello", [HI])
        path_wins = await ask(served, "plain", [HI])
        (folder / "support" / "hello.prompty").write_text(NAMED.replace("My greeter", "Another"))
        gone = await served.post({"model": "My greeter", "messages": [HI]})
        renamed = await ask(served, "Another", [HI])
        (folder / "support" / "hello.prompty").write_text("---\nmodel: [\n---\nHi")
        broken = await served.post({"model": "Another", "messages": [HI]})

    for answer in (by_name, by_path, path_wins, renamed):
        assert answer["choices"][0]["message"]["content"] == "Hello."
    assert gone.status == 404
    assert broken.status == 404  # a file that cannot be read says no name any more


def test_every_problem_of_a_file_is_reported_at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    (tmp_path / "plain.json").write_text(json.dumps(["Hello."]))
    (tmp_path / "a.prompty").write_text(NAMED)
    (tmp_path / "b.prompty").write_text(NAMED)
    (tmp_path / "broken.prompty").write_text("---\nmodel: [\n---\nHi")
    (tmp_path / "keyless.prompty").write_text("---\nmodel: openai:gpt-5.5\n---\nuser:\nHi")
    (tmp_path / "template.prompty").write_text("---\nmodel: script:plain.json\n---\nuser:\n{% if %}")
    child = "tools: [{name: ask, kind: prompty, path: nobody.prompty}]\n"
    (tmp_path / "child.prompty").write_text(f"---\nmodel: script:plain.json\n{child}---\nuser:\nHi")
    (tmp_path / "typo.prompty").write_text(
        "---\nmodel: script:plain.json\ninputs:\n  question: why\n---\nuser:\n{{qestion}}"
    )

    lines = AgentFiles(str(tmp_path), Toolbox()).report()

    assert [line.partition(": ")[0] for line in lines] == [
        "the agent 'b'",
        "the agent 'broken' cannot be used",
        "the agent 'child' cannot be used",
        "the agent 'keyless' cannot be used",
        "the agent 'template' cannot be used",
        "the agent 'typo'",
    ]
    assert (
        lines[0] == "the agent 'b': another file, 'a', has the name 'My greeter', too; 'b' answers under its path only"
    )
    assert "OPENAI_API_KEY" in lines[3]
    assert "did you mean 'question'?" in lines[5]
