"""Limits toward upstreams: a model call → a place among those under way, over all processes that share the catalog.

    upstream_call      a call under way, for as long as its process renews it
    upstream_window    (upstream, minute) → calls and tokens
    upstream_pause     until when no process calls an upstream that has answered 429 with a Retry-After

A call that finds no place waits in line. The calls of one process stand in the order in which they came, and only the first
of them asks the catalog. One that has waited too long fails like an upstream's own 429, so that a fallback takes its place.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.errors import UpstreamError
from ronda.host.supervisor import Sleep, done_or_reported
from ronda.server.features.models.settings import UpstreamLimit
from ronda.server.services.models import NEVER_SENT
from ronda.store.sql import Sql, Tables

TABLES: Final = (
    (
        "CREATE TABLE upstream_call (id {text} PRIMARY KEY, upstream {text}, until {number}){by_key}",
        "CREATE INDEX upstream_call_upstream ON upstream_call (upstream)",
        """CREATE TABLE upstream_window (
            upstream {text}, minute {big}, calls {big}, tokens {big}, PRIMARY KEY (upstream, minute)
        ){by_key}""",
        "CREATE TABLE upstream_pause (upstream {text} PRIMARY KEY, until {number}){by_key}",
    ),
)
LEASE: Final = 60.0  # seconds until the calls of a process that is gone hold no place any more
RENEWED: Final = 15.0  # seconds between renewals: three may fail
LOOK_AGAIN: Final = 0.25  # seconds between two looks for a place that another process may have freed
MAX_PAUSE: Final = 3600.0  # seconds: a longer Retry-After is a mistake, or a quota that no pause waits for
_MINUTE: Final = 60

_COUNT: Final = """INSERT INTO upstream_window (upstream, minute, calls, tokens) VALUES (?, ?, ?, ?)
    ON CONFLICT (upstream, minute) DO UPDATE SET calls = upstream_window.calls + excluded.calls,
    tokens = upstream_window.tokens + excluded.tokens"""


class Obstacle(Struct, frozen=True):
    """Why a call has to wait, and for how many seconds at least."""

    why: str
    seconds: float


class UpstreamRows:
    def __init__(self, tables: Tables, clock: Callable[[], float]) -> None:
        self._tables = tables
        self.clock = clock

    async def take(self, upstream: str, limit: UpstreamLimit, call: str) -> Obstacle | None:
        """Take a place for a call; or say what is in the way, and take none."""
        now = self.clock()
        minute = int(now // _MINUTE)

        def take(db: Sql) -> Obstacle | None:
            paused = db.execute("SELECT until FROM upstream_pause WHERE upstream = ?", (upstream,)).fetchone()
            if paused is not None and paused[0] > now:
                return Obstacle("it has asked for a pause", float(paused[0]) - now)
            if limit.calls is not None:
                db.execute("DELETE FROM upstream_call WHERE until < ?", (now,))
                (there,) = db.execute("SELECT count(*) FROM upstream_call WHERE upstream = ?", (upstream,)).fetchone()
                if there >= limit.calls:
                    return Obstacle(f"its limit is {limit.calls} calls at a time", LOOK_AGAIN)
            row = db.execute(
                "SELECT calls, tokens FROM upstream_window WHERE upstream = ? AND minute = ?", (upstream, minute)
            ).fetchone()
            calls, tokens = (0, 0) if row is None else row
            for what, used, most in (("requests", calls, limit.requests), ("tokens", tokens, limit.tokens)):
                if most is not None and used >= most:
                    return Obstacle(f"its limit is {most} {what} a minute", (minute + 1) * _MINUTE - now)
            if limit.calls is not None:
                values = (call, upstream, now + LEASE)
                db.execute("INSERT INTO upstream_call (id, upstream, until) VALUES (?, ?, ?)", values)
            if limit.requests is not None or limit.tokens is not None:
                db.execute("DELETE FROM upstream_window WHERE minute < ?", (minute - 1,))
                db.execute(_COUNT, (upstream, minute, 1, 0))
            return None

        return await self._tables.write(take, f"upstream {upstream}", may_be_lost=True)

    async def leave(self, upstream: str, call: str, tokens: int) -> None:
        minute = int(self.clock() // _MINUTE)

        def leave(db: Sql) -> None:
            db.execute("DELETE FROM upstream_call WHERE id = ?", (call,))
            if tokens:
                db.execute(_COUNT, (upstream, minute, 0, tokens))

        await self._tables.write(leave, may_be_lost=True)

    async def renew(self, calls: Sequence[str]) -> None:
        until = self.clock() + LEASE
        rows = [(until, call) for call in calls]
        statement = "UPDATE upstream_call SET until = ? WHERE id = ?"
        await self._tables.write(lambda db: db.executemany(statement, rows), may_be_lost=True)

    async def pause(self, upstream: str, seconds: float) -> None:
        """For all processes. Of two pauses the one that ends later holds."""
        until = self.clock() + min(seconds, MAX_PAUSE)
        statement = """INSERT INTO upstream_pause (upstream, until) VALUES (?, ?)
            ON CONFLICT (upstream) DO UPDATE SET until = excluded.until WHERE excluded.until > upstream_pause.until"""
        await self._tables.write(lambda db: db.execute(statement, (upstream, until)), may_be_lost=True)


class _Line:
    """The calls of this process that want a place at one upstream."""

    __slots__ = ("first", "freed")

    def __init__(self) -> None:
        self.first = asyncio.Lock()  # fair: the first to come is the first to look
        self.freed = asyncio.Event()  # a call of this process has ended


class Upstreams:
    """The upstreams of this process. `limits` are those of the settings, by PROVIDER:NAME, PROVIDER or '*'."""

    def __init__(self, rows: UpstreamRows, limits: Mapping[str, UpstreamLimit], sleep: Sleep) -> None:
        self._rows = rows
        self._limits = limits
        self._sleep = sleep
        self._lines: dict[str, _Line] = {}
        self._under_way: set[str] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    def limited(self, spec: str, base_url: str | None, provider: Provider) -> Provider:
        """The same provider, whose calls wait for a place where its upstream has limits."""
        kind = spec.partition(":")[0]
        for key in (spec, kind, "*"):
            if (limit := self._limits.get(key)) is not None:
                # Two servers behind one provider's name are two upstreams.
                host = "" if base_url is None else urlsplit(base_url).netloc.rpartition("@")[2]
                upstream = f"{kind if key == '*' else key} {host}".rstrip()
                return LimitedModel(self, upstream, limit, provider)
        return provider

    async def renew(self) -> None:
        if self._under_way:
            await self._rows.renew(sorted(self._under_way))

    async def all_left(self) -> None:
        while self._leaving:
            await asyncio.wait(set(self._leaving))

    @asynccontextmanager
    async def place(self, upstream: str, limit: UpstreamLimit) -> AsyncIterator[_Used]:
        """Wait for a place, and hold it. Raises UpstreamError if none is free in time."""
        line = self._lines.setdefault(upstream, _Line())
        call, used = os.urandom(12).hex(), _Used()
        self._under_way.add(call)
        try:
            try:
                await self._take(upstream, limit, line, call)
            except asyncio.CancelledError as error:
                error.add_note(NEVER_SENT)
                raise
            yield used
        except UpstreamError as error:
            if error.status == 429 and error.retry_after and not isinstance(error, NoPlace):
                await self._rows.pause(upstream, error.retry_after)
            raise
        finally:
            self._under_way.discard(call)
            # Also where the wait was cancelled: the catalog may have given the place anyway.
            self._later(self._leave(upstream, line, call, used.tokens))

    async def _take(self, upstream: str, limit: UpstreamLimit, line: _Line, call: str) -> None:
        ends = self._rows.clock() + limit.wait
        async with line.first:
            while True:
                line.freed.clear()
                obstacle = await self._rows.take(upstream, limit, call)
                if obstacle is None:
                    return
                left = ends - self._rows.clock()
                if left <= 0 or obstacle.seconds > max(left, LOOK_AGAIN):
                    raise NoPlace(upstream, limit, obstacle)
                await self._wait(line, obstacle.seconds)

    async def _wait(self, line: _Line, seconds: float) -> None:
        waits = [asyncio.ensure_future(self._sleep(seconds)), asyncio.ensure_future(line.freed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    async def _leave(self, upstream: str, line: _Line, call: str, tokens: int) -> None:
        try:
            await self._rows.leave(upstream, call, tokens)
        finally:
            line.freed.set()

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(done_or_reported("the end of a call in the catalog", work))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


class _Used:
    """What a call has used, for the limit of tokens."""

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        self.tokens = 0


class NoPlace(UpstreamError):
    """The operator's own limit toward an upstream was in the way for too long."""

    def __init__(self, upstream: str, limit: UpstreamLimit, obstacle: Obstacle) -> None:
        super().__init__(
            f"no call of '{upstream}' was free within {limit.wait:g} seconds: {obstacle.why}",
            status=429,
            retryable=True,
            retry_after=max(1.0, obstacle.seconds),
        )


class LimitedModel:
    """Any provider, each of whose calls holds a place at its upstream."""

    def __init__(self, upstreams: Upstreams, upstream: str, limit: UpstreamLimit, provider: Provider) -> None:
        self.provider = provider
        self._place = partial(upstreams.place, upstream, limit)

    @property
    def capabilities(self) -> Capabilities:
        return replace(capabilities_of(self.provider), call_many=None)  # each answer has a place of its own

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        async with self._place() as used:
            finished = await self.provider.call(request, show)
            used.tokens = finished.usage.total
        return finished
