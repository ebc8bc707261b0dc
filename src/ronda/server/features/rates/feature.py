"""Rates: a request is counted before anything of it is started, or refused with a 429 that says when to come again."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Coroutine, Iterable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from ronda.core.events import Event, ModelFinished, RunFinished
from ronda.core.run import Run
from ronda.host.extension import Tap
from ronda.host.supervisor import done_or_reported
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Chore, Feature, Finding, Refused, Services
from ronda.server.features.rates.settings import Rate, RateSettings
from ronda.server.features.rates.windows import OWNED, RENEWED, TABLES, Admission, Windows
from ronda.server.http.incoming import Header, Incoming
from ronda.server.http.routing import ANTHROPIC_VERSION, Route

_RUNS_AGAIN: Final = 1.0  # seconds after which a run may have ended
_WORDS: Final = {"requests": "requests a minute", "tokens": "tokens a minute", "runs": "requests at a time"}


class Slot:
    """A request under way, with the runs that it has begun."""

    __slots__ = ("account", "is_answered", "name", "runs")

    def __init__(self, name: str, account: str) -> None:
        self.name = name
        self.account = account
        self.is_answered = False
        self.runs: set[str] = set()  # that have not ended


_current: ContextVar[Slot | None] = ContextVar("ronda_rates", default=None)


class Rates(Feature):
    name = "rates"
    tables = TABLES
    owned = OWNED

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        options = settings.part(RateSettings).rates
        for where, rate in [("[rates]", options), *[(f"[rates.keys.{key}]", one) for key, one in options.keys.items()]]:
            for name in ("requests", "tokens", "runs"):
                value = getattr(rate, name)
                if value is not None and value < 1:
                    yield Finding(f"{name} of {where} is {value}; it must be at least 1")

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._options = settings.part(RateSettings).rates
        self._windows = Windows(services.catalog, services.clock)
        self._clock = services.clock
        self._live = services.runs.live
        self._slots: dict[str, Slot] = {}
        self._writing: set[asyncio.Task[Any]] = set()
        self._leaving: dict[str, set[asyncio.Task[Any]]] = {}  # account → slots that are being given back
        self._given_back = 0  # slots, so far

    def chores(self) -> Sequence[Chore]:
        return [Chore("the requests under way", RENEWED, self._renew)]

    async def _renew(self) -> None:
        for slot in tuple(self._slots.values()):
            slot.runs = {
                run for run in slot.runs if run in self._live or not slot.is_answered
            }  # those that wait are not
            self._let_go(slot)
        if self._slots:
            await self._windows.renew(sorted(self._slots))

    async def runs_ended(self) -> None:
        while self._writing:
            await asyncio.wait(set(self._writing))

    # ---- a request ---------------------------------------------------------------------------------------------------

    async def admit(self, request: Incoming, route: Route) -> Sequence[Header]:
        if route.scope != "run":
            return ()
        key = request.key
        account = f"key:{key}" if key else f"owner:{request.owner}"
        rate = self._options.keys.get(key, self._options) if key else self._options
        slot = Slot(os.urandom(12).hex(), account)
        given_back, leaving = self._given_back, self._leaving.get(account)
        found = await self._windows.admit(account, rate, slot.name)
        if found.refused == "runs" and (leaving or self._given_back != given_back):
            # A place became free meanwhile: of an answer that the client has read a moment ago.
            if leaving := self._leaving.get(account):
                await asyncio.wait(leaving)
            found = await self._windows.admit(account, rate, slot.name)
        is_anthropic = ANTHROPIC_VERSION in request.headers or route.path.startswith("/v1/messages")
        headers = list(_headers(rate, found, self._clock(), is_anthropic=is_anthropic))
        if found.refused:
            wait = _RUNS_AGAIN if found.refused == "runs" else found.reset
            seconds = max(1, math.ceil(wait))
            what = f"{getattr(rate, found.refused)} {_WORDS[found.refused]}"
            raise Refused(
                f"this {'key' if key else 'caller'} may have {what}; come again in {seconds} seconds",
                429,
                code="rate_limit_exceeded",
                headers=[(b"retry-after", b"%d" % seconds), *headers],
            )
        if rate.runs is not None:
            self._slots[slot.name] = slot
        _current.set(slot)
        return headers

    def message_answered(self) -> None:
        self._end_request()

    def answer_sent(self, request: Incoming, route: Route, status: int, seconds: float) -> None:
        self._end_request()

    def _end_request(self) -> None:
        if (slot := _current.get()) is not None:
            _current.set(None)
            slot.is_answered = True
            self._let_go(slot)

    # ---- its runs ----------------------------------------------------------------------------------------------------

    def tap(self, run: Run) -> Tap | None:
        slot, start = _current.get(), run.start
        account = f"key:{start.key}" if start.key else f"owner:{start.owner}" if slot is None else slot.account
        if slot is not None:
            slot.runs.add(run.id)

        def count(facts: Sequence[Event]) -> None:
            tokens = sum([fact.usage.total for fact in facts if isinstance(fact, ModelFinished)])
            if tokens:
                self._later(self._windows.add_tokens(account, tokens))
            if slot is not None and isinstance(facts[-1], RunFinished):
                slot.runs.discard(run.id)
                self._let_go(slot)

        return count

    def _let_go(self, slot: Slot) -> None:
        if slot.is_answered and not slot.runs and self._slots.pop(slot.name, None) is not None:
            self._given_back += 1
            task = self._later(self._windows.release(slot.name))
            leaving = self._leaving.setdefault(slot.account, set())
            leaving.add(task)
            task.add_done_callback(lambda _: self._has_left(slot.account, task))

    def _has_left(self, account: str, task: asyncio.Task[Any]) -> None:
        leaving = self._leaving[account]
        leaving.discard(task)
        if not leaving:
            del self._leaving[account]

    def _later(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(done_or_reported("the counting of a rate", work))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return task


def _headers(rate: Rate, found: Admission, now: float, *, is_anthropic: bool) -> Iterable[Header]:
    """In the words of the dialect. Runs at a time have none."""
    for name, limit, used in (("requests", rate.requests, found.requests), ("tokens", rate.tokens, found.tokens)):
        if limit is None:
            continue
        left = max(0, limit - used)
        if is_anthropic:
            at = datetime.fromtimestamp(math.ceil(now + found.reset), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            rows = {"limit": limit, "remaining": left, "reset": at}
            yield from [
                (f"anthropic-ratelimit-{name}-{row}".encode(), str(value).encode()) for row, value in rows.items()
            ]
        else:
            rows = {"limit": limit, "remaining": left, "reset": f"{math.ceil(found.reset)}s"}
            yield from [(f"x-ratelimit-{row}-{name}".encode(), str(value).encode()) for row, value in rows.items()]
