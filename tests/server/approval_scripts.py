"""Models that want to delete something, and its result."""

from __future__ import annotations

import pytest
from tests.interaction.doors import Json, Served, soon
from tests.interaction.every_door import NAMES
from tests.server.runs_door import Follower, get

from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks

AT_EACH_DOOR = pytest.mark.parametrize("name", NAMES)


A_MOMENT = 0.01  # seconds: a time that is over at once


def script(*paths: str) -> ScriptedModel:
    turns = [asks("delete", path=path) for path in paths or ("/a",)]
    return ScriptedModel(*turns, says("It is gone."))


def results(model: ScriptedModel) -> str:
    """What the model has read of its calls."""
    return str(model.heard[-1][-1])


async def until_over(served: Served, run: str) -> Json:
    async with soon():
        await Follower(served, run).read()
    _, found = await get(served, f"/runs/{run}")
    assert isinstance(found, dict)
    return found
