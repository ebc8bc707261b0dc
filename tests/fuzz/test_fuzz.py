"""What is close to a good request, answer or message is read, or refused by name: nothing breaks down on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

import pytest
from tests.fuzz.run import fuzz

CASES: Final = 20_000  # always the same ones; `make fuzz` tries more


@pytest.fixture
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_nothing_breaks_down_on_what_is_close_to_good(quiet: None) -> None:
    fuzzed = asyncio.run(fuzz(CASES, seed=1))
    assert (fuzzed.problems, sum(fuzzed.cases.values())) == ([], CASES)
