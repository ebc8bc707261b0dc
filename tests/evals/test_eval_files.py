"""Files of evaluations: what is wrong with them is said with its line; promptfoo's words are read, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.evals.suites import run, write_suite

from ronda.evals import BadSuite, check_suite, load_suite
from ronda.evals.promptfoo import UNSUPPORTED_CHECKS, UNSUPPORTED_KEYS, model_spec
from ronda.evals.schema import schema
from ronda.evals.suite import Suite, describe_problem
from ronda.schema.validate import Validator, check_schema

GOOD = """\
agent: weather.prompty
cases:
  - name: paris
    inputs: {city: Paris}
    expect: {contains: "22"}
"""


def problems(folder: Path, text: str) -> list[str]:
    file = write_suite(folder, text)
    return [describe_problem("f", problem).replace(str(folder), "DIR") for problem in check_suite(file)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agent: [", "f:2: while parsing a flow node, did not find expected node content"),
        ("- a", "f:1: an evaluation is a mapping with 'agent' (or 'prompts') and 'cases'"),
        ("agent: weather.prompty", "f:1: there are no cases: give 'cases'"),
        (GOOD.replace("agent:", "agnet:"), "f:1: agnet: unknown key 'agnet'; did you mean 'agent'?"),
        (GOOD.replace("weather", "weahter"), "f:1: agent: there is no file DIR/weahter.prompty"),
        (GOOD.replace("expect", "expects"), "f:5: cases[0].expects: unknown key 'expects'; did you mean 'expect'?"),
        (GOOD.replace("contains", "contain"), "expect.contain: there is no check 'contain'; did you mean 'contains'?"),
        (GOOD.replace('contains: "22"', 'regex: "("'), "is no regular expression"),
        (GOOD.replace('contains: "22"', "is-json: {type: objct}"), "f:5: cases[0].expect.is-json: the schema is wrong"),
        (GOOD.replace('contains: "22"', "tools: {userd: a}"), "expect.tools.userd: unknown key 'userd'; did you mean 'used'?"),
        (GOOD.replace('contains: "22"', "ended: stopped"), "expect.ended: a run cannot end with 'stopped'; did you mean 'stop'?"),
        (GOOD.replace('contains: "22"', "rounds: many"), "f:5: cases[0].expect.rounds: a number is needed here, not text"),
        (GOOD.replace('    expect: {contains: "22"}\n', ""), "f:3: cases[0]: the case has no check"),
        (GOOD + "  - name: paris\n    inputs: {city: Rome}\n    expect: x\n", "f:6: cases[1].name: two cases are named 'paris'"),
        (GOOD + "models: [opnai:x]\n", "f:6: models[0]: no model can be found under 'opnai:x'"),
        (GOOD + "repeat: 0\n", "f:6: repeat: repeat is 0; it is a number from 1 to 1000"),
        (GOOD + "mocks: {look_up: {returns: 1, fails: x}}\n", "f:6: mocks.look_up: a mock has one of 'returns', 'fails'"),
        (GOOD + "    script: [{text: x, tekst: y}]\n", "f:6: cases[0].script: the model cannot play this: it is not a list"),
        (GOOD + "    repeat: 5000\n", "f:6: cases[0].repeat: repeat is 5000; it is a number from 1 to 1000"),
        (GOOD.replace("{city: Paris}", "[Paris]"), "f:4: cases[0].inputs: a mapping is needed here, not a list"),
        (GOOD + "defaults: x\n", "f:6: defaults: a mapping is needed here, not text"),
        (GOOD + "prices: 3\n", "f:6: prices: a mapping is needed here, not a number"),
        (GOOD + "evaluateOptions: 3\n", "f:6: evaluateOptions: a mapping is needed here, not a number"),
        (GOOD + "judge: no.prompty\n", "f:6: judge: there is no file DIR/no.prompty"),
        ("agent: weather.prompty\ncases: none.jsonl\n", "f:2: cases: none.jsonl: cannot read DIR/none.jsonl"),
        ("agent: weather.prompty\ncases: weather.prompty\n", "f:2: cases: 'weather.prompty' is no file of cases"),
    ],
)  # fmt: skip
def test_a_problem_is_said_with_its_line(text: str, problem: str, tmp_path: Path) -> None:
    found = problems(tmp_path, text)

    assert len([one for one in found if problem in one]) == 1, found


def test_a_good_file_has_no_problems_and_all_of_a_bad_one_are_raised(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD) == []
    with pytest.raises(BadSuite) as raised:
        load_suite(write_suite(tmp_path, GOOD.replace("agent", "agnet").replace("contains", "contain")))
    assert len(str(raised.value).splitlines()) == 2


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadSuite, match="No such file"):
        load_suite(tmp_path / "none.eval.yaml")


# ---- promptfoo ----------------------------------------------------------------------------------------------------------

PROMPTFOO = """\
# yaml-language-server: $schema=https://promptfoo.dev/config-schema.json
description: Translations
prompts:
  - "Translate to {{language}}: {{text}}"
providers:
  - "script:hola.json"
  - id: script:bonjour.json
    label: french
    config: {temperature: 0}
defaultTest:
  options: {provider: "script:verdict.json"}
  assert:
    - type: latency
      threshold: 60000
tests:
  - description: one
    vars: {language: [Spanish, French], text: Hello}
    assert:
      - {type: icontains, value: "HOLA"}
      - {type: not-contains, value: "{{text}}"}
      - {type: llm-rubric, value: is polite}
  - vars: {language: French, text: Bye}
    providers: [french]
    assert:
      - {type: starts-with, value: Bonjour, weight: 2, metric: greets}
      - {type: cost, threshold: 0.1}
evaluateOptions: {maxConcurrency: 2}
"""


def _translations(folder: Path) -> Path:
    for name, text in (
        ("hola", "Hola."),
        ("bonjour", "Bonjour."),
        ("verdict", '{"pass": true, "score": 1, "reason": "it is"}'),
    ):
        (folder / f"{name}.json").write_text(json.dumps([text]))
    return write_suite(folder, PROMPTFOO, "promptfooconfig.yaml")


async def test_a_file_of_promptfoo_is_run(tmp_path: Path) -> None:
    report = await run(_translations(tmp_path))

    assert [(one.case, one.model, one.status) for one in report.attempts] == [
        ("one", "script:hola.json", "passed"),
        ("one", "french", "failed"),
        ("one #2", "script:hola.json", "passed"),
        ("one #2", "french", "failed"),
        ("French, Bye", "french", "passed"),
    ]
    assert [check.name for check in report.attempts[0].checks] == ["latency", "icontains", "not-contains", "judge"]


@pytest.mark.parametrize("kind", sorted(UNSUPPORTED_CHECKS))
def test_a_check_of_promptfoo_that_ronda_has_not_is_named(kind: str, tmp_path: Path) -> None:
    text = GOOD.replace('expect: {contains: "22"}', f"assert: [{{type: {kind}, value: x}}]")

    (found,) = [one for one in problems(tmp_path, text) if "not supported" in one]

    assert (
        found
        == f"f:5: cases[0].assert[0].type: promptfoo's check '{kind}' is not supported; {UNSUPPORTED_CHECKS[kind]}"
    )


@pytest.mark.parametrize("key", sorted(UNSUPPORTED_KEYS))
def test_a_key_of_promptfoo_that_ronda_has_not_is_named(key: str, tmp_path: Path) -> None:
    assert problems(tmp_path, f"{GOOD}{key}: x\n") == [f"f:6: {key}: unknown key '{key}'; {UNSUPPORTED_KEYS[key]}"]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("openai:gpt-5-mini", "openai-chat:gpt-5-mini"),
        ("openai:chat:gpt-5", "openai-chat:gpt-5"),
        ("openai:responses:gpt-5", "openai:gpt-5"),
        ("anthropic:messages:claude-sonnet-5", "anthropic:claude-sonnet-5"),
        ("google:gemini-3", "gemini:gemini-3"),
        ("azure:chat:mine", "azure:mine"),
        ("ollama:chat:llama3", "ollama:llama3"),
        ("local:smollm2", "local:smollm2"),
    ],
)
def test_providers_of_promptfoo_are_models_here(theirs: str, ours: str, tmp_path: Path) -> None:
    assert model_spec(theirs) == ours
    suite = load_suite(write_suite(tmp_path, f"{GOOD}providers: ['{theirs}']\n"))
    assert [(model.spec, model.name) for model in suite.models] == [(ours, theirs)]


@pytest.mark.parametrize("provider", ["file://my.py", "exec:./run.sh", "https://example.com/api", "echo"])
def test_a_provider_that_is_a_program_is_refused(provider: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, f"{GOOD}providers: ['{provider}']\n")
    assert f"the provider '{provider}' is not supported" in found


# ---- rows ---------------------------------------------------------------------------------------------------------------


def _names(suite: Suite) -> list[tuple[str, list[str]]]:
    return [(case.name, [check.name for check in case.checks]) for case in suite.cases]


def test_cases_come_from_jsonl_and_csv(tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"name": "a", "inputs": {"city": "Rome"}, "expect": "9"}\n\n')
    (tmp_path / "more.csv").write_text(
        'city,__description,__expected,__expected2\nOslo,b,"contains-all: a, b",levenshtein(2): x\nBern,c,cold,is-json\n'
    )
    file = write_suite(tmp_path, "agent: weather.prompty\ncases: [more.jsonl, file://more.csv]\n")

    suite = load_suite(file)

    assert _names(suite) == [("a", ["contains"]), ("b", ["contains-all", "levenshtein"]), ("c", ["equals", "is-json"])]
    assert suite.cases[1].checks[0].value == ["a", "b"]
    assert suite.cases[1].checks[1].threshold == 2
    assert suite.cases[1].inputs == {"city": "Oslo"}


def test_a_row_that_is_wrong_is_said_with_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"name": "a", "expect": "9"}\n\n{"name": "b", "expect": {"contain": "9"}}\n')

    (found,) = problems(tmp_path, "agent: weather.prompty\ncases: more.jsonl\n")

    assert found == "f: DIR/more.jsonl:3: [1].expect.contain: there is no check 'contain'; did you mean 'contains'?"


def test_values_of_checks_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text('{"type": "object"}')
    text = GOOD.replace('contains: "22"', "is-json: file://answer.json")

    suite = load_suite(write_suite(tmp_path, text))

    assert suite.cases[0].checks[0].value == {"type": "object"}
    assert "cannot read" in problems(tmp_path, text.replace("answer", "none"))[0]


# ---- the schema ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [GOOD, PROMPTFOO])
def test_the_schema_for_editors_takes_what_ronda_takes(text: str) -> None:
    from ronda.prompty.yaml_tree import parse_yaml

    assert check_schema(schema()) is None
    assert Validator(schema()).explain(parse_yaml(text).value) is None


def test_the_schema_for_editors_refuses_misspelt_checks() -> None:
    from ronda.prompty.yaml_tree import parse_yaml

    wrong = parse_yaml(GOOD.replace("contains", "contain")).value
    assert Validator(schema()).explain(wrong) is not None
