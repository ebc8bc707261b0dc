"""A run that no process drives → the same run, driven here: with the model and the tools that its first event names.

    journal.read ──► is there something to drive? ──► journal.resume ──► previews, model, tools, session ──► LiveRun

What cannot be opened again (a tool that is gone) is a call that fails; a stored agent that is gone ends the run. A file is opened
as it was when the run began. A run that waits for people is only read: it is resumed when one of them answers (`answers`), or
when the time of a question is up. Which runs are opened again, and what becomes of one that cannot be, is in `recovery`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from ronda.core.events import Event, Fact, Recovered, RunFinished, RunStarted
from ronda.core.run import Run, rebuild
from ronda.drive import Provider, Tool
from ronda.drive.offload import load
from ronda.errors import RondaError
from ronda.host.extension import tell_facts
from ronda.host.recovery import previews_of_round, seconds_left
from ronda.host.run import LiveRun
from ronda.journal.holds import release_on_error
from ronda.server.http.rights import rights_of, use_rights
from ronda.server.services.agents import AgentFolder
from ronda.server.services.models import Models, Target, TargetTools
from ronda.server.services.runs import BROKEN_OFF, Runs
from ronda.server.services.toolbox import DECLARED_KINDS, Toolbox
from ronda.store import StoreError
from ronda.tools.loop_pools import close_shared

if TYPE_CHECKING:
    from ronda.server.services.supplies import Supplier

Over: TypeAlias = Callable[[LiveRun], None]


class Reopening(Struct, frozen=True):
    """What a run is driven on with."""

    provider: Provider
    tools: Mapping[str, Tool]


class ReopeningFeatures(Protocol):
    """What is asked of the server's features."""

    async def ready(self) -> None: ...

    async def reopen(self, start: RunStarted, events: Sequence[Event]) -> Reopening | None:
        """All of a run that a feature began itself."""

    async def reopen_tools(self, start: RunStarted, events: Sequence[Event]) -> Mapping[str, Tool]: ...

    async def target_tools(self, target: Target, owner: str) -> TargetTools: ...


class Reopener:
    """`supplier` is called for the first run."""

    def __init__(
        self,
        runs: Runs,
        models: Models,
        toolbox: Toolbox,
        features: ReopeningFeatures,
        supplier: Callable[[], Supplier],
        agent_folder: Callable[[], AgentFolder | None],
    ) -> None:
        self._runs = runs
        self._models = models
        self._toolbox = toolbox
        self._features = features
        self._supplier = supplier
        self._agent_folder = agent_folder

    async def take_up(self, run_id: str, over: Over, *, was_driven: bool = True) -> LiveRun | None:
        """Drive on a run that no process drives; None if there is nothing to drive. `over` is called when it is over.
        `was_driven`: by a process that is gone; else it has only been queued, if nothing has happened in it. Raises
        JournalConflict if it is driven."""
        journal = self._runs.journal
        if not self._is_left(await journal.read(run_id)):
            return None
        events = await journal.resume(run_id)
        with release_on_error(journal, run_id):
            if not self._is_left(events):  # another process was faster, and has ended it or left it waiting
                journal.release(run_id)
                return None
            run = rebuild(events)
            previews = await journal.previews(run_id)
            facts: list[Fact] = run.recover(previews_of_round(events, previews))
            if not run.outlives or run.start.call:
                await self._end(run, [*facts, RunFinished("interrupted", message=BROKEN_OFF, at=time.time())])
                return None
            if not run.is_waiting and (was_driven or len(events) > 1):
                recovered = Recovered(time.time())
                run.apply(recovered)
                facts.append(recovered)
            try:
                use_rights(rights_of(run.start))
                provider, tools = await self.reopen(run.start, events)
            except StoreError:  # which says nothing of the run
                raise
            except RondaError as error:
                message = f"it cannot go on: {error}"
                await self._end(run, [*facts, RunFinished("failed", message=message, at=time.time())])
                return None
            await self._runs.sessions.resume(run)
            # From here on nothing waits, so that nothing comes between what is written and who drives on from it.
            try:
                if facts:
                    journal.append(run_id, facts)
                live = self._runs.reopen(run, provider, tools, [*events, *facts], previews)
                live.start(over)
            except BaseException:
                self._runs.sessions.over_soon(run_id)
                raise
            return live

    def _is_left(self, events: list[Event]) -> bool:
        """Whether there is something to drive. A run that waits for people has nothing, until the time of a question is up."""
        if not events or type(events[-1]) is RunFinished:
            return False
        run = rebuild(events)
        if run.is_waiting and seconds_left(run) and not run.start.call:
            self._runs.left_waiting(run)
            return False
        return True

    async def _end(self, run: Run, facts: list[Fact]) -> None:
        """Of a run that is held: it is not driven on."""
        journal = self._runs.journal
        await self._runs.sessions.keep(run)
        journal.append(run.id, facts)
        await journal.barrier(run.id)
        tell_facts(self._runs.host.extensions, run, facts)
        journal.release(run.id)

    async def reopen_waiting(self, run_id: str, *, waits: bool) -> LiveRun:
        """A run that waits for people, held for an answer: it is to be started, or left again. `waits`: as with
        `Runs.new`. Raises JournalConflict if it is driven."""
        journal = self._runs.journal
        events = await journal.resume(run_id)
        with release_on_error(journal, run_id):
            run = rebuild(events)
            use_rights(rights_of(run.start))
            provider, tools = await self.reopen(run.start, events)
            previews = await journal.previews(run_id)
            await self._runs.sessions.resume(run)
            return self._runs.reopen(run, provider, tools, events, previews, waits=waits)

    async def reopen(self, start: RunStarted, events: Sequence[Event] = ()) -> tuple[Provider, Mapping[str, Tool]]:
        """What a run is driven with, from what its first event says; `events` are all there are of it."""
        if (whole := await self._features.reopen(start, events)) is not None:
            return whole.provider, whole.tools
        await self._features.ready()
        await load("ronda.server.services.supplies", "ronda.tools.files.documents")
        own = self._supplier().reopen_tools(start, self._toolbox.handlers_for(start))
        own |= await self._features.reopen_tools(start, events)
        if start.file is not None:
            await load("ronda.agent.reopen")
            from ronda.agent.reopen import job_of, kept_file  # few runs are of a file
            from ronda.agent.reopen import reopen as reopen_file

            folder, path = self._agent_folder(), Path(start.file.path)
            prompty = kept_file(start.file, None if folder is None else folder.environment(path))
            agent, tools = await reopen_file(job_of(prompty, start), self._toolbox.lent_to(start.owner))
            declared = {spec.name for spec in start.plan.tools if spec.kind in DECLARED_KINDS}
            return agent.provider, {**own, **{name: tool for name, tool in tools.items() if name not in declared}}
        target = await named_target(self._models, start)
        brought = (*target.tools, *(await self._features.target_tools(target, start.owner)).tools)
        if target.opener is not None:  # of a journal that keeps no files yet
            inputs = {name: msgspec.json.decode(value) for name, value in start.inputs.items()}
            brought = (await target.open(start.turns, inputs)).tools
        return target.provider, {**{tool.spec.name: tool for tool in brought}, **own}

    async def close(self) -> None:
        """The MCP servers that files of runs named."""
        await close_shared()


async def named_target(models: Models, start: RunStarted) -> Target:
    """Who a run of no file was begun with. Raises NotFound where that is gone."""
    if not start.agent and start.plan.model != models.default.spec:  # one of several models, by its own spec
        found = await models.find_named(start.plan.model, start.owner)
        if found is not None:
            return found
    name = start.agent or "default"
    if start.version:  # the one that it began with, whatever it was called then
        name = f"{name.partition('@')[0]}@{start.version}"
    return await models.find(name, start.owner)
