"""`ronda serve` on the local model, seen as processes: how much they take, and that all of them end with the server."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.local.served.local_server import NEEDS_THE_MODEL, LocalServer, ends
from tests.timeouts import TIMEOUT

pytestmark = NEEDS_THE_MODEL


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LocalServer]:
    served = LocalServer(tmp_path)
    yield served
    served.close()


def test_an_idle_server_takes_less_than_500_mb_in_all_its_processes(served: LocalServer) -> None:
    assert served.ask()
    served.client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "Hi"}],
        extra_body={"grammar": {"type": "regex", "value": "yes|no"}},
    )

    assert len(served.children()) == 2  # the engine, and the process in which grammars are tried
    assert served.memory() < 500


def test_the_next_request_is_answered_after_the_engine_was_killed(served: LocalServer) -> None:
    before = served.engine
    os.kill(before, signal.SIGKILL)

    assert served.ask()
    assert served.engine != before


def test_a_server_that_is_killed_takes_its_engine_with_it(served: LocalServer) -> None:
    engine = served.engine

    served.process.kill()

    assert ends(engine)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_ended_in_the_middle_of_an_answer_ends_its_engine(
    served: LocalServer, how: signal.Signals
) -> None:
    engine = served.engine
    with served.client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "Tell a long story."}],
        stream=True,
        max_tokens=2000,
        extra_body={"ignore_eos": True},
    ) as stream:
        next(iter(stream))

        served.process.send_signal(how)

        assert served.process.wait(TIMEOUT) == (130 if how is signal.SIGINT else 0)
    assert ends(engine)
