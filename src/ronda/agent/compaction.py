"""How long a conversation may get, and who sums up what has to go: as people say it → what a run is driven with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ronda.agent.value import Agent, AnyAgent
from ronda.core.parts import Turn
from ronda.core.summary import written_out
from ronda.drive import Summarize

AnyCompaction: TypeAlias = "Summarize | AnyAgent"


def read_summarizer(compaction: AnyCompaction | None) -> Summarize | None:
    """What sums up: a function of the turns that go, or an agent that is given them as text."""
    if compaction is None or (callable(compaction) and not isinstance(compaction, Agent)):
        return compaction
    agent = compaction

    async def ask(turns: Sequence[Turn]) -> str:
        from ronda.agent.invoke import invoke_agent_async

        text = written_out(turns)
        return str(await invoke_agent_async(agent, {"input": text, "conversation": text}))

    return ask
