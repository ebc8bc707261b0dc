"""Runs under way in this process: who drives them, who follows them, and how their events get into the journal."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw

from ronda.core.events import Event, RunFinished, RunStarted
from ronda.core.parts import AssistantTurn, ToolTurn, Turn, UserTurn
from ronda.core.plan import Plan
from ronda.core.run import Run, rebuild
from ronda.core.transcript import continued
from ronda.drive import Provider, ToolContext, ToolOutput
from ronda.host.log import START, Follower, Log
from ronda.host.run import Host, LiveRun
from ronda.journal import Journal, JournalConflict
from ronda.journal.memory import MemoryJournal
from ronda.server.toolbox import Offer
from ronda.store.claims import Claims

_HANDED_OUT = 4096  # calls of mixed turns that are remembered, beside what the journal knows
_SAME_ID = 16  # conversations whose calls have the same id
_AT_ONCE = 256  # turns that are looked at before other requests have their turn
LEFT = "the server ended, or broke down, while this was under way"


# The calls that a run leaves to its caller → what else they may be called when their results come.
OtherIds: TypeAlias = Callable[[Run], list[str]]


async def _start_child(
    live: LiveRun, context: ToolContext, agent: Any, inputs: dict[str, Any], mode: str
) -> ToolOutput:
    from ronda.agent.children import start_child  # most agents start no other

    return await start_child(live, context, agent, inputs, mode)


class Runs:
    def __init__(self, journal: Journal, claims: Claims) -> None:
        self.journal = journal
        self.memory = MemoryJournal()  # of runs that whoever asked does not want kept; gone with the process
        self.host = Host(claims)
        self.live = self.host.live
        self.logs = self.host.logs
        self._handed: dict[tuple[str, str], list[_Handed]] = {}  # by owner and call, the oldest first

    @property
    def stopping(self) -> bool:
        return self.host.is_stopping

    def new(
        self,
        plan: Plan,
        turns: tuple[Turn, ...],
        *,
        provider: Provider,
        offer: Offer,
        owner: str = "",
        session: str = "",
        parent: tuple[str, int] | None = None,
        sibling: int = 0,
        about: dict[str, Raw] | None = None,
        keep: Literal["stored", "memory"] = "stored",
        said: Sequence[Turn] = (),
        other_ids: OtherIds | None = None,
    ) -> LiveRun:
        """A run whose input is journaled, and which nobody drives yet. `said`: the conversation as the caller knows it."""
        started = RunStarted(new_id("run"), plan, turns, time.time(), parent, session, owner, sibling, about or {})
        journal = self.journal if keep == "stored" else self.memory
        journal.append(started.run, [started])
        run = Run(started)
        live = LiveRun(run, provider, offer.handlers, journal, self.host)
        if plan.tools:
            live.exclusive = self.host.exclusive_in(owner, session or run.id)
            live.start_child_of = _start_child
            live.add_tap(partial(self._hand_out, run, journal, tuple(said) or turns, other_ids))
        return live

    def _hand_out(
        self, run: Run, journal: Journal, said: tuple[Turn, ...], other_ids: OtherIds | None, batch: Sequence[Event]
    ) -> None:
        """Let the caller's next request find a run that leaves calls to it."""
        if run.ended is None or run.ended.reason != "tool_calls":
            return
        ids = [] if other_ids is None else other_ids(run)
        if run.runs_tools:  # half of this turn is ours
            open_calls = [call.id for call in run.open_calls]
            self.handed_out(run, open_calls, said)
            ids += open_calls
        if ids:
            journal.expect(run.start.owner, ids, run.id)

    async def read(self, id: str, owner: str) -> list[Event]:
        """The events of a run that was stored; none for one that is not there, or not this owner's."""
        events = await self.journal.read(id)
        if not events or type(events[0]) is not RunStarted or events[0].owner != owner:
            return []
        is_over = type(events[-1]) is RunFinished or id in self.live
        return events if is_over else await self._left(id, events)

    async def _left(self, id: str, events: list[Event]) -> list[Event]:
        """Where nobody drives it any more, a run is told with an end; the journal keeps it as it was left."""
        try:
            events = await self.journal.resume(id)
        except JournalConflict:
            return events  # under way, in another process
        self.journal.release(id)
        if not events or type(events[-1]) is RunFinished:  # pruned, or finished, meanwhile
            return events
        last = max([getattr(event, "at", 0.0) for event in events])
        return [*events, *rebuild(events).recover(), RunFinished("failed", message=LEFT, at=last)]

    def follow(self, events: Sequence[Event]) -> Follower:
        """Everything that happens in a run after its beginning; `events` are what the journal has of it."""
        assert type(events[0]) is RunStarted
        id = events[0].run
        live = self.live.get(id)
        return Log.of(events, self.logs.previews(id)).follow(START) if live is None else live.follow()

    def cancel(self, id: str, owner: str) -> LiveRun | None:
        """End a run that is under way here; None if there is none."""
        live = self.live.get(id)
        if live is None or live.run.start.owner != owner:
            return None
        live.cancel_was_asked = True
        live.cancel()
        return live

    async def rejoin(self, turns: tuple[Turn, ...], owner: str) -> tuple[tuple[Turn, ...], tuple[str, int] | None]:
        """Put our half of mixed turns back where the caller's half stands, and what we did before it.

        A caller sends back its own calls and their results. The run that handed them out knows the whole turn: the rounds
        the caller never saw, the sibling calls, their results.
        """
        joined: list[Turn] = []
        parent: tuple[str, int] | None = None
        asker: tuple[Run, tuple[str, int]] | None = None  # whose turn stands last
        for at, turn in enumerate(turns):
            if at % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            ids = _ids(turn)
            before = joined[-1] if joined else None
            if type(turn) is AssistantTurn:
                asker = await self._waiting(owner, ids, joined) if ids else None
                if asker is not None:
                    run, parent = asker
                    joined += _unsaid(run.generated, joined)
                    continue
            elif type(turn) is ToolTurn:
                asked_here = type(before) is AssistantTurn and bool({call.id for call in before.calls} & ids)
                if not asked_here:
                    found = await self._waiting(owner, ids, joined)
                elif asker is None:
                    found = await self._waiting(owner, ids, joined, before=1)
                else:
                    found = asker if ids <= {call.id for call in asker[0].open_calls} else None
                if found is not None and not asked_here:  # the caller sent the results alone
                    run, parent = found
                    joined += run.turns if at == 0 else run.generated
                if found is not None:
                    joined[-1:] = continued(joined[-1:], (turn,), found[0].results)
                    continue
            joined.append(turn)
        return tuple(joined), parent

    def handed_out(self, run: Run, ids: Sequence[str], said: Sequence[Turn]) -> None:
        """Remember whose calls these are. Models that count their calls give the same ids in every conversation."""
        words = _last_words(said)
        for id in ids:
            key = (run.start.owner, id)
            known = self._handed.pop(key, [])
            self._handed[key] = [*known[1 - _SAME_ID :], _Handed(run.id, words, _since_user(said))]
        while len(self._handed) > _HANDED_OUT:
            del self._handed[next(iter(self._handed))]

    async def _waiting(
        self, owner: str, ids: set[str], said: Sequence[Turn], before: int = 0
    ) -> tuple[Run, tuple[str, int]] | None:
        """The run that waits for the results of these calls. `said`, without the last `before` turns: what the caller says
        was said before them, which an id alone does not tell; one who brings nothing but results is taken at its word."""
        for id in ids:
            known = self._handed.get((owner, id), [])
            for journal in (self.memory, self.journal):
                last = await journal.waiting(owner, id)
                if last is None and not known:
                    continue  # nearly always: the caller runs all tools itself
                context = said[: len(said) - before]
                words, since = _last_words(context), _since_user(context)
                handed = [one for one in reversed(known) if words in (b"", one.words)]
                if len({one.words for one in handed if not one.is_answered}) > 1:
                    return None  # nothing tells them apart, and a guess could show one conversation to the other
                handed.sort(key=partial(_fits, since))
                by_name = {one.run: one for one in handed}
                for name in dict.fromkeys([*by_name, *([last] if last is not None else [])]):
                    if not (events := await journal.read(name)):
                        continue
                    run = rebuild(events)
                    is_its = name in by_name or words in (b"", *[_last_words([turn]) for turn in run.start.turns])
                    if is_its and ids <= {call.id for call in run.open_calls}:
                        if name in by_name:
                            by_name[name].is_answered = True
                        return run, (name, len(events))
        return None

    async def close(self) -> None:
        await self.stop()
        await self.journal.close()

    async def stop(self, timeout: float = 1.5) -> None:
        await self.host.stop(timeout)


def _since_user(turns: Sequence[Turn]) -> int:
    return next((at for at, turn in enumerate(reversed(turns)) if type(turn) is UserTurn), len(turns))


class _Handed:
    """A run that handed a call out, and by what its conversation is known: the user's last words, and the turns since."""

    __slots__ = ("is_answered", "run", "since", "words")

    def __init__(self, run: str, words: bytes, since: int) -> None:
        self.run = run
        self.words = words
        self.since = since
        self.is_answered = False


def _fits(since: int, one: _Handed) -> tuple[bool, bool]:
    """What is sorted first is meant first."""
    return one.since != since, one.is_answered


def _last_words(turns: Sequence[Turn]) -> bytes:
    """What the user said last, in few bytes. It tells conversations apart; nothing if the user has said nothing."""
    for turn in reversed(turns):
        if type(turn) is UserTurn:
            return hashlib.blake2b(msgspec.msgpack.encode(turn.parts), digest_size=16).digest()
    return b""


def new_id(kind: str) -> str:
    return f"{kind}_{os.urandom(12).hex()}"


def _ids(turn: Turn) -> set[str]:
    if type(turn) is AssistantTurn:
        return {call.id for call in turn.calls}
    return {result.call_id for result in turn.results} if type(turn) is ToolTurn else set()


def _unsaid(generated: list[Turn], said: list[Turn]) -> list[Turn]:
    """A run's turns without its earlier rounds, where the caller has sent those back itself."""
    before = generated[:-1]
    tail = said[-len(before) :] if before else []
    same = [type(a) is type(b) and _ids(a) == _ids(b) for a, b in zip(tail, before, strict=False)]
    return generated[-1:] if len(same) == len(before) and all(same) else generated
