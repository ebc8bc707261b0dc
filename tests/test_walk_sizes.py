"""What a reader of one request has to open does not grow: `make walks` prints it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.walks import WALKS

# Files, their lines, functions entered. The files are aims. Lines and functions are what there was before the server's features
# had folders of their own (functions: one less): its order is not to cost a reader of one request more than it did.
MOST = {
    "a streaming Chat request with two tools": (46, 11_169, 246),
    'invoke_agent("x.prompty")': (40, 9_412, 215),
    "append to a Mistral conversation": (52, 12_694, 256),
    "Responses with a mixed turn": (52, 13_790, 292),
    "/generate-code": (60, 12_756, 326),
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
