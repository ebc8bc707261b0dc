"""The real engine with the real default model: small slots, so that it loads in a moment."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import Raw

from ronda.core.events import ModelFinished, Preview
from ronda.core.parts import Turn, user
from ronda.core.plan import AUTO, Options, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.local.engine import Engine
from ronda.local.files import DEFAULT, ModelFile, default_path
from ronda.local.machine import Sizing
from ronda.local.provider import LocalModel

SMALL = Sizing(slots=2, context=1024, tokens=2048, batch=32)


@pytest.fixture(scope="session")
def model_file() -> ModelFile:
    path = default_path()
    if path is None:
        pytest.skip("the default model is not installed: run 'ronda models pull'")
    return ModelFile(DEFAULT, path)


@pytest.fixture(scope="session")
def engine(model_file: ModelFile) -> Engine:
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the local engine is not installed: pip install 'ronda[local]'")
    return Engine(model_file, SMALL)


@pytest.fixture(scope="session")
def narrow(model_file: ModelFile, engine: Engine) -> Engine:
    """One slot: the second call waits."""
    return Engine(model_file, Sizing(slots=1, context=1024, tokens=1024, batch=32))


@pytest.fixture(scope="session")
def roomy(model_file: ModelFile, engine: Engine) -> Engine:
    """Room for something before a call that is owed."""
    return Engine(model_file, Sizing(slots=1, context=2048, tokens=2048, batch=32))


class Asking:
    """Calls a model and remembers what it showed."""

    def __init__(self, engine: Engine) -> None:
        self.model = LocalModel(engine)

    async def __call__(self, asked: str | Sequence[Turn], **how: Any) -> ModelFinished:
        return (await self.watched(asked, **how))[0]

    async def watched(
        self,
        asked: str | Sequence[Turn],
        *,
        stream: bool = True,
        tools: tuple[ToolSpec, ...] = (),
        choice: ToolChoice = AUTO,
        extra: dict[str, bytes] | None = None,
        **options: Any,
    ) -> tuple[ModelFinished, list[Preview]]:
        turns = [user(asked)] if isinstance(asked, str) else asked
        raws = {name: Raw(value) for name, value in (extra or {}).items()}
        request = ModelRequest(turns, tools, choice, Options(extra=raws, **options), stream, "run", 0, 1, {})
        shown: list[Preview] = []
        return await self.model.call(request, shown.extend), shown


@pytest.fixture
def ask(engine: Engine) -> Asking:
    return Asking(engine)
