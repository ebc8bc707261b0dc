"""The page on compatibility is what the tables say, and they have every field that is read."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from ronda.wire.mistral import field_tables
from ronda.wire.mistral.agents import AgentBody, AgentUpdate
from ronda.wire.mistral.chunks import Chunk
from ronda.wire.mistral.conversations import Append, Restart, Start
from ronda.wire.mistral.server_request import REFUSED, CompletionBody, Message

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def docs_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))


def test_the_page_on_compatibility_is_up_to_date() -> None:
    page = importlib.import_module("make_compatibility").page()

    assert page == (DOCS / "compatibility.md").read_text(), "run `make docs`"


def test_the_tables_of_mistrals_fields_have_each_of_them() -> None:
    assert field_tables.COMPLETION.keys() == {*CompletionBody.__struct_fields__, *REFUSED}
    assert field_tables.MESSAGES.keys() == set(Message.__struct_fields__)
    assert field_tables.AGENT.keys() == set(AgentBody.__struct_fields__) | set(AgentUpdate.__struct_fields__)
    assert field_tables.START.keys() == set(Start.__struct_fields__)
    assert field_tables.APPEND.keys() == set(Append.__struct_fields__)
    assert field_tables.RESTART.keys() == set(Restart.__struct_fields__)
    kinds: Any = Chunk
    assert field_tables.CHUNKS.keys() == {kind.__struct_config__.tag for kind in kinds.__args__}
