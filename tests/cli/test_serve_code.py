"""`ronda serve --agent` as a person starts it, on a machine that has nothing but Ronda."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from tests.cli.serving import Started
from tests.timeouts import TIMEOUT

from ronda.errors import BadConfig
from ronda.sandbox.layers import choose_layer, find_layers
from ronda.sandbox.policy import Policy

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def isolated() -> None:
    try:
        choose_layer(Policy(), find_layers())
    except BadConfig as error:
        pytest.skip(str(error))


def test_the_example_asks_for_a_plot_and_saves_a_picture(start: Started, tmp_path: Path) -> None:
    with start.serving("--agent", "--model", f"script:{EXAMPLES / 'plot.json'}") as served:
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / "plot.py"), served.url],
            cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    picture = (tmp_path / "temperatures.png").read_bytes()
    assert done.stdout.splitlines() == [
        "Here is the plot: it is warmest in July and August.", f"saved temperatures.png: {len(picture)} bytes",
    ]  # fmt: skip
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.endswith(b"IEND" + zlib.crc32(b"IEND").to_bytes(4, "big"))


# Takes Landlock away from what it starts: the kernel answers as one without it.
WITHOUT_LANDLOCK = """
import os, struct, sys
from ronda.sandbox.supervisor import _filter, _prctl
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]
_prctl(38, 1)
_filter(b"".join(struct.pack("=HBBI", *step) for step in steps))
os.execv(sys.executable, [sys.executable, "-m", "ronda", *sys.argv[1:]])
"""


def test_with_the_layers_taken_away_the_server_refuses(start: Started) -> None:
    """No bubblewrap on the path, and no Landlock in the kernel."""
    flags = ["serve", "--agent", "--port", "0", "--model", f"script:{EXAMPLES / 'plot.json'}"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LANDLOCK, *flags],
        env={**start.env, "PATH": "/nonexistent"}, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert (
        "code cannot be isolated on this machine: bubblewrap does not work (it is not installed); Landlock"
        in done.stderr
    )
    assert "'ronda doctor' tells what helps" in done.stderr
    assert "Traceback" not in done.stderr
