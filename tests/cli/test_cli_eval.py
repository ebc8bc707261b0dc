"""`ronda eval` as it is typed: what it prints, how it ends, and that one that was killed goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import shown, shown_at_terminal
from tests.evals.suites import case, suite_of, write_suite

TOOLS = '''
import os, sys

from ronda import tool


@tool(repeatable=True)
def look_up(city: str) -> str:
    """Look the weather up."""
    with open(os.environ["CALLS"], "a") as log:
        log.write(city + "\\n")
    if city == os.environ.get("STUCK"):
        print("stuck", file=sys.stderr, flush=True)
        sys.stdin.read()
    return "22"
'''


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_it_ends_with_0_if_all_passed_and_with_1_if_a_check_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = suite_of(tmp_path, [case(expect="22")])
    code, out, err = shown(capsys, "eval", str(good))
    assert (code, out.splitlines()[-1], err) == (0, "1 passed of 1", "")

    bad = suite_of(tmp_path, [case("a", expect="22"), case("b", expect="cold")])
    code, out, err = shown(capsys, "eval", str(bad))
    assert (code, out.splitlines()[0], err) == (1, "FAIL  b", "")

    assert shown(capsys, "eval", str(bad), "--case", "a")[0] == 0
    assert shown(capsys, "eval", str(bad), "--limit", "1")[0] == 0
    assert shown(capsys, "eval", str(bad), "--min-pass-rate", "0.5")[0] == 0
    assert shown(capsys, "eval", str(bad), "--min-pass-rate", "0.6")[0] == 1


def test_a_terminal_shows_the_table_in_colours_and_keeps_nothing_of_the_progress(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, [case("a", expect="22"), case("b", expect="cold")])

    code, written = shown_at_terminal("eval", str(suite))
    assert code == 1
    progress, _, table = written.rpartition("\r")
    assert "2/2" in progress
    assert progress.endswith(" " * len("2/2 F b"))
    assert table.startswith("\x1b[31mFAIL\x1b[0m  b\n")
    assert "\na                 \x1b[32mpass\x1b[0m\n" in table
    assert "\npassed            1/2\n" in table

    assert "\x1b" not in shown_at_terminal("eval", str(suite), NO_COLOR="1")[1]


def test_a_file_that_is_no_evaluation_says_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "weather.prompty"
    file.write_text("---\nname: weather\nmodel: script:x.json\n---\nuser:\nHi\n")
    code, out, err = shown(capsys, "eval", str(file))
    assert (code, out) == (2, "")
    assert (
        err
        == f"ronda: {file} is an agent and no evaluation; write a file with 'agent: weather.prompty' and its cases\n"
    )


def test_it_ends_with_2_if_the_file_is_wrong_or_a_model_cannot_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = suite_of(tmp_path, [case(expect={"contain": "22"})])
    code, out, err = shown(capsys, "eval", str(wrong))
    assert (code, out) == (2, "")
    assert err.startswith(f"{wrong}:1: cases[0].expect.contain: there is no check 'contain'; did you mean 'contains'?")

    broken = suite_of(tmp_path, [case(expect="22") | {"script": [{"error": "gone", "status": 404}]}])
    code, out, _ = shown(capsys, "eval", str(broken))
    assert (code, out.splitlines()[:2]) == (2, ["ERROR  paris", "      gone"])

    code, _, err = shown(capsys, "eval", str(suite_of(tmp_path, [case(expect="22")])), "--case", "pars")
    assert (code, err) == (2, "ronda: there is no case 'pars'; did you mean 'paris'?\n")


def test_it_ends_with_3_if_the_cost_limit_was_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paid = {"script": [{"text": "22", "usage": {"input": 1, "output": 1, "cost": 1.0}}]}
    file = suite_of(tmp_path, [case(name, expect="22") | paid for name in ("a", "b")])

    code, out, _ = shown(capsys, "eval", str(file), "--max-cost", "0.5", "-j", "1")

    assert code == 3
    assert "NOT RUN  b" in out
    assert shown(capsys, "eval", str(file), "--resume")[0] == 0


def test_reports_are_written_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, junit = tmp_path / "before.json", tmp_path / "junit.xml"
    known = [case("a", expect="22"), case("b", expect="cold")]
    assert shown(capsys, "eval", str(suite_of(tmp_path, known)), "--json", str(before), "--junit", str(junit))[0] == 1
    assert "<failure" in junit.read_text()

    # What failed before is no news.
    assert shown(capsys, "eval", str(suite_of(tmp_path, known)), "--baseline", str(before))[0] == 0
    worse = suite_of(tmp_path, [case("a", expect="cold"), case("b", expect="22")])
    code, out, _ = shown(capsys, "eval", str(worse), "--baseline", str(before))
    assert code == 1
    assert "worse   a  100% → 0%\nbetter  b  0% → 100%\n" in out

    code, out, _ = shown(capsys, "eval", str(worse), "--json", "-")
    assert [one["case"] for one in json.loads(out)["attempts"]] == ["a", "b"]


def _cities(folder: Path, *names: str) -> Path:
    (folder / "tools.py").write_text(TOOLS)
    cases = []
    for name in names:
        calls = [{"calls": [{"name": "look_up", "arguments": {"city": name}}]}, "22 degrees"]
        cases.append({"name": name, "inputs": {"city": name}, "script": calls, "expect": "22"})
    return suite_of(folder, cases, tools="tools.py")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_evaluation_that_was_killed_goes_on_and_repeats_no_finished_case(
    how: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, log = _cities(tmp_path, "Paris", "Rome", "Oslo", "Bern"), tmp_path / "calls"
    environ = {**os.environ, "CALLS": str(log), "STUCK": "Oslo"}
    command = [sys.executable, "-m", "ronda", "eval", str(file), "-j", "1"]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "stuck\n"
        process.send_signal(how)
    assert process.returncode == (130 if how == signal.SIGINT else -how)
    assert log.read_text().split() == ["Paris", "Rome", "Oslo"]

    monkeypatch.setenv("CALLS", str(log))
    code, out, _ = shown(capsys, "eval", str(file), "--resume", "-j", "1", "--json", "-")

    found = [(one["case"], one["status"], one.get("recorded", False)) for one in json.loads(out)["attempts"]]
    assert code == 0
    assert found == [
        ("Paris", "passed", True),
        ("Rome", "passed", True),
        ("Oslo", "passed", False),
        ("Bern", "passed", False),
    ]
    assert log.read_text().split() == ["Paris", "Rome", "Oslo", "Oslo", "Bern"]  # the tool says that it may run again


def test_kept_runs_are_scored_again_and_no_tool_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    file, journal = _cities(tmp_path, "Paris", "Rome"), tmp_path / "runs.db"
    assert shown(capsys, "eval", str(file), "--journal", str(journal))[0] == 0

    file.write_text(file.read_text().replace('"22"}', '"cold"}', 1))
    code, out, _ = shown(capsys, "eval", str(file), "--from-journal", str(journal))

    assert (code, out.splitlines()[0]) == (1, "FAIL  Paris")
    assert sorted((tmp_path / "calls").read_text().split()) == ["Paris", "Rome"]


def test_there_must_be_something_to_go_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = suite_of(tmp_path, [case(expect="22")])
    code, _, err = shown(capsys, "eval", str(file), "--resume")
    assert (code, err) == (2, f"ronda: no evaluation of {file} was begun here; run it without --resume first\n")


def test_evaluations_are_validated_and_have_a_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_suite(tmp_path, "agent: weather.prompty\ncases:\n  - {name: a, exspect: x}\n")

    code, out, _ = shown(capsys, "validate", str(file))

    assert code == 2
    assert f"{file}:3: cases[0].exspect: unknown key 'exspect'; did you mean 'expect'?" in out
    code, out, _ = shown(capsys, "schema", "eval")
    assert (code, json.loads(out)["title"]) == (0, "An evaluation of Ronda")
