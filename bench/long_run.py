"""A run of many rounds whose process ends in its last model call, and the same run picked up again: how long that takes.

`make FILE ROUNDS` writes the journal, `resume FILE ROUNDS` prints the seconds from the call of `resume_agent` to the model's.
"""

import asyncio
import os
import sys
import time

from ronda import Agent, resume_agent_async, run_agent_async
from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.journal import RunQuery
from ronda.journal.sqlite import SqliteJournal
from ronda.providers.script import Call, ScriptedModel, calls, says


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: " + "a thing that people say. " * 20


class Ends(ScriptedModel):
    """Its process ends when there is nothing more to say: nothing is closed, nothing is tidied up."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if len(self.requests) == self.rounds:
            print(0.0, flush=True)
            os._exit(0)
        return await super().call(request, show)

    rounds = 0


class Timed(ScriptedModel):
    """Notes when it is called first."""

    called = 0.0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.called = self.called or time.perf_counter()
        return await super().call(request, show)


async def make(file: str, rounds: int) -> None:
    model = Ends(*[calls(Call("look_up", {"word": f"w{number}"})) for number in range(rounds)], says("never"))
    model.rounds = rounds
    agent = Agent(model, tools=[look_up])
    await run_agent_async(agent, "go", journal=SqliteJournal(file), max_iterations=rounds + 10)


async def resume(file: str) -> None:
    model = Timed(says("done"))
    journal = SqliteJournal(file)
    [run] = (await journal.list_runs(RunQuery(""))).runs
    began = time.perf_counter()
    result = await resume_agent_async(run.run, {}, journal=journal, agent=Agent(model, tools=[look_up]))
    assert str(result.output) == "done"
    print(model.called - began, flush=True)


if __name__ == "__main__":
    verb, file, rounds = sys.argv[1:]
    asyncio.run(make(file, int(rounds)) if verb == "make" else resume(file))
