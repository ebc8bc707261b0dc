"""The console's lines and the `.tracy` files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ronda import __version__
from ronda.trace import Tracer, Tracy, console, span
from ronda.trace.spans import OpenSpan


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    Tracer.add("tracy", Tracy(tmp_path / "traces"))
    yield tmp_path / "traces"
    Tracer.clear()


def traces(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.iterdir())]


def test_the_console_says_where_a_span_begins_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    Tracer.add("console", console)
    try:
        outer = OpenSpan("outer", None, 100.0)
        OpenSpan("inner", outer.span, 100.5).close(100.75)
        outer.close(102.0)
    finally:
        Tracer.clear()

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "[prompty] ▶ outer",
        "[prompty] ▶ inner",
        "[prompty] ◀ inner (250ms)",
        "[prompty] ◀ outer (2000ms)",
    ]


def test_a_trace_is_written_once_when_its_outermost_span_ends(folder: Path) -> None:
    at = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC).timestamp()
    outer = OpenSpan("turn 1", None, at - 2)
    outer.emit("signature", "ronda.turn")
    outer.emit("inputs", {"q": "ü", "api_key": "x"})
    inner = OpenSpan("execute", outer.span, at - 1.5)
    inner.close(at - 1)
    assert not folder.exists()
    outer.emit("result", "done")
    outer.close(at)

    [path] = folder.iterdir()
    assert path.name == "turn_1.20260506.070809.tracy"
    assert json.loads(path.read_text()) == {
        "runtime": "python",
        "version": __version__,
        "trace": {
            "name": "turn 1",
            "__time": {
                "start": "2026-05-06T07:08:07.000000Z",
                "end": "2026-05-06T07:08:09.000000Z",
                "duration": 2000,
            },
            "signature": "ronda.turn",
            "inputs": {"q": "ü", "api_key": "[REDACTED]"},
            "result": "done",
            "__frames": [
                {
                    "name": "execute",
                    "__time": {
                        "start": "2026-05-06T07:08:07.500000Z",
                        "end": "2026-05-06T07:08:08.000000Z",
                        "duration": 500,
                    },
                }
            ],
        },
    }


def test_usage_is_summed_up_by_its_own_names_from_the_inside_out(folder: Path) -> None:
    with span("invoke_agent"):
        with span("execute") as emit:
            emit("result", {"usage": {"prompt_tokens": 10, "completion_tokens": 5, "details": {"cached": 1}}})
        with span("execute_tool"):
            with span("execute") as emit:
                emit("result", {"usage": {"prompt_tokens": 1, "input_tokens": 7, "flag": True, "note": "x"}})
            with span("stream") as emit:
                emit("result", [{"usage": {"prompt_tokens": 100}}, "text", {"usage": None}])

    [trace] = [one["trace"] for one in traces(folder)]
    tool = trace["__frames"][1]
    assert trace["__usage"] == {"prompt_tokens": 111, "completion_tokens": 5, "input_tokens": 7}
    assert tool["__usage"] == {"prompt_tokens": 101, "input_tokens": 7}
    assert tool["__frames"][0]["__usage"] == {"prompt_tokens": 1, "input_tokens": 7}


def test_spans_stand_in_the_order_in_which_they_began(folder: Path) -> None:
    outer = OpenSpan("outer", None)
    slow, fast = OpenSpan("slow", outer.span), OpenSpan("fast", outer.span)
    fast.close()
    slow.close()
    outer.close()

    [trace] = traces(folder)
    assert [frame["name"] for frame in trace["trace"]["__frames"]] == ["slow", "fast"]


def test_traces_that_end_in_the_same_second_do_not_overwrite_each_other(folder: Path) -> None:
    for n in range(3):
        opened = OpenSpan("same", None, 1000.0)
        opened.emit("result", n)
        opened.close(1000.5)

    assert sorted(path.name for path in folder.iterdir()) == [
        "same.19700101.001640.2.tracy",
        "same.19700101.001640.3.tracy",
        "same.19700101.001640.tracy",
    ]
    assert sorted(one["trace"]["result"] for one in traces(folder)) == [0, 1, 2]


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b\\c", "…", "", ".hidden", "x" * 500, "nul\0l"])
def test_no_name_of_a_span_leads_out_of_the_folder(folder: Path, name: str) -> None:
    with span(name):
        pass

    [path] = folder.iterdir()
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,80}\.\d{8}\.\d{6}\.tracy", path.name)
    assert json.loads(path.read_text())["trace"]["name"] == name


def test_a_key_that_is_said_again_keeps_all_of_them_but_a_result_the_last(folder: Path) -> None:
    with span("a") as emit:
        for n in (1, 2, 3):
            emit("retry", n)
            emit("result", n)

    [one] = traces(folder)
    assert (one["trace"]["retry"], one["trace"]["result"]) == ([1, 2, 3], 3)


def test_text_that_is_no_unicode_is_written_all_the_same(folder: Path) -> None:
    with span("a") as emit:
        emit("result", "broken \udc80")

    [path] = folder.iterdir()
    assert json.loads(path.read_text())["trace"]["result"] == "broken \udc80"


def test_a_folder_that_cannot_be_written_disturbs_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    Tracer.add("tracy", Tracy(tmp_path / "file" / "inside"))
    try:
        with span("a") as emit:
            emit("result", 1)
    finally:
        Tracer.clear()

    assert "the trace backend 'tracy' failed in span 'a'" in caplog.text
