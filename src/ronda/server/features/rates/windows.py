"""What was asked in this minute, and what is under way: rows in the catalog, the same for all processes that share it.

rate_window   (account, minute) → requests and tokens
rate_slot     a request under way, for as long as its process renews it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from ronda.server.features.rates.settings import Rate
from ronda.store.owners import OwnerRows
from ronda.store.sql import Sql, Tables

TABLES: Final = (
    (
        """CREATE TABLE rate_window (
            account {text}, minute {big}, requests {big}, tokens {big}, PRIMARY KEY (account, minute)
        ){by_key}""",
        "CREATE TABLE rate_slot (id {text} PRIMARY KEY, account {text}, until {number}){by_key}",
        "CREATE INDEX rate_slot_account ON rate_slot (account)",
    ),
)
_ACCOUNTS: Final = (
    "account = 'owner:' || CAST(:owner AS TEXT) OR account IN (SELECT 'key:' || id FROM key WHERE owner = :owner)"
)
OWNED: Final = (OwnerRows("rate_window", _ACCOUNTS), OwnerRows("rate_slot", _ACCOUNTS))
LEASE: Final = 60.0  # seconds until what a process had under way counts no more, if that process is gone
RENEWED: Final = 15.0  # seconds between renewals: three may fail
_MINUTE: Final = 60
_ALONE: Final = "rates"

_COUNT: Final = """INSERT INTO rate_window (account, minute, requests, tokens) VALUES (?, ?, ?, ?)
    ON CONFLICT (account, minute) DO UPDATE SET requests = rate_window.requests + excluded.requests,
    tokens = rate_window.tokens + excluded.tokens"""


class Admission(Struct, frozen=True):
    """How a key stands after a request. `refused`: what there is too much of, and the request was not counted."""

    requests: int
    tokens: int
    runs: int
    reset: float  # seconds until the next minute
    refused: str = ""


class Windows:
    def __init__(self, tables: Tables, clock: Callable[[], float]) -> None:
        self._tables = tables
        self._clock = clock

    async def admit(self, account: str, rate: Rate, slot: str) -> Admission:
        """Count a request, and that it is under way as `slot`; or refuse it."""
        now = self._clock()
        minute = int(now // _MINUTE)

        def admit(db: Sql) -> Admission:
            row = db.execute(
                "SELECT requests, tokens FROM rate_window WHERE account = ? AND minute = ?", (account, minute)
            ).fetchone()
            requests, tokens = (0, 0) if row is None else (int(row[0]), int(row[1]))
            db.execute("DELETE FROM rate_slot WHERE until < ?", (now,))
            (runs,) = db.execute("SELECT count(*) FROM rate_slot WHERE account = ?", (account,)).fetchone()
            reset = (minute + 1) * _MINUTE - now
            refused = ""
            for name, used, limit in (
                ("requests", requests, rate.requests),
                ("tokens", tokens, rate.tokens),
                ("runs", runs, rate.runs),
            ):
                if limit is not None and used >= limit:
                    return Admission(requests, tokens, runs, reset, name)
            db.execute("DELETE FROM rate_window WHERE minute < ?", (minute - 1,))
            db.execute(_COUNT, (account, minute, 1, 0))
            if rate.runs is not None:
                db.execute("INSERT INTO rate_slot (id, account, until) VALUES (?, ?, ?)", (slot, account, now + LEASE))
            return Admission(requests + 1, tokens, runs + 1, reset, refused)

        return await self._tables.write(admit, _ALONE, may_be_lost=True)

    async def add_tokens(self, account: str, tokens: int) -> None:
        row = (account, int(self._clock() // _MINUTE), 0, tokens)
        await self._tables.write(lambda db: db.execute(_COUNT, row), may_be_lost=True)

    async def renew(self, slots: Sequence[str]) -> None:
        until = self._clock() + LEASE
        rows = [(until, slot) for slot in slots]
        await self._tables.write(
            lambda db: db.executemany("UPDATE rate_slot SET until = ? WHERE id = ?", rows), may_be_lost=True
        )

    async def release(self, slot: str) -> None:
        await self._tables.write(lambda db: db.execute("DELETE FROM rate_slot WHERE id = ?", (slot,)), may_be_lost=True)
