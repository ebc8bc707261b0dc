"""A test that asks for `spy` sees what is traced."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.trace.spying import Spy

from ronda.trace import Tracer


@pytest.fixture
def spy() -> Iterator[Spy]:
    made = Spy()
    Tracer.add("spy", made)
    yield made
    Tracer.clear()
