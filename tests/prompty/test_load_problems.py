"""What is wrong with a file is said in the specification's words, with file, line and field; `check` finds all of it."""

import pickle
from pathlib import Path

import pytest

from ronda.errors import BadRequest
from ronda.prompty import BadPrompty, Problem, PromptyNotFound, check, load, loads
from ronda.prompty.validate import validate


def written(folder: Path, yaml: str, body: str = "Hi") -> Path:
    file = folder / "agent.prompty"
    file.write_text(f"---\n{yaml}\n---\n{body}\n")
    return file


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("---\nname: [invalid\n---\nHello", "Invalid frontmatter YAML: while parsing a flow sequence", 3),
        ("---\nname: x\nmodel: y", "Malformed frontmatter: no line with a closing ---", 1),
        ("--- name: x ---\nHi", "Malformed frontmatter: the opening marker must have a line to itself", 1),
        ("---\n- a\n---\nHi", "Frontmatter must be a YAML mapping", 2),
        ("---\njust text\n---\nHi", "Frontmatter must be a YAML mapping", 2),
        ("---\nname: x\n\ntemplate: jinja2\n---\nHi", "Invalid template format", 4),
        ("---\na: 1\n---\n---\nb: 1\n---\nHi", "", 0),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text: str, message: str, line: int) -> None:
    if not message:
        assert loads(text).instructions == "---\nb: 1\n---\nHi"
        return
    with pytest.raises(BadPrompty) as caught:
        loads(text)

    assert message in str(caught.value)
    assert caught.value.line == line


def test_a_missing_file_is_the_specifications_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load(tmp_path / "no.prompty")

    assert str(caught.value) == f"Prompty file not found: {tmp_path}/no.prompty"
    assert isinstance(caught.value, PromptyNotFound | BadRequest | ValueError)


def test_an_error_knows_file_line_and_field(tmp_path: Path) -> None:
    file = written(tmp_path, "model:\n  id: m\n  connection:\n    kind: key\n    apiKey: ${env:NO_SUCH}")

    with pytest.raises(ValueError, match="Environment variable 'NO_SUCH' not set") as caught:
        load(file, env={})

    error = caught.value
    assert isinstance(error, BadPrompty)
    assert str(error) == "Environment variable 'NO_SUCH' not set"
    assert (error.path, error.line, error.field) == (str(file), 6, "model.connection.apiKey")
    assert error.where == f"{file}:6: model.connection.apiKey"
    again = pickle.loads(pickle.dumps(error))
    assert (again.where, str(again), type(again)) == (error.where, str(error), BadPrompty)


@pytest.mark.parametrize(
    ("yaml", "line", "field", "message"),
    [
        ("name: [a]", 2, "name", "text is needed here, not a list"),
        ("name: 5", 2, "name", "text is needed here, not a number"),
        ("metadata: x", 2, "metadata", "a mapping is needed here, not text"),
        ("model: 5", 2, "model", "a mapping is needed here, not a number"),
        ("model: {options: {temperature: hot}}", 2, "model.options.temperature", "a number is needed here, not text"),
        ("model: {options: {seed: 1.5}}", 2, "model.options.seed", "a whole number is needed here, not a number"),
        ("model: {options: {seed: true}}", 2, "model.options.seed", "a whole number is needed here, not true or false"),
        ("model: {options: {stopSequences: END}}", 2, "model.options.stopSequences", "a list is needed here, not text"),
        ("model: {connection: mine}", 2, "model.connection", "a mapping is needed here, not text"),
        ("model:\n  connection: {endpoint: e}", 3, "model.connection.kind", "a connection needs a kind"),
        ("model:\n  connection: {kind: reference}", 3, "model.connection.name", "needs the name of a registered one"),
        ("inputs: x", 2, "inputs", "a list of inputs or a mapping is needed here"),
        ("inputs:\n  - x", 3, "inputs[0]", "an input of a list is a mapping with a name"),
        ("inputs:\n  - {kind: string}", 3, "inputs[0]", "an input needs a name"),
        ("inputs:\n  - {name: a}\n  - {name: a}", 4, "inputs[1].name", "two inputs are named 'a'"),
        (
            "inputs: {a: {kind: string, required: maybe}}",
            2,
            "inputs.a.required",
            "true or false is needed here, not text",
        ),
        ("inputs: {a: {kind: union}}", 2, "inputs.a", "either 'oneOf' or 'anyOf'"),
        ("inputs: {a: {kind: union, oneOf: [{}], anyOf: [{}]}}", 2, "inputs.a", "either 'oneOf' or 'anyOf'"),
        ("inputs: {a: {kind: union, oneOf: []}}", 2, "inputs.a.oneOf", "a list of properties is needed here"),
        ("inputs: {a: {kind: string, enumValues: b}}", 2, "inputs.a.enumValues", "a list of values is needed here"),
        ("inputs: {a: {kind: array, items: [b]}}", 2, "inputs.a.items", "a mapping is needed here, not a list"),
        ("tools: [{name: t}]", 2, "tools[0]", "a tool needs a kind"),
        ("tools: [{name: []}]", 2, "tools[0].name", "text is needed here, not a list"),
        ("tools: {t: }", 2, "tools.t", "a tool needs a kind"),
        ("tools: {t: x}", 2, "tools.t", "a mapping is needed here, not text"),
        (
            "tools:\n - {name: t, kind: function}\n - {name: t, kind: mcp}",
            4,
            "tools[1].name",
            "two tools are named 't'",
        ),
        ("tools: {t: {kind: mcp}}", 2, "tools.t", "needs a connection or a serverName"),
        ("tools: {t: {kind: mcp, serverName: s, approvalMode: ask}}", 2, "tools.t.approvalMode", "'ask' is not one of"),
        ("tools: {t: {kind: mcp, serverName: s, approvalMode: {}}}", 2, "tools.t.approvalMode", "needs a kind"),
        ("tools: {t: {kind: openapi}}", 2, "tools.t", "needs a specification"),
        ("tools: {t: {kind: prompty}}", 2, "tools.t", "needs the path"),
        (
            "tools: {t: {kind: prompty, path: p, mode: loop}}",
            2,
            "tools.t.mode",
            "'loop' is not one of 'single', 'agentic'",
        ),
        ("tools: {t: {kind: function, bindings: {a: {}}}}", 2, "tools.t.bindings.a", "a binding names the input"),
        ("template: [a]", 2, "template", "Invalid template format"),
        ("template: {format: [a]}", 2, "template.format", "Invalid template format"),
        ("name: a\nname: b", 3, "name", "the key 'name' stands here twice, first in line 2"),
        ("model:\n  1: a", 3, "model.1", 'the key 1 is not text: write "1" in quotes'),
        (
            "metadata: {a: !!python/object:os.system x}",
            2,
            "metadata.a",
            "the tag tag:yaml.org,2002:python/object:os.system",
        ),
        ("metadata: {a: .nan}", 2, "metadata.a", "none that JSON has room for"),
    ],
)
def test_every_problem_has_its_line_and_field(tmp_path: Path, yaml: str, line: int, field: str, message: str) -> None:
    file = written(tmp_path, yaml)

    found = [problem for problem in check(file, env={}) if problem.severity == "error"]

    assert [(problem.line, problem.field) for problem in found] == [(line, field)]
    assert message in found[0].message
    with pytest.raises(BadPrompty) as caught:
        load(file, env={})
    assert (caught.value.line, caught.value.field, str(caught.value)) == (line, field, found[0].message)


def test_check_finds_all_problems_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "name: 1\n"
        "model:\n"
        "  id: m\n"
        "  connection: {kind: key, apiKey: '${env:NO_KEY}'}\n"
        "  options: {temperature: hot, max_tokens: 3}\n"
        "inputs:\n"
        "  - {name: a, kind: number}\n"
        "  - {kind: string}\n"
        "tools:\n"
        "  - {name: t, kind: function, parameters: {p: {kind: string}}, bindings: {p: nope}}\n"
        "  - {name: c, kind: prompty, path: ../outside.prompty}\n"
        "template: jinja2\n"
        "modle: x",
    )

    found = check(file, env={})

    assert found == [
        Problem(2, "name", "text is needed here, not a number"),
        Problem(5, "model.connection.apiKey", "Environment variable 'NO_KEY' not set"),
        Problem(6, "model.options.temperature", "a number is needed here, not text"),
        Problem(6, "model.options.max_tokens", "unknown key 'max_tokens'; it is 'maxOutputTokens'", "warning"),
        Problem(8, "inputs[0].kind", found[4].message, "warning"),
        Problem(9, "inputs[1]", "an input needs a name"),
        Problem(11, "tools[0].bindings.p", "there is no input 'nope' to bind 'p' to", "warning"),
        Problem(13, "template", "Invalid template format: write template: {format: {kind: jinja2}}"),
        Problem(14, "modle", "unknown key 'modle'; did you mean 'model'?", "warning"),
    ]
    with pytest.raises(BadPrompty, match="NO_KEY") as caught:
        load(file, env={})
    assert caught.value.__notes__ == ["and 4 more; `ronda validate` lists them all"]


def test_what_loads_but_cannot_be_meant_is_a_warning(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "sample: {a: 1}\n"
        "model: {api: chat, apiType: video, connection: {kind: key, authenticationMode: root}}\n"
        "inputs: {a: {kind: integer, default: b}, c: {kind: string, default: d, enumValues: [e]}}\n"
        "tools:\n"
        "  c: {kind: prompty, path: ../x.prompty}\n"
        "  o: {kind: openapi, specification: ./no.json}\n"
        "  w: {kind: openapi, specification: 'https://example.org/api.json'}\n"
        "instructions: x",
    )

    load(file)
    assert [str(problem) for problem in check(file)] == [
        "line 2: sample: warning: unknown key 'sample'; since version 2 an input has its own 'default' or 'example'",
        "line 3: model.api: warning: unknown key 'api'; since version 2 it is 'apiType'",
        "line 3: model.apiType: warning: Unsupported API type: video; there are 'chat', 'embedding', 'image', 'responses'",
        "line 3: model.connection.authenticationMode: warning: 'root' is neither 'user' nor 'system'",
        "line 4: inputs.a.default: warning: the default is not of kind 'integer'",
        "line 4: inputs.c.default: warning: the default is not among 'enumValues'",
        "line 6: tools.c.path: warning: ../x.prompty resolves outside allowed roots",
        "line 7: tools.o.specification: warning: Referenced file not found: ./no.json",
        "line 9: instructions: warning: the text below the front matter is used instead",
    ]


def test_a_file_in_order_has_no_problems(tmp_path: Path) -> None:
    assert check(written(tmp_path, "name: x\nmodel: m")) == []


def test_check_of_what_is_no_file_is_one_problem(tmp_path: Path) -> None:
    assert check(tmp_path / "no") == [Problem(None, "", f"Prompty file not found: {tmp_path}/no")]
    assert check(tmp_path) == [Problem(None, "", f"{tmp_path} is not a plain file")]
    assert check("a\0b")[0].severity == "error"


def test_whether_a_problem_is_a_warning_does_not_depend_on_its_words(tmp_path: Path) -> None:
    """A connection may be registered where the file is run; an API type that is called so may not."""
    unknown = written(tmp_path, "model: {id: m, provider: openai, connection: {kind: reference, name: gone}}")
    assert [(one.field, one.severity) for one in validate(unknown)] == [("model", "warning")]

    wrong = written(tmp_path, "model: {id: m, provider: openai, apiType: is registered}")
    assert [(one.field, one.severity) for one in validate(wrong)] == [("model.apiType", "error")]


@pytest.mark.parametrize(
    ("model", "warnings"),
    [
        ("openia:gpt-5.5", ["'openia:gpt-5.5' is taken for a model of OpenAI; did you mean 'openai:gpt-5.5'?"]),
        ("openai:gpt-5.5", []),
        ("ollama:qwen3", []),
        ("qwen3:8b", []),
        ("{id: 'openia:gpt-5.5', provider: openai}", []),
    ],
)
def test_a_misspelt_provider_is_a_warning(tmp_path: Path, model: str, warnings: list[str]) -> None:
    file = written(tmp_path, f"name: x\nmodel: {model}")

    assert [problem.message for problem in check(file, env={})] == warnings
