"""Every kind of check, on runs of a scripted model: when it holds, and what is said where it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.evals.suites import calls_tool, case, run, suite_of

from ronda import tool
from ronda.core.events import ToolFinished
from ronda.evals.check_kinds import KINDS
from ronda.journal.memory import MemoryJournal

JSON = '{"city": "Paris", "degrees": 22}'
SCHEMA = {"type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"]}

# The answer, what is expected of it, and what is not.
ANSWERS: list[tuple[str, Any, Any]] = [
    ("Warm, 22 degrees", {"equals": "Warm, 22 degrees"}, {"equals": "Warm"}),
    (JSON, {"equals": {"degrees": 22, "city": "Paris"}}, {"equals": {"degrees": 23, "city": "Paris"}}),
    ("Warm, 22 degrees", {"contains": "22"}, {"contains": "23"}),
    ("Warm, 22 degrees", {"contains": 22}, {"contains": 23}),
    ("Warm, 22 degrees", {"contains": ["22", "Warm"]}, {"contains": ["22", "cold"]}),
    ("Warm, 22 degrees", {"contains-all": ["22", "Warm"]}, {"contains-all": ["22", "cold"]}),
    ("Warm, 22 degrees", {"contains-any": ["cold", "Warm"]}, {"contains-any": ["cold", "warm"]}),
    ("Warm, 22 degrees", {"icontains": "WARM"}, {"icontains": "COLD"}),
    ("Warm, 22 degrees", {"icontains-all": ["WARM", "Degrees"]}, {"icontains-all": ["WARM", "cold"]}),
    ("Warm, 22 degrees", {"icontains-any": ["cold", "WARM"]}, {"icontains-any": ["cold"]}),
    ("Warm, 22 degrees", {"starts-with": "Warm"}, {"starts-with": "22"}),
    ("Warm, 22 degrees", {"regex": r"\d+ degrees$"}, {"regex": r"^\d+"}),
    ("Warm, 22 degrees", {"word-count": 3}, {"word-count": {"min": 4}}),
    ("Warm, 22 degrees", {"levenshtein": "Warm, 21 degree"}, {"levenshtein": "Something else"}),
    (JSON, {"is-json": SCHEMA}, {"is-json": {"type": "array"}}),
    (f"```json\n{JSON}\n```", {"is-json": True}, {"contains-json": {"required": ["wind"]}}),
    (f"Here: {JSON}.", {"contains-json": SCHEMA}, {"is-json": True}),
    ("any", {"tool-used": "look_up"}, {"tool-used": "book"}),
    ("any", {"tools": {"used": {"pattern": "look*", "max": 1}}}, {"tools": {"used": {"name": "look_up", "min": 2}}}),
    ("any", {"tools": {"never": ["book", "cancel*"]}}, {"tools": {"never": "look*"}}),
    ("any", {"tools": {"order": ["look_up"]}}, {"tools": {"order": ["look_up", "look_up"]}}),
    ("any", {"tools": {"count": 1}}, {"tools": {"count": {"look_up": 2}}}),
    ("any", {"tools": {"arguments": {"look_up": {"city": "Paris"}}}}, {"tools": {"arguments": {"look_up": {"city": "x"}}}}),
    ("any", {"tool-call-f1": ["look_up"]}, {"tool-call-f1": ["look_up", "book"]}),
    ("any", {"rounds": 2}, {"rounds": 1}),
    ("any", {"tokens": {"min": 1, "max": 1000}}, {"tokens": 1}),
    ("any", {"seconds": 60}, {"seconds": {"min": 3600}}),
    ("any", {"cost": 0}, {"cost": {"min": 1}}),
    ("any", {"ended": "stop"}, {"ended": ["limit", "failed"]}),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "holds", "fails"), ANSWERS, ids=[str(holds)[:60] for _, holds, _ in ANSWERS])
async def test_a_check_passes_where_it_holds_and_fails_where_it_does_not(
    answer: str, holds: Any, fails: Any, tmp_path: Path
) -> None:
    file = suite_of(tmp_path, [case("holds", answer, expect=holds), case("fails", answer, expect=fails)])

    report = await run(file)

    assert [(one.case, one.status) for one in report.attempts] == [("holds", "passed"), ("fails", "failed")]
    (reason,) = report.attempts[1].reasons
    assert reason.partition(": ")[2]


def test_every_free_kind_is_among_them() -> None:
    named = {key for _, holds, fails in ANSWERS for one in (holds, fails) for key in one}
    named |= {f"tool-{key}" for _, holds, _ in ANSWERS for key in holds.get("tools", {})}
    assert set(KINDS) - named == {"latency", "judge"}  # of promptfoo's words, and of a model: tested elsewhere


async def test_not_turns_a_check_round(tmp_path: Path) -> None:
    file = suite_of(
        tmp_path, [case(expect={"not-contains": "cold"}), case("two", expect={"not-contains": ["22", "cold"]})]
    )

    report = await run(file)

    assert [one.status for one in report.attempts] == ["passed", "failed"]


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ({"args": {"city": "Paris"}}, "passed"),
        ({"args": {"city": "Paris"}, "mode": "exact"}, "failed"),
        ({"args": {"city": "Paris"}, "mode": "exact", "ignore": "un*"}, "passed"),
        ({"args": {"city": "Paris"}, "mode": "exact", "defaults": {"unit": "C"}}, "passed"),
        ({"args": {"city": "Paris"}, "mode": "exact", "defaults": {"unit": "F"}}, "failed"),
        ({"args": {"city": ["paris", "Paris, France"], "wind": ["", True]}, "any_of": True}, "passed"),
        ({"args": {"city": ["Lyon"], "wind": [""]}, "any_of": True}, "failed"),
        ({"args": {"city": ["Paris"]}, "any_of": True, "mode": "exact"}, "failed"),
    ],
)
async def test_arguments_are_compared_as_promptfoo_does(row: dict[str, Any], status: str, tmp_path: Path) -> None:
    check = {"type": "trajectory:tool-args-match", "value": {"name": "look_up", **row}}
    script = [calls_tool(city="Paris", unit="C"), "22"]
    mock = {"returns": "22", "parameters": {"type": "object"}}
    one = {"name": "c", "input": "How is Paris?", "mocks": {"look_up": mock}, "script": script, "assert": [check]}

    report = await run(suite_of(tmp_path, [one], agent=None))

    assert [attempt.status for attempt in report.attempts] == [status]


async def test_two_rows_for_one_tool_need_two_calls(tmp_path: Path) -> None:
    expect = {"tools": {"arguments": {"look_up": [{"city": "Paris"}, {"city": "Paris"}]}}}
    twice = [{"calls": [*calls_tool(city="Paris")["calls"], *calls_tool(city="Paris")["calls"]]}, "22"]
    file = suite_of(tmp_path, [case("once", expect=expect), case("twice", expect=expect) | {"script": twice}])

    report = await run(file)

    assert [one.status for one in report.attempts] == ["failed", "passed"]


async def test_a_run_that_ends_at_a_limit_fails_unless_that_is_expected(tmp_path: Path) -> None:
    again = {"script": [calls_tool(city="Paris")]}  # for ever
    cases = [
        case("silent", expect={"tools": {"used": "look_up"}}) | again,
        case("told", expect={"ended": "limit"}) | again,
    ]

    report = await run(suite_of(tmp_path, cases, max_iterations=2))

    assert [one.status for one in report.attempts] == ["failed", "passed"]
    assert report.attempts[0].reasons[0].startswith("ended: the run ended with 'limit'")


async def test_a_model_that_cannot_be_asked_is_an_error_and_no_failed_check(tmp_path: Path) -> None:
    broken = {"script": [{"error": "no such model", "status": 404}]}
    cases = [case("silent", expect={"contains": "22"}) | broken, case("told", expect={"ended": "failed"}) | broken]

    report = await run(suite_of(tmp_path, cases))

    assert [(one.status, one.message) for one in report.attempts] == [("error", "no such model"), ("passed", "")]


async def test_a_case_may_pass_from_a_score_on(tmp_path: Path) -> None:
    checks: Any = [{"type": "contains", "value": "22", "weight": 3}, {"type": "contains", "value": "cold"}]
    cases = [case("enough", threshold=0.7, **{"assert": checks}), case("more", threshold=0.8, **{"assert": checks})]

    report = await run(suite_of(tmp_path, cases))

    assert [(one.status, one.score) for one in report.attempts] == [("passed", 0.75), ("failed", 0.75)]


async def test_mocks_answer_by_arguments_one_after_another_or_with_an_error(tmp_path: Path) -> None:
    by_arguments = {"answers": [{"arguments": {"city": "Lyon"}, "returns": "9"}, {"returns": {"degrees": 22}}]}
    in_turn = {"sequence": ["first", {"fails": "closed"}]}
    twice = [calls_tool(city="Paris"), calls_tool(city="Paris"), "done"]
    cases = [
        case("arguments", mocks={"look_up": by_arguments}, expect="22"),
        case("sequence", mocks={"look_up": in_turn}, expect="22") | {"script": twice},
    ]
    journal = MemoryJournal()
    report = await run(suite_of(tmp_path, cases), journal)

    contents = [await _results(journal, one.run_id) for one in report.attempts]
    assert contents == [['{"degrees":22}'], ["first", "Error: Tool 'look_up' failed: closed"]]
    assert [[call.failed for call in one.calls] for one in report.attempts] == [[False], [False, True]]


async def _results(journal: Any, run_id: str) -> list[str]:
    return [event.result.content for event in await journal.read(run_id) if isinstance(event, ToolFinished)]


async def test_a_tool_that_needs_an_approval_waits_or_gets_the_answer_of_the_file(tmp_path: Path) -> None:
    @tool(approval="ask")
    def look_up(city: str) -> str:
        """Look the weather up."""
        return f"22 in {city}"

    plain: dict[str, Any] = {"input": "How is Paris?", "script": [calls_tool(city="Paris"), "done"]}
    cases = [
        {"name": "waits", **plain, "expect": {"ended": "waiting"}},
        {"name": "yes", **plain, "approve": True, "expect": {"ended": "stop"}},
        {"name": "no", **plain, "approve": {"look_up": False}, "expect": {"tools": {"used": "look_up"}}},
    ]

    report = await run(suite_of(tmp_path, cases, agent=None), tools=[look_up])

    assert [one.status for one in report.attempts] == ["passed", "passed", "passed"]
    assert [one.calls[0].failed for one in report.attempts[1:]] == [False, True]
