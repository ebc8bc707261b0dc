"""Agents that hand over to each other: which tools an agent gets for that, and who goes on from a run that ended that way."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec import Raw, Struct, structs

from ronda.core.events import RunFinished, RunStarted
from ronda.core.parts import ToolTurn, Turn
from ronda.core.plan import ToolSpec
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.errors import BadRequest, ProtocolError, RondaError
from ronda.host.run import LiveRun
from ronda.server.answering.chain import Leg, OpenNext
from ronda.server.answering.opening import Job, OnOpened, Opening
from ronda.server.config import ServerConfig
from ronda.server.doors.mistral.history import turns_in
from ronda.server.services.agents import ServedAgent
from ronda.server.services.models import Models, Target
from ronda.server.services.runs import Runs
from ronda.server.services.toolbox import Toolbox
from ronda.wire.mistral.handoffs import (
    MOST_HANDOFFS,
    Execution,
    HandoffName,
    Ways,
    about_ways,
    answers_of,
    handed_before,
    handoff_of,
    hands_over,
    next_leg,
    tool_for,
    tool_names,
)
from ronda.wire.shared.door_request import DoorRequest


class _Way(Struct, frozen=True):
    """A tool that ends the run it is called in. It is never run: its spec says that it is the caller's."""

    spec: ToolSpec

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        raise ProtocolError(f"'{self.spec.name}' hands over, and is not run")


class HandoffOffer(Struct, frozen=True):
    """An agent with the tools that hand over, and who goes on when one of them is called."""

    target: Target
    ways: Ways | None = None
    agents: dict[str, ServedAgent] = {}


class Handoffs:
    def __init__(
        self, opening: Opening, runs: Runs, models: Models, toolbox: Toolbox, settings: Callable[[], ServerConfig]
    ) -> None:
        self._opening = opening
        self._runs = runs
        self._models = models
        self._toolbox = toolbox
        self._settings = settings

    async def offer_handoffs(
        self, target: Target, owner: str, request: DoorRequest, execution: Execution
    ) -> HandoffOffer:
        """What an agent may hand over to in this request: agents that are there, and could answer."""
        if not isinstance(target, ServedAgent):
            return HandoffOffer(target)
        targets = [await self._target(agent_id, owner) for agent_id in dict.fromkeys(target.agent.handoffs or ())]
        found = [agent for agent in targets if agent is not None]
        if not found:
            return HandoffOffer(target)
        taken = {*self._toolbox.names, *[spec.name for spec in (*target.declared, *request.tools)]}
        tools = tool_names([one.agent.name for one in found], taken | {tool.spec.name for tool in target.tools})
        agents = dict(zip(tools, found, strict=True))
        specs = tuple(
            [
                tool_for(tool, one.agent.name, one.agent.description, one.agent.instructions)
                for tool, one in agents.items()
            ]
        )
        me = HandoffName(target.id, target.agent.name)
        ways = Ways(me, {tool: HandoffName(one.id, one.agent.name) for tool, one in agents.items()}, execution)
        if self._settings().rounds_for(request.max_tool_rounds)[0] == 0:
            # Nothing of ours is offered then; a handoff is no round, and is not run.
            return HandoffOffer(structs.replace(target, declared=(*target.declared, *specs)), ways, agents)
        # Besides the agent's own tools: what it declares for the caller, a dispatch address may be asked to run.
        own: tuple[Tool, ...] = tuple([_Way(spec) for spec in specs])
        return HandoffOffer(structs.replace(target, tools=(*target.tools, *own)), ways, agents)

    async def _target(self, agent_id: str, owner: str) -> ServedAgent | None:
        try:
            found = await self._models.find(agent_id, owner)
        except RondaError:  # deleted since, or its model is gone
            return None
        return found if isinstance(found, ServedAgent) else None

    def next_of(
        self, owner: str, offered: HandoffOffer, ask: AskNext, added: OnOpened | None = None
    ) -> OpenNext | None:
        """Who goes on from a run that hands over; None for an agent that cannot."""
        if offered.ways is None:
            return None

        async def after(live: LiveRun) -> Leg | None:
            run = live.run
            if not hands_over(run):
                return None
            handoff, handed = handoff_of(run), handed_before(run) + 1
            assert handoff is not None
            turns = (*turns_in(run), ToolTurn(answers_of(run)))
            try:
                if handed > MOST_HANDOFFS:
                    raise BadRequest(
                        f"the agents handed over {MOST_HANDOFFS} times in this request, and '{handoff.previous.name}' wants to "
                        "again: change their instructions or handoffs so that one of them answers"
                    )
                job = await ask(offered.agents[handoff.call.name], turns, (run.id, live.facts), handed)
                visit = self._runs.sessions.visit_of(run.id)
                [following] = await self._opening.open_runs(owner, job, next_leg(run), visit)
                self._runs.sessions.hand_over(run.id, following.run.id)
            except RondaError as error:
                return Leg(self._fail_handoff(live, turns, error.public), added=added)
            return Leg(following, job.open_next, added)

        return after

    def _fail_handoff(self, live: LiveRun, turns: tuple[Turn, ...], why: str) -> LiveRun:
        """The next run could not be: that is said as a run that failed, for the client and for the journal."""
        run = live.run
        about = {name: value for name, value in run.start.about.items() if name not in ("ways", "prefix", "place")}
        about |= about_ways(None, handed_before(run) + 1)
        if "inputs" in about:
            about["inputs"] = Raw(b"[]")
        assert live.journal is not None
        session, owner, now = run.start.session, run.start.owner, time.time()
        started = RunStarted(
            next_leg(run), run.plan, turns, now, parent=(run.id, live.facts), session=session, owner=owner, about=about
        )
        failed = self._runs.new(started, live.provider, {}, live.journal)
        failed.end(RunFinished("failed", message=why, at=time.time()))
        return failed


# The next agent, the conversation so far, the run it goes on from, and how many handoffs this makes → what it is asked.
AskNext: TypeAlias = Callable[[ServedAgent, tuple[Turn, ...], tuple[str, int], int], Awaitable[Job]]
