"""How an evaluation is run: repeated, side by side, within a cost, continued, and scored again without a model."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evals.suites import calls_tool, case, run, suite_of, write_suite

from ronda import tool
from ronda.core.events import RunStarted
from ronda.evals import last_eval_id
from ronda.evals.estimate import mean, pass_at, pass_hat
from ronda.evals.suite import ModelChoice
from ronda.journal.memory import MemoryJournal


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_at_and_pass_hat_are_what_counting_all_choices_gives(tries: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(tries)))
    choices = list(itertools.combinations(tries, k))

    assert pass_at(len(tries), sum(tries), k) == pytest.approx(mean([any(some) for some in choices]))
    assert pass_hat(len(tries), sum(tries), k) == pytest.approx(mean([all(some) for some in choices]))


async def test_a_case_is_repeated_and_the_chance_to_pass_is_estimated(tmp_path: Path) -> None:
    answers = iter(["22", "cold", "22", "22", "cold"])

    @tool
    def look_up(city: str) -> str:
        """Look the weather up."""
        return next(answers)

    # The tool is what changes from one attempt to the next: what is checked is its result.
    one = {"name": "paris", "input": "How is Paris?", "script": [calls_tool(city="Paris"), "done"]}
    file = suite_of(tmp_path, [one | {"expect": {"judge": "it is warm"}}], agent=None, judge=_judge(tmp_path))

    report = await run(file, tools=[look_up], repeat=5, concurrency=1)

    assert [attempt.status for attempt in report.attempts] == ["passed", "failed", "passed", "passed", "failed"]
    (variant,) = report.variants
    assert variant.pass_at == pytest.approx({1: 0.6, 2: 0.9, 3: 1.0, 4: 1.0, 5: 1.0})
    assert variant.pass_hat == pytest.approx({1: 0.6, 2: 0.3, 3: 0.1, 4: 0.0, 5: 0.0})


def _judge(folder: Path) -> str:
    """Says whether the tool's result is 22. Its model is a script; which of its lines is played depends on the calls."""
    (folder / "judge.prompty").write_text(
        "---\nname: judge\nmodel: script:verdicts.json\ninputs:\n  calls: {kind: string}\n---\n"
        "{% if '22' in calls %}user:\nyes\n{% else %}user:\nno\n\nassistant:\nhm\n\nuser:\nno\n{% endif %}\n"
    )
    verdicts = [['{"score": 0.9, "reason": "it is warm"}'], ['{"score": 0.2, "reason": "it is cold"}']]
    (folder / "verdicts.json").write_text(json.dumps(verdicts))
    return "judge.prompty"


async def test_a_judge_is_not_asked_where_a_free_check_has_failed(tmp_path: Path) -> None:
    file = suite_of(
        tmp_path,
        [
            case("asked", expect={"contains": "22", "judge": "it is warm"}),
            case("spared", expect={"contains": "cold", "judge": "it is warm"}),
            case("turned", expect={"not-judge": "it is warm"}),
        ],
        judge=_judge(tmp_path),
    )

    report = await run(file)

    shown = [[(one.name, one.passed, one.asked, one.reason) for one in attempt.checks] for attempt in report.attempts]
    assert shown[0] == [("contains", True, True, ""), ("judge", True, True, "it is warm")]
    assert shown[1][1] == ("judge", False, False, "not asked: a free check has failed")
    assert shown[2] == [("not-judge", False, True, "it is warm")]


async def test_the_judge_that_comes_with_ronda_needs_a_model(tmp_path: Path) -> None:
    file = suite_of(tmp_path, [case(expect={"judge": "it is warm"})])
    (tmp_path / "verdict.json").write_text(json.dumps(['{"score": 1, "reason": "it is"}']))

    without = await run(file)
    with_model = await run(file, judge_model=ModelChoice(f"script:{tmp_path}/verdict.json"))

    assert without.attempts[0].status == "error"
    assert "the judge has no model" in without.attempts[0].message
    assert with_model.attempts[0].status == "passed"


@pytest.mark.parametrize("said", ["Good!", '{"reason": "x"}', '{"score": 4, "reason": "x"}'])
async def test_what_is_no_verdict_is_an_error(said: str, tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text(json.dumps([said]))
    file = suite_of(tmp_path, [case(expect={"judge": "x"})], judge={"model": "script:verdict.json"})

    report = await run(file)

    assert report.attempts[0].status == "error"
    assert report.attempts[0].message.startswith("the judge")


async def test_models_and_prompts_stand_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "warm.json").write_text(json.dumps(["It is warm in {}."]))
    (tmp_path / "cold.json").write_text(json.dumps(["It is cold."]))
    text = """
prompts: ["How is {{city}}?", "Tell me about {{city}}."]
models: ["script:warm.json", {id: "script:cold.json", label: winter}]
cases:
  - {name: all, inputs: {city: Paris}, expect: warm}
  - {name: winter only, inputs: {city: Oslo}, models: winter, expect: cold}
"""
    report = await run(write_suite(tmp_path, text))

    found = [(one.case, one.prompt, one.model, one.status) for one in report.attempts]
    assert found == [
        ("all", "How is {{city}}?", "script:warm.json", "passed"),
        ("all", "How is {{city}}?", "winter", "failed"),
        ("all", "Tell me about {{city}}.", "script:warm.json", "passed"),
        ("all", "Tell me about {{city}}.", "winter", "failed"),
        ("winter only", "How is {{city}}?", "winter", "passed"),
        ("winter only", "Tell me about {{city}}.", "winter", "passed"),
    ]
    assert [(one.prompt, one.model, one.passed, one.failed) for one in report.variants] == [
        ("How is {{city}}?", "script:warm.json", 1, 0),
        ("How is {{city}}?", "winter", 1, 1),
        ("Tell me about {{city}}.", "script:warm.json", 1, 0),
        ("Tell me about {{city}}.", "winter", 1, 1),
    ]


def _priced(cost: float) -> dict[str, Any]:
    return {"script": [{"text": "22", "usage": {"input": 1, "output": 1, "cost": cost}}], "expect": "22"}


async def test_no_case_begins_once_the_cost_is_reached(tmp_path: Path) -> None:
    file = suite_of(tmp_path, [case(str(number)) | _priced(0.4) for number in range(4)])

    report = await run(file, max_cost=0.7, concurrency=1)

    assert [one.status for one in report.attempts] == ["passed", "passed", "not_run", "not_run"]
    assert report.stopped == "$0.8000 were spent, and the limit is $0.7"


async def test_a_case_that_could_not_be_run_does_not_hide_what_the_others_cost(tmp_path: Path) -> None:
    file = suite_of(
        tmp_path,
        [case("a") | _priced(0.25), {"name": "b", "messages": [], "inputs": {}, "expect": "22", "script": ["x"]}],
    )

    report = await run(file)

    assert [one.status for one in report.attempts] == ["passed", "error"]
    assert report.variants[0].cost == 0.25


async def test_a_recording_of_every_run_is_scored_without_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "cassettes"
    folder.mkdir()
    await run(suite_of(tmp_path, [case(expect="22")]), record=folder)
    (cassette,) = folder.iterdir()

    cases = [
        {"name": name, "cassette": str(cassette), "expect": {"contains": text}}
        for name, text in (("a", "22"), ("b", "cold"))
    ]
    report = await run(suite_of(tmp_path, cases), calls_models=False)

    assert [(one.status, one.recorded) for one in report.attempts] == [("passed", True), ("failed", True)]
    assert [call.name for call in report.attempts[0].calls] == ["look_up"]


async def test_kept_runs_are_scored_again_with_other_checks_and_no_model(tmp_path: Path) -> None:
    journal, asked = MemoryJournal(), _Counting()
    file = suite_of(tmp_path, [_asks(asked, "one"), _asks(asked, "two")], agent=None)
    first = await run(file, journal, tools=[asked.tool])
    file = suite_of(
        tmp_path,
        [_asks(asked, "one") | {"expect": "nothing of it"}, _asks(asked, "two"), _asks(asked, "three")],
        agent=None,
    )

    again = await run(file, journal, eval_id=await last_eval_id(journal), calls_models=False, tools=[asked.tool])

    assert [one.status for one in first.attempts] == ["passed", "passed"]
    assert [one.status for one in again.attempts] == ["failed", "passed", "not_run"]
    assert asked.cities == ["one", "two"]


class _Counting:
    def __init__(self) -> None:
        self.cities: list[str] = []

        @tool(repeatable=True)
        def look_up(city: str) -> str:
            """Look the weather up."""
            self.cities.append(city)
            return "22"

        self.tool = look_up


def _asks(asked: _Counting, city: str) -> dict[str, Any]:
    return {"name": city, "input": f"How is {city}?", "script": [calls_tool(city=city), "22"], "expect": "22"}


async def test_an_evaluation_that_goes_on_runs_what_is_missing_and_what_had_an_error(tmp_path: Path) -> None:
    journal, asked = MemoryJournal(), _Counting()
    broken = _asks(asked, "two") | {"script": [{"error": "not now", "status": 400}]}
    first = await run(suite_of(tmp_path, [_asks(asked, "one"), broken], agent=None), journal, tools=[asked.tool])
    eval_id = await last_eval_id(journal)
    assert eval_id == first.eval_id
    both = suite_of(tmp_path, [_asks(asked, "one"), _asks(asked, "two")], agent=None)

    again = await run(both, journal, eval_id=eval_id, tools=[asked.tool])

    assert [one.status for one in first.attempts] == ["passed", "error"]
    assert [(one.status, one.recorded) for one in again.attempts] == [("passed", True), ("passed", False)]
    assert asked.cities == ["one", "two"]


async def test_a_verdict_is_not_asked_for_twice(tmp_path: Path) -> None:
    journal = MemoryJournal()
    file = suite_of(tmp_path, [case(expect={"judge": "it is warm"})], judge=_judge(tmp_path))
    first = await run(file, journal)
    (tmp_path / "verdicts.json").unlink()  # a run that asks again gets an error

    again = await run(file, journal, eval_id=first.eval_id, calls_models=False)

    assert [one.status for one in again.attempts] == ["passed"]
    assert again.attempts[0].checks == first.attempts[0].checks


async def test_a_bound_on_answers_is_that_of_the_file_unless_its_model_has_its_own(tmp_path: Path) -> None:
    own = {"id": "script", "label": "own", "options": {"max_tokens": 50, "temperature": 0}}
    journal = MemoryJournal()

    report = await run(
        suite_of(tmp_path, [case(expect={"contains": "22"})], models=["script", own], max_tokens=9), journal
    )

    starts = [(await journal.read(one.run_id))[0] for one in report.attempts]
    plans = [start.plan for start in starts if isinstance(start, RunStarted)]
    assert [(plan.options.max_tokens, plan.options.temperature) for plan in plans] == [(9, None), (50, 0)]
