"""`ronda serve` on the local model, seen as processes: how much they take, and that all of them end with the server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI
from tests.patience import PATIENCE

from ronda.providers.local.files import default_path

pytestmark = [
    pytest.mark.skipif(default_path() is None, reason="the local model is not installed: make setup gets it"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.xdist_group("local"),
]


class Served:
    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "ronda", "serve", "--port", "0", "--data-dir", str(folder / "data")]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)
        assert self.process.stderr is not None
        found = next(address for line in self.process.stderr if (address := re.search(r"http://\S+", line)))
        self.client = OpenAI(base_url=f"{found.group()}/v1", api_key="any", max_retries=0, timeout=PATIENCE)

    @property
    def engine(self) -> int:
        """The engine's process."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        (found,) = [int(pid) for file in children for pid in file.read_text().split()]
        return found

    def ask(self) -> str:
        answer = self.client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": "Hi"}], max_tokens=4
        )
        return answer.choices[0].message.content or ""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.process.kill()
    served.process.communicate()


def wait_for_the_end_of(pid: int) -> None:
    end = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end, "the engine outlived its server"
        time.sleep(0.01)


def memory(pid: int) -> int:
    """In MB; what several processes share counts once."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))) // 1024


def test_an_idle_server_takes_less_than_500_mb_in_all_its_processes(served: Served) -> None:
    assert served.ask()

    assert memory(served.process.pid) + memory(served.engine) < 500


def test_the_next_request_is_answered_after_the_engine_was_killed(served: Served) -> None:
    before = served.engine
    os.kill(before, signal.SIGKILL)

    assert served.ask()
    assert served.engine != before


def test_a_server_that_is_killed_takes_its_engine_with_it(served: Served) -> None:
    engine = served.engine

    served.process.kill()

    wait_for_the_end_of(engine)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_ended_in_the_middle_of_an_answer_ends_its_engine(served: Served, how: signal.Signals) -> None:
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

        assert served.process.wait(PATIENCE) == (130 if how is signal.SIGINT else 0)
    wait_for_the_end_of(engine)
