"""A server that ends while runs are under way, and the next one on the same data folder."""

from __future__ import annotations

import itertools
import signal
import threading
from pathlib import Path

import pytest
from tests.server.restarts import TOOLS, Folder, Upstream, call, until
from tests.timeouts import TIMEOUT

from ronda.core.calls import OUTCOME_UNKNOWN
from ronda.server.services.runs import BROKEN_OFF


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_detached_run_goes_on_in_the_next_process(tmp_path: Path, how: signal.Signals) -> None:
    folder = Folder(tmp_path, call("count"), call("wait"), "done")
    with folder.serving("--shutdown-seconds", "0.1") as first:
        run_id = first.ask(on_disconnect="detach")
        folder.until("waiting")
        first.end(how)
    (tmp_path / "go on").touch()
    with folder.serving() as second:
        response = second.ended(run_id)

    assert (response["status"], folder.counted) == ("completed", {"it": 1})
    assert response["output"][-1]["content"][0]["text"] == "done"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_detached_run_whose_model_was_answering_asks_it_again_in_the_next_process(
    tmp_path: Path, how: signal.Signals
) -> None:
    folder = Folder(tmp_path)
    with Upstream("count", ["Hel", "lo", None], ["done"]).serving() as upstream:
        folder.model = upstream.flags
        with folder.serving() as first:
            run_id = first.ask(on_disconnect="detach")
            run = run_id.replace("resp_", "run_")
            seen = list(until(first.events(run), text="lo"))
            first.end(how)
        with folder.serving() as second:
            response = second.ended(run_id)
            shown = second.run(run)
            events = list(second.events(run))

    assert (response["status"], folder.counted) == ("completed", {"it": 1})
    items = [(item["status"], item["content"][0]["text"]) for item in response["output"] if item["type"] == "message"]
    assert items == [("incomplete", "Hello"), ("completed", "done")]
    # What was seen is there again, at the same positions.
    assert events[: len(seen)] == seen
    left = (
        ["model_interrupted", "released", "recovered"] if how is signal.SIGTERM else ["model_interrupted", "recovered"]
    )
    assert [event["type"] for event in events[len(seen) : len(seen) + len(left)]] == left
    reason = "the process ended during this model call"
    assert (shown["result"]["text"], shown["incomplete"]) == ("done", [{"text": "Hello", "reason": reason}])


@pytest.mark.parametrize("outlives", [False, True])
def test_a_process_ends_although_a_tool_does_not_care(tmp_path: Path, outlives: bool) -> None:
    folder = Folder(tmp_path, call("stay"), "done")
    body = {"on_disconnect": "detach"} if outlives else {}
    with folder.serving("--shutdown-seconds", "0.1") as first:
        asking = threading.Thread(target=first.ask_and_stay, args=("run_stays123",), kwargs=body)
        asking.start()
        folder.until("waiting")
        first.end(signal.SIGTERM)
        asking.join()
    with folder.serving() as second:
        response = second.ended("resp_stays123")

    assert response["status"] == ("completed" if outlives else "failed")


def test_a_run_that_does_not_outlive_its_process_is_told_to_be_interrupted(tmp_path: Path) -> None:
    folder = Folder(tmp_path, call("wait"), "done")
    with folder.serving("--shutdown-seconds", "0.1") as first:
        asking = threading.Thread(target=first.ask_and_stay, kwargs={"run": "run_stays123"})
        asking.start()
        folder.until("waiting")
        first.end(signal.SIGKILL)
        asking.join()
    with folder.serving() as second:
        response = second.ended("resp_stays123")

    assert (response["status"], response["error"]["message"]) == ("failed", BROKEN_OFF)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_call_runs_once_or_is_told_to_be_unknown_wherever_its_process_is_killed(tmp_path: Path, when: str) -> None:
    """At each commit of its journal in turn, until there are no more."""
    turns = (call("count", "one"), call("count", "two", "three"), "done")
    for at in itertools.count(1):
        folder = Folder(tmp_path / str(at), *turns)
        with folder.serving(killed=f"{when} {at}") as first:
            is_over = first.ask_and_stay("run_boundary1", on_disconnect="detach")
        if is_over:
            break
        with folder.serving() as second:
            response = second.ended("resp_boundary1")
            events = [] if response is None else [*second.events("run_boundary1")]

        if response is None:  # nothing of it was kept
            assert (when, at, folder.counted) == ("before", 1, {})
            continue
        assert (response["status"], response["output"][-1]["content"][0]["text"]) == ("completed", "done")
        results = [event["result"]["content"] for event in events if event["type"] == "tool_finished"]
        assert len(results) == 3
        for what, result in zip(("one", "two", "three"), results, strict=True):
            assert (folder.counted[what], result) in ((1, "counted"), (1, OUTCOME_UNKNOWN), (0, OUTCOME_UNKNOWN)), at
    assert at > 3  # two rounds of tools, and the end


def test_a_run_that_takes_its_process_along_three_times_is_ended(tmp_path: Path) -> None:
    folder = Folder(tmp_path, call("crash"), "done")
    folder.tools.write_text(TOOLS.replace("@tool\nasync def crash", "@tool(repeatable=True)\nasync def crash"))
    with folder.serving() as first:
        run_id = first.ask(on_disconnect="detach")
        first.process.wait(TIMEOUT)
    for _ in range(2):
        with folder.serving() as again:
            again.process.wait(TIMEOUT)
    with folder.serving() as last:
        response = last.ended(run_id)

    assert (response["status"], response["error"]["message"]) == (
        "failed", "3 processes ended while they drove this run, one after the other",
    )  # fmt: skip
