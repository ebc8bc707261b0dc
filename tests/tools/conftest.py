"""An API on a free port, for tests of tools that call one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from tests.tools.api_server import Api, serve

from ronda import clear_connections


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Api]:
    async with serve() as served:
        yield served


@pytest.fixture
def nothing_registered() -> Iterator[None]:
    """Connections that a test registers are gone after it."""
    yield
    clear_connections()
