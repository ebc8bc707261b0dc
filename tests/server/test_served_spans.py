"""A served run is traced as one of the library is."""

from __future__ import annotations

from tests.interaction.doors import Door
from tests.trace.conftest import spy as spy
from tests.trace.spying import Spy

from ronda import tool
from ronda.testing import ScriptedModel, calls, says
from ronda.trace import span


@tool
async def look_up(q: str) -> str:
    """Look something up."""
    with span("searching"):
        return f"<{q}>"


async def test_a_served_run_has_the_spans_of_the_library(door: Door, stream: bool, spy: Spy) -> None:
    async with door.serving(ScriptedModel(calls("look_up", q="a"), says("done")), look_up) as served:
        await served.ask(stream=stream)
        await served.all_over()

    assert spy.tree() == [("invoke_agent", ["execute", ("execute_tool", ["searching"]), "execute"])]
    assert spy.open == 0
