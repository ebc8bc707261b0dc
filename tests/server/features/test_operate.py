"""What an operator sees of all owners: who may look, what it tells, and that no word of an owner is in it."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, soon
from tests.server.features.test_named_models import script
from tests.server.features.test_scopes import Keyed, keyed
from tests.server.restarts import Folder, call
from tests.server.services.test_replicas import replicas
from tests.timeouts import TIMEOUT
from tests.tools.mcp.serving import http

from ronda import tool
from ronda.core.parts import Usage
from ronda.journal import RunStep, RunSurvey
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.providers.script import fails
from ronda.server.features.operate.feature import Operate, last_midnight, open_runs
from ronda.server.features.operate.looks import Look, Looks
from ronda.store.keys import new_key
from ronda.testing import ScriptedModel, calls, says

SCOPES = {"operator": ("operate:write",), "seer": ("operate",)}
CANARY = "canary-7f3a"


@tool
def send(body: str) -> str:
    """Send."""
    return f"{CANARY}-result"


@tool
def look() -> str:
    """Look."""
    return f"{CANARY}-result"


async def add_bob(server: Keyed) -> None:
    server.keys["bob"], row = new_key("bob", 1.0)
    await server.served.server.catalog.keys.add(row)


async def until_asked(server: Keyed, run: str, times: int) -> None:
    url = f"{server.served.url}/runs/{run}/events"
    async with soon(), server.served.http.get(url, headers=server.headers("bob")) as answer:
        async for line in answer.content:
            if b'"asked"' in line and (times := times - 1) == 0:
                return


@asynccontextmanager
async def with_a_run_that_waits(door: Door, **settings: Any) -> AsyncIterator[tuple[Keyed, str]]:
    """A server on which a run of bob's has called one tool and waits for a decision about another."""
    model = ScriptedModel(calls("look"), calls("send", body=f"{CANARY}-argument"), calls("look"))
    permission = {"agent_permission": "ask"}
    async with keyed(door, model, look, send, scopes=SCOPES, **permission, **settings) as server:
        await add_bob(server)
        asked: Json = {"input": f"{CANARY}-input", "instructions": f"{CANARY}-instructions", "background": True}
        _, said = await server.ask("bob", "POST", "responses", asked)
        run = said["id"].replace("resp_", "run_")
        await until_asked(server, run, 1)
        _, waiting = await server.ask("bob", "GET", "agent/approvals")
        path = f"agent/approvals/{waiting['data'][0]['approval_id']}"
        assert (await server.ask("bob", "POST", path, {"decision": "approve"}))[0] == 200
        await until_asked(server, run, 2)
        yield server, run


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return {"journal": SqliteJournal(tmp_path / "journal.db")} if request.param == "sqlite" else {}


async def test_an_operator_sees_runs_of_all_owners_and_no_word_of_theirs(door: Door, journal: Any) -> None:
    async with with_a_run_that_waits(door, **journal) as (server, run):
        looks = ["operate", "operate/errors", "operate/series?span=1h&step=60"]
        refused = [(await server.ask(who, "GET", path))[0] for who in ("bob", "all") for path in looks]
        status, said = await server.ask("seer", "GET", "operate")
        cancelled = await server.ask("operator", "POST", f"runs/{run}/cancel?owner=bob")
        after = [(await server.ask("operator", "GET", path))[1] for path in looks]

    assert (refused, status, cancelled[0]) == ([403] * 6, 200, 200)
    assert (said["running"], said["queued"], said["waiting"], said["processes"]) == (0, 0, 1, 1)
    [row] = said["runs"]
    assert (row["id"], row["owner"], row["state"], row["model"]) == (run, "bob", "waiting", "script:test")
    assert (row["rounds"] == 2, row["created_at"] > 0, row["tools"]) == (True, True, ["send"])
    assert (row["doing"], row["calls"]) == ("waits", [])
    [approval] = said["approvals"]
    assert (said["oldest_queued"], said["oldest_waiting"]) == (None, approval["age"])
    assert (approval["run"], approval["owner"], approval["age"] >= 0) == (run, "bob", True)
    assert set(approval) == {"run", "owner", "tool", "asked_at", "age"}
    assert (said["journal"]["bytes"] > 0, said["files"], said["mcp"]) == (True, {"count": 0, "bytes": 0}, [])
    assert (after[0]["waiting"], after[0]["runs"], after[0]["approvals"]) == (0, [], [])
    assert said["series"]["waiting"][-1] == 1
    steps = after[2]["data"]
    assert (len(steps), sum(one["started"] for one in steps), sum(one["ended"] for one in steps)) == (60, 1, 1)
    assert CANARY not in json.dumps([said, cancelled, after])


async def test_what_a_run_does_now_is_told_by_the_process_that_drives_it(door: Door) -> None:
    came, leave = asyncio.Event(), asyncio.Event()

    @tool
    async def hold(body: str) -> str:
        """Hold."""
        came.set()
        await leave.wait()
        return f"{CANARY}-result"

    class Slow(ScriptedModel):
        async def call(self, *asked: Any) -> Any:
            if len(self.requests) == 1:  # the call after the tool
                came.set()
                await leave.wait()
            return await super().call(*asked)

    model = Slow(calls("hold", body=f"{CANARY}-argument"), says("over"), says("over"))
    async with keyed(door, model, hold, scopes=SCOPES, background_runs=1) as server:
        await add_bob(server)
        for _ in range(2):
            assert (await server.ask("bob", "POST", "responses", {"input": CANARY, "background": True}))[0] == 202
        looks = []
        for _ in range(2):
            async with soon():
                await came.wait()
            looks.append((await server.ask("seer", "GET", "operate"))[1])
            came.clear()
            leave.set()
            leave = asyncio.Event()
        leave.set()

    told = [[(row["state"], row["doing"], row["calls"]) for row in said["runs"]] for said in looks]
    assert told[0] == [("queued", "next", []), ("running", "tools", ["hold"])]
    assert told[1] == [("queued", "next", []), ("running", "model", [])]
    assert [(len(said["series"]["queued"]), said["series"]["queued"][-1]) for said in looks] == [(60, 1)] * 2
    assert (looks[0]["oldest_queued"] >= 0.0, looks[0]["oldest_waiting"]) == (True, None)
    assert CANARY not in json.dumps(looks)


async def test_failed_runs_are_told_by_code_and_model(door: Door) -> None:
    failing = fails(f"{CANARY} is wrong", 400)
    async with keyed(door, ScriptedModel(failing, failing, says("x")), scopes=SCOPES) as server:
        await add_bob(server)
        for _ in range(3):
            await server.ask("bob", "POST", "responses", {"input": CANARY})
        _, errors = await server.ask("seer", "GET", "operate/errors?span=15m")
        _, series = await server.ask("seer", "GET", "operate/series?span=15m&step=900")
        _, now = await server.ask("seer", "GET", "operate")

    [error] = errors["data"]
    assert (error["code"], error["model"], error["agent"], error["count"]) == ("model_failed", "script:test", None, 2)
    assert (errors["failed"], errors["since"] < error["last_at"] < errors["until"]) == (2, True)
    [step] = series["data"]
    assert (step["started"], step["ended"], step["failed"]) == (3, 3, 2)
    assert len(now["series"]["tokens"]) == 60
    [model] = now["models"]
    assert (model["name"], model["runs"], model["failed"], model["calls"] >= 1) == ("script:test", 3, 2, True)
    assert now["cost_today"] == step["cost"]
    assert CANARY not in json.dumps([errors, series, now])


@pytest.mark.parametrize(
    "path",
    [
        "operate?limit=0",
        "operate?limit=501",
        "operate?before=x",
        "operate/errors?span=x",
        "operate/errors?span=99w",
        "operate/series?step=0",
        "operate/series?span=7d&step=1",
        "operate/series?step=nan",
    ],
)
async def test_what_cannot_be_looked_up_is_refused_by_name(door: Door, path: str) -> None:
    async with keyed(door, ScriptedModel(), scopes=SCOPES) as server:
        status, said = await server.ask("seer", "GET", path)

    assert status == 400
    assert said["error"]["param"] in path


async def test_runs_come_in_pages(door: Door) -> None:
    async with with_a_run_that_waits(door) as (server, first):
        _, said = await server.ask("bob", "POST", "responses", {"input": "x", "background": True})
        second = said["id"].replace("resp_", "run_")
        await until_asked(server, second, 1)
        _, page = await server.ask("seer", "GET", "operate?limit=1")
        _, rest = await server.ask("seer", "GET", f"operate?limit=1&before={page['next']}")

    assert ([one["id"] for one in page["runs"]], page["has_more"]) == ([second], True)
    assert ([one["id"] for one in rest["runs"]], rest["has_more"], rest["next"]) == ([first], False, None)
    assert [one["run"] for one in page["approvals"]] == [first, second]  # whichever page is asked for


async def test_without_keys_the_one_owner_may_look(door: Door) -> None:
    async with door.serving(ScriptedModel(says("x"))) as served:
        url, named = served.url, {"authorization": "Bearer mine"}
        async with soon(), served.http.get(f"{url}/operate") as answer:
            said = await answer.json()
        async with (
            soon(),
            served.http.get(f"{url}/operate", headers=named) as other,
        ):  # who has a name is one of several
            assert other.status == 403
        async with soon(), served.http.post(f"{url}/mcp/x/retry") as retried:
            assert retried.status == 403

    assert (answer.status, said["runs"], said["processes"]) == (200, [], 1)


async def test_an_mcp_server_is_tried_again_by_who_may_and_that_is_noted(door: Door) -> None:
    gone, off = http("http://127.0.0.1:1"), http("http://127.0.0.1:1", name="off", enabled=False)
    async with keyed(door, ScriptedModel(), scopes=SCOPES, mcp=[gone, off]) as server:
        await server.served.server.start()
        servers = server.served.mcp
        assert servers is not None
        async with soon():
            await servers.here().ready()
        refused = [(await server.ask(who, "POST", f"mcp/{gone.name}/retry"))[0] for who in ("all", "seer")]
        tried = await server.ask("operator", "POST", f"mcp/{gone.name}/retry")
        unknown = await server.ask("operator", "POST", "mcp/none/retry")
        useless = await server.ask("operator", "POST", "mcp/off/retry")
        _, said = await server.ask("seer", "GET", "operate")
        _, acts = await server.ask("seer", "GET", "audit")

    assert (refused, tried[0], tried[1]["name"], unknown[0], useless[0]) == ([403, 403], 202, gone.name, 404, 409)
    assert [one["name"] for one in said["mcp"]] == [gone.name, "off"]
    assert [(one["act"], one["subject"]) for one in acts["data"]] == [("mcp.retry", "off"), ("mcp.retry", gone.name)]


def read(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        return json.load(answer)


def test_servers_that_share_a_database_see_each_other_and_all_runs(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, call("wait"), "It is over now.")
    with replicas(folder, postgres) as (one, other):
        run = one.begin().replace("resp_", "run_")
        folder.until("waiting")
        said = read(f"{other.serving.url}/operate")
        steps = read(f"{other.serving.url}/operate/series")
        errors = read(f"{other.serving.url}/operate/errors")

    assert [row["id"] for row in said["runs"]] == [run]
    assert (said["runs"][0]["doing"], said["runs"][0]["calls"]) == (None, [])  # the other one knows
    assert (said["running"], said["processes"]) == (1, 2)
    assert [row["is_this"] for row in said["process_list"]].count(True) == 1
    assert said["journal"]["bytes"] > 0
    assert (sum(step["started"] for step in steps["data"]), errors["data"]) == (1, [])


@pytest.mark.parametrize(
    ("now", "timezone", "midnight"),
    [
        ("2026-11-18T01:30:00+00:00", "UTC", "2026-11-18T00:00:00+00:00"),
        ("2026-11-18T01:30:00+00:00", "America/New_York", "2026-11-17T05:00:00+00:00"),
        ("2026-11-18T23:30:00+00:00", "Asia/Tokyo", "2026-11-18T15:00:00+00:00"),
        ("2026-10-25T12:00:00+00:00", "Europe/Berlin", "2026-10-24T22:00:00+00:00"),  # which has 25 hours
    ],
)
def test_a_day_begins_at_midnight_where_the_operator_is(now: str, timezone: str, midnight: str) -> None:
    began = last_midnight(datetime.fromisoformat(now).timestamp(), timezone)
    assert began == datetime.fromisoformat(midnight).timestamp()


class Asked(MemoryJournal):
    """Notes what spans it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[float, float]] = []

    async def survey_runs(self, since: float, until: float, pieces: int) -> RunSurvey:
        self.spans.append((since, until))
        return await super().survey_runs(since, until, pieces)


async def test_the_cost_of_today_is_of_the_day_that_budgets_count(door: Door) -> None:
    journal, zone = Asked(), "Asia/Kathmandu"  # whose midnight is no full hour elsewhere
    async with (
        door.serving(ScriptedModel(), journal=journal, budgets={"timezone": zone}) as served,
        soon(),
        served.http.get(f"{served.url}/operate") as answer,
    ):
        assert answer.status == 200

    since, until = journal.spans[-1]
    assert since == min(last_midnight(until, zone), until - 1.0)


async def test_each_owner_is_told_with_runs_what_they_spent_and_their_limit(door: Door) -> None:
    model = ScriptedModel(says("hello", usage=Usage(10, 5, cost=0.25)))
    limits = [{"scope": "owner", "name": "bob", "per": "month", "usd": 4.0}]
    async with door.serving(model, budgets={"limits": limits, "unknown_price": "allow"}) as served:
        server = Keyed(served, {})
        for who, rights in {"bob": [], "ann": ["operate"]}.items():
            server.keys[who], row = new_key(who, 1.0, rights)
            await served.server.catalog.keys.add(row)
        assert (await server.ask("bob", "POST", "responses", {"input": "hi"}))[0] == 200
        _, said = await server.ask("ann", "GET", "operate")

    assert [one for one in said["series"]["cost"] if one is not None] == [0.25]  # where no run ended, none is known
    figures = {"running": 0, "waiting": 0, "reserved": 0.0}
    assert said["owners"] == [
        {"owner": "ann", "runs": 0, "spent": 0.0, "budget": None, **figures},
        {"owner": "bob", "runs": 1, "spent": 0.25, "budget": 4.0, **figures},
    ]


async def test_the_time_to_the_first_token_is_of_the_newest_calls(door: Door) -> None:
    async with keyed(door, ScriptedModel(says("hello")), scopes=SCOPES) as server:
        await add_bob(server)
        asked = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        assert (await server.ask("bob", "POST", "chat/completions", asked))[0] == 200
        _, told = await server.ask("seer", "GET", "operate")

    [model] = told["models"]
    assert 0.0 <= told["first_token_median"] == told["first_token_95"] == model["first_token"]
    assert told["series"]["first_token"] == [model["first_token"]]
    assert model["cools_for"] is None


async def test_how_much_came_from_caches_is_of_the_newest_runs(door: Door) -> None:
    answers = [says("x", usage=Usage(80, 5, cached=60)), says("x", usage=Usage(20, 5)), says("x")]
    async with keyed(door, ScriptedModel(*answers), scopes=SCOPES) as server:
        for _ in range(2):
            assert (await server.ask("all", "POST", "responses", {"input": "x"}))[0] == 200
        _, told = await server.ask("seer", "GET", "operate")

    assert told["cached_share"] == 0.6


async def test_a_model_that_cools_down_says_for_how_long(door: Door, tmp_path: Path) -> None:
    down, up = script(tmp_path, "down.json", {"error": "down", "status": 503}), script(tmp_path, "up.json", "up")
    models = {"a": {"model": down, "fallback": ["b"], "cool_down": 500}, "b": {"model": up}}
    async with keyed(door, ScriptedModel(), scopes=SCOPES, models=models) as server:
        for name in ("a", "b"):
            assert (await server.ask("all", "POST", "responses", {"input": "x", "model": name}))[0] == 200
        _, told = await server.ask("seer", "GET", "operate")

    cooling = {one["name"]: one["cools_for"] for one in told["models"]}
    assert (cooling[up], 0.0 < cooling[down] <= 500.0) == (None, True)


def test_runs_that_were_open_are_counted_back_from_now() -> None:
    steps = [RunStep(started=9), RunStep(started=2), RunStep(started=1, ended=3), RunStep(ended=1)]
    assert open_runs(steps, 0) == [1, 3, 1, 0]


async def test_what_was_queued_and_waited_is_counted_again_and_again(door: Door) -> None:
    async with with_a_run_that_waits(door) as (server, run):
        [operate] = [one for one in server.served.server.features.all if isinstance(one, Operate)]
        [look] = operate.chores()
        await look.do()
        await server.ask("operator", "POST", f"runs/{run}/cancel?owner=bob")
        _, said = await server.ask("seer", "GET", "operate")

    assert said["waiting"] == 0
    assert 1 in said["series"]["waiting"]


def test_of_each_piece_of_time_the_most_is_told() -> None:
    looks = Looks()
    for at, look in {60.0: Look(1, 0), 120.0: Look(4, 2), 180.0: Look(0, 3), 600.0: Look(0, 1)}.items():
        looks.add(at, look)
    looks.add(300.0, Look(9, 9))  # the clock was set back

    now = Look(2, 0)
    assert looks.most(0.0, 600.0, 5, now) == [Look(4, 2), Look(0, 3), None, None, Look(2, 1)]
    assert looks.most(0.0, 240.0, 8, now)[1:6] == [Look(1, 0), Look(1, 0), Look(4, 2), Look(4, 2), Look(0, 3)]
    assert Looks().most(0.0, 60.0, 2, now) == [None, now]


def test_a_week_of_looks_is_kept() -> None:
    looks = Looks()
    for minute in range(8 * 24 * 60):
        looks.add(minute * 60.0, Look(1, 1))

    days = looks.most(-60.0, (8 * 24 * 60 - 1) * 60.0, 8, Look(1, 1))
    assert days == [None, *[Look(1, 1)] * 7]
