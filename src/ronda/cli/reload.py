"""SIGHUP → settings, tools and certificates are read again, one reload at a time, and the terminal is told how it went."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ronda.errors import BadConfig
from ronda.server.config import ServerConfig

if TYPE_CHECKING:
    from ronda.cli.process import Process
    from ronda.server.app import App, Server


class Reloader:
    """`is_quiet`: another worker says the same."""

    def __init__(
        self, server: Server, app: App, process: Process, read: Callable[[], ServerConfig], *, is_quiet: bool
    ) -> None:
        self._server = server
        self._app = app
        self._process = process
        self._read = read
        self._is_quiet = is_quiet
        self._wanted = 0
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """On the event loop. What is asked for during a reload is one more reload after it."""
        self._wanted = min(self._wanted + 1, 2)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._reload_all())

    async def _reload_all(self) -> None:
        while self._wanted:
            try:
                lines = await self._reload()
            except BadConfig as error:
                lines = [f"ronda: nothing was changed: {error}"]
            self._wanted -= 1
            if not self._is_quiet:
                print(*lines, sep="\n", file=sys.stderr, flush=True)

    async def _reload(self) -> list[str]:
        from ronda.server.http.tls import load_tls
        from ronda.server.reload import apply_reload, read_again

        found = await asyncio.to_thread(read_again, self._read, self._server.features.tool_names)
        lines = apply_reload(self._server, self._app, found)
        config, context = found.config, self._process.config.ssl
        if context is not None and config.tls_cert is not None:
            load_tls(context, config.tls_cert, config.tls_key)  # the same files may hold another certificate
        elif (context is None) != (config.tls_cert is None):
            lines.append("ronda: WARNING: a restart is needed to begin or end HTTPS")
        return lines


def has_terminal() -> bool:
    """Whether this process belongs to a terminal that is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
