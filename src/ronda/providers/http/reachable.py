"""Whether a server takes connections. Nothing is sent to it: a request might act on something."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Final

from ronda.providers.http.address import Address
from ronda.providers.http.transport import DIRECT, Routes

SECONDS: Final = 5.0


async def why_not_reached(url: str, routes: Routes = DIRECT) -> str | None:
    """In words that have nothing of the address but its host; None if a connection was made: to the server, or to the proxy on
    the way to it. Raises ValueError for what is no address."""
    route = routes.to(Address(url).origin)
    host, port = (route.origin.host, route.origin.port) if route.proxy is None else (route.proxy.host, route.proxy.port)
    try:
        async with asyncio.timeout(SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"{host}:{port} did not answer within {SECONDS:g} seconds"
    except OSError as error:
        # asyncio says "Connect call failed" with the address; the system's own words say why.
        why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
        return f"cannot reach {host}:{port}: {why or type(error).__name__}"
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return None
