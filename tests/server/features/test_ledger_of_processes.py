"""Several processes spend from one budget, and one of them is killed between reserving and settling: no more is spent than the
limit allows, and what the dead one had reserved counts until its run is taken up, and as spent from then on."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.server.features.spender import LIMIT, RESERVED, USED, accounts, ledger_in, open_place
from tests.server.restarts import Folder, Upstream
from tests.timeouts import TIMEOUT

from ronda.server.features.budgets.ledger import Account

SPENDER = Path(__file__).with_name("spender.py")
ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = request.getfixturevalue("postgres") if request.param == "postgres" else str(tmp_path / "catalog.db")
    assert isinstance(found, str)
    return found


async def spend(place: str, run: str, killed: int = 0) -> int:
    """What a process settled before it was refused, or died."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SPENDER),
        place,
        run,
        str(killed),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    async with asyncio.timeout(TIMEOUT):
        out, _ = await process.communicate()
    assert process.returncode == (-9 if killed else 0)
    return sum(map(int, out.split()))


async def test_processes_together_spend_no_more_than_the_limit(place: str) -> None:
    catalog, _ = open_place(place)
    ledger = ledger_in(catalog)
    await ledger.set_limit(
        "owner", "nobody-else", "total", "tokens", 1
    )  # makes the tables, before others look for them

    dead = await spend(place, "b", killed=5)  # first: the others leave nothing to processes that come late
    settled = [dead, *await asyncio.gather(spend(place, "a"), spend(place, "c"))]

    [owner] = [one for one in await ledger.standings(accounts("a")) if one.account.scope == "owner"]
    assert (owner.spent, owner.reserved) == (sum(settled), RESERVED)
    assert LIMIT - RESERVED < owner.spent + owner.reserved <= LIMIT
    keys = [await ledger.spent(Account("key", f"key_{run}"), "total") for run in "bac"]
    assert [one.tokens for one in keys] == settled

    await ledger.close("b", is_over=False)  # as the process does that takes the run up
    [owner] = [one for one in await ledger.standings(accounts("a")) if one.account.scope == "owner"]
    assert (owner.spent, owner.reserved) == (sum(settled) + RESERVED, 0)
    assert owner.spent <= LIMIT
    assert dead == 4 * USED
    await catalog.close()


def test_a_server_that_is_killed_during_a_model_call_leaves_it_to_the_next_to_settle(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "x")
    with Upstream(["so far", None], ["over"]).serving() as upstream:
        flags = (*upstream.flags, "--budgets")
        with folder.serving(*flags) as first:
            response = first.ask(background=True, stream=False, max_output_tokens=50)
            _until_held(upstream)
            first.end(signal.SIGKILL)
        between = _amounts(tmp_path)
        with folder.serving(*flags) as second:
            ended = second.ended(response)
            second.end(signal.SIGTERM)
    after = _amounts(tmp_path)

    assert ended["status"] == "completed"
    ((_, tokens, calls),) = between["reservation"]
    assert (between["ledger"], tokens > 50, calls) == ([], True, 1)
    # The lost call at what it had reserved, and the one that was made again by what it seems to have used.
    ((_, spent, rounds),) = after["ledger"]
    assert (after["reservation"], spent > tokens, rounds) == ([], True, 2)


def _until_held(upstream: Upstream) -> None:
    assert upstream.is_held.wait(TIMEOUT)


def _amounts(folder: Path) -> dict[str, list[tuple[str, int, int]]]:
    with closing(sqlite3.connect(folder / "data" / "catalog.db")) as db:
        calls = "SELECT account, tokens, rounds FROM reservation WHERE call <> 'last'"
        spent = "SELECT account, tokens, rounds FROM ledger"
        return {"ledger": db.execute(spent).fetchall(), "reservation": db.execute(calls).fetchall()}
