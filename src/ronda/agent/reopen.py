"""A run's first event → what the run is driven with, wherever it goes on: after an approval, after a restart, in another process.

    RunStarted.file      the agent's file and all it brings in, as they were when the run began: the disk is not asked
    RunStarted.inputs    what fills the bound parameters of its tools

References to the environment are looked up where the run goes on. What cannot be opened again (a function of a process that is
gone, an API that is not to be reached) is left out: a call of it fails, and the run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ronda.agent.prompty_run import FileJob, agent_of
from ronda.agent.start import RunOptions, Start
from ronda.agent.toolsets import Tools, open_agent, open_overlay
from ronda.agent.value import Agent, Inputs
from ronda.core.events import AgentFile, Event, RunStarted
from ronda.core.run import Run
from ronda.drive import Tool
from ronda.errors import BadRequest
from ronda.prompty.files import JournalFiles
from ronda.prompty.load import load
from ronda.prompty.model import Prompty
from ronda.prompty.tool_kinds import Overlay, tools_of


def kept_file(file: AgentFile, env: Mapping[str, str] | None = None) -> Prompty:
    """The agent as it was when the run began."""
    folders = {str(Path(name).parent) for name in file.files}  # what was read then may be read again
    return load(file.path, allowed_file_roots=sorted(folders), env=env, files=JournalFiles(file))


def file_of(start: RunStarted) -> Prompty:
    if start.file is None:
        raise BadRequest(
            f"run '{start.run}' was begun by an agent made in code, which no journal can hold; give agent=…",
            param="agent",
        )
    return kept_file(start.file)


def job_of(prompty: Prompty, start: RunStarted) -> FileJob:
    """The conversation and the inputs that the run began with: nothing is rendered anew."""
    job = FileJob(prompty, start.turns)
    job.inputs |= {name: msgspec.json.decode(value) for name, value in start.inputs.items()}
    return job


async def reopen(job: FileJob, overlay: Overlay | None) -> tuple[Agent, dict[str, Tool]]:
    """The model, and who runs which tool."""
    table = await tools_of(job.prompty, overlay, job.inputs, leave_out=True)
    return agent_of(job.prompty, job.upstream), {
        name: tool for name, tool in table.items() if tool.spec.kind != "caller"
    }


async def restart(
    found: Agent | Prompty,
    inputs: Inputs | None,
    tools: Tools | None,
    run: Run,
    events: Sequence[Event],
    options: RunOptions,
) -> Start:
    """A run that was begun before, about to be driven on. A file has the inputs that its journal keeps, unless some are given."""
    opened = await open_overlay(tools)
    if isinstance(found, Agent):
        return Start(await open_agent(found), inputs, opened, False, options, run=run)
    job = job_of(found, run.start) if inputs is None else FileJob(found, inputs)
    job.take(events)
    model, table = await reopen(job, opened)
    return Start(model, job.inputs, table, False, options, job, run)
