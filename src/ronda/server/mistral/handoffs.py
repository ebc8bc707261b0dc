"""Requests whose agents hand over to each other: runs one after another, each the child of the one before, to one writer.

Each is an ordinary run, journaled and driven as any other. This only makes the next one when one has ended that way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Raw, Struct, structs

from ronda.core.events import Event, RunFinished
from ronda.core.parts import ToolTurn, Turn
from ronda.core.plan import ToolSpec
from ronda.core.run import Run
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.errors import BadRequest, ProtocolError, RondaError
from ronda.host.log import START, Position
from ronda.host.run import Folding, LiveRun, Outcome
from ronda.server.door import Exchange
from ronda.server.follow import Following
from ronda.server.mistral.agents import ServedAgent
from ronda.server.mistral.history import Busy, place_of, said_in
from ronda.server.models import Served
from ronda.server.toolbox import Offer
from ronda.wire.asked import AnswerOptions, Asked
from ronda.wire.mistral.completion import CompletionAnswer
from ronda.wire.mistral.conversation import ConversationAnswer
from ronda.wire.mistral.handoffs import (
    MOST_HANDOFFS,
    Execution,
    Named,
    Ways,
    about_ways,
    answers_of,
    goes_on,
    handed_before,
    handoff_of,
    tool_for,
    tool_names,
)

if TYPE_CHECKING:
    from ronda.server.app import Server


class _Way(Struct, frozen=True):
    """A tool that ends the run it is called in. Nobody runs it: its spec says that it is the caller's."""

    spec: ToolSpec

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        raise ProtocolError(f"'{self.spec.name}' hands over, and is not run")


class Offered(Struct, frozen=True):
    """An agent with the tools that hand over, and who goes on when one of them is called."""

    served: Served
    ways: Ways | None = None
    agents: dict[str, ServedAgent] = {}


async def offered(server: Server, served: Served, owner: str, asked: Asked, execution: Execution) -> Offered:
    """What an agent may hand over to in this request: agents that are there, and could answer."""
    if not isinstance(served, ServedAgent):
        return Offered(served)
    targets = [await _target(server, id, owner) for id in dict.fromkeys(served.agent.handoffs or ())]
    found = [agent for agent in targets if agent is not None]
    if not found:
        return Offered(served)
    taken = {*server.toolbox.names, *[spec.name for spec in (*served.declared, *asked.tools)]}
    tools = tool_names([one.agent.name for one in found], taken | {tool.spec.name for tool in served.tools})
    agents = dict(zip(tools, found, strict=True))
    specs = tuple(
        [tool_for(tool, one.agent.name, one.agent.description, one.agent.instructions) for tool, one in agents.items()]
    )
    me = Named(served.id, served.agent.name)
    ways = Ways(me, {tool: Named(one.id, one.agent.name) for tool, one in agents.items()}, execution)
    if server.config.rounds_for(asked.max_tool_rounds)[0] == 0:
        # Nothing of ours is offered then; a handoff is no round, and needs nobody to run it.
        return Offered(structs.replace(served, declared=(*served.declared, *specs)), ways, agents)
    # Beside the agent's own tools: what it declares for the caller, a dispatch address may be asked to run.
    own: tuple[Tool, ...] = tuple([_Way(spec) for spec in specs])
    return Offered(structs.replace(served, tools=(*served.tools, *own)), ways, agents)


async def _target(server: Server, id: str, owner: str) -> ServedAgent | None:
    try:
        found = await server.models.find(id, owner)
    except RondaError:  # deleted since, or its model is gone
        return None
    return found if isinstance(found, ServedAgent) else None


# The next agent, the conversation so far, the run it goes on from, and how many handoffs this makes → its exchange.
AskNext: TypeAlias = "Callable[[ServedAgent, tuple[Turn, ...], tuple[str, int], int], Awaitable[Handing]]"


class Handing(Exchange):
    """An exchange whose runs may hand over. The next agent has an exchange of its own, and the writer of the first."""

    given: Offered | None = None
    ask_next: AskNext | None = None
    is_first = True
    begin: Callable[[], None] | None = None  # tells the writer that this run goes on from the one before

    @property
    def _may_hand_over(self) -> bool:
        return self.given is not None and self.given.ways is not None

    def _about(self, turns: tuple[Turn, ...], opened: tuple[Turn, ...], answer: AnswerOptions) -> dict[str, Raw]:
        return {**super()._about(turns, opened, answer), **(place_of(turns, opened) if self._may_hand_over else {})}

    async def _prepare(self) -> None:
        await super()._prepare()
        if self.is_first and self._may_hand_over:
            self._lives = [_Chain(self, live) for live in self._lives]

    async def added(self, run: Run) -> None:
        """A run of this request was journaled, and is about to be driven."""

    async def after(self, live: LiveRun, first: Handing, sibling: int) -> Handing:
        """The exchange that goes on from a run that handed over."""
        run, handed = live.run, handed_before(live.run) + 1
        turns = (*said_in(run), ToolTurn(answers_of(run)))
        try:
            if handed > MOST_HANDOFFS:
                raise BadRequest(
                    f"the agents handed over {MOST_HANDOFFS} times in this request, and '{_name(run)}' wants to again: "
                    "change their instructions or handoffs so that one of them answers"
                )
            handoff = handoff_of(run)
            assert handoff is not None
            assert self.ask_next is not None
            assert self.given is not None
            following = await self.ask_next(self.given.agents[handoff.call.name], turns, (run.id, live.facts), handed)
            following._follow(first, sibling)
            await following._prepare()
        except Busy:
            raise
        except RondaError as error:
            return await self._failed(live, first, sibling, turns, str(error))
        return following

    def _follow(self, first: Handing, sibling: int) -> None:
        """Say everything to the writer of the first exchange, which hears of this run when it comes to it."""
        writer = first._writer
        assert isinstance(writer, ConversationAnswer | CompletionAnswer)

        def go_on(runs: Sequence[Run]) -> ConversationAnswer | CompletionAnswer:
            self.begin = partial(writer.go_on, sibling, runs[0])
            return writer

        self._make_writer = go_on
        self.is_first = False

    async def _failed(self, live: LiveRun, first: Handing, sibling: int, turns: tuple[Turn, ...], why: str) -> Handing:
        """The next run could not be: that is said as a run that failed, for whoever listens and for the journal."""
        run = live.run
        assert self._served is not None
        about = {name: value for name, value in run.start.about.items() if name not in ("ways", "prefix", "place")}
        about |= about_ways(None, handed_before(run) + 1)
        if "inputs" in about:
            about["inputs"] = Raw(b"[]")
        end = type(self)(self._server, self._request, self._asked, self._make_writer, self._write_error, self._served)
        end._follow(first, sibling)
        failed = self._server.runs.new(
            run.plan,
            turns,
            provider=self._served.provider,
            offer=Offer((), {}),
            owner=run.start.owner,
            session=run.start.session,
            parent=(run.id, live.facts),
            about=about,
            keep=self._asked.keep,
        )
        end._lives = [failed]
        await self.added(failed.run)
        end._make_writer([failed.run])
        failed.end(RunFinished("failed", message=why, at=time.time()))
        return end


def _name(run: Run) -> str:
    handoff = handoff_of(run)
    return handoff.previous.name if handoff is not None else ""


class _Chain(LiveRun):
    """Runs one after another, in one task, seen as the run that is under way or was the last."""

    __slots__ = ("_first", "_waiter", "is_broken", "is_over", "links")

    def __init__(self, first: Handing, live: LiveRun) -> None:
        self.run = live.run
        self.journal = live.journal
        self.task = None
        self.error = None
        self.cancel_was_asked = False
        self.links: list[tuple[LiveRun, Callable[[], None] | None]] = [(live, None)]
        self.is_over = False
        self.is_broken = False
        self._first: Handing | None = first
        self._waiter: asyncio.Future[None] | None = None

    def follow(self, after: Position | None = START) -> Following:  # type: ignore[override]  # several followers as one
        return _ChainFollower(self)

    def fold_into(self, writer: Folding) -> None:
        for live, begin in self.links:
            if begin is not None:
                begin()
            assert live.log is not None
            writer.fold(self.links[0][0].run.start.sibling, live.log.facts[1:])

    def wake(self, waiter: asyncio.Future[None] | None) -> None:
        """Have this future set when another run goes on, or none will."""
        self._waiter = waiter

    def _news(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def drive(self) -> Outcome:
        self.task = asyncio.current_task()
        begun, first = self.run, self._first
        live, _ = self.links[0]
        assert first is not None
        now = first
        try:
            while True:
                try:
                    await live.drive()
                finally:
                    self.cancel_was_asked = live.cancel_was_asked
                if not goes_on(live.run):
                    return "finished"
                now = await now.after(live, first, begun.start.sibling)
                live = now._lives[0]
                self.run = live.run
                self.links.append((live, now.begin))
                self._news()
                if live.run.ended is not None:
                    return "finished"
        except Exception as error:
            self.run = begun  # whoever says that it broke down needs to know which of the choices did
            self.error = error
            raise
        finally:
            # It has this in its list, and the task knows us: a cycle would leave every request to the collector.
            self._first = self.task = None
            self._close()

    def _close(self) -> None:
        if not self.is_over:
            self.is_over, self.is_broken = True, self.error is not None
            self.links[-1][0]._close()
            self._news()


class _ChainFollower:
    """One run after the other, as one stream."""

    def __init__(self, chain: _Chain) -> None:
        self._chain = chain
        self._at = 0
        self._follower = chain.links[0][0].follow()

    def pull(self) -> list[Event]:
        events = self._follower.pull()
        if not events and self._follower.is_over and self._at + 1 < len(self._chain.links):
            self._follower.close()
            self._at += 1
            live, begin = self._chain.links[self._at]
            if begin is not None:
                begin()
            self._follower = live.follow()
            events = self._follower.pull()
        return events

    @property
    def is_over(self) -> bool:
        chain = self._chain
        return chain.is_over and self._follower.is_over and self._at + 1 == len(chain.links)

    @property
    def is_broken(self) -> bool:
        return self._chain.is_broken

    def wake(self, waiter: asyncio.Future[None]) -> None:
        self._follower.wake(waiter)
        self._chain.wake(waiter)

    def close(self) -> None:
        self._follower.close()
        self._chain.wake(None)
