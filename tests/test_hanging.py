"""A test that takes long by right is not ended as one that hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hanging import last_moment

ROOT = Path(__file__).parents[1]
HANGS = """
import signal
import tests.hanging
import pytest

tests.hanging.GRACE = 0.2

@pytest.mark.timeout(0.1)
def test_hangs():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.sigwait([signal.SIGUSR1])
"""


@pytest.mark.timeout(1500)
def test_whoever_is_given_more_time_has_it(request: pytest.FixtureRequest) -> None:
    assert last_moment(request.node) > 1500


def test_any_other_has_a_few_minutes(request: pytest.FixtureRequest) -> None:
    assert last_moment(request.node) == 300


def test_one_that_cannot_be_interrupted_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(HANGS)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 240\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}

    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)

    assert "in test_hangs" in done.stderr
    assert done.returncode == 1
