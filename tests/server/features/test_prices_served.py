"""The cost of a run, at every door: streamed and plain the same, and absent where no price is known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Served
from tests.interaction.every_door import NAMES, PATHS, body_for

from ronda.core.parts import Usage
from ronda.core.prices import Price
from ronda.providers.script import ScriptedModel, calls, says
from ronda.tools.function import as_tool

OWN: Any = {"prices": {"script:*": Price(1.0, 10.0, cached=0.5)}}
COST = (9 * 1.0 + 1 * 0.5 + 5 * 10.0 + 10 * 1.0 + 5 * 10.0) / 1e6


def look() -> str:
    """Look."""
    return "seen"


def model() -> ScriptedModel:
    return ScriptedModel(calls("look"), says("over", usage=Usage(10, 5, cached=1)))


async def usage_at(served: Served, name: str, stream: bool) -> tuple[dict[str, Any], str]:
    """The usage that an answer of a door says last, and the name of its run."""
    async with served.http.post(f"{served.url}/{PATHS[name]}", json=body_for(name, stream)) as answer:
        text = await answer.text()
        assert answer.status == 200, text
        run = answer.headers["x-ronda-run"]
    if not stream:
        return json.loads(text)["usage"], run
    found: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("data: {"):
            event = json.loads(line.removeprefix("data: "))
            found = event.get("usage") or (event.get("response") or {}).get("usage") or found
    return found, run


@pytest.mark.parametrize("name", NAMES)
async def test_streamed_and_plain_have_the_same_usage_and_cost(door: Door, name: str) -> None:
    usages = []
    for stream in (False, True):
        async with door.serving(model(), as_tool(look), **OWN) as served:
            usage, run = await usage_at(served, name, stream)
            usages.append(usage)
            async with served.http.get(f"{served.url}/runs/{run}") as answer:
                kept = (await answer.json())["usage"]
            assert kept["cost"] == usage["cost"] == pytest.approx(COST)
    assert usages[0] == usages[1]


@pytest.mark.parametrize("name", NAMES)
async def test_a_cost_that_is_not_known_is_not_told(door: Door, name: str) -> None:
    async with door.serving(model(), as_tool(look), prices={"openai:*": Price(1, 2)}) as served:
        usage, run = await usage_at(served, name, stream=False)
        async with served.http.get(f"{served.url}/runs/{run}") as answer:
            kept = (await answer.json())["usage"]
    assert ("cost" in usage, kept["cost"]) == (False, None)
