"""The garbage collector closes a store at any step of any thread: also while that thread goes through the gate, or forks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from tests.timeouts import TIMEOUT

from ronda.store.fork import ForkGate


def go_through(gate: ForkGate) -> None:
    with gate, gate:
        pass


def fork(gate: ForkGate) -> None:
    gate.close()
    gate.open()


@pytest.mark.parametrize("use", [go_through, fork])
def test_a_thread_may_come_in_at_any_step_of_its_own_use(use: Callable[[ForkGate], None]) -> None:
    gate = ForkGate()
    visits = 0

    def visit(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal visits
        if "threading.py" not in frame.f_code.co_filename and "fork.py" not in frame.f_code.co_filename:
            return visit
        frame.f_trace_opcodes = True
        with gate:  # as a finalizer does
            visits += 1
        return visit

    def run() -> None:
        sys.settrace(visit)
        try:
            use(gate)
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT)

    assert not thread.is_alive(), "it waits for itself"
    assert visits > 10
    _is_free(gate)


def _is_free(gate: ForkGate) -> None:
    """A fork finds no thread inside, and other threads come in after it."""
    others = threading.Thread(target=go_through, args=(gate,), daemon=True)
    fork(gate)
    others.start()
    others.join(TIMEOUT)
    assert not others.is_alive()
