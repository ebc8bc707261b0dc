"""What was spent, what is reserved, and what may be: rows in the catalog, the same for all processes that share it.

    ledger         (account, day) → what was spent. An account is `owner:NAME`, `key:ID`, `session:OWNER/NAME` or `run:ID`
    reservation    (run, call, account) → what a model call under way may spend; `call` is its round and try
    budget_limit   what `ronda budget set` has said, over the settings

Every change is one transaction, and one at a time wherever its process is: what two calls reserve at the same moment is never
more than the limit. A day is a date in the operator's time zone; weeks and months are sums of days.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, cast
from zoneinfo import ZoneInfo

from msgspec import Struct

from ronda.core.events import Budget
from ronda.server.features.budgets.settings import UNITS, BudgetLimit, Per, Scope, Unit
from ronda.server.services.spending import MonthsSpending
from ronda.store.owners import OwnerRows
from ronda.store.sql import Sql, Tables

TABLES: Final = (
    (
        """CREATE TABLE ledger (
            account {text}, day {text}, usd {number}, tokens {big}, rounds {big}, tool_calls {big}, seconds {number},
            unknown {big}, PRIMARY KEY (account, day)
        ){by_key}""",
        """CREATE TABLE reservation (
            run {text}, call {text}, account {text}, day {text}, usd {number}, tokens {big}, rounds {big}, made {number},
            PRIMARY KEY (run, call, account)
        ){by_key}""",
        "CREATE INDEX reservation_account ON reservation (account, day)",
        """CREATE TABLE budget_limit (
            scope {text}, name {text}, per {text}, unit {text}, amount {number}, PRIMARY KEY (scope, name, per, unit)
        ){by_key}""",
    ),
)

# Accounts of the owner, of the owner's keys and of sessions. A session's name may have a slash in it, so of two owners "a" and
# "a/b" the longer name is meant where both are known.
_ACCOUNTS: Final = """account = 'owner:' || CAST(:owner AS TEXT)
    OR account IN (SELECT 'key:' || id FROM key WHERE owner = :owner)
    OR (substr(account, 1, length(CAST(:owner AS TEXT)) + 9) = 'session:' || CAST(:owner AS TEXT) || '/'
        AND NOT EXISTS (SELECT 1 FROM (SELECT owner FROM key UNION SELECT owner FROM session) AS other
            WHERE length(other.owner) > length(CAST(:owner AS TEXT))
            AND substr(account, 1, length(other.owner) + 9) = 'session:' || other.owner || '/'))"""
OWNED: Final = (
    OwnerRows("ledger", _ACCOUNTS),
    OwnerRows("reservation", _ACCOUNTS),
    OwnerRows(
        "budget_limit",
        "(scope = 'owner' AND name = :owner) OR (scope = 'key' AND name IN (SELECT id FROM key WHERE owner = :owner))",
    ),
)

LAST: Final = "last"  # the call that stands for a run's last answer
ALONE: Final = "budgets"
_NEVER_SETTLED: Final = 86400.0  # seconds: no model call lasts as long, so its process is gone
_SLACK: Final = 1e-9  # of sums of floats

Limits: TypeAlias = dict[tuple[Per, Unit], float]


class Amounts(Struct, frozen=True):
    """What a model call uses, or may use. `unknown`: calls whose price is not known."""

    usd: float = 0.0
    tokens: int = 0
    rounds: int = 0
    tool_calls: int = 0
    seconds: float = 0.0
    unknown: int = 0


class Account(Struct, frozen=True):
    scope: Scope
    name: str  # by which limits name it
    owner: str = ""  # of a session: two owners may have one of the same name

    @property
    def row(self) -> str:
        return f"session:{self.owner}/{self.name}" if self.scope == "session" else f"{self.scope}:{self.name}"


class Standing(Struct, frozen=True):
    """One limit of an account, and how far it is used."""

    account: Account
    per: Per
    unit: Unit
    limit: float
    spent: float
    reserved: float

    @property
    def remaining(self) -> float:
        return max(0.0, self.limit - self.spent - self.reserved)

    @property
    def share(self) -> float:
        """Of 1: how far it is used."""
        return (self.spent + self.reserved) / self.limit if self.limit else 1.0

    @property
    def budget(self) -> Budget:
        currency = "USD" if self.unit == "usd" else None
        return Budget(
            self.account.scope, self.per, self.unit, self.limit, self.spent, self.reserved, self.remaining, currency
        )

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.amount(self.limit)} {'in all' if self.per == 'total' else f'a {self.per}'} for this {self.account.scope}"

    @property
    def used_up(self) -> str:
        return f"the budget of {self.words} is used up"

    def amount(self, number: float) -> str:
        """So many of its unit, for people."""
        text = plain(number, ",")
        return f"${text}" if self.unit == "usd" else f"{text} {self.unit.replace('_', ' ')}"


class Verdict(Struct, frozen=True):
    """Whether a call may be made. `is_last`: with tools off, and at most `room` of output tokens (None: as many as it likes)."""

    refused_by: Standing | None = None
    is_last: bool = False
    room: int | None = None


def plain(number: float, between_thousands: str = "") -> str:
    """To a millionth, and never as 2e+07."""
    return f"{number:{between_thousands}.6f}".rstrip("0").rstrip(".")


def tightest(standings: Iterable[Standing]) -> Standing | None:
    return max(standings, key=lambda one: one.share, default=None)


class Ledger:
    def __init__(
        self, tables: Tables, limits: Sequence[BudgetLimit], timezone: str, clock: Callable[[], float]
    ) -> None:
        self._tables = tables
        self._limits = limits
        self._zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
        self._clock = clock

    # ---- a model call ------------------------------------------------------------------------------------------------

    async def reserve(
        self,
        run: str,
        call: str,
        accounts: Sequence[Account],
        wanted: Amounts,
        *,
        keeps_last: bool,
        room_for: Callable[[Mapping[Unit, float]], int],
    ) -> Verdict:
        """Reserve what a call may use. `keeps_last`: and as much for a last answer of the run, unless it is kept already.
        `room_for`: what is left of each unit → how many tokens a last answer may have."""
        now = self._clock()
        today = self._day(now)

        def reserve(db: Sql) -> Verdict:
            limits = self._limits_of(db, accounts)
            _settle_old(db, now)
            has_last = db.execute("SELECT 1 FROM reservation WHERE run = ? AND call = ?", (run, LAST)).fetchone()
            shares = 2 if keeps_last and not has_last else 1
            over = _first_over(self._standings(db, limits, today), wanted, shares)
            if over is None:
                self._put(db, run, call, limits, today, wanted, now)
                if shares == 2:
                    self._put(db, run, LAST, limits, today, wanted, now)
                return Verdict()
            if has_last:
                db.execute("DELETE FROM reservation WHERE run = ? AND call = ?", (run, LAST))
            standings = list(self._standings(db, limits, today))
            over = _first_over(standings, wanted, 1)
            if over is not None and not has_last:
                return Verdict(refused_by=over)
            left = {unit: min([one.remaining for one in standings if one.unit == unit]) for unit in _units(standings)}
            self._put(db, run, call, limits, today, wanted, now)
            return Verdict(is_last=True, room=None if over is None else room_for(left))

        return await self._tables.write(reserve, ALONE)

    async def settle(self, run: str, call: str, accounts: Sequence[Account], used: Amounts) -> Standing | None:
        """What the call has used goes to the day on which it began. How far the tightest limit is used then."""
        today = self._day(self._clock())

        def settle(db: Sql) -> Standing | None:
            rows = db.execute("SELECT account, day FROM reservation WHERE run = ? AND call = ?", (run, call)).fetchall()
            db.execute("DELETE FROM reservation WHERE run = ? AND call = ?", (run, call))
            for account, day in rows:
                _add(db, account, day, used)
            return tightest(self._standings(db, self._limits_of(db, accounts), today))

        return await self._tables.write(settle, ALONE)

    async def close(self, run: str, *, is_over: bool) -> None:
        """Of a run that no process drives now: what a process reserved that died with it is spent, since it is not known how
        much of it was. What was kept for its last answer is free again, if the run `is_over`."""

        def close(db: Sql) -> None:
            _spend(db, "run = ? AND call <> ?", (run, LAST))
            if is_over:
                db.execute("DELETE FROM reservation WHERE run = ?", (run,))
                db.execute("DELETE FROM ledger WHERE account = ?", (f"run:{run}",))

        await self._tables.write(close, ALONE)

    # ---- looking -----------------------------------------------------------------------------------------------------

    async def standings(self, accounts: Sequence[Account]) -> list[Standing]:
        """Every limit of these accounts."""
        today = self._day(self._clock())
        if not self._tables.is_there:
            return list(_unused(_merged(self._limits, (), accounts)))
        return await self._tables.read(lambda db: list(self._standings(db, self._limits_of(db, accounts), today)))

    async def spent(self, account: Account, per: Per) -> Amounts:
        since = self._since(per, self._day(self._clock()))
        if not self._tables.is_there:
            return Amounts()
        return await self._tables.read(lambda db: _sum(db, account.row, since))

    async def of_month(self, owner: str) -> MonthsSpending:
        """Of `services.spending`."""
        account = Account("owner", owner)
        limits = await self.standings([account])
        limit = next((one for one in limits if (one.per, one.unit) == ("month", "usd")), None)
        spent = (await self.spent(account, "month")).usd
        return MonthsSpending(spent) if limit is None else MonthsSpending(spent, limit.reserved, limit.limit)

    async def accounts(self) -> list[str]:
        """All that have spent something: `owner:NAME`, `key:ID`, …"""
        question = "SELECT DISTINCT account FROM ledger ORDER BY account"
        if not self._tables.is_there:
            return []
        rows = await self._tables.read(lambda db: db.execute(question).fetchall())
        return [row[0] for row in rows]

    async def kept_limits(self) -> list[tuple[str, str, str, str, float]]:
        """Those of the table: scope, name, period, unit and amount."""
        if not self._tables.is_there:
            return []
        return await self._tables.read(_kept_limits)

    async def set_limit(self, scope: Scope, name: str, per: Per, unit: Unit, amount: float | None) -> None:
        """None: what the settings say counts again."""

        def change(db: Sql) -> None:
            key = (scope, name, per, unit)
            db.execute("DELETE FROM budget_limit WHERE scope = ? AND name = ? AND per = ? AND unit = ?", key)
            if amount is not None:
                db.execute(
                    "INSERT INTO budget_limit (scope, name, per, unit, amount) VALUES (?, ?, ?, ?, ?)", (*key, amount)
                )

        await self._tables.write(change, ALONE)

    # ---- inside a transaction ----------------------------------------------------------------------------------------

    def _limits_of(self, db: Sql, accounts: Sequence[Account]) -> dict[Account, Limits]:
        return _merged(self._limits, _kept_limits(db), accounts)

    def _standings(self, db: Sql, limits: Mapping[Account, Limits], today: str) -> Iterable[Standing]:
        for account, of_account in limits.items():
            for (per, unit), limit in of_account.items():
                since = self._since(per, today)
                reserved = _reserved(db, account.row, since)
                spent: float = getattr(_sum(db, account.row, since), unit)
                yield Standing(account, per, unit, limit, spent, getattr(reserved, unit))

    def _put(
        self, db: Sql, run: str, call: str, limits: Mapping[Account, Limits], day: str, wanted: Amounts, now: float
    ) -> None:
        for account, of_account in limits.items():
            if account.scope in ("key", "owner") or of_account:  # of runs and sessions, what is limited is counted
                db.execute(
                    "INSERT INTO reservation (run, call, account, day, usd, tokens, rounds, made) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (run, call, account.row, day, wanted.usd, wanted.tokens, wanted.rounds, now),
                )

    def _day(self, now: float) -> str:
        return datetime.fromtimestamp(now, self._zone).date().isoformat()

    @staticmethod
    def _since(per: Per, today: str) -> str:
        """The first day of the period that today is in."""
        if per == "total":
            return ""
        day = datetime.fromisoformat(today).date()
        if per == "week":
            day -= timedelta(days=day.weekday())
        elif per == "month":
            day = day.replace(day=1)
        return day.isoformat()


def _kept_limits(db: Sql) -> list[tuple[str, str, str, str, float]]:
    rows = db.execute(
        "SELECT scope, name, per, unit, amount FROM budget_limit ORDER BY scope, name, per, unit"
    ).fetchall()
    return [tuple(row) for row in rows]


def _merged(
    settings: Sequence[BudgetLimit], kept: Sequence[tuple[str, str, str, str, float]], accounts: Sequence[Account]
) -> dict[Account, Limits]:
    """A limit of a name counts before that of each, and one of the table before one of the settings."""
    found: dict[Account, Limits] = {}
    for account in accounts:
        limits: Limits = {}
        for name in ("*", account.name):
            for one in settings:
                if (one.scope, one.name) == (account.scope, name):
                    limits |= {(one.per, unit): amount for unit, amount in one.amounts.items()}
            for scope, of_name, per, unit, amount in kept:
                if (scope, of_name) == (account.scope, name):
                    limits[cast("Per", per), cast("Unit", unit)] = amount
        found[account] = limits
    return found


def _unused(limits: Mapping[Account, Limits]) -> Iterable[Standing]:
    for account, of_account in limits.items():
        for (per, unit), limit in of_account.items():
            yield Standing(account, per, unit, limit, 0.0, 0.0)


def _units(standings: Iterable[Standing]) -> set[Unit]:
    return {one.unit for one in standings}


def _first_over(standings: Iterable[Standing], wanted: Amounts, shares: int) -> Standing | None:
    """The tightest limit that the call does not fit into. What cannot be known before a call (its tools, its time) is only
    looked at: whether there is any left."""
    over = []
    for one in standings:
        if one.unit in ("tool_calls", "seconds"):
            is_over = one.spent >= one.limit
        else:
            is_over = one.spent + one.reserved + shares * getattr(wanted, one.unit) > one.limit + _SLACK
        if is_over:
            over.append(one)
    return tightest(over)


_SUMS: Final = "coalesce(sum(usd), 0), coalesce(sum(tokens), 0), coalesce(sum(rounds), 0)"


def _sum(db: Sql, account: str, since: str) -> Amounts:
    row: Any = db.execute(
        f"SELECT {_SUMS}, coalesce(sum(tool_calls), 0), coalesce(sum(seconds), 0), coalesce(sum(unknown), 0) "
        "FROM ledger WHERE account = ? AND day >= ?",
        (account, since),
    ).fetchone()
    usd, tokens, rounds, tool_calls, seconds, unknown = row
    return Amounts(float(usd), int(tokens), int(rounds), int(tool_calls), float(seconds), int(unknown))


def _reserved(db: Sql, account: str, since: str) -> Amounts:
    question = f"SELECT {_SUMS} FROM reservation WHERE account = ? AND day >= ?"
    usd, tokens, rounds = db.execute(question, (account, since)).fetchone()
    return Amounts(float(usd), int(tokens), int(rounds))


def _add(db: Sql, account: str, day: str, used: Amounts) -> None:
    db.execute(
        """INSERT INTO ledger (account, day, usd, tokens, rounds, tool_calls, seconds, unknown) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (account, day) DO UPDATE SET usd = ledger.usd + excluded.usd, tokens = ledger.tokens + excluded.tokens,
        rounds = ledger.rounds + excluded.rounds, tool_calls = ledger.tool_calls + excluded.tool_calls,
        seconds = ledger.seconds + excluded.seconds, unknown = ledger.unknown + excluded.unknown""",
        (account, day, used.usd, used.tokens, used.rounds, used.tool_calls, used.seconds, used.unknown),
    )


def _spend(db: Sql, condition: str, values: tuple[Any, ...]) -> None:
    """Count as spent what was reserved."""
    question = f"SELECT account, day, usd, tokens, rounds FROM reservation WHERE {condition}"
    for account, day, usd, tokens, rounds in db.execute(question, values).fetchall():
        _add(db, account, day, Amounts(float(usd), int(tokens), int(rounds)))
    db.execute(f"DELETE FROM reservation WHERE {condition}", values)


def _settle_old(db: Sql, now: float) -> None:
    """Of runs that were kept nowhere, and whose process died."""
    _spend(db, "made < ? AND call <> ?", (now - _NEVER_SETTLED, LAST))
    db.execute(
        "DELETE FROM reservation WHERE made < ?", (now - 30 * _NEVER_SETTLED,)
    )  # a run may wait for people for long


assert set(UNITS) <= set(Amounts.__struct_fields__)
