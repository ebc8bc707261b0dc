"""Attempts to sign in that failed, by the address that they came from: too many, and it has to wait.

An attempt counts from its beginning until it has succeeded. So many that come at once are no more than one after another.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from ronda.server.http.failure import Refused

MAX_FAILURES: Final = 10  # of one address, within …
WINDOW: Final = 60.0  # … seconds: people mistype a few times; a key has 256 bits, so this is about load, not guessing
_MAX_ADDRESSES: Final = 10_000  # that are remembered; then the one that was longest silent is forgotten


class Attempts:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, list[float]] = OrderedDict()  # when they began, of the last MAX_FAILURES

    def begin(self, client: str) -> None:
        """Raises Refused for an address that has to wait."""
        network, now = _network(client), self._clock()
        times = self._failed.setdefault(network, [])
        self._failed.move_to_end(network)
        if len(self._failed) > _MAX_ADDRESSES:
            self._failed.popitem(last=False)
        if len(times) == MAX_FAILURES and (wait := times[0] + WINDOW - now) > 0:
            raise Refused(
                "too many attempts to sign in from this address; wait before the next",
                code="too_many_attempts",
                headers=[(b"retry-after", b"%d" % math.ceil(wait))],
            )
        times.append(now)
        del times[:-MAX_FAILURES]

    def succeeded(self, client: str) -> None:
        """One that has begun."""
        times = self._failed.get(network := _network(client), [])
        if times:
            times.pop()
        if not times:
            self._failed.pop(network, None)


def _network(client: str) -> str:
    """One who has an IPv6 address has a network of 64 bits of them."""
    try:
        address = ip_address(client)
    except ValueError:
        return client
    return client if address.version == 4 else address.exploded[:19]
