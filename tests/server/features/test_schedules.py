"""Runs that begin by the clock: when, for whom, and each firing once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.commands import shown
from tests.interaction.doors import Door, Json, Served, soon
from tests.interaction.upstreams import Upstream, answers
from tests.server.features.spender import open_place
from tests.server.features.test_openapi import check_answer
from tests.server.features.test_system import doctor_of

from ronda.errors import BadRequest
from ronda.server.features.schedules.feature import BY_COMMAND, NewSchedule, Schedules, make_schedule
from ronda.server.features.schedules.rows import CLAIM_SECONDS, MAX_MADE_UP, TABLES, Claimed, ScheduleRows
from ronda.server.features.schedules.times import Cron
from ronda.store.keys import new_key
from ronda.testing import ScriptedModel, says

HOUR = 3600.0
BERLIN = "Europe/Berlin"
DAILY = {"cron": "30 2 * * *", "timezone": BERLIN, "request": {"model": "default", "input": "Good morning."}}


def moment(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def walls(cron: str, zone: str, since: str, count: int) -> list[str]:
    """What the clocks of a zone show, with their distance from UTC, when it fires."""
    found = []
    for at, _ in zip(Cron(cron, zone).times(moment(since, zone)), range(count), strict=False):
        found.append(datetime.fromtimestamp(at, ZoneInfo(zone)).strftime("%m-%d %H:%M %z"))
    return found


# ---- times -----------------------------------------------------------------------------------------------------------


def test_a_time_that_does_not_exist_fires_at_the_next_that_does() -> None:
    assert walls("30 2 * * *", BERLIN, "2026-03-28T00:00", 3) == [
        "03-28 02:30 +0100",
        "03-29 03:00 +0200",
        "03-30 02:30 +0200",
    ]
    assert walls("*/20 * * * *", BERLIN, "2026-03-29T01:30", 3) == [
        "03-29 01:40 +0100",
        "03-29 03:00 +0200",
        "03-29 03:20 +0200",
    ]


def test_a_time_that_comes_twice_fires_once() -> None:
    assert walls("30 2 * * *", BERLIN, "2026-10-24T12:00", 2) == ["10-25 02:30 +0200", "10-26 02:30 +0100"]
    assert walls("0 * * * *", BERLIN, "2026-10-25T01:30", 3) == [
        "10-25 02:00 +0200",
        "10-25 03:00 +0100",
        "10-25 04:00 +0100",
    ]
    second = datetime(2026, 10, 25, 2, 15, tzinfo=ZoneInfo(BERLIN), fold=1).timestamp()
    assert Cron("30 2 * * *", BERLIN).after(second) == moment("2026-10-26T02:30", BERLIN)


def test_a_zone_that_moves_its_clocks_at_midnight_has_a_day_that_begins_late() -> None:
    assert walls("0 0 * * *", "America/Santiago", "2026-09-05T12:00", 2) == ["09-06 01:00 -0300", "09-07 00:00 -0300"]


@given(
    st.integers(int(moment("2020-01-01")), int(moment("2030-01-01"))),
    st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu", "UTC"]),
    st.sampled_from(["0 0 * * *", "30 1 * * *", "15 2 * * *", "45 23 * * *"]),
)
def test_a_daily_time_comes_once_on_every_day(since: int, zone: str, cron: str) -> None:
    times = [at for at, _ in zip(Cron(cron, zone).times(since), range(40), strict=False)]
    days = [datetime.fromtimestamp(at, ZoneInfo(zone)).date() for at in times]
    assert days == [days[0] + timedelta(days=number) for number in range(40)]


@pytest.mark.parametrize(
    ("cron", "zone", "words"),
    [
        ("61 * * * *", "UTC", "out of its range"),
        ("* * * *", "UTC", "five fields"),
        ("* * * * * *", "UTC", "five fields"),
        ("R R * * *", "UTC", "left to chance"),
        ("1," * 200 + "1 * * * *", "UTC", "more than 200 characters"),
        ("0 9 * * *", "Europe/Atlantis", "no time zone"),
        ("0 9 * * *", "../../etc/passwd", "no time zone"),
        ("", "UTC", "five fields"),
    ],
)
def test_times_that_cannot_be_are_refused(cron: str, zone: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        Cron(cron, zone)


# ---- through the door ------------------------------------------------------------------------------------------------


class Clocked:
    """A server whose schedules look at the clock when a test says what it shows."""

    def __init__(self, served: Served, key: str = "") -> None:
        self.served = served
        self.headers = {"authorization": f"Bearer {key}"} if key else {}
        [self.feature] = [one for one in served.server.features.all if isinstance(one, Schedules)]

    async def call(self, method: str, path: str = "", body: Json | None = None) -> tuple[int, Any]:
        url = f"{self.served.url}/schedules{path}"
        async with soon(), self.served.http.request(method, url, json=body, headers=self.headers) as answer:
            return answer.status, json.loads(await answer.read())

    async def add(self, **more: Any) -> Json:
        status, made = await self.call("POST", body={**DAILY, **more})
        assert status == 201, made
        return made  # type: ignore[no-any-return]

    async def fire(self, *times: float) -> None:
        async with soon():
            for at in times:
                await self.feature.fire_due(at)
            await self.served.all_over()

    async def firings(self, schedule: Json) -> list[Json]:
        return (await self.call("GET", f"/{schedule['id']}"))[1]["firings"]  # type: ignore[no-any-return]

    async def response(self, firing: Json) -> Json:
        url = f"{self.served.url}/responses/{firing['response']}"
        async with soon():
            while True:  # until it has ended: the queue is looked at by a task of the server
                async with self.served.http.get(url, headers=self.headers) as answer:
                    found: Json = await answer.json()
                if found["status"] not in ("queued", "in_progress"):
                    return found
                await asyncio.sleep(0)


@asynccontextmanager
async def clocked(door: Door, model: Any, **settings: Any) -> AsyncIterator[Clocked]:
    async with door.serving(model, schedules=True, **settings) as served:
        yield Clocked(served)


async def test_a_schedule_starts_a_background_response_at_its_time(door: Door) -> None:
    model = ScriptedModel(says("Good morning to you."))
    async with clocked(door, model) as server:
        made = await server.add(name="morning")
        due = made["next_at"]
        await server.fire(due - 1.0, due, due, due + 1.0)
        [firing] = await server.firings(made)
        response = await server.response(firing)
        after = (await server.call("GET"))[1]["data"]

    assert made["firings"] == []
    assert (firing["state"], firing["at"], firing["problem"]) == ("started", due, None)
    assert response["output"][0]["content"][0]["text"] == "Good morning to you."
    assert [(one["id"], one["next_at"] > due) for one in after] == [(made["id"], True)]
    assert len(model.requests) == 1


async def test_missed_times_are_told_and_made_up_by_choice(door: Door) -> None:
    model = ScriptedModel(*[says("ok") for _ in range(40)])
    states = {}
    async with (
        Upstream(answers(b"{}"), answers(b"{}")) as hook,
        clocked(door, model, notices=True, fetch_allow=("127.0.0.1",)) as server,
    ):
        url = f"{server.served.url}/notices"
        async with server.served.http.post(url, json={"url": hook.url, "events": ["schedule.missed"]}) as answer:
            assert answer.status == 201
        for missed in ("skip", "once", "all"):
            made = await server.add(missed=missed, cron="0 * * * *", timezone="UTC")
            await server.fire(made["next_at"] + 3 * HOUR + 1800)
            found = await server.firings(made)
            states[missed] = [(one["state"], one["count"], (one["at"] - made["next_at"]) / HOUR) for one in found]
            await server.call("DELETE", f"/{made['id']}")
        for feature in server.served.server.features.all:
            await feature.runs_ended()
        notices: Any = server.served.server.features.find("notices")
        await asyncio.gather(*await notices.send_due())

    assert states == {
        "skip": [("missed", 4, 0.0)],
        "once": [("started", 1, 3.0), ("missed", 3, 0.0)],
        "all": [("started", 1, 3.0), ("started", 1, 2.0), ("started", 1, 1.0), ("started", 1, 0.0)],
    }
    assert sorted([one["data"]["count"] for one in hook.requests if one["type"] == "schedule.missed"]) == [3, 4]


async def test_after_months_without_a_server_the_time_that_has_just_come_fires(door: Door) -> None:
    async with clocked(door, ScriptedModel(says("ok"))) as server:
        made = await server.add(cron="* * * * *", timezone="UTC")
        now = made["next_at"] + 90 * 24 * HOUR
        await server.fire(now)
        found = [(one["state"], one["at"], one["count"] >= 10_000) for one in await server.firings(made)]

    assert found == [("started", now, False), ("started", now - 60.0, False), ("missed", made["next_at"], True)]


async def test_the_doctor_counts_what_was_missed_or_failed(door: Door) -> None:
    async with clocked(door, ScriptedModel()) as site:
        made = await site.add()
        [works] = await doctor_of(site.served, "schedules")
        await site.fire(made["next_at"] + 3600.0)
        [partly] = await doctor_of(site.served, "schedules")
    assert (works.state, works.text) == ("works", "1 of them; none was missed or failed in the last day")
    assert (partly.state, partly.text) == ("partly", "in the last day 1 were missed, and 0 could not start")


async def test_a_schedule_is_paused_and_resumed_without_missing_anything(door: Door) -> None:
    async with clocked(door, ScriptedModel(says("ok"))) as server:
        made = await server.add()
        paused = (await server.call("POST", f"/{made['id']}/pause"))[1]
        await server.fire(made["next_at"] + 10 * 24 * HOUR)
        resumed = (await server.call("POST", f"/{made['id']}/resume"))[1]

    assert (paused["next_at"], resumed["next_at"], resumed["firings"]) == (None, made["next_at"], [])


async def test_schedules_are_their_owner_s_and_end_with_the_key_that_made_them(door: Door) -> None:
    keys = {}
    async with clocked(door, ScriptedModel(says("ok"))) as server:
        catalog = server.served.server.catalog
        for owner, scopes in (("ann", ("model:default",)), ("bob", ())):
            keys[owner], row = new_key(owner, 0.0, scopes)
            await catalog.keys.add(row)
        server = Clocked(server.served, keys["ann"])
        made = await server.add()
        refused = await server.call("POST", body={**DAILY, "request": {"model": "other", "input": "x"}})
        bob = Clocked(server.served, keys["bob"])
        others = [await bob.call("GET", f"/{made['id']}"), await bob.call("DELETE", f"/{made['id']}")]
        listed = (await bob.call("GET"))[1]["data"]
        await server.fire(made["next_at"])
        [first] = await server.firings(made)
        for row in await catalog.keys.all():
            await catalog.keys.revoke(row.id, 1.0)
        server.served.server.auth.forget()  # type: ignore[attr-defined]  # it reads them again within 2 seconds
        await server.fire(made["next_at"] + 24 * HOUR)
        rows = await ScheduleRows(catalog).firings([made["id"]])

    assert ([status for status, _ in others], listed, refused[0]) == ([404, 404], [], 404)
    assert first["state"] == "started"
    assert [one.state for one in rows[made["id"]]] == ["failed", "started"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"cron": "* * * *"}, "cron"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"request": {"model": "none", "input": "x"}}, "model"),
        ({"request": {"model": "default"}}, "input"),
        ({"request": {"model": "default", "input": "x", "stream": True}}, "request"),
        ({"request": []}, "request"),
        ({"name": "x" * 101}, "name"),
        ({"missed": "twice"}, None),
        ({"every": "day"}, None),
    ],
)
async def test_a_schedule_that_could_not_fire_is_refused(door: Door, body: Json, param: str | None) -> None:
    async with clocked(door, ScriptedModel()) as server:
        status, refused = await server.call("POST", body={**DAILY, **body})
        listed = (await server.call("GET"))[1]["data"]

    assert (status in (400, 404), refused["error"]["param"], listed) == (True, param, [])


# ---- over processes --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = request.getfixturevalue("postgres") if request.param == "postgres" else str(tmp_path / "catalog.db")
    assert isinstance(found, str)
    return found


async def test_processes_claim_each_firing_once_and_that_of_a_dead_one_again(place: str) -> None:
    catalogs = [open_place(place)[0] for _ in range(3)]
    for catalog in catalogs:
        catalog.add_tables("schedules", TABLES)
    processes = [ScheduleRows(catalog) for catalog in catalogs]
    hourly = NewSchedule("0 * * * *", b'{"input":"x"}', missed="all")  # type: ignore[arg-type]  # any bytes are JSON
    made = [make_schedule(hourly, "ann", BY_COMMAND, 0.0) for _ in range(5)]
    for one in made:
        assert await processes[0].add(one, 100)

    async def claims(now: float) -> list[Claimed]:
        return list(await asyncio.gather(*[one.claim(now) for one in processes for _ in range(4)]))

    found = [firing for one in await claims(HOUR) for firing in one.firings]
    again = [firing for one in await claims(HOUR + 1) for firing in one.firings]
    for schedule, at in found[1:]:
        await processes[1].settle(schedule.id, at, "started", "run_x", "")
    left = [firing for one in await claims(HOUR + CLAIM_SECONDS + 1) for firing in one.firings]
    late = [one for one in await claims(100 * HOUR) if one.firings]
    for catalog in catalogs:
        await catalog.close()

    assert sorted([(one.id, at) for one, at in found]) == sorted([(one.id, HOUR) for one in made])
    assert again == []
    assert [(one.id, at) for one, at in left] == [(found[0][0].id, HOUR)]
    made_up = [at for one in late for schedule, at in one.firings if schedule.id == made[-1].id and at > HOUR]
    assert made_up == [number * HOUR for number in range(100 - MAX_MADE_UP, 101)]


async def test_a_firing_that_a_dead_process_has_started_is_not_started_again(door: Door) -> None:
    model = ScriptedModel(says("ok"))
    async with clocked(door, model) as server:
        made = await server.add()
        await server.fire(made["next_at"])
        first = await server.firings(made)
        await server.response(first[0])
        statement = "UPDATE schedule_firing SET state = 'claimed', run = ''"  # as if it had died before it could say so
        await server.served.server.catalog.write(lambda db: db.execute(statement))
        await server.fire(made["next_at"] + CLAIM_SECONDS + 1)
        again = await server.firings(made)

    assert again == first
    assert len(model.requests) == 1


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command_adds_lists_pauses_and_removes_a_schedule(capsys: Any, tmp_path: Path) -> None:
    where = ("--data-dir", str(tmp_path))
    words = (
        "--cron",
        "0 9 * * 1-5",
        "--timezone",
        BERLIN,
        "--input",
        "What is new?",
        "--owner",
        "ann",
        "--name",
        "news",
    )
    code, out, _ = shown(capsys, "schedule", "add", *words, *where)
    schedule = out.strip()
    listed = shown(capsys, "schedule", *where)[1]
    codes = [
        shown(capsys, "schedule", action, schedule, *where)[0] for action in ("pause", "resume", "remove", "remove")
    ]
    empty = shown(capsys, "schedule", "list", *where)[1]
    refused = shown(capsys, "schedule", "add", "--cron", "9 o'clock", "--input", "x", *where)

    assert (code, codes) == (0, [0, 0, 0, 2])
    assert all(word in listed for word in (schedule, "ann", "news", "0 9 * * 1-5", BERLIN, "09:00"))
    assert "no schedules yet" in empty
    assert (refused[0], "five fields" in refused[2]) == (2, True)


async def test_what_schedules_and_notices_answer_is_as_the_document_says(door: Door) -> None:
    async with clocked(door, ScriptedModel(says("ok")), notices=True) as server:
        served = server.served
        features = [one for one in served.server.features.all if one.name in ("schedules", "notices")]
        rows = {f"{row.method} {row.path}" for one in features for row in one.routes()}
        described = {name for one in features for name in one.operations()}
        async with soon(), served.http.get(served.url.removesuffix("/v1") + "/openapi.json") as answer:
            document = await answer.json()
        made = await server.add()
        await server.fire(made["next_at"])
        one = f"/{made['id']}"
        asked = [
            ("POST", "", "", 201, DAILY), ("GET", "", "", 200, None), ("GET", one, "/{schedule_id}", 200, None),
            ("POST", f"{one}/pause", "/{schedule_id}/pause", 200, None), ("GET", "/none", "/{schedule_id}", 404, None),
            ("POST", "", "", 400, {}), ("DELETE", one, "/{schedule_id}", 200, None),
        ]  # fmt: skip
        for method, path, row, expected, body in asked:
            status, found = await server.call(method, path, body)
            assert status == expected, found
            check_answer(document, method, f"/v1/schedules{row}", status, found)
        for path in ("", "/secret"):
            async with soon(), served.http.get(f"{served.url}/notices{path}") as answer:
                check_answer(document, "GET", f"/v1/notices{path}", answer.status, await answer.json())

    assert described == rows
