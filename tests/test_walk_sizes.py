"""What a reader of one request has to open does not grow: `make walks` prints it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.walks import WALKS

# Files, their lines, functions entered: what it was when these were written down, and a little room for lines. Make them smaller.
# The aim is 46 files for Chat, 52 for Mistral and Responses, 60 for /generate-code.
MOST = {
    "a streaming Chat request with two tools": (48, 12_050, 259),
    'invoke_agent("x.prompty")': (45, 10_200, 224),
    "append to a Mistral conversation": (54, 13_100, 257),
    "Responses with a mixed turn": (55, 14_250, 296),
    "/generate-code": (65, 14_500, 357),
}


@pytest.fixture(scope="module")
def walks() -> dict[str, tuple[int, ...]]:
    """In a process of its own: what other tests have imported and made is no part of a walk."""
    done = subprocess.run([sys.executable, "-m", "tests.walks"], capture_output=True, text=True, check=True)
    rows = [line.rsplit(maxsplit=3) for line in done.stdout.splitlines()[1:]]
    return {name.strip(): tuple(map(int, numbers)) for name, *numbers in rows}


@pytest.mark.parametrize("name", MOST)
def test_a_walk_does_not_grow(walks: dict[str, tuple[int, ...]], name: str) -> None:
    assert all(now <= most for now, most in zip(walks[name], MOST[name], strict=True)), walks[name]


def test_every_walk_is_held() -> None:
    assert WALKS.keys() == MOST.keys()
