"""Runs that another process left without an end → driven on, if they were to outlive it; else told to be interrupted.

    read, `Run.recover`, drive on: with the model and the tools that the run's first event names

What cannot be opened again (a tool that is gone) is a call that fails; a stored agent that is gone ends the run. A file is opened
as it was when the run began. A run that waits for people stays as it is, until one of them answers or a question's time is up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ronda.core.events import Answered, Event, Fact, Recovered, RunFinished, RunStarted
from ronda.core.run import Run, rebuild
from ronda.drive import Provider, Tool, check_answer
from ronda.errors import RondaError
from ronda.host.recovery import seconds_left
from ronda.host.run import LiveRun
from ronda.journal import JournalConflict
from ronda.server.doors.app_stream.page import builds_page
from ronda.server.resources.toolbox import DECLARED_KINDS
from ronda.server.runs import BROKEN_OFF

if TYPE_CHECKING:
    from ronda.server.app import Server

log = logging.getLogger("ronda.server")
LONGEST_PAUSE: Final = 60.0


async def recover_runs(server: Server, pause: float = 1.0) -> None:
    """When a server starts. A journal that cannot be read just then is tried again after a while: nothing is left lying."""
    while True:
        try:
            await recover_all(server)
            return
        except RondaError as error:
            log.error("runs left without an end could not be looked at; trying again in %g s: %s", pause, error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def recover_all(server: Server) -> None:
    """Everything that nobody drives, once."""
    unfinished = await server.runs.journal.unfinished_runs()  # parents come before their children
    queued = {entry.run for entry in await server.catalog.queue.list(server.clock())}  # whoever claims one drives it
    for left in unfinished:
        if left.run not in queued and (not left.start.call or await _is_orphan(server, left.start)):
            await _recover(server, left.run)
        await asyncio.sleep(0)  # others have their turn


async def recover_left(server: Server, id: str) -> None:
    """A run that another process left while this one is up."""
    events = await server.runs.journal.read(id)
    start = events[0] if events else None
    if type(start) is RunStarted and (not start.call or await _is_orphan(server, start)):
        await _recover(server, id)


async def _is_orphan(server: Server, start: RunStarted) -> bool:
    """Of a run that is a call of another: whoever drives the parent drives it, unless the parent is over."""
    parent = [] if start.parent is None else await server.runs.journal.read(start.parent[0])
    return not parent or type(parent[-1]) is RunFinished


async def _recover(server: Server, id: str) -> None:
    try:
        live = await take_up(server, id)
    except JournalConflict:
        return  # somebody else was faster
    if live is not None:
        live.start(partial(report_broken, server))


async def take_up(server: Server, id: str, *, was_driven: bool = True) -> LiveRun | None:
    """A run that nobody drives, ready to be driven on; None if there is nothing to drive. `was_driven`: by a process that is
    gone; else it has only been queued, if nothing has happened in it. Raises JournalConflict if somebody drives it."""
    journal = server.runs.journal
    events = await journal.resume(id)
    run = rebuild(events) if events else None
    if run is None or run.ended is not None or (run.is_waiting and seconds_left(run) and not run.start.call):
        journal.release(id, waiting=run is not None and run.is_waiting)
        if run is not None and run.is_waiting:
            expire_later(server, run)
        return None
    previews = await journal.previews(id)
    facts: list[Fact] = run.recover(previews.get(len(events) - 1, ()))
    if not run.outlives or run.start.call:
        await _end(server, run, [*facts, RunFinished("interrupted", message=BROKEN_OFF, at=time.time())])
        return None
    if not run.is_waiting and (was_driven or len(events) > 1):
        recovered = Recovered(time.time())
        run.apply(recovered)
        facts.append(recovered)
    try:
        provider, tools = await reopen(server, run.start, events)
    except RondaError as error:
        await _end(server, run, [*facts, RunFinished("failed", message=f"it cannot go on: {error}", at=time.time())])
        return None
    if facts:
        journal.append(id, facts)
    await server.runs.sessions.resume(run)
    return server.runs.reopen(run, provider, tools, [*events, *facts], previews)


def expire_later(server: Server, run: Run) -> None:
    """A run waits, and nobody drives it: go on with it when the first of its questions closes by itself."""
    if (seconds := seconds_left(run)) != inf:
        asyncio.get_running_loop().call_later(seconds, _expire, server, run.id)


def _expire(server: Server, id: str) -> None:
    if not server.runs.stopping:
        task = asyncio.get_running_loop().create_task(_recover_quietly(server, id))
        server.tasks.add(task)
        task.add_done_callback(server.tasks.discard)


async def _recover_quietly(server: Server, id: str) -> None:
    try:
        await _recover(server, id)
    except RondaError as error:
        log.error("run %s could not be looked at: %s", id, error)


async def _end(server: Server, run: Run, facts: list[Fact]) -> None:
    await server.runs.sessions.keep(run)
    server.runs.journal.append(run.id, facts)
    server.runs.journal.release(run.id)


async def answer_waiting(server: Server, id: str, answer: Answered, *, waits: bool = False) -> LiveRun:
    """Somebody answered a run that waits, and that nobody drives: it goes on here. `waits`: as with `Runs.new`."""
    journal = server.runs.journal
    events = await journal.resume(id)  # a conflict if somebody else was faster
    run = rebuild(events)
    try:
        check_answer(run, answer)
        provider, tools = await reopen(server, run.start, events)
    except BaseException:
        journal.release(id, waiting=run.is_waiting)
        raise
    live = server.runs.reopen(run, provider, tools, events, await journal.previews(id), waits=waits)
    live.send(answer)
    await server.runs.sessions.resume(run)
    live.start(partial(report_broken, server))
    return live


def report_broken(server: Server, live: LiveRun) -> None:
    if live.error is not None:
        server.report(live.error, live.run)
    server.runs.sessions.over_soon(live.run.id)


async def reopen(
    server: Server, start: RunStarted, events: Sequence[Event] = ()
) -> tuple[Provider, Mapping[str, Tool]]:
    """What a run is driven with, from what its first event says; `events` are all there are of it."""
    if builds_page(start):
        from ronda.server.doors.app_stream.variants import reopen_page  # few runs do

        return await reopen_page(server, start, events)
    await server.toolbox.ready()
    from ronda.server.resources.supplies import reopen_tools  # few runs are opened again

    own = reopen_tools(server, start, server.toolbox.handlers_for(start, events))
    if server.named_servers is not None:
        own |= server.named_servers.of_run(start.run)
    if start.file is not None:
        from ronda.agent.reopen import job_of, kept_file  # few runs are of a file
        from ronda.agent.reopen import reopen as reopen_file

        files, path = server.agent_files, Path(start.file.path)
        prompty = kept_file(start.file, None if files is None else files.environment(path))
        agent, tools = await reopen_file(job_of(prompty, start), server.toolbox.lent_to(start.owner))
        declared = {spec.name for spec in start.plan.tools if spec.kind in DECLARED_KINDS}
        return agent.provider, {**own, **{name: tool for name, tool in tools.items() if name not in declared}}
    name = start.agent or "default"
    if start.version:  # the one that it began with, whatever it was called then
        name = f"{name.partition('@')[0]}@{start.version}"
    target = await server.models.find(name, start.owner)
    brought = target.tools
    if server.config.agent_tools:
        from ronda.server.exchange.agent_tools import tools_of_target

        brought = (*brought, *(await tools_of_target(server, target, start.owner))[0])
    if target.opener is not None:  # of a journal that keeps no files yet
        inputs = {name: msgspec.json.decode(value) for name, value in start.inputs.items()}
        brought = (await target.open(start.turns, inputs)).tools
    return target.provider, {**{tool.spec.name: tool for tool in brought}, **own}
