"""What tests against a server share. A folder that has them has one event loop and one socket for all its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.interaction.doors import Door, open_door


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def door() -> AsyncIterator[Door]:
    async with open_door() as opened:
        yield opened


@pytest.fixture(params=[False, True], ids=["plain", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
