"""Budgets through the doors: what a limit lets through, what it refuses and in whose words, and what is told about it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.cli.commands import shown
from tests.interaction.doors import Door, Served, soon
from tests.interaction.every_door import NAMES, PATHS, body_for

from ronda import Agent
from ronda.core.events import ModelFinished, RunStarted
from ronda.core.parts import Usage
from ronda.core.prices import Price
from ronda.drive import Capabilities
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.server.features.budgets.budgeted_model import LEAST_LAST
from ronda.server.features.budgets.ledger import TABLES, Account, Amounts, Ledger
from ronda.server.features.budgets.settings import BudgetLimit, BudgetOptions
from ronda.store.keys import KeyRow, hash_key
from ronda.store.memory import MemoryCatalog
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.tools.function import as_tool

PRICES: Any = {"script:*": Price(1.0, 10.0)}
ANN, ANN_2, BOB = "rk_ann", "rk_ann_2", "rk_bob"


def look() -> str:
    """Look."""
    return "seen"


def limited(scope: Any, **limits: Any) -> Any:
    return {"prices": PRICES, "budgets": {"limits": [{"scope": scope, **limits}]}}


async def add_keys(served: Served) -> None:
    for number, (key, owner) in enumerate([(ANN, "ann"), (ANN_2, "ann"), (BOB, "bob")]):
        await served.server.catalog.keys.add(KeyRow(f"key_{number}", owner, hash_key(key.encode()), 1.0))


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def post(served: Served, name: str = "chat", stream: bool = False, key: str = ANN, **more: Any) -> Any:
    body = body_for(name, stream) | {"max_tokens": 100} | more
    if name == "conversations":
        body = body_for(name, stream) | {"completion_args": {"max_tokens": 100}}
    elif name == "responses":
        body = body_for(name, stream) | {"max_output_tokens": 100}
    async with soon(), served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=bearer(key)) as answer:
        return answer.status, dict(answer.headers), await answer.text()


def ledger_of(served: Served) -> Ledger:
    feature: Any = served.server.features.find("budgets")
    ledger: Ledger = feature.ledger
    return ledger


async def settled(served: Served) -> None:
    feature: Any = served.server.features.find("budgets")
    await served.all_over()
    await feature.runs_ended()


async def reserved(served: Served) -> int:
    question = "SELECT count(*) FROM reservation"
    found: int = await served.server.catalog.read(lambda db: db.execute(question).fetchone()[0])
    return found


# ---- at a limit ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_a_budget_that_is_used_up_is_a_402_in_the_words_of_each_door(door: Door, name: str, stream: bool) -> None:
    model = ScriptedModel(says("one", usage=Usage(100, 100)))
    async with door.serving(model, **limited("key", per="day", tokens=200)) as served:
        await add_keys(served)
        first = await post(served, name, stream)
        await settled(served)
        status, headers, text = await post(served, name, stream)

        assert first[0] == 200, first
        assert (status, "budget_exceeded" in text or name == "messages") == (402, True), text
        assert "the budget of 200 tokens a day for this key is used up" in text
        assert headers["x-ronda-budget"] == (
            "scope=key; per=day; unit=tokens; limit=200; spent=200; reserved=0; remaining=0"
        )
        assert len(model.requests) == 1
        assert (await post(served, name, stream, key=BOB))[0] != 402  # whose key has its own


async def test_a_call_that_does_not_fit_is_refused_before_the_model_is_asked(door: Door) -> None:
    model = ScriptedModel(says("one"))
    async with door.serving(model, **limited("owner", usd=0.0005)) as served:
        await add_keys(served)
        plain = await post(served)  # 100 tokens of output are $0.001
        stream = await post(served, stream=True)
        await settled(served)

        assert [plain[0], stream[0], len(model.requests), await reserved(served)] == [402, 402, 0, 0]
        error = json.loads(plain[2])["error"]
        assert (error["code"], error["message"]) == (
            "budget_exceeded",
            "this call may take $0.001005, and $0.0005 are left of the budget of $0.0005 in all for this owner; a smaller limit "
            "of output tokens may fit",
        )


@pytest.mark.parametrize(
    "more",
    [
        {"max_completion_tokens": 5000},
        {"generationConfig": {"maxOutputTokens": 5000}},
        {"options": {"num_predict": "5e3"}},
        {"max_new_tokens": 5000.0},
    ],
    ids=str,
)
async def test_a_limit_of_the_answer_is_found_under_each_name_that_an_upstream_may_heed(
    door: Door, more: dict[str, Any]
) -> None:
    model = ScriptedModel(says("one"))
    async with door.serving(model, **limited("owner", tokens=1000)) as served:
        await add_keys(served)
        status, _, text = await post(served, **more)
    assert (status, "this call may take" in text, model.requests) == (402, True, [])


async def test_of_a_last_answer_every_name_of_its_limit_is_cut(door: Door) -> None:
    model = ScriptedModel(replace(calls("look"), usage=Usage(600, 100)), says("That is all."))
    names: Any = {"max_completion_tokens": 300, "generationConfig": {"maxOutputTokens": 300, "topK": 1}}
    async with door.serving(model, as_tool(look), **limited("run", tokens=1000)) as served:
        status, _, text = await post(served, **names)
    assert status == 200, text
    options = model.requests[-1].options
    assert options.max_tokens == LEAST_LAST
    assert {name: json.loads(bytes(value)) for name, value in options.extra.items()} == {
        "max_tokens": LEAST_LAST,
        "max_completion_tokens": LEAST_LAST,
        "generationConfig": {"maxOutputTokens": LEAST_LAST, "topK": 1},
    }


async def test_what_a_provider_asks_for_by_itself_is_reserved_where_a_request_names_no_limit(door: Door) -> None:
    class Asks(ScriptedModel):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(default_output=lambda options: 32_000)

    model = Asks(says("one"))
    async with door.serving(model, **limited("owner", tokens=20_000)) as served:
        await add_keys(served)
        body = {"model": "default", "messages": [{"role": "user", "content": "Hi"}]}
        async with soon(), served.http.post(f"{served.url}/chat/completions", json=body, headers=bearer(ANN)) as answer:
            text = await answer.text()
    assert (answer.status, "this call may take 32,0" in text, model.requests) == (402, True, [])


async def test_large_amounts_are_written_out(door: Door) -> None:
    async with door.serving(ScriptedModel(says("one")), **limited("owner", tokens=12_345_678)) as served:
        await add_keys(served)
        _, headers, _ = await post(served)
        [standing] = await ledger_of(served).standings([Account("owner", "ann")])
    assert headers["x-ronda-budget"] == (
        "scope=owner; per=total; unit=tokens; limit=12345678; spent=0; reserved=0; remaining=12345678"
    )
    assert standing.words == "12,345,678 tokens in all for this owner"


async def test_at_a_limit_the_run_answers_a_last_time_with_tools_off(door: Door) -> None:
    model = ScriptedModel(calls("look"), calls("look"), says("That is all."))
    async with door.serving(model, as_tool(look), **limited("run", rounds=3)) as served:
        status, _, text = await post(served)
        await settled(served)

        answer = json.loads(text)
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "That is all.")
        assert [request.choice.mode for request in model.requests] == ["auto", "auto", "none"]
        assert answer["warnings"][0] == (
            "the budget of 3 rounds in all for this run is used up; this is the last answer, with tools off"
        )
        assert answer["budget"] == {
            "scope": "run", "per": "total", "unit": "rounds", "limit": 3.0, "spent": 3, "reserved": 0, "remaining": 0.0,
            "currency": None,
        }  # fmt: skip
        assert await reserved(served) == 0


async def test_a_warning_does_not_say_that_a_budget_is_used_up_of_which_something_is_left(door: Door) -> None:
    model = ScriptedModel(says("That is all.", usage=Usage(10, 10)))
    async with door.serving(model, as_tool(look), **limited("run", tokens=200)) as served:
        answer = json.loads((await post(served))[2])

    assert (answer["budget"]["remaining"], answer["warnings"]) == (
        180,
        [
            "the budget of 200 tokens in all for this run has no room for another call of this size; "
            "this is the last answer, with tools off"
        ],
    )


async def test_a_model_that_calls_tools_all_the_same_is_not_heard(door: Door) -> None:
    model = ScriptedModel(calls("look"), calls("look"))
    async with door.serving(model, as_tool(look), **limited("run", tool_calls=1)) as served:
        status, _, text = await post(served)

    assert (status, json.loads(text)["choices"][0]["message"]["content"]) == (
        200,
        "I stopped here: the budget of this run is used up.",
    )


async def test_streamed_and_plain_end_with_the_same_budget(door: Door) -> None:
    found = []
    for stream in (False, True):
        async with door.serving(ScriptedModel(says("hi")), **limited("owner", usd=1.0)) as served:
            await add_keys(served)
            _, _, text = await post(served, stream=stream)
            last = text if not stream else text.split("data: ")[-2]
            found.append(json.loads(last)["budget"])
    assert found[0] == found[1]
    assert (found[0]["unit"], found[0]["currency"], found[0]["spent"]) == ("usd", "USD", pytest.approx(60e-6))


async def test_a_price_that_is_not_known_is_refused_where_money_is_limited(door: Door) -> None:
    limit = {"limits": [{"scope": "owner", "usd": 1.0}]}
    model = ScriptedModel(says("one"), says("two"))
    async with door.serving(model, budgets=limit) as served:
        status, _, text = await post(served)
    assert (status, "is not known" in text, len(model.requests)) == (402, True, 0)
    async with door.serving(model, budgets={**limit, "unknown_price": "allow"}) as served:
        assert (await post(served))[0] == 200
        await settled(served)
        [account] = [one for one in await ledger_of(served).accounts() if one.startswith("owner:")]
        spent = await ledger_of(served).spent(Account("owner", account.partition(":")[2]), "total")
    assert (spent.tokens, spent.usd, spent.unknown) == (15, 0.0, 1)


@pytest.mark.parametrize("price", [None, Price(1000.0, 10_000.0)])
async def test_a_model_may_cost_what_the_dearest_does_that_it_falls_back_to(
    door: Door, tmp_path: Path, price: Price | None
) -> None:
    """Nothing is asked where a fallback has no price, or would cost more than is left."""
    specs = {}
    for name, turn in (("down", {"error": "down", "status": 503}), ("dear", "said")):
        (tmp_path / f"{name}.json").write_text(json.dumps([turn]))
        specs[name] = f"script:{tmp_path / name}.json"
    models = {"down": {"model": specs["down"], "fallback": ["dear"]}, "dear": {"model": specs["dear"]}}
    prices = {specs["down"]: Price(1.0, 10.0), **({} if price is None else {specs["dear"]: price})}
    limit: Any = {"limits": [{"scope": "owner", "usd": 0.1}]}
    async with door.serving(ScriptedModel(), models=models, prices=prices, budgets=limit) as served:
        await add_keys(served)
        status, _, text = await post(served, model="down")
        await settled(served)
        spent = await ledger_of(served).spent(Account("owner", "ann"), "total")
    assert (status, spent) == (402, Amounts())
    assert ("is not known" if price is None else "this call may take $1.005") in text


# ---- who spends ----------------------------------------------------------------------------------------------------------


async def test_keys_spend_what_their_runs_cost_and_an_owner_what_all_keys_do(door: Door) -> None:
    model = ScriptedModel(*[says("x", usage=Usage(10 * n, n)) for n in range(1, 7)])
    async with door.serving(model, prices=PRICES, budgets={"enabled": True}) as served:
        await add_keys(served)
        costs: dict[str, float] = {}
        for key, stream in [(ANN, False), (ANN_2, True), (BOB, False), (ANN, True), (ANN_2, False), (BOB, True)]:
            _, headers, _ = await post(served, key=key, stream=stream)
            async with served.http.get(f"{served.url}/runs/{headers['x-ronda-run']}", headers=bearer(key)) as answer:
                costs[key] = costs.get(key, 0.0) + (await answer.json())["usage"]["cost"]
        await settled(served)
        await served.server.catalog.keys.revoke("key_0", 2.0)
        ledger = ledger_of(served)
        spent = [(await ledger.spent(Account("key", f"key_{n}"), "total")).usd for n in range(3)]
        owners = [(await ledger.spent(Account("owner", name), "month")).usd for name in ("ann", "bob")]
        async with served.http.get(f"{served.url}/budgets", headers=bearer(ANN_2)) as answer:
            shown = await answer.json()
        starts = [events[0] for events in await served.events]

    assert spent == [pytest.approx(costs[key]) for key in (ANN, ANN_2, BOB)]
    assert owners == [pytest.approx(costs[ANN] + costs[ANN_2]), pytest.approx(costs[BOB])]
    assert shown["spent"]["key"]["day"]["usd"] == pytest.approx(costs[ANN_2])
    assert shown["data"] == []
    assert [start.key for start in starts if isinstance(start, RunStarted)] == [
        "key_0", "key_1", "key_2", "key_0", "key_1", "key_2",
    ]  # fmt: skip


async def test_runs_that_a_run_starts_spend_from_the_same_budget(door: Door) -> None:
    child = Agent(ScriptedModel(calls("look"), says("poem")), name="poet", tools=[as_tool(look)])
    model = ScriptedModel(calls(Call("poet", {"input": "rain"}, "p")), says("done"))
    async with door.serving(model, child.as_tool(), **limited("run", rounds=9)) as served:
        status, _, text = await post(served)
        await settled(served)
        left = await reserved(served)
    assert (status, json.loads(text)["budget"]["spent"], left) == (200, 4, 0)


async def test_a_call_that_broke_off_counts_what_was_shown(door: Door) -> None:
    class Breaks(ScriptedModel):
        async def call(self, request: Any, show: Any) -> ModelFinished:
            if request.stream:
                from ronda.core.events import TextDelta

                show([TextDelta("x" * 400)])
            raise asyncio.CancelledError

    async with door.serving(Breaks(says("x")), **limited("owner", usd=1.0)) as served:
        await add_keys(served)
        await post(served, stream=True)
        await settled(served)
        spent = await ledger_of(served).spent(Account("owner", "ann"), "total")
        assert (spent.tokens > 100, spent.rounds, await reserved(served)) == (True, 1, 0)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_whose_client_goes_away_is_paid_for(door: Door, stream: bool) -> None:
    """Of a plain answer it is not known how much was written: then it is what was reserved. Else budgets could be got around."""
    asked = asyncio.Event()

    class Stays(ScriptedModel):
        async def call(self, request: Any, show: Any) -> ModelFinished:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    async with door.serving(Stays(says("x")), **limited("owner", usd=1.0)) as served:
        await add_keys(served)
        client = asyncio.create_task(post(served, stream=stream))
        async with soon():
            await asked.wait()
        client.cancel()
        await asyncio.gather(client, return_exceptions=True)
        await settled(served)
        spent = await ledger_of(served).spent(Account("owner", "ann"), "total")
        assert (spent.tokens - spent.tokens % 100, spent.rounds, await reserved(served)) == (0 if stream else 100, 1, 0)
        assert spent.tokens % 100 > 0  # the question


async def test_a_call_that_still_waits_in_line_when_its_client_goes_away_costs_nothing(door: Door) -> None:
    asked, waits = asyncio.Event(), asyncio.Event()

    class Stays(ScriptedModel):
        async def call(self, request: Any, show: Any) -> ModelFinished:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    upstreams = {"*": {"calls": 1, "wait": 3000}}
    async with door.serving(Stays(says("x")), upstreams=upstreams, **limited("owner", usd=1.0)) as served:
        await add_keys(served)
        feature: Any = served.server.features.find("models")
        take = feature._upstreams._rows.take

        async def told(*arguments: Any) -> Any:
            found = await take(*arguments)
            if found is not None:
                waits.set()
            return found

        feature._upstreams._rows.take = told
        clients = [asyncio.create_task(post(served))]
        async with soon():
            await asked.wait()
            clients.append(asyncio.create_task(post(served, key=BOB)))
            await waits.wait()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await settled(served)
        spent = [(await ledger_of(served).spent(Account("owner", owner), "total")).tokens for owner in ("ann", "bob")]
    assert (spent[0] > 100, spent[1]) == (True, 0)


@pytest.mark.parametrize("stream", [False, True])
async def test_no_answer_is_written_that_does_not_fit_although_those_beside_it_do(door: Door, stream: bool) -> None:
    """An upstream that writes several answers in one call writes all of them, and wants to be paid for all."""

    class Many(ScriptedModel):
        written = 0

        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(call_many=self.call_many, cost=Price(1.0, 10.0).cost)

        async def call(self, request: Any, show: Any) -> ModelFinished:
            self.written += 1
            return await super().call(request, show)

        async def call_many(self, request: Any, shows: Any) -> list[ModelFinished]:
            return [await self.call(request, show) for show in shows]

    model = Many(*[says("one", usage=Usage(5, 100)) for _ in range(5)])
    limit: Any = {"limits": [{"scope": "owner", "tokens": 250}]}  # room for two, of a hundred tokens and the question
    async with door.serving(model, budgets=limit) as served:
        await add_keys(served)
        await post(served, stream=stream, n=5)
        await settled(served)
        spent = await ledger_of(served).spent(Account("owner", "ann"), "total")
    assert (model.written, spent.rounds, spent.tokens) == (2, 2, 210)


async def test_several_answers_of_one_request_have_a_price(door: Door) -> None:
    class Many(ScriptedModel):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(call_many=self.call_many, cost=Price(1.0, 10.0).cost)

        async def call_many(self, request: Any, shows: Any) -> list[ModelFinished]:
            return [await self.call(request, show) for show in shows]

    limit: Any = {"limits": [{"scope": "owner", "usd": 1.0}]}
    async with door.serving(Many(says("one"), says("two")), budgets=limit) as served:
        status, _, text = await post(served, n=2)
    assert (status, len(json.loads(text)["choices"])) == (200, 2), text


# ---- the ledger ----------------------------------------------------------------------------------------------------------


async def test_days_weeks_and_months_are_those_of_the_operator_s_time_zone() -> None:
    now = 1_772_319_600.0  # 2026-02-28 23:00 UTC, a Saturday: in Berlin it is the first of March, a Sunday
    catalog = MemoryCatalog()
    catalog.add_tables("budgets", TABLES)
    account, limits = (
        Account("owner", "ann"),
        [BudgetLimit("owner", per=per, tokens=9) for per in ("day", "week", "month")],
    )
    ledger = Ledger(catalog, limits, "Europe/Berlin", lambda: now)

    async def spend(tokens: int) -> bool:
        verdict = await ledger.reserve(
            "run", f"{now}", [account], Amounts(tokens=tokens), keeps_last=False, room_for=lambda left: 0
        )
        await ledger.settle("run", f"{now}", [account], Amounts(tokens=tokens))
        return verdict.refused_by is None

    async def spent() -> list[float]:
        return [one.spent for one in await ledger.standings([account])]

    assert await spend(2)
    now += 3600  # still Sunday there
    assert await spend(3)
    assert await spent() == [5, 5, 5]
    now += 86400  # Monday, of the same month
    assert await spent() == [0, 0, 5]
    assert not await spend(5)


@pytest.mark.parametrize(
    ("zone", "begins", "hours"),
    [
        ("Europe/Berlin", "2026-10-24T22:00", 25),  # in summer time; it ends in the night
        ("Europe/Berlin", "2026-03-28T23:00", 23),
        ("Africa/Cairo", "2026-04-23T22:00", 23),  # a day without a midnight: it begins at one
        ("Asia/Kathmandu", "2026-01-01T18:15", 24),
        ("UTC", "2026-10-25T00:00", 24),
    ],
)
async def test_a_day_is_as_long_as_the_clocks_there_say(zone: str, begins: str, hours: int) -> None:
    first = datetime.fromisoformat(begins).replace(tzinfo=UTC).timestamp()
    now = first - 1
    catalog = MemoryCatalog()
    catalog.add_tables("budgets", TABLES)
    account = Account("owner", "ann")
    ledger = Ledger(catalog, [BudgetLimit("owner", per="day", rounds=9)], zone, lambda: now)
    spent = []
    for now in (first - 1, first, first + hours * 3600 - 1, first + hours * 3600):
        wanted, name = Amounts(rounds=1), str(now)
        await ledger.reserve("run", name, [account], wanted, keeps_last=False, room_for=lambda left: 0)
        await ledger.settle("run", name, [account], wanted)
        spent += [one.spent for one in await ledger.standings([account])]
    assert spent == [1, 1, 2, 1]


async def test_a_call_over_midnight_is_of_the_day_on_which_it_began() -> None:
    now = 86399.0
    catalog = MemoryCatalog()
    catalog.add_tables("budgets", TABLES)
    account = Account("owner", "ann")
    ledger = Ledger(catalog, [BudgetLimit("owner", per="day", tokens=10)], "UTC", lambda: now)
    await ledger.reserve("run", "0", [account], Amounts(tokens=10), keeps_last=False, room_for=lambda left: 0)
    now += 2
    [after] = await ledger.standings([account])
    await ledger.settle("run", "0", [account], Amounts(tokens=9))
    [settled_after] = await ledger.standings([account])
    now -= 2
    [before] = await ledger.standings([account])
    assert [(one.spent, one.reserved) for one in (after, settled_after, before)] == [(0, 0), (0, 0), (9, 0)]


async def test_a_limit_of_a_name_counts_before_that_of_each_and_the_table_before_the_settings(tmp_path: Path) -> None:
    catalog = SqliteCatalog(str(tmp_path / "catalog.db"))
    catalog.add_tables("budgets", TABLES)
    ledger = Ledger(
        catalog, [BudgetLimit("owner", tokens=1), BudgetLimit("owner", "ann", tokens=2)], "UTC", lambda: 0.0
    )

    async def limits(name: str) -> list[float]:
        return [one.limit for one in await ledger.standings([Account("owner", name)])]

    assert [await limits("ann"), await limits("bob")] == [[2], [1]]
    await ledger.set_limit("owner", "*", "total", "tokens", 3)
    assert [await limits("ann"), await limits("bob")] == [[2], [3]]
    await ledger.set_limit("owner", "ann", "total", "tokens", 4)
    assert [await limits("ann"), await limits("bob")] == [[4], [3]]
    await ledger.set_limit("owner", "ann", "total", "tokens", None)
    assert await limits("ann") == [2]
    await catalog.close()


# ---- the command -----------------------------------------------------------------------------------------------------


async def test_the_command_sets_a_limit_that_a_server_heeds_and_shows_what_was_spent(
    door: Door, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def command(*words: str) -> tuple[int, str, str]:
        """In a thread, as it has a loop of its own; the server goes on."""
        return await asyncio.to_thread(shown, capsys, "budget", *words, "--data-dir", str(tmp_path))

    nothing = await command("show")
    catalog = SqliteCatalog(str(tmp_path / "catalog.db"))
    model = ScriptedModel(*[says("Hi.", usage=Usage(10, 5)) for _ in range(3)])
    async with door.serving(model, prices=PRICES, budgets={"enabled": True}, catalog=catalog) as served:
        await add_keys(served)
        first = await post(served)
        await settled(served)
        limited = await command("set", "owner", "ann", "--per", "month", "--tokens", "15")
        second, other = await post(served), await post(served, key=BOB)
        await settled(served)
        listed = await command("show")
        freed = await command("set", "owner", "ann", "--per", "month", "--tokens", "-1")
        third = await post(served)
    refused = await command("set", "run", "ann", "--usd", "1")

    assert (nothing[0], "nothing was spent yet" in nothing[1]) == (0, True)
    assert [one[0] for one in (first, limited, second, other, freed, third)] == [200, 0, 402, 200, 0, 200]
    rows = [line.split() for line in listed[1].splitlines()]
    assert ["owner", "ann", "month", "tokens", "15"] in rows
    assert [row for row in rows if row[:3] == ["owner", "ann", "total"]] == [
        ["owner", "ann", "total", "$0.0001", "15", "1", "0"]
    ]
    assert (refused[0], "a run has no name before it begins" in refused[2]) == (2, True)


def test_settings_that_cannot_be_are_refused() -> None:
    from ronda.errors import BadConfig
    from ronda.server.check_config import check_config
    from ronda.server.features.table import make_config

    for budgets, words in [
        ({"timezone": "Mars/Base"}, "no such time zone"),
        ({"limits": [{"scope": "key"}]}, "limits nothing"),
        ({"limits": [{"scope": "run", "per": "day", "usd": 1}]}, "no days"),
        ({"limits": [{"scope": "key", "usd": -1}]}, "no number from 0 on"),
    ]:
        with pytest.raises(BadConfig, match=words):
            check_config(make_config({"model": "script:x", "budgets": budgets}))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"limits": [{"scope": "planet", "usd": 1}]}, BudgetOptions)
