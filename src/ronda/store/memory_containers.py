"""Containers of a catalog that forgets with its process."""

from __future__ import annotations

from ronda.core.containers import StoredContainer


class MemoryContainers:
    def __init__(self) -> None:
        self._containers: dict[tuple[str, str], StoredContainer] = {}

    async def put(self, owner: str, container: StoredContainer) -> None:
        self._containers[owner, container.session] = container

    async def find(self, owner: str, session: str) -> StoredContainer | None:
        return self._containers.get((owner, session))

    async def of(self, owner: str) -> list[StoredContainer]:
        return [container for (whose, _), container in self._containers.items() if whose == owner]

    async def delete(self, owner: str, session: str) -> bool:
        return self._containers.pop((owner, session), None) is not None
