"""Sessions that runs continue: one request at a time enters, gets what was said, and its runs write back what they add.

    visit = await sessions.enter(owner, wish, run)     the session is this request's until its runs end
    turns = await visit.splice(turns, mode)            what the request means, after what was said
    await sessions.keep(run)                           at every end, before the answer ends

The lease is taken before the session is read. It is no fence: a process that was frozen and wakes up adds its run as a branch,
since the session has moved on. A process that died leaves its run in the journal: the next request writes that back first.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.parts import Turn
from ronda.core.splice import SessionMode, SplicedConversation, splice
from ronda.drive.offload import aside
from ronda.host.history import (
    History,
    Place,
    conversation_turns,
    generated_turns,
    history_of,
    is_in_session,
    new_node,
    place_of,
    skip_turns,
)
from ronda.host.leases import Hold, Key, Leases
from ronda.host.supervisor import Sleep
from ronda.journal.tally import first_words
from ronda.store.sessions import Sessions as SessionStore
from ronda.store.values.sessions import NO_BOUNDS, NO_LABELS, ROOT, Bounds, SessionRow
from ronda.wire.codec.json import encode
from ronda.wire.own.sessions import Labels
from ronda.wire.shared.door_request import SessionWish

if TYPE_CHECKING:
    from ronda.core.run import Run
    from ronda.store.claims import Claims

PRUNE_SECONDS: Final = 600.0
KNOWN_BYTES: Final = 2 << 20  # of turns, as JSON, that are kept decoded: they take several times that in memory
LIGHT_BYTES: Final = 128 << 10  # that are decoded on the spot: a few hundred microseconds
MOST_BRANCHES: Final = 16  # that a request is compared with
TITLE: Final = 80  # characters of a title that no client chose: a line of a list
MADE_NAME: Final = "sess_"  # how names begin that no client chose


class Visit:
    """The time in which the runs of one request continue a session, and no others do."""

    def __init__(self, sessions: SessionHost, hold: Hold, history: History) -> None:
        self.hold = hold
        self.history = history
        self.stood_at = ROOT if hold.row is None else hold.row.head
        self._sessions = sessions
        self._spliced: SplicedConversation | None = None

    async def splice(self, turns: Sequence[Turn], mode: SessionMode) -> tuple[Turn, ...]:
        """What the request means; turns that were spliced before, in the run that this one goes on from, are whole."""
        if self._spliced is not None:
            return tuple(turns)
        self._spliced = splice(self.history.turns, turns, mode, self.history.own)
        if mode == "auto" and self._spliced.new and self._spliced.kept < len(self.history.turns):
            await self._look_at_branches(turns)
        if self._spliced.kept == len(self.history.turns):
            known = self.history.known_in(self._spliced.turns, self._spliced.new)
            self._spliced = replace(self._spliced, turns=known)
        return self._spliced.turns

    async def _look_at_branches(self, turns: Sequence[Turn]) -> None:
        """What leaves the session's path may be on another that was left before: the newest that shares the most is meant."""
        assert self._spliced is not None
        for history in await self._sessions.branches(self.hold.key, self.stood_at):
            other = splice(history.turns, turns, "auto", history.own)
            if other.shared > self._spliced.shared:
                self._spliced, self.history = other, history

    def about(self, turns: tuple[Turn, ...], opened: tuple[Turn, ...]) -> dict[str, Raw]:
        """What a run keeps of it. `opened` are its turns with what an agent says around them."""
        spliced = self._spliced
        assert spliced is not None
        count = len(turns)
        new = spliced.new if turns is spliced.turns else count - skip_turns(turns, spliced.kept)
        at = next((at for at in range(len(opened) - count + 1) if opened[at : at + count] == turns), None)
        begins, asked = (0, conversation_turns(turns[count - new :])) if at is None else (at + count - new, ())
        parent = self.history.node_at(spliced.kept)
        return Place(self.hold.key[1], parent, spliced.kept, self.stood_at, begins, new, asked).about

    def scratch(self, provider: object) -> dict[str, Any]:
        """For a run that is alone in it: what this provider has written down of the session so far."""
        return self._sessions.scratch(self.hold.key, provider)

    async def leave(self) -> None:
        await self._sessions.leave(self)


class _KnownSession(Struct, frozen=True):
    """A session as it was when it was used last."""

    created: float
    head: int
    size: int
    history: History

    def is_before(self, place: Place) -> bool:
        """Not of a place on a branch, say."""
        return self.head == place.stood_at and self.history.node_at(place.upto) == place.parent


class SessionHost:
    """`find_run` reads a run of an owner's from the journal, with an end if it is not driven; `cancel` ends one that is under
    way here."""

    def __init__(
        self,
        store: SessionStore,
        claims: Claims,
        *,
        find_run: Callable[[str, str], Awaitable[Run | None]],
        cancel: Callable[[str, str], object],
        bounds: Bounds = NO_BOUNDS,
        max_queue: int = 32,
        clock: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.store = store
        self.leases = Leases(store, claims, clock, self._is_left, cancel, max_queue, sleep)
        self._find_run = find_run
        self._bounds = bounds
        self._clock = clock
        self._visits: dict[str, Visit] = {}  # by the runs that are under way in them
        self._known: OrderedDict[Key, _KnownSession] = OrderedDict()
        self._known_bytes = 0
        self._scratches: dict[Key, tuple[object, dict[str, Any]]] = {}
        self._next_prune = clock()

    # ---- going in and out --------------------------------------------------------------------------------------------

    async def enter(self, owner: str, wish: SessionWish, run: str) -> Visit:
        """Wait for the session, unless the request says otherwise. `run` is the first that is to continue it."""
        key = (owner, wish.name)
        hold = await self.leases.take(key, run, wish.on_busy)
        try:
            if hold.left is not None and await self._write_back(hold.left, owner):
                hold.row = await self.store.find(*key)
            if hold.row is None:
                hold.row = await self._begin_from_run(key)
            return Visit(self, hold, await self.history(key, hold.row))
        except BaseException:
            await hold.release()
            raise

    def begin(self, visit: Visit, runs: Sequence[str]) -> None:
        """These continue it, and it is over when they are."""
        visit.hold.under_way.update(runs)
        self._visits.update(dict.fromkeys(runs, visit))

    def visit_of(self, run: str) -> Visit | None:
        return self._visits.get(run)

    def hand_over(self, run: str, following: str) -> None:
        """The visit of one run is another's from now on."""
        if (visit := self._visits.pop(run, None)) is not None:
            self.begin(visit, [following])
            visit.hold.under_way.discard(run)

    async def resume(self, run: Run) -> None:
        """A run goes on that another process began, or that waited: with its session, unless another run continues that."""
        if is_in_session(run.start):
            hold = await self.leases.take_over((run.start.owner, place_of(run.start).name), run.id)
            if hold is not None:
                self.begin(Visit(self, hold, History()), [run.id])

    async def over(self, run: str) -> None:
        """This run is not driven any more, whether it has ended or not."""
        if (visit := self._visits.pop(run, None)) is not None:
            visit.hold.under_way.discard(run)
            if not visit.hold.under_way:
                await visit.hold.release()

    def over_soon(self, run: str) -> None:
        """The same, for callers that cannot wait."""
        if run in self._visits:
            self.leases.do_later("the release of a session", self.over(run))

    async def leave(self, visit: Visit) -> None:
        for run in visit.hold.under_way:
            self._visits.pop(run, None)
        await visit.hold.release()

    def now(self) -> float:
        return self._clock()

    async def close(self) -> None:
        await self.leases.close()

    async def _is_left(self, run: str, owner: str) -> bool:
        """Whether a run whose process is dead will not be resumed."""
        found = await self._find_run(run, owner)
        return found is None or found.ended is not None or not found.outlives

    async def find(self, key: Key) -> SessionRow | None:
        return await self.store.find(*key) or await self._begin_from_run(key)

    # ---- what was said -----------------------------------------------------------------------------------------------

    async def history(self, key: Key, row: SessionRow | None) -> History:
        """Up to the session's head; what was used lately need not be read again."""
        if row is None or row.head == ROOT:
            return History()
        known = self._known.get(key)
        if known is not None and (known.created, known.head) == (row.created, row.head):
            self._known.move_to_end(key)
            return known.history
        history = await self.read(key, row.head, row.size)
        self._remember(key, _KnownSession(row.created, row.head, row.size, history))
        return history

    def scratch(self, key: Key, provider: object) -> dict[str, Any]:
        if key not in self._known:
            return {}
        found = self._scratches.get(key)
        if found is None or found[0] is not provider:
            found = self._scratches[key] = (provider, {})
        return found[1]

    async def branches(self, key: Key, head: int) -> list[History]:
        """Those that are not the session's own path, newest first."""
        tips = [tip for tip in await self.store.tips(*key) if tip.number != head]
        return [await self.read(key, tip.number, LIGHT_BYTES + 1) for tip in tips[: -MOST_BRANCHES - 1 : -1]]

    async def read(self, key: Key, node: int, size: int) -> History:
        path = await self.store.path(*key, node)
        return history_of(path) if size <= LIGHT_BYTES else await aside(history_of, path)

    def _remember(self, key: Key, known: _KnownSession) -> None:
        before = self._known.pop(key, None)
        self._known_bytes += known.size - (0 if before is None else before.size)
        self._known[key] = known
        while self._known_bytes > KNOWN_BYTES and self._known:
            forgotten, oldest = self._known.popitem(last=False)
            self._scratches.pop(forgotten, None)
            self._known_bytes -= oldest.size

    # ---- writing back ------------------------------------------------------------------------------------------------

    async def keep(self, run: Run) -> None:
        """Write what a run added to its session, and let the next one in."""
        if is_in_session(run.start):
            try:
                await self._add(run)
            finally:
                await self.over(run.id)

    async def _add(self, run: Run) -> None:
        place = place_of(run.start)
        asked = place.turns or conversation_turns(run.start.turns[place.begins : place.begins + place.count])
        await self._add_node(run, place, asked)

    async def append(self, visit: Visit, run: Run, asked: tuple[Turn, ...]) -> None:
        """For a run without a server: what it was asked, and its result, behind what was said before."""
        count = len(visit.history.turns)
        place = Place(visit.hold.key[1], visit.history.node_at(count), count, visit.stood_at)
        await self._add_node(run, place, asked, visit.hold.key[0])

    async def _add_node(self, run: Run, place: Place, asked: tuple[Turn, ...], owner: str | None = None) -> None:
        generated = generated_turns(run)
        if not generated:  # it has no result: the next question is asked in the same place
            return
        made = (place.parent, place.upto, asked, generated, run.id)
        node = new_node(*made) if run.size <= LIGHT_BYTES else await aside(new_node, *made)
        key, now = (run.start.owner if owner is None else owner, place.name), self._clock()
        stood_at = place.stood_at if run.start.sibling == 0 else None
        visit = self._visits.get(run.id)
        hold = visit.hold if visit is not None and visit.hold.under_way == {run.id} else None
        lease = None if hold is None else hold.lease
        number, is_head = await self.store.add(
            *key, node, now, stood_at=stood_at, release=lease, labels=_first_title(place, asked)
        )
        if hold is not None:  # it ends with what its last run added
            hold.end()
        known = self._known.get(key)
        if is_head and known is not None and known.is_before(place):
            history = known.history.extend(number, place.upto, (*asked, *generated), len(asked))
            self._remember(key, _KnownSession(known.created, number, known.size + len(node.turns), history))
        if now >= self._next_prune:
            self._next_prune = now + PRUNE_SECONDS
            self.leases.do_later("the pruning of sessions", self.store.prune(self._bounds, now))

    async def _write_back(self, run: str, owner: str) -> bool:
        """A run whose process is gone."""
        left = await self._find_run(run, owner)
        if left is None or not is_in_session(left.start):
            return False
        left.recover()  # where another is just about to write its end, it has none yet: what was under way is over anyway
        await self._add(left)
        return True

    async def _begin_from_run(self, key: Key) -> SessionRow | None:
        """A client goes on from an answer that named a new session: it is the answer's run."""
        owner, name = key
        if not name.startswith(MADE_NAME):
            return None
        run = await self._find_run(f"run_{name.removeprefix(MADE_NAME)}", owner)
        if run is None or run.start.session != name or run.ended is None:
            return None
        node = new_node(ROOT, 0, conversation_turns(run.start.turns), generated_turns(run), run.id)
        await self.store.add(owner, name, node, self._clock(), stood_at=ROOT)
        return await self.store.find(owner, name)


def _first_title(place: Place, asked: Sequence[Turn]) -> Raw:
    """Of a session that begins: the first words of what it was asked. Its owner may give it another, or none."""
    if place.parent != ROOT or place.upto or not (words := first_words(asked[:1])):
        return NO_LABELS
    if len(words) > TITLE:
        cut = words[: TITLE - 1]
        at = cut.rfind(" ")  # between words, unless most of it is one of them
        words = (cut[:at] if at > TITLE // 2 else cut).rstrip() + "…"
    return Raw(encode(Labels(words)))
