"""Cassettes as tests: a run that was recorded once must go the same way again, without a model, a tool or a network."""

from __future__ import annotations

import os

import msgspec

from ronda.agent.blocking import blocking
from ronda.agent.cassettes.cassette import Cassette, read_cassette
from ronda.agent.cassettes.differences import compare_starts
from ronda.agent.cassettes.replay import ReplayResult
from ronda.agent.cassettes.replay import replay as play
from ronda.agent.pipeline import Call
from ronda.agent.prompty_run import Source
from ronda.agent.toolsets import Tools
from ronda.agent.value import AnyAgent, Inputs
from ronda.core.events import RunStarted
from ronda.core.parts import SystemTurn


async def replay_async(
    cassette: str | os.PathLike[str] | Cassette,
    agent: AnyAgent | None = None,
    inputs: Inputs | None = None,
    tools: Tools | None = None,
) -> ReplayResult:
    """Play a cassette. Raises `Difference` where something is not as it was recorded, and says what and where.

    Args:
        cassette: What `record=` of a run, or `ronda record`, has written.
        agent: The agent as it is today: its instructions, tools and options must come to what was recorded. Without one
            only the loop is played.
        inputs: What it is asked; if left out, what it was asked then.
        tools: Those that were given for the run. They are not called.
    """
    found = cassette if isinstance(cassette, Cassette) else read_cassette(cassette)
    if agent is not None:
        start = found.start
        given = _inputs_of(start) if inputs is None else inputs
        begun = await Call(Source(agent), given, tools, {}).start(stream=False)
        compare_starts(start, begun.run.start)
    return await play(found)


replay = blocking(replay_async, "replay")


def _inputs_of(start: RunStarted) -> Inputs:
    if start.file is not None:
        return {name: msgspec.json.decode(value) for name, value in start.inputs.items()}
    return [turn for turn in start.turns if not isinstance(turn, SystemTurn)]
