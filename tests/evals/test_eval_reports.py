"""What is told about an evaluation: a table with what failed on top, JSON that can be read again, JUnit's XML, a comparison."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.evals.suites import case, run, suite_of

from ronda.errors import BadConfig
from ronda.evals import EvalReport, compare, read_report, to_json
from ronda.evals.junit import write_junit
from ronda.evals.table import write_table


async def _report(folder: Path, *words: str, repeat: int = 1) -> EvalReport:
    """Cases a, b, c …, each of which answers with "22" and expects its word."""
    cases = [case(name, expect=word) for name, word in zip("abcdef", words, strict=False)]
    return await run(suite_of(folder, cases), repeat=repeat)


async def test_the_table_has_failing_cases_first(tmp_path: Path) -> None:
    table = write_table(await _report(tmp_path, "22", "cold", "degrees")).splitlines()

    assert table[:3] == ["FAIL  b", '      contains: the answer does not contain "cold": "22 degrees"', ""]
    assert [line.split()[0] for line in table[4:7]] == ["b", "a", "c"]
    assert table[-1] == "2 passed, 1 failed of 3"


async def test_the_table_shows_what_repeated_cases_came_to(tmp_path: Path) -> None:
    table = write_table(await _report(tmp_path, "22", "cold", repeat=3))

    assert "FAIL  b  3 of 3\n" in table
    rows = {line.split("  ")[0]: line.split()[-1] for line in table.splitlines() if line}
    assert (rows["a"], rows["b"], rows["pass@3"], rows["pass^3"]) == ("3/3", "0/3", "50%", "50%")


async def test_tries_with_an_error_are_no_part_of_pass_at_k_and_the_table_says_so(tmp_path: Path) -> None:
    broken = case("c", expect="22") | {"script": [{"error": "gone", "status": 404}]}
    report = await run(suite_of(tmp_path, [case("a", expect="22"), case("b", expect="cold"), broken]), repeat=3)

    rows = {line.split("  ")[0]: line.split()[-1] for line in write_table(report).splitlines() if line}
    assert (rows["passed"], rows["errors (not in pass@k)"], rows["pass@3"]) == ("3/9", "3", "50%")


async def test_a_seed_is_shown_where_a_model_was_given_one(tmp_path: Path) -> None:
    model = {"id": "script", "options": {"seed": 7}}
    report = await run(suite_of(tmp_path, [case(expect="22")], models=["script", {**model, "label": "seeded"}]))

    assert [one.seed for one in report.attempts] == [None, 7]
    assert [one.seed for one in report.variants] == [None, 7]
    assert [line.split() for line in write_table(report).splitlines() if line.startswith("seed")] == [
        ["seed", "-", "7"]
    ]
    assert "seed " not in write_table(await _report(tmp_path, "22"))


async def test_a_report_is_read_again_as_it_was(tmp_path: Path) -> None:
    report = await _report(tmp_path, "22", "cold")
    (tmp_path / "report.json").write_text(to_json(report))

    assert read_report(tmp_path / "report.json") == report


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": "x"}'])
def test_what_is_no_report_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(BadConfig, match="no report of an evaluation"):
        read_report(tmp_path / "report.json")


async def test_junit_has_a_failure_for_each_case_that_failed(tmp_path: Path) -> None:
    cases = [case("a", expect="22"), case("b", answer="bad \x00 text", expect="cold")]
    cases.append(case("c", expect="22") | {"script": [{"error": "gone", "status": 404}]})

    root = ElementTree.fromstring(write_junit(await run(suite_of(tmp_path, cases))))

    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "skipped": "0",
    }
    assert [[child.tag for child in one] for one in suite] == [["system-out"], ["failure", "system-out"], ["error"]]


async def test_a_comparison_says_what_became_better_and_worse(tmp_path: Path) -> None:
    before = await _report(tmp_path, "22", "cold", "22", "cold")
    now = await _report(tmp_path, "cold", "22", "22")

    comparison = compare(before, now)

    assert [(one.case, one.change) for one in comparison.cases] == [
        ("a", "worse"),
        ("b", "better"),
        ("c", "same"),
        ("d", "gone"),
    ]
    assert comparison.is_worse
    assert not compare(before, before).is_worse
    lines = write_table(now, comparison).splitlines()
    assert "worse   a  100% → 0%" in lines
    assert "against the baseline: 1 worse, 1 better, 1 same, 0 new, 1 gone" in lines


async def test_a_new_case_that_fails_is_worse_than_none(tmp_path: Path) -> None:
    before, now = await _report(tmp_path, "22"), await _report(tmp_path, "22", "cold")

    assert compare(before, now).is_worse
    assert not compare(before, await _report(tmp_path, "22", "22")).is_worse
