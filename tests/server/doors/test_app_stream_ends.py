"""The page's socket: failures, clients that leave, who may ask, and with which models."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import msgspec
import pytest
from tests.interaction.doors import Door, Remembering, soon
from tests.server.app_door import (
    PAGE,
    PIXEL,
    PageModel,
    app_socket,
    asking,
    call,
    create,
    generate,
)
from tests.server.runs_door import frames, get, post

from ronda.core.events import CallDelta, ModelFinished, TextDelta
from ronda.core.parts import Text
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import UpstreamError
from ronda.server.features.app_stream.models import AppModels
from ronda.server.features.app_stream.settings import AppConfig
from ronda.server.features.table import make_config
from ronda.server.services.models import Models
from ronda.testing import ScriptedModel
from ronda.wire.app_stream.parameters import read_parameters

# ---- failing and leaving -------------------------------------------------------------------------------------------


class Torn(PageModel):
    """The second variant is refused; the third breaks off in the middle of its page."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        variant = self.variant_of(request)
        if variant == 1:
            raise UpstreamError("the model refuses", status=400, retryable=False)
        if variant == 2:
            with_half = PageModel([create()])
            await with_half.call(request, lambda batch: show(batch) if len(str(batch)) and self._half() else None)
            raise UpstreamError("torn", retryable=False)
        return await super().call(request, show)

    shown = 0

    def _half(self) -> bool:
        self.shown += 1
        return self.shown < 10


async def test_one_that_fails_leaves_the_others_alone(door: Door) -> None:
    async with door.serving(Torn([create()], [Text("Done.")])) as served:
        heard = await generate(served)

    heard.check()
    assert heard.code == 1000
    assert [heard.of(variant)[-1]["type"] for variant in range(4)].count("variantComplete") == 2
    for variant in range(4):
        if heard.of(variant)[-1]["type"] == "variantError":
            assert heard.code_of(variant) == ""  # no half page stays on show


async def test_a_call_that_is_tried_again_is_told(door: Door) -> None:
    class Shaky(PageModel):
        failed = False

        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            if not self.failed:
                self.failed = True
                raise UpstreamError("busy", status=503, retryable=True)
            return await super().call(request, show)

    async with door.serving(Shaky([create()]), app=AppConfig(variants=1)) as served:
        heard = await generate(served)

    heard.check()
    (_, again) = heard.of(0, "status")
    assert "busy" in again["value"]


class TriedAgain(PageModel):
    """Its first attempt breaks off in the middle of a page; the second does something else."""

    attempts = 0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.attempts += 1
        if self.attempts == 1:
            show([CallDelta(0, "c1", "create_file", create("<html>" + "half a page " * 20).arguments[:150])])
            raise UpstreamError("torn", retryable=True)
        return await super().call(request, show)


async def test_a_page_that_broke_off_is_taken_back_before_the_next_attempt(door: Door) -> None:
    model = TriedAgain([call("edit_file", old_text="Hello", new_text="Hi")], [Text("Done.")])
    file = {"path": "index.html", "content": PAGE}
    async with door.serving(model, app=AppConfig(variants=1)) as served:
        heard = await generate(served, generationType="update", fileState=file)

    heard.check()
    results = [(one["data"]["name"], one["data"]["ok"]) for one in heard.of(0, "toolResult")]
    assert results == [("create_file", False), ("edit_file", True)]
    half, before, after = list(dict.fromkeys(heard.growth(0)))
    assert half.startswith("<html>half")
    assert (before, after) == (PAGE, PAGE.replace("Hello", "Hi"))


async def test_all_that_fail_are_an_error_with_a_reason(door: Door) -> None:
    class Refusing:
        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            raise UpstreamError("no entry: " + "ö" * 200, status=401, retryable=False)

    async with door.serving(Refusing()) as served:
        heard = await generate(served)

    heard.check()
    assert (heard.code, heard.types[-1]) == (4332, "error")
    assert "no entry" in heard.messages[-1]["value"]
    assert 100 < len(heard.reason.encode()) <= 123


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("hello", "not a JSON object"),
        ("[1, 2]", "not a JSON object"),
        ("[" * 100_000, "cannot be read"),
        (json.dumps(asking(generatedCodeConfig="cobol")), "Invalid generated code config: cobol"),
        (json.dumps(asking(inputMode=["smell"])), "Invalid input mode: ['smell']"),
        (json.dumps(asking(generationType="destroy")), "Invalid generation type: destroy"),
        (json.dumps(asking(prompt={"images": ["http://127.0.0.1/x.png"]})), "must be data URLs"),
        (json.dumps(asking(prompt={"images": [PIXEL] * 1000})), "64 are allowed"),
        (json.dumps(asking(history=[{"role": "user"}] * 2000)), "1000 are allowed"),
    ],
)
async def test_what_cannot_be_read_is_an_error_alone(door: Door, text: str, error: str) -> None:
    async with door.serving(PageModel()) as served, app_socket(served) as socket:
        await socket.raw.send_str(text)
        heard = await socket.rest()

    assert heard.types == ["error"]
    assert error in heard.messages[0]["value"]
    assert heard.code == 4332
    assert heard.reason
    assert heard.messages[0]["value"].startswith(heard.reason[:100])


async def test_what_is_odd_but_harmless_is_passed_over(door: Door) -> None:
    odd = {
        "prompt": [1],
        "history": [7, {"role": "system", "text": "x"}],
        "fileState": {"content": "  "},
        "optionCodes": [None, 3],
    }
    async with door.serving(PageModel([create()])) as served:
        heard = await generate(served, **odd)

    heard.check()
    assert heard.code == 1000


async def test_an_update_of_nothing_comes_after_the_count(door: Door) -> None:
    async with door.serving(PageModel()) as served:
        heard = await generate(served, generationType="update")

    assert heard.types == ["variantCount", "status", "status", "error"]
    assert heard.messages[-1]["value"].startswith("Error assembling prompt")
    assert heard.code == 4332


class Endless:
    """A model that goes on and on; it knows how many of its calls were cut off."""

    def __init__(self) -> None:
        self.calls = 0
        self.stopped = 0
        self.all_stopped = asyncio.Event()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.calls += 1
        show([TextDelta("…")])
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped += 1
            if self.stopped == 4:
                self.all_stopped.set()
        raise AssertionError


async def test_closing_the_socket_ends_the_work(door: Door) -> None:
    model = Endless()
    async with door.serving(model) as served, soon():
        async with app_socket(served) as socket:
            await socket.raw.send_str(json.dumps(asking()))
            for variant in range(4):
                await socket.until("assistant", None if variant else 0)
            await socket.raw.close(code=4333)
        await model.all_stopped.wait()
        runs = (await get(served, "/runs"))[1]["data"]

    assert model.calls == 4
    assert [run["state"] for run in runs] == ["cancelled"] * 4


async def test_a_server_that_stops_says_so_and_closes_as_the_page_expects(door: Door) -> None:
    model = Endless()
    async with door.serving(model) as served, app_socket(served) as socket:
        await socket.raw.send_str(json.dumps(asking()))
        for _ in range(4):
            await socket.until("assistant")
        await served.server.stop(0.0)
        heard = await socket.rest()

    heard.check()
    assert (heard.code, heard.types[-1]) == (4332, "error")
    assert "stopping" in heard.reason


async def test_one_variant_can_be_cancelled_on_the_socket_and_at_its_run(door: Door) -> None:
    class Slow(PageModel):
        def __init__(self) -> None:
            super().__init__([create()])
            self.go = asyncio.Event()

        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            if request.round == 0:
                show([TextDelta("…")])
                await self.go.wait()
            return await super().call(request, show)

    model = Slow()
    async with door.serving(model) as served, app_socket(served) as socket:
        await socket.raw.send_str(json.dumps(asking()))
        runs = (await socket.until("variantModels"))["data"]["runs"]
        for _ in range(4):
            await socket.until("assistant")
        await socket.raw.send_str(json.dumps({"type": "cancel", "variantIndex": 2}))
        assert (await socket.until("variantError"))["variantIndex"] == 2
        status, _ = await post(served, f"/runs/{runs[1]}/cancel")
        model.go.set()
        heard = await socket.rest()

    heard.check()
    assert status == 200
    assert heard.code == 1000
    ends = [heard.of(variant)[-1]["type"] for variant in range(4)]
    assert ends == ["variantComplete", "variantError", "variantError", "variantComplete"]


@pytest.mark.parametrize(
    ("model", "media", "error"),
    [
        ("openai:gpt-3.5-turbo", {"images": [PIXEL]}, "can see pictures"),
        ("openai:gpt-5", {"videos": ["data:video/mp4;base64,AAAA"]}, "can watch films"),
        ("mistral:without-a-key", {}, "No API key found"),
    ],
)
async def test_a_model_that_cannot_be_shown_it_builds_no_page(
    door: Door, monkeypatch: pytest.MonkeyPatch, model: str, media: dict[str, list[str]], error: str
) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    app = AppConfig(models=(model,))
    async with door.serving(PageModel(), app=app) as served:
        heard = await generate(
            served, inputMode="video" if "videos" in media else "image", prompt={"text": "x", **media}
        )

    assert heard.types[-1] == "error"
    assert "status" in heard.types
    assert error in heard.messages[-1]["value"]
    assert heard.code == 4332


# ---- who may ask, and with what ------------------------------------------------------------------------------------


async def test_keys_in_the_message_are_never_kept(door: Door) -> None:
    journal = Remembering()
    async with door.serving(PageModel([create()]), journal=journal) as served:
        heard = await generate(
            served, openAiApiKey="sk-SECRET-1", anthropicApiKey="sk-SECRET-2", openAiBaseURL="http://SECRET"
        )
        kept = msgspec.json.encode(await served.events).decode()

    heard.check()
    assert "SECRET" not in kept
    assert "SECRET" not in str(heard.messages)


async def test_pages_from_elsewhere_are_kept_out(door: Door) -> None:
    async with door.serving(PageModel([create()])) as served:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with app_socket(served, origin="https://evil.example"):
                pass

    assert refused.value.status == 403


async def test_the_page_is_told_its_models_and_runs(door: Door) -> None:
    async with door.serving(PageModel([create()])) as served:
        heard = await generate(served)
    (models,) = heard.of(0, "variantModels")

    assert models["data"]["models"] == ["test"] * 4
    assert len(set(models["data"]["runs"])) == 4


async def test_each_variant_is_a_run_that_can_be_followed(door: Door) -> None:
    async with door.serving(PageModel([create()])) as served:
        heard = await generate(served)
        runs = heard.of(0, "variantModels")[0]["data"]["runs"]
        _, run = await get(served, f"/runs/{runs[3]}")
        _, events = await get(served, f"/runs/{runs[3]}/events")

    assert run["state"] == "finished"
    assert b"event: call_preview" in events


async def test_edits_are_watched_at_the_run_and_done_on_the_page_at_once(door: Door) -> None:
    edits = [{"old_text": "Hello", "new_text": "Good morning"}, {"old_text": "one", "new_text": "two"}]
    model = PageModel([call("edit_file", edits=edits)], chunk=5)
    file = {"path": "index.html", "content": PAGE}
    async with door.serving(model, app=AppConfig(variants=1)) as served:
        heard = await generate(served, generationType="update", fileState=file)
        [run] = heard.of(0, "variantModels")[0]["data"]["runs"]
        _, events = await get(served, f"/runs/{run}/events")

    heard.check()
    changed = PAGE.replace("Hello", "Good morning").replace("one", "two")
    assert {*heard.growth(0)} == {changed}
    shown = [patch for _, kind, data in frames(events) if kind == "call_preview" for patch in data["patches"]]
    grown = [patch["value"] for patch in shown if patch["path"] == "/edits/0/new_text"]
    assert ("".join(grown), len(grown) > 1) == ("Good morning", True)


# ---- models --------------------------------------------------------------------------------------------------------


def models_of(model: str, *named: str, variants: int | None = None) -> AppModels:
    config = make_config({"model": model, "app": AppConfig(models=named, variants=variants)})
    return AppModels(config, Models(model, ScriptedModel()))


@pytest.mark.parametrize(
    ("models", "asked", "count"),
    [
        (models_of("openai:a"), {}, 4),
        (models_of("openai:a"), {"generationType": "update"}, 2),
        (models_of("openai:a"), {"inputMode": "video"}, 2),
        (models_of("local:small.gguf"), {}, 1),
        (models_of("openai:a", "local:small.gguf"), {}, 1),
        (models_of("local:small.gguf", "local:small.gguf", "openai:a"), {}, 4),
        (models_of("openai:a", variants=7), {}, 7),
        (models_of("openai:a", variants=1), {"generationType": "update"}, 1),
    ],
)
def test_how_many_variants_there_are(models: AppModels, asked: dict[str, str], count: int) -> None:
    assert models.count(read_parameters(json.dumps(asking(**asked)).encode())) == count


async def test_models_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    models = models_of("openai:own", "openai:a", "anthropic:claude-without-a-key", "openai:b")

    assert [target.name for target in await models.choose(5)] == ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize(
    ("named", "media", "chosen"),
    [
        (("openai:gpt-3.5-turbo", "openai:gpt-5"), {"images": [PIXEL]}, ["gpt-5", "gpt-5"]),
        (("openai:gpt-5", "gemini:g"), {"videos": ["data:video/mp4;base64,AAAA"]}, ["g", "g"]),
        (("openai:gpt-5",), {"videos": ["data:video/mp4;base64,AAAA"]}, ["gpt-5", "gpt-5"]),
    ],
)
async def test_a_change_is_made_by_those_who_have_seen_the_page_if_there_are_any(
    monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...], media: dict[str, list[str]], chosen: list[str]
) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "x")
    history = [{"role": "user", "text": "A board.", **media}, {"role": "assistant", "text": PAGE}]
    asked = read_parameters(json.dumps(asking(generationType="update", history=history)).encode())

    assert [target.name for target in await models_of("openai:own", *named).choose(2, asked)] == chosen
