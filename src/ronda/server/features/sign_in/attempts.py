"""Attempts to sign in that failed, by the address that they came from: too many, and it has to wait."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

MAX_FAILURES: Final = 10  # of one address, within …
WINDOW: Final = 60.0  # … seconds: people mistype a few times; a key has 256 bits, so this is about load, not guessing
_MAX_ADDRESSES: Final = 10_000  # that are remembered; then the one that was longest silent is forgotten


class Attempts:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, list[float]] = OrderedDict()  # when, of the last MAX_FAILURES

    def wait_for(self, client: str) -> float:
        """Seconds until this address may try again; 0: at once."""
        times = self._failed.get(_network(client), [])
        if len(times) < MAX_FAILURES:
            return 0.0
        return max(0.0, times[0] + WINDOW - self._clock())

    def failed(self, client: str) -> None:
        network = _network(client)
        times = self._failed.setdefault(network, [])
        times.append(self._clock())
        del times[:-MAX_FAILURES]
        self._failed.move_to_end(network)
        if len(self._failed) > _MAX_ADDRESSES:
            self._failed.popitem(last=False)


def _network(client: str) -> str:
    """One who has an IPv6 address has a network of 64 bits of them."""
    try:
        address = ip_address(client)
    except ValueError:
        return client
    return client if address.version == 4 else address.exploded[:19]
