"""What tests against a server share. A folder that has them has one event loop and one socket for all its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from tests.interaction.doors import Door, open_door


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def door() -> AsyncIterator[Door]:
    async with open_door() as opened:
        yield opened


@pytest.fixture(autouse=True)
def clients_are_closed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A client that a test drops instead of closing it keeps its connection until the collector comes by: that warns in another
    test, and the server waits for the connection when it ends. All official clients ask through this one."""
    used: set[httpx2.AsyncClient] = set()
    send = httpx2.AsyncClient.send

    def note(client: httpx2.AsyncClient, *args: Any, **options: Any) -> Any:
        used.add(client)
        return send(client, *args, **options)

    monkeypatch.setattr(httpx2.AsyncClient, "send", note)
    door = request.getfixturevalue("door") if "door" in request.fixturenames else None
    yield
    shared = door.shared_clients if isinstance(door, Door) else set()
    assert [client for client in used - shared if not client.is_closed] == [], "the test leaves clients open"


@pytest.fixture(params=[False, True], ids=["plain", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
