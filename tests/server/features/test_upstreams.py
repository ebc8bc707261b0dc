"""Limits toward upstreams: how many calls are under way at a time, over all processes, and one pause for all at a 429."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Pauses, Served, soon
from tests.interaction.every_door import body_for
from tests.interaction.upstreams import Upstream, completes
from tests.server.features.spender import open_place
from tests.server.features.test_named_models import Time, chain, request, script, to_nobody

from ronda.core.events import ModelFinished
from ronda.core.parts import Image, Text, Usage, UserTurn
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import BadConfig
from ronda.providers.prices import PricedModel
from ronda.providers.script import ScriptedModel, fails, says
from ronda.providers.vision import TextOnly
from ronda.server.check_config import check_config
from ronda.server.features.models.settings import UpstreamLimit
from ronda.server.features.models.upstreams import LEASE, LOOK_AGAIN, TABLES, Obstacle, UpstreamRows
from ronda.server.features.table import make_config


class Held(ScriptedModel):
    """A model whose calls last until the test ends them."""

    def __init__(self) -> None:
        super().__init__(*[says("ok") for _ in range(9)])
        self.under_way = 0
        self.most = 0
        self.begun: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        end = asyncio.Event()
        self.begun.put_nowait(end)
        try:
            await end.wait()
            return await super().call(request, show)
        finally:
            self.under_way -= 1


async def ask(served: Served, model: str = "default") -> tuple[int, Any]:
    body = body_for("chat", stream=False) | {"model": model}
    async with soon(), served.http.post(f"{served.url}/chat/completions", json=body) as answer:
        return answer.status, await answer.json()


# ---- through the door ------------------------------------------------------------------------------------------------


async def test_no_more_calls_are_under_way_than_the_limit_and_the_next_begins_when_one_ends(door: Door) -> None:
    model, pauses = Held(), Pauses(are_over=False)
    async with door.serving(model, upstreams={"script": {"calls": 2}}, sleep=pauses) as served, soon():
        asked = [asyncio.ensure_future(ask(served)) for _ in range(5)]
        ends = [await model.begun.get(), await model.begun.get()]
        await pauses.until(LOOK_AGAIN)  # the third looks for a place, and those behind it wait for it
        for _ in range(3):
            ends.pop(0).set()
            ends.append(await model.begun.get())
        for end in ends:
            end.set()
        answers = await asyncio.gather(*asked)

    assert ([status for status, _ in answers], model.most) == ([200] * 5, 2)


async def test_several_answers_of_one_request_have_a_place_each(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a model that could write them in one call: that call would hold the place which the others wait for."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    async with Upstream(completes("one"), completes("two")) as upstream:
        monkeypatch.setenv("OPENAI_BASE_URL", upstream.url)
        settings: Any = {"models": {"m": {"model": "openai-chat:m"}}, "upstreams": {"*": {"calls": 1, "wait": 3000}}}
        async with door.serving(ScriptedModel(), **settings) as served, soon():
            body = body_for("chat", stream=False) | {"model": "m", "n": 2}
            async with served.http.post(f"{served.url}/chat/completions", json=body) as answer:
                said = [one["message"]["content"] for one in (await answer.json())["choices"]]

    assert (sorted(said), [one.get("n") for one in upstream.requests]) == (["one", "two"], [None, None])


async def test_a_pause_that_an_upstream_asks_for_holds_for_all_runs_of_it(door: Door) -> None:
    model = ScriptedModel(fails("slow down", 429, 30.0), says("never"))
    async with door.serving(model, upstreams={"*": {"wait": 1}}) as served:
        first, second = await ask(served), await ask(served)

    assert (first[0], second[0], len(model.requests)) == (429, 429, 1)
    assert second[1]["error"]["message"] == ("no call of 'script' was free within 1 seconds: it has asked for a pause")


async def test_a_call_that_finds_no_place_in_time_goes_to_the_fallback(door: Door, tmp_path: Path) -> None:
    busy = script(tmp_path, "busy.json", {"error": "slow down", "status": 429, "retry_after": 30}, "never")
    models = {"busy": {"model": busy, "fallback": ["default"], "cool_down": 0}}
    own = ScriptedModel(says("one"), says("two"))
    async with door.serving(own, models=models, upstreams={busy: {"wait": 0}}) as served:
        answers = [(await ask(served, "busy"))[1] for _ in range(2)]

    assert [one["choices"][0]["message"]["content"] for one in answers] == ["one", "two"]
    assert answers[0]["warnings"] == ["'busy' did not answer: slow down; 'default' answered instead"]


async def test_requests_and_tokens_of_a_minute_are_limited(door: Door) -> None:
    for limit in ({"requests": 1, "wait": 0}, {"tokens": 1, "wait": 0}):
        model = ScriptedModel(*[says("ok", usage=Usage(5, 5)) for _ in range(2)])
        async with door.serving(model, upstreams={"script:test": limit}) as served:
            [feature] = [one for one in served.server.features.all if one.name == "models"]
            first = await ask(served)
            await feature.runs_ended()  # what it used is counted
            second = await ask(served)

        assert (first[0], second[0], len(model.requests)) == (200, 429, 1)
        assert "a minute" in second[1]["error"]["message"]


async def test_a_flag_that_is_given_again_names_more_models(door: Door, tmp_path: Path) -> None:
    from ronda.cli.main import parse
    from ronda.cli.settings import read_config
    from ronda.server.features.models.settings import ModelSettings

    one, two = script(tmp_path, "one.json", "first", "first"), script(tmp_path, "two.json", "second", "second")
    config = read_config(parse(["serve", "--model", one, "--model", two]))
    more = config.part(ModelSettings).more_models
    assert (config.model, more) == (one, (two,))
    name = two.removeprefix("script:")
    async with door.serving(ScriptedModel(says("first")), more_models=list(more)) as served:
        answers = [await ask(served, asked) for asked in ("default", name, two)]

    assert [answer["choices"][0]["message"]["content"] for _, answer in answers] == ["first", "second", "second"]


async def test_a_budget_in_tokens_is_told_of_when_it_cuts(door: Door) -> None:
    model = ScriptedModel(says("ok"))
    turns = [{"role": role, "content": "word " * 100} for role in ("user", "assistant", "user", "assistant", "user")]
    async with door.serving(model, context_budget=300, context_budget_unit="tokens") as served:
        answer = await served.post({"messages": turns})
        said = answer.json
        [events] = await served.events

    assert said["warnings"] == ["the conversation is longer than context_budget: 4 turns were summed up for the model"]
    assert events[0].plan.context_budget == 1200  # type: ignore[union-attr]  # a run starts with RunStarted
    assert len(events[0].turns) == 5  # type: ignore[union-attr]  # the journal keeps all of them
    assert len(model.heard[0]) == 2  # a summary, and the last question


# ---- over processes --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def two_processes(place: str, clock: Time) -> AsyncIterator[tuple[UpstreamRows, UpstreamRows]]:
    catalogs = [open_place(place)[0] for _ in range(2)]
    for catalog in catalogs:
        catalog.add_tables("models", TABLES)
    try:
        yield UpstreamRows(catalogs[0], clock), UpstreamRows(catalogs[1], clock)
    finally:
        for catalog in catalogs:
            await catalog.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = request.getfixturevalue("postgres") if request.param == "postgres" else str(tmp_path / "catalog.db")
    assert isinstance(found, str)
    return found


async def test_processes_share_places_minutes_and_pauses(place: str) -> None:
    clock = Time()
    clock.now = 6000.0
    full = Obstacle("its limit is 2 calls at a time", LOOK_AGAIN)
    async with two_processes(place, clock) as (one, other):
        at_a_time = UpstreamLimit(calls=2)
        assert [await one.take("u", at_a_time, "a"), await other.take("u", at_a_time, "b")] == [None, None]
        assert await one.take("u", at_a_time, "c") == full
        assert await one.take("v", at_a_time, "d") is None  # another upstream
        await other.leave("u", "b", 0)
        assert await one.take("u", at_a_time, "c") is None

        clock.now += LEASE - 1
        await one.renew(["c"])
        clock.now += 2  # the process of "a" is gone
        assert [await other.take("u", at_a_time, "e"), await one.take("u", at_a_time, "f")] == [None, full]

        a_minute = UpstreamLimit(requests=1)
        assert await one.take("w", a_minute, "g") is None
        assert await other.take("w", a_minute, "h") == Obstacle("its limit is 1 requests a minute", 59.0)

        await one.pause("x", 9.0)
        await other.pause("x", 3.0)  # the longer one holds
        assert await other.take("x", at_a_time, "i") == Obstacle("it has asked for a pause", 9.0)
        clock.now += 9
        assert await other.take("x", at_a_time, "i") is None


# ---- details ---------------------------------------------------------------------------------------------------------


async def test_a_blind_model_is_passed_over_also_where_it_has_a_price() -> None:
    blind = ScriptedModel(says("blind"))
    model = chain(
        ScriptedModel(fails("down", 503)), PricedModel(TextOnly(blind), lambda usage: 1.0), ScriptedModel("ok")
    )
    done = await model.call(request(UserTurn((Text("look"), Image("image/png", "eA==")))), to_nobody)
    assert (done.turn.text, blind.requests) == ("ok", [])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"more_models": ["nothing"]}, "--model 'nothing'"),
        ({"more_models": ["script:own"]}, "two models are named 'own'"),
        ({"more_models": ["script:a", "script:a"]}, "two models are named 'a'"),
        ({"upstreams": {"openai": {"calls": 0}}}, "it must be at least 1"),
        ({"upstreams": {"openai": {"wait": -1}}}, "0 to 3600 seconds"),
    ],
)
def test_limits_that_cannot_be_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        check_config(make_config({"model": "script:own", **settings}))
