"""Notices: who is told about what, signed how, and how often it is tried."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from tests.interaction.doors import Door, Json, Served, soon, user
from tests.interaction.upstreams import Exchange, Upstream, answers, refuses
from tests.server.features.spender import open_place
from tests.server.features.test_system import doctor_of

from ronda import tool
from ronda.core.events import Budget, RunStarted
from ronda.server.features.budgets.settings import BudgetLimit, BudgetOptions
from ronda.server.features.notices.feature import WAITS, Notices
from ronda.server.features.notices.rows import TABLES, NewNotice, NoticeAddress, NoticeRows
from ronda.server.services.notice_sink import NoticeSink
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, calls, says

TAKEN = answers(b"{}")
BUSY = answers(b"{}", 503)
LOCAL: Any = {"notices": True, "fetch_allow": ("127.0.0.1",)}


class Sender:
    """A server whose notices are sent when a test says so."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.server = served.server
        [self.feature] = [one for one in served.server.features.all if isinstance(one, Notices)]

    async def call(self, method: str, path: str = "", body: Json | None = None) -> tuple[int, Json]:
        url = f"{self.served.url}/notices{path}"
        async with soon(), self.served.http.request(method, url, json=body) as answer:
            return answer.status, json.loads(await answer.read())

    async def subscribe(self, upstream: Upstream, *events: str) -> Json:
        status, made = await self.call("POST", body={"url": f"{upstream.url}/hook", "events": list(events)})
        assert status == 201, made
        return made

    async def ask(self, **more: Any) -> str:
        answer = await self.served.post({"messages": [user("a canary word")], **more})
        return answer.headers["x-ronda-run"]

    async def deliver(self) -> None:
        async with soon():
            await self.feature.runs_ended()
            await asyncio.gather(*await self.feature.send_due())


@asynccontextmanager
async def sending(door: Door, model: Any, *tools: Any, **settings: Any) -> AsyncIterator[Sender]:
    async with door.serving(model, *tools, **{**LOCAL, **settings}) as served:
        yield Sender(served)


def told(upstream: Upstream) -> list[tuple[str, Json]]:
    return [(one["type"], one["data"]) for one in upstream.requests]


async def test_an_owner_is_told_of_the_end_of_a_run_and_of_nothing_that_was_said(door: Door) -> None:
    async with Upstream(TAKEN) as hook, sending(door, ScriptedModel(says("a canary answer"))) as sender:
        made = await sender.subscribe(hook)
        run = await sender.ask()
        await sender.deliver()
        await sender.deliver()  # what was taken is not sent again
        listed = await sender.call("GET")

    [(kind, data)] = told(hook)
    assert (kind, data["run"], data["reason"]) == ("run.finished", run, "stop")
    assert b"canary" not in hook.bodies[0]
    assert Webhook(made["secret"]).verify(hook.bodies[0], hook.heads[0])["type"] == "run.finished"
    with pytest.raises(WebhookVerificationError):
        Webhook(made["secret"]).verify(hook.bodies[0] + b" ", hook.heads[0])
    assert listed[1]["data"][0]["undelivered"] == []
    assert "secret" not in listed[1]["data"][0]


async def test_a_background_response_is_told_of_in_openais_words(door: Door) -> None:
    async with Upstream(TAKEN, TAKEN) as hook, sending(door, ScriptedModel(says("Hi."))) as sender:
        made = await sender.subscribe(hook, "response.completed")
        http, url = sender.served.http, f"{sender.served.url}/responses"
        async with soon(), http.post(url, json={"model": "default", "input": "Hi", "background": True}) as answer:
            response = await answer.json()
        async with soon(), http.get(f"{url}/{response['id']}?stream=true") as answer:
            await answer.read()  # until it has ended
        await sender.served.all_over()
        await sender.deliver()

    event: Any = openai.OpenAI(api_key="x").webhooks.unwrap(hook.bodies[0], hook.heads[0], secret=made["secret"])
    assert (event.type, event.data.id) == ("response.completed", response["id"])
    assert len(hook.bodies) == 1


async def test_a_run_that_waits_for_a_decision_is_told_of(door: Door) -> None:
    @tool(approval="ask")
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel(calls("pay"), says("Paid."))
    async with Upstream(TAKEN) as hook, sending(door, model, pay) as sender:
        await sender.subscribe(hook, "run.waiting")
        run = await sender.ask()
        await sender.deliver()

    [(kind, data)] = told(hook)
    assert (kind, data["run"], data["tool"]) == ("run.waiting", run, "pay")
    assert data["question"].startswith("appr_")


async def test_what_an_address_does_not_take_is_sent_again_later(door: Door) -> None:
    async with Upstream(BUSY, TAKEN) as hook, sending(door, ScriptedModel(says("Hi."))) as sender:
        await sender.subscribe(hook)
        await sender.ask()
        await sender.deliver()
        await sender.deliver()  # too soon
        [waiting] = (await sender.call("GET"))[1]["data"][0]["undelivered"]
        await sender.server.catalog.write(lambda db: db.execute("UPDATE notice SET due = 0"))
        await sender.deliver()
        after = (await sender.call("GET"))[1]["data"][0]["undelivered"]

    assert (waiting["tries"], waiting["problem"], after) == (1, "HTTP 503", [])
    assert waiting["next_try_at"] - waiting["created_at"] >= WAITS[0]
    assert hook.bodies[0] == hook.bodies[1]
    assert hook.heads[0]["webhook-id"] == hook.heads[1]["webhook-id"]


@pytest.mark.parametrize("status", [301, 302, 307, 308, 404, 410, 429, 500])
async def test_only_a_2xx_is_a_yes_and_no_redirect_is_followed(door: Door, status: int) -> None:
    elsewhere = answers(b"{}", status, location="/elsewhere")
    async with Upstream(elsewhere) as hook, sending(door, ScriptedModel(says("Hi."))) as sender:
        await sender.subscribe(hook)
        await sender.ask()
        await sender.deliver()
        [waiting] = (await sender.call("GET"))[1]["data"][0]["undelivered"]

    assert (waiting["problem"], waiting["tries"], len(hook.bodies)) == (f"HTTP {status}", 1, 1)


async def test_an_address_that_takes_its_time_holds_up_no_other(door: Door) -> None:
    taken = asyncio.Event()

    async def waits(exchange: Exchange) -> None:
        await exchange.until_gone()

    async def takes(exchange: Exchange) -> None:
        taken.set()
        await exchange.answer(b"{}")

    model = ScriptedModel(says("Hi."), says("Hi."))
    async with Upstream(waits, waits) as slow, Upstream(takes) as quick, sending(door, model) as sender:
        [look] = [chore.do for chore in sender.feature.chores() if chore.name == "the sending of notices"]
        for hook in (slow, quick):
            await sender.subscribe(hook)
            await sender.ask()
            await sender.feature.runs_ended()
            async with soon():
                await look()
        async with soon():
            await taken.wait()
        listed = (await sender.call("GET"))[1]["data"]

    [waiting] = [one["undelivered"] for one in listed if one["url"].startswith(slow.url)]
    assert [one["tries"] for one in waiting] == [0, 0]


async def test_the_doctor_counts_what_was_not_taken(door: Door) -> None:
    async with sending(door, ScriptedModel(says("over"))) as sender, Upstream(refuses(503, "later")) as hook:
        [works] = await doctor_of(sender.served, "notices")
        await sender.subscribe(hook)
        await sender.ask()
        await sender.deliver()
        [partly] = await doctor_of(sender.served, "notices")
    assert (works.state, works.text) == ("works", "every notice was taken")
    assert (partly.state, partly.text) == ("partly", "1 were not taken yet, 0 were given up")


async def test_what_is_never_taken_is_given_up(door: Door) -> None:
    async with Upstream(BUSY) as hook, sending(door, ScriptedModel(says("Hi."))) as sender:
        await sender.subscribe(hook)
        await sender.ask()
        await sender.feature.runs_ended()
        await sender.server.catalog.write(lambda db: db.execute("UPDATE notice SET tries = ?", (len(WAITS),)))
        await sender.deliver()
        [given_up] = (await sender.call("GET"))[1]["data"][0]["undelivered"]

    assert (given_up["next_try_at"], given_up["tries"]) == (None, len(WAITS) + 1)


async def test_what_an_address_says_is_gone_is_given_up_at_once(door: Door) -> None:
    async with Upstream(answers(b"{}", 410)) as hook, sending(door, ScriptedModel(says("Hi."))) as sender:
        await sender.subscribe(hook)
        await sender.ask()
        await sender.deliver()
        [given_up] = (await sender.call("GET"))[1]["data"][0]["undelivered"]

    assert (given_up["next_try_at"], given_up["tries"], given_up["problem"]) == (None, 1, "HTTP 410")


async def test_a_budget_tells_its_owner(door: Door) -> None:
    async with Upstream(TAKEN) as hook, sending(door, ScriptedModel()) as sender:
        await sender.subscribe(hook, "budget.warning")
        sink = sender.server.features.provided(NoticeSink)
        sink.notify("", "budget.warning", {"spent": 8, "limit": 10})
        sink.notify("ann", "budget.warning", {"spent": 8, "limit": 10})
        sink.notify("", "budget.exhausted", {"spent": 10, "limit": 10})
        await sender.deliver()

    assert told(hook) == [("budget.warning", {"spent": 8, "limit": 10})]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"url": "http://127.0.0.1:9/x"}, "url"),
        ({"url": "http://169.254.169.254/latest"}, "url"),
        ({"url": "http://localhost/x"}, "url"),
        ({"url": "ftp://example.com/x"}, "url"),
        ({"url": "http://name:word@example.com/x"}, "url"),
        ({"url": "https://example.com/" + "x" * 3000}, "url"),
        ({"url": "nothing"}, "url"),
        ({"url": "https://93.184.215.14/x", "events": ["run.eaten"]}, "events"),
        ({"address": "https://93.184.215.14/x"}, None),
    ],
)
async def test_an_address_that_may_not_be_called_is_refused(door: Door, body: Json, param: str | None) -> None:
    async with sending(door, ScriptedModel(), fetch_allow=()) as sender:
        status, refused = await sender.call("POST", body=body)

    assert (status, refused["error"]["param"]) == (400, param)


async def test_an_address_that_became_private_is_not_called(door: Door) -> None:
    catalog = MemoryCatalog()
    async with Upstream(TAKEN) as hook:
        async with sending(door, ScriptedModel(), catalog=catalog) as sender:
            await sender.subscribe(hook)
        async with sending(door, ScriptedModel(says("Hi.")), catalog=catalog, fetch_allow=()) as sender:
            await sender.ask()
            await sender.deliver()

    assert hook.bodies == []


async def test_an_address_is_deleted_with_what_is_on_its_way(door: Door) -> None:
    async with Upstream(TAKEN) as hook, sending(door, ScriptedModel(says("Hi."))) as sender:
        made = await sender.subscribe(hook)
        await sender.ask()
        deleted = await sender.call("DELETE", f"/{made['id']}")
        again = await sender.call("DELETE", f"/{made['id']}")
        await sender.deliver()

    assert (deleted[0], again[0], hook.bodies) == (200, 404, [])


async def test_the_secret_is_in_no_row(door: Door) -> None:
    async with Upstream(BUSY) as hook, sending(door, ScriptedModel(says("Hi."))) as sender:
        made = await sender.subscribe(hook)
        await sender.ask()
        await sender.deliver()
        questions = ("SELECT * FROM notice_address", "SELECT * FROM notice")
        catalog = sender.server.catalog
        rows = await catalog.read(lambda db: [row for one in questions for row in db.execute(one).fetchall()])

    assert len(rows) == 2
    assert made["secret"].removeprefix("whsec_") not in str([tuple(row) for row in rows])


async def test_an_owner_has_a_bounded_number_of_addresses(door: Door) -> None:
    async with Upstream() as hook, sending(door, ScriptedModel()) as sender:
        for _ in range(20):
            await sender.subscribe(hook)
        status, refused = await sender.call("POST", body={"url": hook.url})

    assert (status, refused["error"]["code"]) == (400, "too_many_notices")


async def test_a_budget_that_is_nearly_spent_is_told_of_once(door: Door) -> None:
    limits = BudgetOptions(limits=(BudgetLimit(scope="owner", rounds=5),))
    model = ScriptedModel(*[says("Hi.") for _ in range(5)])
    async with Upstream(TAKEN, TAKEN) as hook, sending(door, model, budgets=limits) as sender:
        await sender.subscribe(hook, "budget.warning", "budget.exhausted")
        for _ in range(5):
            await sender.ask()
            await sender.deliver()

    assert [(kind, data["spent"], data["limit"]) for kind, data in told(hook)] == [
        ("budget.warning", 4, 5),
        ("budget.exhausted", 5, 5),
    ]


async def test_a_call_that_a_budget_refuses_is_told_of(door: Door) -> None:
    limits = BudgetOptions(limits=(BudgetLimit(scope="owner", tokens=100),))
    async with Upstream(TAKEN) as hook, sending(door, ScriptedModel(), budgets=limits) as sender:
        await sender.subscribe(hook, "budget.exhausted")
        refused = await sender.served.post({"messages": [user("Hi")], "max_tokens": 500})
        again = await sender.served.post({"messages": [user("Hi")], "max_tokens": 500})
        await sender.deliver()

    assert (refused.status, again.status) == (402, 402)
    assert [(kind, data["spent"], data["limit"]) for kind, data in told(hook)] == [("budget.exhausted", 0, 100)]


# ---- the address of a request ------------------------------------------------------------------------------------------


async def test_a_background_response_is_told_to_the_address_that_its_request_names(door: Door) -> None:
    async with Upstream(TAKEN) as hook, sending(door, ScriptedModel(says("Hi."), says("Hi."))) as sender:
        who = {"authorization": "Bearer x"}
        async with soon(), sender.served.http.get(f"{sender.served.url}/notices/secret", headers=who) as answer:
            secret = (await answer.json())["secret"]
        headers = {"x-ronda-notify": f"{hook.url}/mine", "x-ronda-notify-events": "response.completed, response.failed"}
        async with openai.AsyncOpenAI(base_url=sender.served.url, api_key="x") as client, soon():
            response = await client.responses.create(
                model="default", input="Hi", background=True, extra_headers=headers
            )
            async for _ in await client.responses.retrieve(response.id, stream=True):
                pass  # until it has ended
            await client.responses.create(model="default", input="Hi")  # which names none
        await sender.served.all_over()
        await sender.deliver()
        listed = (await sender.call("GET"))[1]

    event: Any = openai.OpenAI(api_key="x").webhooks.unwrap(hook.bodies[0], hook.heads[0], secret=secret)
    assert (event.type, event.data.id, len(hook.bodies)) == ("response.completed", response.id, 1)
    assert listed["data"] == []  # it is none of the owner's addresses


async def test_what_the_address_of_a_request_does_not_take_is_listed_and_sent_again(door: Door) -> None:
    async with Upstream(BUSY, TAKEN) as hook, sending(door, ScriptedModel(says("Hi."))) as sender:
        await sender.served.post({"messages": [user("Hi")]}, headers={"x-ronda-notify": hook.url})
        await sender.deliver()
        await sender.feature.forget()  # not yet: a notice is on its way
        [waiting] = (await sender.call("GET"))[1]["undelivered_of_requests"]
        await sender.server.catalog.write(lambda db: db.execute("UPDATE notice SET due = 0"))
        await sender.deliver()
        await sender.feature.forget()
        rows = await sender.server.catalog.read(lambda db: db.execute("SELECT * FROM notice_address").fetchall())

    assert (waiting["event"], waiting["problem"], waiting["url"]) == ("run.finished", "HTTP 503", hook.url)
    assert (len(hook.bodies), rows) == (2, [])


@pytest.mark.parametrize(
    ("headers", "param"),
    [
        ({"x-ronda-notify": "http://169.254.169.254/latest"}, "x-ronda-notify"),
        ({"x-ronda-notify": "nothing"}, "x-ronda-notify"),
        ({"x-ronda-notify": "http://name:word@example.com/x"}, "x-ronda-notify"),
        ({"x-ronda-notify": "https://93.184.215.14/x", "x-ronda-notify-events": "run.eaten"}, "x-ronda-notify-events"),
    ],
)
async def test_a_request_whose_address_may_not_be_called_starts_nothing(
    door: Door, headers: dict[str, str], param: str
) -> None:
    model = ScriptedModel(says("never"))
    async with sending(door, model, fetch_allow=()) as sender:
        answer = await sender.served.post({"messages": [user("Hi")]}, headers=headers)

    assert (answer.status, answer.json["error"]["param"], model.requests) == (400, param, [])


# ---- over processes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["sqlite", "postgres"])
async def test_owners_and_addresses_have_their_turns(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    catalog, _ = open_place(
        request.getfixturevalue("postgres") if place == "postgres" else str(tmp_path / "catalog.db")
    )
    catalog.add_tables("notices", TABLES)
    rows = NoticeRows(catalog)
    for owner, addresses in (("ann", 5), ("bob", 1)):
        for number in range(addresses):
            address = NoticeAddress(f"{owner}{number}", owner, "https://example.com", (), 0.0)
            assert await rows.add_address(address, 20)
            # Ann's were there before Bob's.
            at = 1.0 if owner == "ann" else 2.0
            await rows.add(
                [NewNotice(f"{address.id}.{one}", address.id, "run.finished", b"{}", at) for one in range(3)]
            )
    due = await rows.due(2.0, 6, of_owner=4, of_address=2)
    later = await rows.due(1.5, 100, of_owner=100, of_address=2)
    await catalog.close()

    assert [one.id for one in due] == ["ann0.0", "bob0.0", "ann1.0", "bob0.1", "ann2.0", "ann3.0"]
    assert sorted([one.id for one in later]) == [f"ann{number}.{one}" for number in range(5) for one in range(2)]


async def test_the_next_process_sends_what_was_not_taken_and_tells_nothing_twice(door: Door, postgres: str) -> None:
    limits = BudgetOptions(limits=(BudgetLimit(scope="owner", rounds=5, per="month"),))
    model = ScriptedModel(*[says("Hi.") for _ in range(5)])
    async with Upstream(BUSY, TAKEN, TAKEN, TAKEN) as hook:
        catalog, _ = open_place(postgres)
        async with sending(door, model, budgets=limits, catalog=catalog) as sender:
            made = await sender.subscribe(hook, "budget.warning", "run.failed")
            for _ in range(4):
                await sender.ask()
            await sender.deliver()
            await sender.server.catalog.write(lambda db: db.execute("UPDATE notice SET due = 0"))
        catalog, _ = open_place(postgres)
        async with sending(door, model, budgets=limits, catalog=catalog) as sender:
            await sender.deliver()
            sender.feature.budget_used(*await budget_of(sender), is_exhausted=False)  # as another replica would
            await sender.deliver()

    assert [kind for kind, _ in told(hook)] == ["budget.warning", "budget.warning"]
    assert hook.heads[0]["webhook-id"] == hook.heads[1]["webhook-id"]
    assert Webhook(made["secret"]).verify(hook.bodies[1], hook.heads[1])["data"]["spent"] == 4


async def budget_of(sender: Sender) -> tuple[RunStarted, Budget]:
    """Of a run of the same owner, whose budget stands where it stood before."""
    from ronda.core.plan import Plan

    start = RunStarted("run_other", Plan("script:test"), ())
    return start, Budget("owner", "month", "rounds", 5.0, 4.0, 0.0, 1.0, None)
