"""Every agent in examples/prompty is run, offline, as its README says."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ronda import invoke_agent, invoke_agent_async, load
from ronda.agent.pipeline import prepare
from ronda.core.events import Event, ModelStarted, ToolFinished
from ronda.core.parts import Image, Text, UserTurn
from ronda.prompty.message_parts import Message
from ronda.prompty.turns import turns_of
from ronda.prompty.validate import validate

FOLDER = Path(__file__).parents[2] / "examples" / "prompty"
FILES = sorted(FOLDER.glob("*.prompty"))


def module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(autouse=True)
def no_other_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RONDA_MODEL", raising=False)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_has_no_problems(file: Path) -> None:
    assert validate(file) == []


def test_there_are_enough_of_them() -> None:
    assert len(FILES) >= 7


def test_minimal() -> None:
    assert invoke_agent(FOLDER / "minimal.prompty") == "Hello, world! Good to see you."


def test_chat_goes_on_with_its_thread() -> None:
    thread = json.loads((FOLDER / "conversation.json").read_text())
    inputs = {"conversation": thread, "question": "And in winter?"}

    messages: list[Message] = prepare(FOLDER / "chat.prompty", inputs)
    assert [(message.role, message.text) for message in messages[1:]] == [
        ("user", "Is Lisbon warm in summer?"),
        ("assistant", "Yes, and dry: 28 degrees on most days of July."),
        ("user", "And in winter?"),
    ]
    answer = "Winters are mild: 15 degrees by day, with some rain."
    assert invoke_agent(FOLDER / "chat.prompty", inputs) == answer


def results(events: list[Event]) -> list[str]:
    return [event.result.content for event in events if isinstance(event, ToolFinished)]


def test_the_weather_is_told_in_the_unit_of_the_inputs() -> None:
    events: list[Event] = []
    tools = [module("weather_tools").get_weather]
    inputs = {"city": "Lisbon", "preferred_unit": "fahrenheit"}

    answer = invoke_agent(FOLDER / "weather.prompty", inputs, tools, on_event=events.append)

    assert answer == "It is 24 degrees and sunny in Lisbon."
    assert results(events) == ["Lisbon: 75 degrees fahrenheit, sunny"]


def test_an_invoice_becomes_data() -> None:
    assert invoke_agent(FOLDER / "invoice.prompty") == {
        "number": "2026-114",
        "total": 546.0,
        "items": [{"what": "chair", "count": 12}],
        "due": "1 December",
    }


def test_a_picture_is_part_of_the_message() -> None:
    inputs = {"picture": (FOLDER / "dot.png").read_bytes()}

    turn = turns_of(prepare(FOLDER / "picture.prompty", inputs))[-1]
    assert isinstance(turn, UserTurn)
    assert [type(part) for part in turn.parts] == [Text, Image]
    assert invoke_agent(FOLDER / "picture.prompty", inputs) == "A single red dot."


@pytest.fixture
def shop() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), module("shop_server").Shop) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_the_shops_api_is_really_called(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_URL", shop)
    events: list[Event] = []

    answer = await invoke_agent_async(FOLDER / "shop.prompty", on_event=events.append)

    assert answer == "There are 7 teapots left, at 24 euros each."
    (result,) = results(events)
    assert '"left": 7' in result


def test_a_trip_is_planned_with_the_help_of_another_agent() -> None:
    events: list[Event] = []
    tools = [module("weather_tools").get_weather]

    answer = invoke_agent(FOLDER / "trip.prompty", {"place": "Lisbon"}, tools, on_event=events.append)

    assert answer == "It is sunny: walk along the river, and take tram 28 in the evening."
    assert results(events) == ["Sunny, 24 degrees."]
    assert [event.round for event in events if isinstance(event, ModelStarted)] == [0, 1]


def test_every_example_names_itself() -> None:
    assert [load(file).name for file in FILES] == [file.stem for file in FILES]
