"""The adapters of the turn engine's vectors: every form of vector they may meet is compared, and a wrong one fails."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance import prompty_replay, prompty_run_turn

HELD = [{"provider": "openai", "kind": "response", "id": "resp_1"}]
TOOL = {"tools": [{"id": "c1", "name": "look", "arguments": {}}]}


def run_turn(model: list[Any], expected: dict[str, Any], **said: Any) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    prompty_run_turn.check({"input": {"messages": messages, "model": model, **said}, "expected": expected})


def test_a_turn_that_calls_no_model_is_compared() -> None:
    expected = {
        "status": "cancelled",
        "iterations": 0,
        "snapshots": 0,
        "toolResults": 0,
        "eventKinds": ["turn_started", "turn_cancelled"],
    }
    run_turn([], expected, cancelBeforeRun=True)
    with pytest.raises(AssertionError):
        run_turn([], {**expected, "iterations": 1}, cancelBeforeRun=True)


@pytest.mark.parametrize(
    ("step", "portability", "count"),
    [
        ({}, "portable", 0),
        ({"nextPortability": "delegated", "delegatedState": HELD}, "delegated", 1),
        ({"nextPortability": "opaque"}, "opaque", 0),
    ],
)
def test_portability_at_the_end_and_counts_of_state_are_compared(step: Any, portability: str, count: int) -> None:
    expected = {
        "status": "success",
        "snapshotPortability": ["portable", portability],
        "commitPortability": portability,
        "delegatedState": count,
    }
    model = [{**TOOL, **step}, {"output": "done"}]
    run_turn(model, expected, toolOutputs={"c1": "seen"})
    with pytest.raises(AssertionError):
        run_turn(model, {**expected, "delegatedState": count + 1}, toolOutputs={"c1": "seen"})


def test_a_tool_that_fails_says_the_kind_of_its_error_on_both_lines() -> None:
    where = "s:t"
    expected = [
        f"session:session_start:{where}",
        "turn:turn_start:0",
        "turn:llm_start:0",
        "turn:llm_complete:0",
        f"session:checkpoint_created:{where}",
        "turn:permission_requested:0:exec-1-permission",
        "turn:permission_completed:0:true",
        "turn:tool_execution_start:0:break",
        "turn:tool_execution_complete:0:break:false:exception",
        "turn:tool_result:0:break:false:exception",
        "turn:messages_updated:0",
        "turn:llm_start:1",
        "turn:llm_complete:1",
        f"session:checkpoint_created:{where}",
        "turn:turn_end:2:success",
        f"session:session_end:{where}:success",
        "summary:s:success:turns=1:checkpoints=2",
    ]
    prompty_replay.check({"input": {"sessionId": "s", "turnId": "t"}, "expected": expected})
