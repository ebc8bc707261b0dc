"""Requests under way, by the id of the API key that they came with: when the key is revoked or expires, their connections end.

What a client's leaving does to a run, this does, too: one that does not outlive its client is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from starlette.types import Scope, Send

from ronda.server.http.cycle import Cycle

_POLICY_VIOLATION = 1008  # a WebSocket's word for it


class OpenRequest:
    __slots__ = ("_is_socket", "_send", "_task", "key")

    def __init__(self, key: str, scope: Scope, send: Send) -> None:
        self.key = key
        self._is_socket = scope["type"] == "websocket"
        self._send = send
        self._task = asyncio.current_task()

    async def end(self) -> None:
        if self._is_socket:
            await self._send(
                {
                    "type": "websocket.close",
                    "code": _POLICY_VIOLATION,
                    "reason": "the API key was revoked, or has expired",
                }
            )
            return
        cycle = getattr(self._send, "__self__", None)
        if type(cycle) is not Cycle:  # another server's connection
            if self._task is not None:
                self._task.cancel()
        elif not cycle.response_complete:
            if cycle.transport.get_write_buffer_size():
                cycle.transport.abort()  # or a client that does not read would keep it open
            else:
                cycle.transport.close()


class OpenRequests:
    def __init__(self) -> None:
        self._by_key: dict[str, set[OpenRequest]] = {}

    @property
    def keys(self) -> Collection[str]:
        return self._by_key.keys()

    def add(self, key: str, scope: Scope, send: Send) -> OpenRequest:
        opened = OpenRequest(key, scope, send)
        self._by_key.setdefault(key, set()).add(opened)
        return opened

    def remove(self, opened: OpenRequest) -> None:
        found = self._by_key.get(opened.key)
        if found is not None:
            found.discard(opened)
            if not found:
                del self._by_key[opened.key]

    async def end(self, key: str) -> int:
        """End those of a key; how many there were."""
        found = list(self._by_key.get(key, ()))
        for opened in found:
            await opened.end()
        return len(found)
