"""Prompty files on the command line: run, validate, render, schema; and one clear message for each thing that can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import shown

from ronda.prompty import schema
from ronda.wire.own.events import schema as events_schema

TOOLS = '''
from ronda import tool

@tool
def lookup(q: str, unit: str = "") -> str:
    """Look something up."""
    return f"found {q} {unit}"
'''
LOOKUP = {"name": "lookup", "kind": "function", "parameters": [{"name": "q", "kind": "string", "required": True}]}


def written(folder: Path, front_matter: Any, body: str = "user:\n{{q}}", name: str = "agent", turns: Any = ()) -> str:
    (folder / "script.json").write_text(json.dumps(list(turns) or ["Hello there."]))
    path = folder / f"{name}.prompty"
    path.write_text(f"---\n{json.dumps({'model': 'script:script.json', **front_matter}, indent=1)}\n---\n{body}")
    return str(path)


# ---- run --------------------------------------------------------------------------------------------------------------


def test_a_file_is_run_with_its_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {"inputs": {"q": {"kind": "string", "required": True}}})
    assert shown(capsys, "run", path, "-i", "q=a=b") == (0, "Hello there.\n", "")
    assert shown(capsys, "run", "--stream", path, "-i", "q=hi") == (0, "Hello there.\n", "")


def test_a_structured_answer_is_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {"outputs": {"a": {"kind": "integer", "required": True}}}, turns=['{"a": 1}'])
    assert shown(capsys, "run", path) == (0, '{"a":1}\n', "")


def test_tools_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(TOOLS)
    turns = [{"calls": [{"name": "lookup", "arguments": {"q": "x"}}]}, "Found."]
    path = written(tmp_path, {"tools": [LOOKUP]}, turns=turns)
    assert shown(capsys, "run", path, "--tools", str(tools), "--stream") == (
        0,
        "Found.\n",
        '[lookup {"q":"x"}]\n[lookup → found x]\n',
    )


def test_another_model_can_be_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.json").write_text('["The other."]')
    path = written(tmp_path, {"model": {"id": "gpt-5", "connection": {"kind": "key", "endpoint": "http://nowhere"}}})
    assert shown(capsys, "run", path, "--model", "script:other.json") == (0, "The other.\n", "")


def test_inputs_come_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = {"q": "string", "n": "integer", "t": "thread", "i": "image"}
    path = written(
        tmp_path, {"inputs": [{"name": k, "kind": v} for k, v in kinds.items()]}, "{{t}}\nuser:\n{{q}} {{n}}{{i}}"
    )
    files = {"q.txt": b"hi\n", "n.txt": b"7", "t.json": b'[{"role": "user", "content": "before"}]', "i.png": b"\x89PNG"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    said = [f"{name[0]}=@{tmp_path / name}" for name in files]

    code, out, err = shown(capsys, "render", path, "--json", *[word for one in said for word in ("-i", one)])

    assert (code, err) == (0, "")
    assert json.loads(out) == [
        {"role": "user", "content": [{"kind": "text", "value": "before"}]},
        {
            "role": "user",
            "content": [
                {"kind": "text", "value": "hi\n 7"},
                {"kind": "image", "value": "iVBORw==", "mediaType": "image/png", "name": "i.png"},
            ],
        },
    ]
    assert shown(capsys, "render", written(tmp_path, {}), "-i", "q=@@at") == (0, "user:\n@at\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "q"], "-i 'q' is not NAME=VALUE"),
        (["-i", "q=1", "-i", "q=2"], "the input 'q' is given twice"),
        (["-i", "q=@/nowhere/at/all"], "the input 'q': cannot read /nowhere/at/all: No such file or directory"),
        (["-i", "n=seven"], "the input 'n' is not of kind 'integer': 'seven'"),
        (["--instructions", "x"], "--system belongs to a prompt; a prompty file brings its own instructions"),
        (["--tool-choice", "none"], "--tool-choice belongs to a prompt; a prompty file decides by itself"),
    ],
)
def test_wrong_arguments_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    path = written(tmp_path, {"inputs": {"n": {"kind": "integer"}}})
    assert shown(capsys, "run", path, *arguments) == (2, "", f"ronda: {message}\n")


def test_inputs_are_for_files(capsys: pytest.CaptureFixture[str]) -> None:
    said = "ronda: -i gives an input to a prompty file, and the prompt is none\n"
    assert shown(capsys, "run", "hello", "-i", "q=1") == (2, "", said)


# ---- what can be wrong with a file ------------------------------------------------------------------------------------


def one_line(error: str) -> str:
    assert error.startswith("ronda: ")
    assert error.count("\n") == 1, error
    return error.removeprefix("ronda: ").strip()


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gone.prompty"
    code, out, err = shown(capsys, "run", str(path))
    assert (code, out, one_line(err)) == (2, "", f"Prompty file not found: {path}")


def test_a_broken_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.prompty"
    path.write_text("---\nname: a\nmodel: [1\n---\nuser:\nhi")
    code, out, err = shown(capsys, "run", str(path))
    assert (code, out) == (2, "")
    assert one_line(err).startswith(f"{path}:4: Invalid frontmatter YAML: ")


def test_a_missing_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {"model": {"id": "${env:RONDA_NO_SUCH}"}})
    code, out, err = shown(capsys, "run", path)
    assert (code, out) == (2, "")
    assert one_line(err) == f"{path}:4: model.id: Environment variable 'RONDA_NO_SUCH' not set"


def test_variables_that_the_environment_lacks_come_from_a_dotenv_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RONDA_SET", "process")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("RONDA_SET=file\nRONDA_WHO=here\nRONDA_SCRIPT=nowhere.json\n")
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / ".env").write_text("RONDA_SCRIPT=script.json\n")
    who = {"set": "${env:RONDA_SET}", "who": "${env:RONDA_WHO}"}
    turns = [{"calls": [{"name": "child", "arguments": {}}]}, "Done."]
    tool = {"name": "child", "kind": "prompty", "path": "child.prompty"}
    child = {"model": {"provider": "script", "id": "${env:RONDA_SCRIPT}"}, "inputs": who}
    written(folder, child, "user:\n{{set}} {{who}}", name="child")
    path = written(folder, {**child, "tools": [tool]}, "user:\n{{set}} {{who}}", turns=turns)

    assert shown(capsys, "render", path) == (0, "user:\nprocess here\n", "")
    # The child is started with its variables; it says what its parent says, since both have the one script.
    once = "Error: the agent 'child' asked for 'child', but it is run with a single model call"
    assert shown(capsys, "run", path) == (0, "Done.\n", f"[child {{}}]\n[child failed: {once}]\n")
    assert shown(capsys, "validate", path) == (0, f"{path}: no problems\n", "")


def test_a_missing_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {"inputs": {"q": {"kind": "string", "required": True}}})
    assert shown(capsys, "run", path) == (2, "", "ronda: Missing required input: q; give it with -i q=…\n")


def test_a_missing_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [{"calls": [{"name": "lookup", "arguments": {"q": "x"}}]}]
    path = written(tmp_path, {"tools": [LOOKUP]}, turns=turns)
    code, out, err = shown(capsys, "run", path)
    assert (code, out) == (2, "")
    assert one_line(err) == (
        "No handler registered for tool: lookup (kind: function); give a file that has it with --tools"
    )


def test_a_cycle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        written(tmp_path, {"tools": [{"name": other, "kind": "prompty", "path": f"{other}.prompty"}]}, name=name)
    code, out, err = shown(capsys, "run", str(tmp_path / "a.prompty"))
    assert (code, out) == (2, "")
    assert "goes round in a circle: a.prompty → b.prompty → a.prompty" in one_line(err)


def test_a_broken_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {}, "user:\n{{ q }}\n{% if %}")
    code, out, err = shown(capsys, "run", path)
    assert (code, out) == (2, "")
    assert one_line(err) == f"{path}:8: Template syntax error: Expected an expression, got 'end of statement block'"


def test_a_broken_template_in_another_file_has_a_line_of_that_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "body.txt").write_text("user:\n{% if %}")
    said = "Template syntax error: Expected an expression, got 'end of statement block' (line 2)"
    for front_matter, body in (({}, "${file:body.txt}"), ({"instructions": "${file:body.txt}"}, "")):
        path = written(tmp_path, front_matter, body)
        assert shown(capsys, "run", path) == (2, "", f"ronda: {path}: {said}\n")
        assert shown(capsys, "validate", path)[:2] == (2, f"{path}: {said}\n")


def test_a_missing_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {"model": "script:gone.json"})
    code, out, err = shown(capsys, "run", path)
    assert (code, out, one_line(err)) == (2, "", f"{path}: model: Referenced file not found: gone.json")


# ---- validate ---------------------------------------------------------------------------------------------------------


def test_nothing_is_left_out_because_something_else_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.prompty").write_text("---\nname: [1\n---\n")
    path = tmp_path / "agent.prompty"
    tools = "\n".join(f"  - {{name: {name}, kind: prompty, path: {name}.prompty}}" for name in ("gone", "broken"))
    tools += "\n  - {name: api, kind: openapi, specification: api.json}"
    model = "model:\n  id: m\n  provider: nobody\n"
    body = "user:\n{{ a | nothing }}\n{{ b is odder }}\n{% include 'x' %}"
    path.write_text(f"---\nname: a\n{model}tools:\n{tools}\ntemplate:\n  format: jinja2\n  parser: xml\n---\n{body}")

    code, out, _ = shown(capsys, "validate", str(path))

    assert (code, out.splitlines()) == (
        2,
        [
            f"{path}:5: model.provider: No executor registered for key: nobody",
            f"{path}:7: tools[0].path: Referenced file not found: gone.prompty",
            f"{path}:8: tools[1].path: {tmp_path}/broken.prompty:3: Invalid frontmatter YAML: "
            "while parsing a flow sequence, did not find expected ',' or ']'",
            f"{path}:9: tools[2].specification: Referenced file not found: api.json",
            f"{path}:12: template.parser: No parser registered for key: xml",
            f"{path}:15: there is no filter 'nothing'",
            f"{path}:16: there is no test 'odder'",
            f"{path}:17: 'include' is not allowed in a template",
        ],
    )
    path.write_text("---\nname: [a]\n---\n{% if %}")
    assert shown(capsys, "validate", str(path))[1].splitlines() == [
        f"{path}:2: name: text is needed here, not a list",
        f"{path}:4: Template syntax error: Expected an expression, got 'end of statement block'",
        f"{path}: model: warning: the file names no model",
    ]


def test_every_problem_is_listed_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.prompty"
    path.write_text("---\nname: [a]\nmodel:\n  id: m\n  options: {temperature: hot}\ninputs: 7\n---\nuser:\nhi")
    good = written(tmp_path, {}, name="good")

    code, out, err = shown(capsys, "validate", str(path), good)

    lines = out.splitlines()
    assert (code, err, lines[-1]) == (2, "", f"{good}: no problems")
    assert [line.split(": ")[:2] for line in lines[:-1]] == [
        [f"{path}:2", "name"],
        [f"{path}:5", "model.options.temperature"],
        [f"{path}:6", "inputs"],
    ]


@pytest.mark.parametrize(
    ("front_matter", "body", "problem"),
    [
        (
            {},
            "user:\n{{ q }}\n{% if %}",
            "8: Template syntax error: Expected an expression, got 'end of statement block'",
        ),
        ({"template": {"format": "mustache"}}, "{{#a}}", "Template syntax error"),
        ({"template": {"format": "erb"}}, "hi", "template.format: No renderer registered for key: erb"),
        ({"template": {"parser": "xml"}}, "hi", "template.parser: No parser registered for key: xml"),
        ({"model": {"id": "m", "apiType": "poem"}}, "hi", "Unsupported API type: poem"),
        ({"model": {"id": "m", "provider": "nobody"}}, "hi", "No executor registered for key: nobody"),
        (
            {"tools": [{"name": "self", "kind": "prompty", "path": "agent.prompty"}]},
            "hi",
            "goes round in a circle: agent.prompty → agent.prompty",
        ),
    ],
)
def test_what_would_fail_later_is_found_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], front_matter: Any, body: str, problem: str
) -> None:
    code, out, _ = shown(capsys, "validate", written(tmp_path, front_matter, body))
    assert code == 2
    assert problem in out


def test_warnings_count_when_they_are_asked_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {"nonsense": 1})
    code, out, _ = shown(capsys, "validate", path)
    assert (code, "warning: " in out) == (0, True)
    assert shown(capsys, "validate", "--strict", path)[0] == 2


# ---- render and schema ------------------------------------------------------------------------------------------------


def test_messages_are_printed_as_they_would_be_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {"inputs": {"q": "hi"}}, "system:\nBe nice.\n\nuser[id=7]:\n{{q}}")
    assert shown(capsys, "render", path) == (0, "system:\nBe nice.\n\nuser[id=7]:\nhi\n", "")


def test_the_schema_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, "schema")
    assert (code, json.loads(out)) == (0, schema())
    assert json.loads(shown(capsys, "schema", "prompty")[1]) == schema()
    assert json.loads(shown(capsys, "schema", "events")[1]) == json.loads(json.dumps(events_schema()))
    assert shown(capsys, "schema", "runs")[0] == 2
    path = tmp_path / "schema.json"
    assert shown(capsys, "schema", "-o", str(path)) == (0, "", "")
    assert json.loads(path.read_text()) == schema()
    assert shown(capsys, "schema", "-o", str(tmp_path))[0] == 2
