"""Several models behind one server, and which answers where another does not."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door
from tests.interaction.every_door import body_for
from tests.interaction.upstreams import Upstream, answers, completes, refuses
from tests.server.restarts import Folder, call

from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import Image, Text, Usage, UserTurn, user
from ronda.core.plan import AUTO, NO_OPTIONS
from ronda.core.prices import Price
from ronda.core.request import ModelRequest
from ronda.errors import BadConfig, UpstreamBroken, UpstreamError
from ronda.providers.output_limits import largest_limit
from ronda.providers.script import ScriptedModel, fails, says
from ronda.providers.vision import TextOnly
from ronda.server.check_config import check_config
from ronda.server.features.models.fallback import Candidate, CoolDown, FallbackModel, reason_of
from ronda.server.features.models.settings import NamedModel
from ronda.server.features.table import make_config
from ronda.store.keys import new_key
from ronda.tools.function import as_tool


def script(folder: Path, name: str, *turns: Any) -> str:
    (folder / name).write_text(json.dumps(list(turns)))
    return f"script:{folder / name}"


def request(*turns: Any, scratch: dict[str, Any] | None = None) -> ModelRequest:
    return ModelRequest(
        turns or (user("go"),), (), AUTO, NO_OPTIONS, True, "run", 0, 1, {} if scratch is None else scratch
    )


def to_nobody(previews: Any) -> None:
    return


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def chain(*models: Any, time: Time | None = None) -> FallbackModel:
    candidates = [Candidate(name, f"script:{name}", model, 30.0) for name, model in zip("abc", models, strict=False)]
    return FallbackModel(candidates, NamedModel("x:y").fallback_on, CoolDown(time or Time()))


# ---- through the door ----------------------------------------------------------------------------------------------------


async def ask(served: Any, model: str, **more: Any) -> tuple[int, Any]:
    body = body_for("chat", stream=False) | {"model": model, **more}
    async with served.http.post(f"{served.url}/chat/completions", json=body) as answer:
        return answer.status, await answer.json()


async def test_a_request_names_the_model_that_answers(door: Door, tmp_path: Path) -> None:
    models = {
        "fast": {"model": script(tmp_path, "fast.json", "quick")},
        "safe": {
            "model": script(tmp_path, "down.json", {"error": "down", "status": 503}),
            "fallback": ["fast", "default"],
        },
    }
    async with door.serving(ScriptedModel(says("own")), models=models) as served:
        answers = [await ask(served, name) for name in ("fast", "default", "safe", "none")]
        async with served.http.get(f"{served.url}/models") as answer:
            names = [one["id"] for one in (await answer.json())["data"]]

    said = [answer["choices"][0]["message"]["content"] for status, answer in answers if status == 200]
    assert (said, answers[-1][0]) == (["quick", "own", "quick"], 404)
    assert answers[2][1]["warnings"] == ["'safe' did not answer: down; 'fast' answered instead"]
    assert {"fast", "safe"} <= set(names)


@pytest.mark.parametrize(
    ("scopes", "listed"),
    [
        (("model:fast",), ["fast"]),
        (("model:script:test",), ["default", "test"]),
        (("agent:none",), ["default", "test", "fast", "other"]),
    ],
)
async def test_a_key_sees_the_models_that_it_may_ask(
    door: Door, tmp_path: Path, scopes: tuple[str, ...], listed: list[str]
) -> None:
    models = {name: {"model": script(tmp_path, f"{name}.json", "x")} for name in ("fast", "other")}
    async with door.serving(ScriptedModel(), models=models) as served:
        key, row = new_key("ann", 1.0, scopes)
        await served.server.catalog.keys.add(row)
        async with served.http.get(f"{served.url}/models", headers={"authorization": f"Bearer {key}"}) as answer:
            names = [one["id"] for one in (await answer.json())["data"]]
        asked = []
        for name in listed:
            body = body_for("chat", stream=False) | {"model": name}
            url, headers = f"{served.url}/chat/completions", {"authorization": f"Bearer {key}"}
            async with served.http.post(url, json=body, headers=headers) as answer:
                asked.append(answer.status)
    assert names == listed
    assert 403 not in asked


async def test_each_model_of_a_chain_has_its_own_price(door: Door, tmp_path: Path) -> None:
    down, up = script(tmp_path, "d.json", {"error": "down", "status": 500}), script(tmp_path, "u.json", "up")
    models = {"a": {"model": down, "fallback": ["b"]}, "b": {"model": up}}
    prices = {down: Price(100, 100), up: Price(1, 2)}
    async with door.serving(ScriptedModel(), models=models, prices=prices) as served:
        _, answer = await ask(served, "a")
    assert answer["usage"]["cost"] == pytest.approx((10 * 1 + 5 * 2) / 1e6)


@pytest.mark.parametrize("prices", [{}, {"openai-chat:*": Price(1.0, 1.0)}])
async def test_a_model_that_failed_for_one_cools_down_for_all_that_fall_back_to_it(
    door: Door, tmp_path: Path, prices: dict[str, Price], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    down = {"error": "down", "status": 503}
    async with Upstream(refuses(503, "down"), completes("asked again")) as shared:
        models: Any = {
            "first": {"model": script(tmp_path, "first.json", down), "fallback": ["shared", "default"]},
            "second": {"model": script(tmp_path, "second.json", down), "fallback": ["shared", "default"]},
            "shared": {"model": "openai-chat:m", "base_url": shared.url},
        }
        own = ScriptedModel(says("one"), says("two"))
        async with door.serving(own, models=models, prices=prices) as served:
            said = [(await ask(served, name))[1]["choices"][0]["message"]["content"] for name in ("first", "second")]
    assert (said, len(shared.bodies)) == (["one", "two"], 1)


async def test_what_a_model_is_limited_to_holds_for_its_requests(door: Door, tmp_path: Path) -> None:
    async with door.serving(
        ScriptedModel(), models={"m": {"model": script(tmp_path, "m.json", "x"), "max_tokens": 5}}
    ) as served:
        await ask(served, "m")
        await ask(served, "m", max_tokens=3)
        await ask(served, "m", max_tokens=9)
        plans = [events[0].plan.options.max_tokens for events in await served.events]  # type: ignore[union-attr]
    assert plans == [5, 3, 5]


@pytest.mark.parametrize("more", [{"max_tokens": 0}, {"generationConfig": {"maxOutputTokens": 50}}], ids=str)
async def test_no_other_word_for_a_limit_is_a_way_around_that_of_the_model(
    door: Door, tmp_path: Path, more: dict[str, Any]
) -> None:
    models = {"m": {"model": script(tmp_path, "m.json", "x"), "max_tokens": 5}}
    async with door.serving(ScriptedModel(), models=models) as served:
        status, answer = await ask(served, "m", **more)
        [events] = await served.events
    assert status == 200, answer
    options = events[0].plan.options  # type: ignore[union-attr]
    assert (options.max_tokens, largest_limit(options)) == (5, 5)


async def test_what_one_host_sealed_is_not_sent_to_the_next(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a run: the first host thinks and calls a tool, and is down when the result is there."""

    def look() -> str:
        """Look."""
        return "seen"

    monkeypatch.setenv("OPENAI_API_KEY", "x")
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED-BY-A"}
    asks = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"}
    content = [{"type": "output_text", "text": "B saw it.", "annotations": []}]
    says_so = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}

    def response(*output: Any) -> bytes:
        return json.dumps({"id": "resp_1", "object": "response", "status": "completed", "output": output}).encode()

    async with (
        Upstream(answers(response(thought, asks)), refuses(503, "down")) as first,
        Upstream(answers(response(says_so))) as second,
    ):
        models = {
            "safe": {"model": "openai:gpt-a", "base_url": first.url, "fallback": ["other"]},
            "other": {"model": "openai:gpt-b", "base_url": second.url},
        }
        async with door.serving(ScriptedModel(), as_tool(look), models=models) as served:
            status, answer = await ask(served, "safe")

    assert (status, answer["choices"][0]["message"]["content"]) == (200, "B saw it."), answer
    assert answer["warnings"] == [
        "'safe' did not answer: the model's server answered 503: down; 'other' answered instead"
    ]
    assert b"SEALED-BY-A" in first.bodies[1]  # its own words go back to it
    [sent] = second.bodies
    assert (b"SEALED-BY-A" in sent, b"rs_1" in sent, b"seen" in sent) == (False, False, True)


@pytest.mark.parametrize(("asked", "sent"), [({}, 50), ({"max_tokens": 500}, 50), ({"max_tokens": 20}, 20)])
async def test_a_model_that_takes_the_place_of_another_keeps_to_its_own_limit(
    door: Door, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], sent: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    async with Upstream(refuses(503, "down")) as first, Upstream(completes("short")) as second:
        models = {
            "long": {"model": "openai-chat:a", "base_url": first.url, "max_tokens": 4000, "fallback": ["short"]},
            "short": {"model": "openai-chat:b", "base_url": second.url, "max_tokens": 50},
        }
        async with door.serving(ScriptedModel(), models=models) as served:
            status, answer = await ask(served, "long", **asked)

    assert (status, answer["choices"][0]["message"]["content"]) == (200, "short"), answer
    [body] = map(json.loads, second.bodies)
    assert body["max_tokens"] == sent


# ---- a chain -------------------------------------------------------------------------------------------------------------


async def test_nothing_is_repeated_that_was_shown() -> None:
    class Breaks(ScriptedModel):
        async def call(self, request: ModelRequest, show: Any) -> ModelFinished:
            show([TextDelta("so far")])
            raise UpstreamBroken("broke off", retryable=True, connection=True)

    second = ScriptedModel(says("never"))
    with pytest.raises(UpstreamBroken):
        await chain(Breaks(), second).call(request(), to_nobody)
    assert second.requests == []


async def test_a_model_that_has_failed_cools_down_and_is_asked_again_later() -> None:
    time, first = Time(), ScriptedModel(fails("busy", 429, 5.0), says("back"))
    model = chain(first, ScriptedModel(says("one"), says("two")), time=time)
    said = [await model.call(request(), to_nobody) for _ in range(2)]
    assert [one.turn.text for one in said] == ["one", "two"]
    assert said[1].warnings == ("'a' has just failed, and is not asked for a while; 'b' answered instead",)
    time.now = 5.1
    assert (await model.call(request(), to_nobody)).turn.text == "back"


async def test_a_run_stays_with_the_model_that_has_answered_it() -> None:
    scratch: dict[str, Any] = {}
    time = Time()
    model = chain(ScriptedModel(fails("down", 500)), ScriptedModel(says("one"), says("two")), time=time)
    await model.call(request(scratch=scratch), to_nobody)
    time.now = 1000.0
    again = await model.call(request(scratch=scratch), to_nobody)
    assert (again.turn.text, again.warnings) == ("two", ())


async def test_a_model_that_cannot_see_is_passed_over_and_that_is_said() -> None:
    picture = UserTurn((Text("look"), Image("image/png", "eA==")))
    blind = ScriptedModel(says("blind"))
    model = chain(ScriptedModel(fails("down", 503)), TextOnly(blind), ScriptedModel(says("I see", usage=Usage(1, 1))))
    done = await model.call(request(picture), to_nobody)
    assert (done.turn.text, blind.requests) == ("I see", [])
    assert "'b' was passed over: it cannot see images" in done.warnings[0]


async def test_where_all_fail_the_last_failure_counts_and_the_caller_s_own_mistake_goes_to_no_other() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        await chain(ScriptedModel(fails("down", 503)), ScriptedModel(fails("gone", 502))).call(request(), to_nobody)
    other = ScriptedModel(says("never"))
    with pytest.raises(UpstreamError, match="bad"):
        await chain(ScriptedModel(fails("bad", 400)), other).call(request(), to_nobody)
    assert other.requests == []


def test_errors_have_their_reasons() -> None:
    found = [
        reason_of(UpstreamError("x", status=429)),
        reason_of(UpstreamError("x", status=401)),
        reason_of(UpstreamError("x", status=529)),
        reason_of(UpstreamError("x", connection=True)),
        reason_of(UpstreamError("x", status=400)),
        reason_of(UpstreamError("x", status=500, too_long=True)),
    ]
    assert found == ["rate_limit", "access", "server_error", "connection", None, None]


def test_settings_that_cannot_be_are_refused() -> None:
    for models, words in [
        ({"a": {"model": "nothing"}}, "no model can be found"),
        ({"a": {"model": "script:x", "fallback": ["b"]}}, "falls back to 'b'"),
        ({"a": {"model": "script:x", "fallback": ["a"]}}, "to itself"),
        ({"default": {"model": "script:x"}}, "the server's own model"),
    ]:
        with pytest.raises(BadConfig, match=words):
            check_config(make_config({"model": "script:x", "models": models}))


def test_a_run_of_a_named_model_goes_on_with_it_in_the_next_process(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "own")
    settings = tmp_path / "ronda.toml"
    settings.write_text(f'[models.other]\nmodel = "{script(tmp_path, "other.json", call("wait"), "other")}"\n')
    with folder.serving("--config", str(settings)) as first:
        response = first.ask(model="other", background=True, stream=False)
        folder.until("waiting")
        first.end(signal.SIGKILL)
    (folder.path / "go on").touch()
    with folder.serving("--config", str(settings)) as second:
        ended = second.ended(response)
    assert ended["output"][-1]["content"][0]["text"] == "other"
