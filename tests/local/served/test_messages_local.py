"""The Messages door in front of the real local model."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interaction.doors import Door
from tests.interaction.every_door import ask
from tests.server.messages_door import PICK, asking

from ronda.local.engine import Engine
from ronda.local.files import DEFAULT, ModelFile, default_path
from ronda.local.machine import Sizing
from ronda.local.provider import LocalModel

pytestmark = [
    pytest.mark.skipif(default_path() is None, reason="the local model is not installed: make setup gets it"),
    pytest.mark.xdist_group("local"),
]


@pytest.fixture(scope="module")
def model() -> LocalModel:
    path = default_path()
    assert path is not None
    return LocalModel(Engine(ModelFile(DEFAULT, path), Sizing(slots=1, context=1024, tokens=1024, batch=32)))


async def test_tokens_are_counted_as_the_model_will_count_them(door: Door, model: LocalModel) -> None:
    asked: dict[str, object] = {
        "model": "default",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Name a colour, s’il te plaît."}],
        "tools": [PICK],
    }

    async with door.serving(model), asking(door) as claude:
        count = await claude.messages.count_tokens(**asked)  # type: ignore[arg-type]
        message = await claude.messages.create(max_tokens=1, **asked)  # type: ignore[call-overload]

    used = message.usage
    assert count.input_tokens == used.input_tokens + used.cache_read_input_tokens


async def test_a_conversation_too_long_for_the_model_is_estimated(door: Door, model: LocalModel) -> None:
    async with door.serving(model), asking(door) as claude:
        count = await claude.messages.count_tokens(
            model="default", messages=[{"role": "user", "content": "x" * 400_000}]
        )

    assert count.input_tokens == 100_004


async def test_a_model_that_was_never_taught_to_think_answers_all_the_same(door: Door, model: LocalModel) -> None:
    async with door.serving(model), asking(door) as claude:
        message = await claude.messages.create(
            model="default",
            max_tokens=4,
            messages=[{"role": "user", "content": "hi"}],
            thinking={"type": "adaptive"},
        )

    assert message.to_dict()["warnings"] == [
        "'reasoning_effort' is not used: this local model cannot be told how to think"
    ]


ASKED: dict[str, Any] = {
    "chat": {"reasoning_effort": "high", "max_tokens": 4},
    "responses": {"reasoning": {"effort": "high"}, "max_output_tokens": 16},
    "messages": {"reasoning_effort": "high"},
    "completions": {"reasoning_effort": "high", "max_tokens": 4},
    "conversations": {"completion_args": {"reasoning_effort": "high", "max_tokens": 4}},
}


@pytest.mark.parametrize("name", ASKED)
async def test_how_much_to_think_is_a_warning_at_every_door(door: Door, model: LocalModel, name: str) -> None:
    async with door.serving(model) as served:
        heard = await ask(served, name, False, **ASKED[name])

    assert heard.warnings == ["'reasoning_effort' is not used: this local model cannot be told how to think"]
