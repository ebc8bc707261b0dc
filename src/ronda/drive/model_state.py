"""Whether a model answers, as its last call showed: what the drivers of its runs see anyway, without a call of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ronda.drive.provider import Provider
from ronda.errors import UpstreamError

# For so long a failure says something: a server that gets no requests would never see the next success.
FRESH_SECONDS: Final = 30.0

_NO_KEY: Final = (401, 403)


class ModelState:
    """Of one provider. A call that the model refuses for what was sent, or for how often, shows that it is there."""

    def __init__(self, provider: Provider, clock: Callable[[], float] = time.monotonic) -> None:
        self.provider = provider
        self._clock = clock
        self.failed_at: float | None = None

    def answered(self) -> None:
        self.failed_at = None

    def failed(self, error: UpstreamError) -> None:
        is_down = error.status is None or error.status >= 500 or error.status in _NO_KEY
        self.failed_at = self._clock() if is_down and not error.too_long else None

    @property
    def is_failing(self) -> bool:
        return self.failed_at is not None and self._clock() - self.failed_at < FRESH_SECONDS
