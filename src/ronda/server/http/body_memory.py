"""How much all requests that are being read may hold together: each is bounded, but many at a time could fill the machine.

Bodies of up to 256 KiB are not counted: the harm is in the large ones, and usual requests pay nothing. A body counts by what has
come of it, not by what its head promises. Until it has been decoded it counts three times: its pieces, the body that is made of
them and what is decoded from it are there together. After that, and until the request is answered, it counts twice: its run has
what was decoded, and what is written of it, to the journal or to a model. What goes on without a client, in the background, does
not count here. One body is let in however large it may be, if there is no other.
"""

from __future__ import annotations

import sys
from typing import Final

from ronda.errors import RondaError

UNCOUNTED: Final = 256 * 1024
COPIES: Final = 3  # of a body, while it is read: measured, 20 bodies of 49 MB held 1,470 MB where 512 MiB were allowed
# … while its run answers it: measured, 20 bodies of 49 MB held 551 MB where they counted only until they were decoded.
KEPT_COPIES: Final = 2
RETRY_SECONDS: Final = 5  # a client that sends at a usual pace is done by then


class NoRoom(RondaError):
    """For a moment: others are about to be done."""

    status_hint = 503


class BodyMemory:
    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def grow(self, size: int, new: int) -> int:
        """A body of which `size` bytes were counted has `new` bytes now: how many are counted from now on."""
        others = self.used - COPIES * size
        if others > 0 and others + COPIES * new > self.limit:
            raise NoRoom(
                f"this server has as many large requests as it has memory for ({self.limit} bytes in all); "
                "try again in a moment"
            )
        self.used += COPIES * (new - size)
        return new

    def release(self, size: int) -> None:
        """A body was not read to its end, or is refused."""
        self.used -= COPIES * size

    def keep(self, size: int) -> None:
        """A body is decoded, and its run begins."""
        self.used -= (COPIES - KEPT_COPIES) * size

    def forget(self, size: int) -> None:
        """What was kept of a body is over."""
        self.used -= KEPT_COPIES * size


UNBOUNDED: Final = BodyMemory(sys.maxsize)
