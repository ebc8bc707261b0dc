"""The local engine dies, seen from a client: what it is told, in which words, and whether its library may try again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door
from tests.local import fake_engine
from tests.local.test_files import gguf

from ronda.local.engine import Engine
from ronda.local.files import ModelFile
from ronda.local.machine import Sizing
from ronda.local.provider import LocalModel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the engine is watched on Linux")


@pytest.fixture
def model(tmp_path: Path) -> Iterator[LocalModel]:
    """What it does is the first letter of what it is asked."""
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf())
    command = (sys.executable, str(Path(fake_engine.__file__)), str(tmp_path))
    engine = Engine(ModelFile("fake", path), Sizing(slots=4, context=1024, tokens=4096), command=command)
    yield LocalModel(engine)
    engine.close()


def asking(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "default", "messages": [{"role": "user", "content": text}], **more}


async def test_nobody_notices_a_death_before_the_first_word(door: Door, model: LocalModel) -> None:
    async with door.serving(model) as served:
        answer = await served.client().chat.completions.create(**asking("a1"))

    assert answer.choices[0].message.content == "hello"


async def test_an_answer_that_was_cut_off_ends_with_an_error(door: Door, model: LocalModel) -> None:
    async with door.serving(model) as served:
        stream = await served.client().chat.completions.create(**asking("s"), stream=True)
        first = await anext(stream)
        while not first.choices[0].delta.content:
            first = await anext(stream)
        with pytest.raises(openai.APIError, match="the local engine ended in the middle of its work: signal SIGSEGV"):
            [chunk async for chunk in stream]

    assert first.choices[0].delta.content == "hello"


async def test_a_grammar_the_engine_died_of_is_the_callers_mistake_and_not_to_be_repeated(
    door: Door, model: LocalModel
) -> None:
    body = asking("a", extra_body={"grammar": {"type": "lark", "value": "start: die"}})

    async with door.serving(model) as served:
        for _ in range(2):
            with pytest.raises(openai.BadRequestError, match="broke down on this schema or grammar") as refused:
                await served.client().chat.completions.create(**body)
            assert refused.value.response.headers["x-should-retry"] == "false"
        answer = await served.client().chat.completions.create(**asking("a"))

    assert answer.choices[0].message.content == "hello"


async def test_an_engine_that_dies_again_and_again_is_a_503_for_a_while(door: Door, model: LocalModel) -> None:
    async with door.serving(model) as served:
        for _ in range(2):  # two deaths each: it is asked once more
            with pytest.raises(openai.APIStatusError):
                await served.client().chat.completions.create(**asking("d"))
        with pytest.raises(openai.InternalServerError, match="can be asked again in") as refused:
            await served.client().chat.completions.create(**asking("a"))

    assert refused.value.status_code == 503
