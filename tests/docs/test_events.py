"""The page on events has one row for each event, which names all its fields and none that it lacks."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from ronda.core.events import Event

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
FOUND: list[tuple[str, str, str]] = re.findall(r"^\| `(\w+)` \(`(\w+)`\) \| (.*) \|$", PAGE, re.MULTILINE)
ROWS = {name: (tag, rest) for name, tag, rest in FOUND}
EVENTS = {event.__name__: event for event in get_args(Event)}


def test_every_event_has_a_row_and_every_row_an_event() -> None:
    assert sorted(name for name, _, _ in FOUND) == sorted(EVENTS)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS.keys())
def test_the_row_names_its_fields(event: Any) -> None:
    tag, rest = ROWS[event.__name__]
    fields = rest.split(" | ", 1)[1]

    assert tag == event.__struct_config__.tag
    missing = [name for name in event.__struct_fields__ if f"`{name}`" not in fields]
    assert missing == []
