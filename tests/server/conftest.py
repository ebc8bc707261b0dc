"""One event loop and one socket for all tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(
    0, str(Path(__file__).parents[2])
)  # so that `tests.interaction.doors` is found however pytest is started

from tests.interaction.doors import Door, on_one_loop, open_door


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    on_one_loop(items, Path(__file__).parent)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def door() -> AsyncIterator[Door]:
    async with open_door() as opened:
        yield opened


@pytest.fixture(params=[False, True], ids=["plain", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
