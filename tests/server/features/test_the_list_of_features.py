"""Which features a server has, in which order they are made, started and stopped; their chores, figures, settings, commands."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from starlette.types import Message
from tests.interaction.doors import Door, soon
from tests.server.installed import PARROT, install_feature

from ronda.cli.main import main, parse
from ronda.cli.settings import read_config
from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import BadConfig
from ronda.journal.memory import MemoryJournal
from ronda.providers.script import ScriptedModel, says
from ronda.server import create_app
from ronda.server.app import App, Server
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Chore, Feature, Figure, Services
from ronda.server.features.table import in_order, wanted
from ronda.store.memory import MemoryCatalog
from ronda.store.sql import Sql


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path] | Any:
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)
    yield site
    sys.modules.pop("parrot", None)


def feature(name: str, *after: str) -> type[Feature]:
    return type(name, (Feature,), {"name": name, "after": after})


def test_each_is_made_after_those_that_it_names() -> None:
    classes = {one.name: one for one in (feature("a", "c"), feature("b"), feature("c", "gone"))}

    assert [one.name for one in in_order(classes)] == ["c", "a", "b"]


def test_a_circle_is_refused_by_name() -> None:
    classes = {one.name: one for one in (feature("a", "b"), feature("b", "a"))}

    with pytest.raises(BadConfig, match="a → b → a"):
        in_order(classes)


class Telling(Feature):
    told: ClassVar[list[str]]

    async def start(self) -> None:
        self.told.append(f"{self.name} starts")

    async def drain(self, seconds: float) -> None:
        self.told.append(f"{self.name} drains within {seconds:g}")

    async def stop(self) -> None:
        self.told.append(f"{self.name} stops")

    def figures(self) -> Iterable[Figure]:
        return [Figure("ronda_told", len(self.told), {"feature": self.name})]


def telling(*names: str) -> list[type[Telling]]:
    told: list[str] = []
    return [type(name, (Telling,), {"name": name, "told": told}) for name in names]


async def test_they_are_started_in_their_order_and_stopped_in_the_opposite_one() -> None:
    features = telling("one", "two")
    server = Server(ServerConfig(model="script:x"), MemoryJournal(), provider=ScriptedModel(), features=features)
    messages: asyncio.Queue[Message] = asyncio.Queue()
    said: list[str] = []

    async def send(message: Message) -> None:
        said.append(message["type"])
        if message["type"] == "lifespan.startup.complete":
            await server.stop(3.0)
            messages.put_nowait({"type": "lifespan.shutdown"})

    messages.put_nowait({"type": "lifespan.startup"})
    async with soon():
        await App(server)({"type": "lifespan"}, messages.get, send)

    assert features[0].told == [
        "one starts", "two starts", "one drains within 3", "two drains within 3", "two stops", "one stops",
    ]  # fmt: skip
    assert list(server.features.figures()) == [
        Figure("ronda_told", 6, {"feature": "one"}),
        Figure("ronda_told", 6, {"feature": "two"}),
    ]


async def test_they_have_a_moment_once_no_run_is_under_way(door: Door) -> None:
    left: list[int] = []

    class Parting(Feature):
        name = "parting"

        def __init__(self, settings: ServerConfig, services: Services) -> None:
            self._runs = services.runs

        async def runs_ended(self) -> None:
            left.append(len(self._runs.live))

    class Endless:
        def __init__(self) -> None:
            self.asked = asyncio.Event()

        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            self.asked.set()
            await asyncio.Event().wait()
            raise AssertionError("it waits until it is cancelled")

    model = Endless()
    async with door.serving(model, features=[Parting]) as served, soon():
        asking = asyncio.ensure_future(served.ask(stream=False))
        await model.asked.wait()
        assert len(served.server.runs.live) == 1
        await served.server.stop(0.0)
        await asyncio.gather(asking, return_exceptions=True)

    assert left == [0]


# ---- chores ----------------------------------------------------------------------------------------------------------


class Busy(Feature):
    """Two servers with it: which of them did what."""

    name = "busy"
    made: ClassVar[list[Busy]]

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self.here, self.once = asyncio.Event(), asyncio.Event()
        self.made.append(self)

    def chores(self) -> Sequence[Chore]:
        return [Chore("here", 0.001, self._here), Chore("once", 0.001, self._once, per="all")]

    async def _here(self) -> None:
        self.here.set()

    async def _once(self) -> None:
        self.once.set()


async def test_a_chore_for_all_is_done_by_one_of_those_that_share_a_catalog(door: Door) -> None:
    busy: type[Busy] = type("Mine", (Busy,), {"made": []})
    catalog = MemoryCatalog()
    async with soon(), door.serving(ScriptedModel(), features=[busy], catalog=catalog) as second:
        async with door.serving(ScriptedModel(), features=[busy], catalog=catalog) as first:
            first.server.open()
            await busy.made[1].once.wait()
            second.server.open()
            await busy.made[0].here.wait()
            busy.made[1].once.clear()
            await busy.made[1].once.wait()  # again, and again
            assert not busy.made[0].once.is_set()
        await busy.made[0].once.wait()  # the first has ended


# ---- tables ----------------------------------------------------------------------------------------------------------


async def test_a_feature_finds_its_tables(door: Door) -> None:
    class Notes(Feature):
        name = "notes"
        tables = (("CREATE TABLE note (text {text})",),)

        def __init__(self, settings: ServerConfig, services: Services) -> None:
            self._catalog = services.catalog

        async def start(self) -> None:
            def add(db: Sql) -> None:
                db.execute("INSERT INTO note VALUES (?)", ("hello",))

            await self._catalog.write(add)

    catalog = MemoryCatalog()
    async with door.serving(ScriptedModel(), features=[Notes], catalog=catalog) as served:
        await served.server.start()
        rows = await catalog.read(lambda db: db.execute("SELECT text FROM note").fetchall())

    assert [row[0] for row in rows] == ["hello"]


# ---- features of other packages ----------------------------------------------------------------------------------------


def test_what_is_installed_and_not_named_is_not_loaded(site: Path) -> None:
    install_feature(site, "parrot", "raise RuntimeError('loaded')")

    assert "parrot" not in [one.name for one in wanted(ServerConfig())]


@pytest.mark.parametrize("words", [["--feature", "parrot"], ["--feature=parrot"]])
def test_a_feature_that_is_named_has_its_flags(site: Path, words: list[str]) -> None:
    install_feature(site, "parrot")

    config = read_config(parse(["serve", *words, "--parrot-words", "5"]))

    [parrot] = [one for one in wanted(config) if one.name == "parrot"]
    assert parrot.settings is not None
    part: Any = config.part(parrot.settings)
    assert part.parrot_words == 5


def test_its_settings_may_stand_in_a_file_and_in_variables(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_feature(site, "parrot")
    file = tmp_path / "ronda.toml"
    file.write_text('features = ["parrot"]\nparrot-words = 4\n')
    [settings] = list(read_config(parse(["serve", "--config", str(file)])).parts.values())
    assert settings.parrot_words == 4
    monkeypatch.setenv("RONDA_PARROT_WORDS", "6")
    [settings] = list(read_config(parse(["serve", "--config", str(file)])).parts.values())
    assert settings.parrot_words == 6


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--parrot-words", "0"], "--parrot-words is 0; it must be at least 1"),
        (["--parrot-words", "10"], "--parrot-words is more than 9; a parrot knows no more"),
    ],
)
def test_its_settings_are_checked(site: Path, words: list[str], problem: str) -> None:
    install_feature(site, "parrot")

    with pytest.raises(BadConfig) as refused:
        read_config(parse(["serve", "--feature", "parrot", *words]))

    assert str(refused.value) == problem


async def test_create_app_takes_its_settings(site: Path) -> None:
    install_feature(site, "parrot")

    app = create_app(ScriptedModel(says("x")), features=["parrot"], parrot_words=7)

    async with app.lifespan():
        assert [one.name for one in app._server.features.all if one.name == "parrot"] == ["parrot"]
    with pytest.raises(BadConfig, match="there is no setting 'parrot_words'"):
        create_app(ScriptedModel(says("x")), parrot_words=7)


def test_a_feature_that_is_not_there_is_named(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install_feature(site, "parrot")

    assert main(["serve", "--feature", "parot"]) == 2

    assert "there is no feature 'parot'; did you mean" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise KeyError('x')", "the feature 'parrot' of the package 'parrot-package' cannot be loaded: 'x'"),
        ("class Parrot: pass", "parrot:Parrot is no feature"),
    ],
)
def test_one_that_cannot_be_loaded_is_named(site: Path, code: str, problem: str) -> None:
    install_feature(site, "parrot", code)

    with pytest.raises(BadConfig, match=problem):
        wanted(ServerConfig(features=("parrot",)))


def test_a_command_of_an_installed_feature_is_found_by_its_name(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install_feature(site, "parrot", PARROT)

    assert main(["parrot"]) == 0

    assert capsys.readouterr().out == "croak\n"
