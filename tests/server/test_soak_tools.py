"""What sessions that ran code leave behind, on a small scale."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.soak_tools import soak

from ronda.errors import BadConfig
from ronda.sandbox.layers import choose_layer, find_layers
from ronda.sandbox.policy import Policy


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="ronda-test-"))  # pytest's own is closed for other users
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def test_ten_sessions_leave_nothing_behind(folder: Path) -> None:
    try:
        choose_layer(Policy(), find_layers())
    except BadConfig as error:
        pytest.skip(str(error))

    left = soak(folder, 10)

    assert not any(left.values()), left
