"""What tests of prompt files register is gone after them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ronda import clear_connections, clear_tools
from ronda.trace import Tracer


@pytest.fixture
def nothing_left() -> Iterator[None]:
    yield
    clear_connections()
    clear_tools()
    Tracer.clear()
