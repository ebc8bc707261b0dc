"""What a server says of its machine, of itself and of its models' memory, at mistral.rs's addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, soon
from tests.interaction.upstreams import Upstream

from ronda._version import __version__
from ronda.drive import Capabilities
from ronda.providers.script import ScriptedModel, says
from ronda.server.features import running
from ronda.server.features.contract import Feature, Line
from ronda.server.features.running import Features
from ronda.store.keys import new_key


class Resident(ScriptedModel):
    """A model that is in this machine's memory, or not."""

    def __init__(self, *, is_busy: bool = False) -> None:
        super().__init__(says("Hello."))
        self.is_there = True
        self.is_busy = is_busy

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(load=self._load, unload=self._unload, is_loaded=lambda: self.is_there)

    async def _load(self) -> str:
        self.is_there = True
        return "loaded"

    def _unload(self) -> bool:
        if not self.is_busy:
            self.is_there = False
        return not self.is_busy


async def _post(served: Any, path: str, name: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    async with (
        soon(),
        served.http.post(served.url.removesuffix("/v1") + path, json={"model_id": name}, headers=headers) as answer,
    ):
        return answer.status, await answer.json()


async def doctor_of(served: Any, name: str) -> list[Line]:
    """What one feature says to the doctor: without the rest, which starts a browser."""
    [feature] = [one for one in served.server.features.all if one.name == name]
    async with soon():
        return list(await feature.doctor())


async def test_the_machine_and_the_server_are_described(door: Door) -> None:
    async with (
        door.serving(ScriptedModel()) as served,
        soon(),
        served.http.get(f"{served.url}/system/info") as answer,
    ):
        info = await answer.json()
    assert (answer.status, info["version"], "system" in info["features"]) == (200, __version__, True)
    assert info["memory"]["total_bytes"] >= info["memory"]["available_bytes"] > 0


@pytest.mark.parametrize("method", ["GET", "POST"])  # ours, and mistral.rs's
async def test_the_doctor_says_the_same_as_the_command(door: Door, method: str) -> None:
    async with (
        door.serving(ScriptedModel()) as served,
        soon(),
        served.http.request(method, f"{served.url}/system/doctor") as answer,
    ):
        found = await answer.json()
    names = [line["name"] for line in found["checks"]]
    assert names[0] == "isolation"
    assert {"model", "prices", "database", "disk", "keys"} <= set(names)


async def test_a_model_in_memory_is_unloaded_and_loaded_again(door: Door) -> None:
    model = Resident()
    async with door.serving(model) as served:
        assert await _post(served, "/v1/models/status", "default") == (200, {"model_id": "default", "status": "loaded"})
        assert (await _post(served, "/v1/models/unload", "default"))[1]["status"] == "unloaded"
        assert (await _post(served, "/v1/models/status", "default"))[1]["status"] == "unloaded"
        assert (await _post(served, "/v1/models/reload", "default"))[1]["status"] == "loaded"
    assert model.is_there


async def test_a_model_that_answers_stays(door: Door) -> None:
    async with door.serving(Resident(is_busy=True)) as served:
        status, body = await _post(served, "/v1/models/unload", "default")
    assert (status, body["status"], "ask again" in body["error"]) == (200, "loaded", True)


async def test_a_model_elsewhere_and_one_that_does_not_exist_are_told_by_their_status(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        elsewhere = await _post(served, "/v1/models/unload", "default")
        unknown = await _post(served, "/v1/models/reload", "no-such-model")
    assert [elsewhere[0], elsewhere[1]["status"]] == [200, "no_loader_config"]
    assert [unknown[0], unknown[1]["status"]] == [200, "not_found"]


async def test_with_keys_only_an_operator_unloads(door: Door) -> None:
    model = Resident()
    async with door.serving(model) as served:
        made = [new_key("ann", 0.0, scopes) for scopes in ((), ("operate",), ("operate:write",))]
        for _, row in made:
            await served.server.catalog.keys.add(row)
        answers = [
            await _post(served, "/v1/models/unload", "default", {"authorization": f"Bearer {key}"}) for key, _ in made
        ]
    assert [status for status, _ in answers] == [403, 403, 200]


@pytest.mark.parametrize("path", ["/v1/models/tune", "/v1/images/generations", "/v1/audio/speech"])
async def test_what_is_not_served_is_refused_by_name(door: Door, path: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, body = await _post(served, path, "default")
    assert (status, body["error"]["code"], path in body["error"]["message"]) == (404, "not_supported", True)


async def test_the_doctor_reads_the_files_of_agents(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    (tmp_path / "good.prompty").write_text("---\nname: good\nmodel: openai-chat:m\n---\nsystem:\nBe kind.\n")
    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
        [works] = await doctor_of(served, "agents")
    (tmp_path / "bad.prompty").write_text("---\nname: [\n---\n")
    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
        partly, *_ = await doctor_of(served, "agents")
    assert (works.state, works.text) == ("works", f"{tmp_path} has 1")
    assert (partly.state, "the agent 'bad' cannot be used" in partly.text) == ("partly", True)


class Well(Feature):
    name = "well"

    async def doctor(self) -> Sequence[Line]:
        return [Line("well", "works", "it has water")]


class Broken(Feature):
    name = "broken"

    async def doctor(self) -> Sequence[Line]:
        raise OSError("no route")


class Hanging(Feature):
    name = "hanging"

    async def doctor(self) -> Sequence[Line]:
        await asyncio.Event().wait()
        return ()


def _made(kind: type[Feature]) -> Feature:
    return kind.__new__(kind)


async def test_the_doctor_connects_to_where_calls_of_tools_and_searches_are_sent(door: Door) -> None:
    async with Upstream() as there, Upstream() as gone:
        settings: Any = {
            "tool_dispatch_url": there.url,
            "dispatch": {"other": {"url": gone.url}, "same": {"url": f"{there.url}/same"}},
            "enable_search": True,
            "search": {"backend": "searxng", "address": gone.url},
        }
        async with door.serving(ScriptedModel(), **settings) as served:
            before = [*await doctor_of(served, "dispatch"), *await doctor_of(served, "web")]
            await gone.__aexit__()
            after = [*await doctor_of(served, "dispatch"), *await doctor_of(served, "web")]
    assert ([line.state for line in before], there.bodies, gone.bodies) == (["works"] * 3, [], [])
    [host] = [gone.url.removeprefix("http://").removesuffix("/v1")]
    assert [(line.name, line.state, line.text) for line in after if line.state != "works"] == [
        ("dispatch", "fails", f"cannot reach {host}: Connection refused"),
        ("search", "fails", f"cannot reach {host}: Connection refused"),
    ]


async def test_a_search_that_stays_on_the_machine_needs_no_connection(door: Door, tmp_path: Path) -> None:
    async with door.serving(ScriptedModel(), enable_search=True, search={"folder": str(tmp_path)}) as served:
        [line] = await doctor_of(served, "web")
    assert (line.state, line.text) == ("works", "queries stay on this machine")


async def test_a_feature_that_breaks_is_a_line_and_the_next_is_asked() -> None:
    lines = await Features([_made(Broken), _made(Well)]).doctor()
    assert lines == [Line("broken", "fails", "OSError: no route"), Line("well", "works", "it has water")]


async def test_a_feature_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "DOCTOR_SECONDS", 0.01)
    [line] = await Features([_made(Hanging)]).doctor()
    assert (line.name, line.state) == ("hanging", "fails")


async def test_a_disk_that_cannot_be_written_to_fails(door: Door, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.write_text("no folder")
    async with (
        door.serving(ScriptedModel(), file_store=str(folder)) as served,
        soon(),
        served.http.get(f"{served.url}/system/doctor") as answer,
    ):
        found = await answer.json()
    [disk] = [line for line in found["checks"] if line["name"] == "disk"]
    assert (found["status"], disk["state"]) == ("fails", "fails")
