"""An API on a free port, for tests of tools that call one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.tools.api_server import Api, serve


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Api]:
    async with serve() as served:
        yield served
