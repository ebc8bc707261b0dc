"""Tools that a person has approved for a whole session: whose calls are not asked about again there.

For half an hour since the session was used last, in this process. After a restart, and in another process, people are asked
again: what was approved is never found where nobody has approved it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

SECONDS: Final = 1800.0  # as mistral.rs has it
MOST_SESSIONS: Final = 10_000


class _Approved(Struct):
    tools: set[str]
    used: float


class SessionApprovals:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[tuple[str, str], _Approved] = OrderedDict()  # the one that was used last at the end

    def add(self, owner: str, session: str, tools: Iterable[str]) -> None:
        known = self._find(owner, session) or _Approved(set(), self._clock())
        known.tools.update(tools)
        self._sessions[owner, session] = known
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)

    def of(self, owner: str, session: str) -> tuple[str, ...]:
        if not self._sessions:  # nearly always
            return ()
        known = self._find(owner, session)
        return () if known is None else tuple(sorted(known.tools))

    def _find(self, owner: str, session: str) -> _Approved | None:
        known = self._sessions.pop((owner, session), None)
        now = self._clock()
        if known is None or now - known.used > SECONDS:
            return None
        known.used = now
        self._sessions[owner, session] = known
        return known
