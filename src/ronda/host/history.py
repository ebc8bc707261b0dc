"""A session's nodes → what was said in it; a run of a session → what it adds. Knows no store and no lease."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import RunStarted
from ronda.core.parts import AssistantTurn, KnownTurns, SystemTurn, Text, ToolTurn, Turn, UserTurn
from ronda.core.sizes import LARGE, turns_size
from ronda.core.taint import CLEAN, marks_in
from ronda.core.transcript import repair, whole_results
from ronda.store.values.sessions import ROOT, NewNode, NodeRow

if TYPE_CHECKING:
    from ronda.core.run import Run

SESSION_PLACE: Final = "session"  # where a run keeps its place

decode_turns = msgspec.json.Decoder(tuple[Turn, ...]).decode
encode = msgspec.json.Encoder().encode


class History(Struct, frozen=True):
    """What was said in a session, up to a node. `own`: places of turns that no request brought."""

    turns: tuple[Turn, ...] = ()
    own: frozenset[int] = frozenset()
    ends: tuple[tuple[int, int], ...] = ()  # of each node: its number, and how many turns there are behind it
    size: int = 0  # of all turns, as `core.sizes` counts; 0 where a call is not answered, or it was not counted
    whole: frozenset[str] = (
        frozenset()
    )  # files that have all of results of which these turns have a part; with a `size`
    marks: frozenset[str] = CLEAN  # of what these turns have read; with a `size`

    def node_at(self, count: int) -> int:
        """The node in which so many turns end; -1 if there are fewer."""
        if count == 0:
            return ROOT
        at = bisect_left(self.ends, count, key=itemgetter(1))
        return self.ends[at][0] if at < len(self.ends) else -1

    def up_to(self, count: int) -> History:
        """Its first turns, where so many end with a node."""
        ends = tuple([one for one in self.ends if one[1] <= count])
        return History(self.turns[:count], frozenset([place for place in self.own if place < count]), ends)

    def extend(self, number: int, upto: int, turns: tuple[Turn, ...], asked: int) -> History:
        """With another node behind its first `upto` turns."""
        added = _own_places(upto, turns, asked)
        own, ends = self.own, self.ends
        if upto < len(self.turns):
            own = frozenset([at for at in own if at < upto])
            cut = bisect_left(ends, upto, key=itemgetter(1))
            ends = (*ends[:cut], (ends[cut][0], upto)) if upto else ()
        size = 0
        if (self.size or not self.turns) and upto == len(self.turns) and _is_whole(turns):
            size = self.size + turns_size(turns, LARGE)
        all_turns = (*self.turns[:upto], *turns)
        own, ends = own.union(added) if added else own, (*ends, (number, len(all_turns)))
        if not size:
            return History(all_turns, own, ends)
        return History(all_turns, own, ends, size, self.whole | whole_results(turns), self.marks | marks_in(turns))

    def known_in(self, turns: tuple[Turn, ...], new: int) -> tuple[Turn, ...]:
        """The same turns, of which this is the beginning but for instructions; `new` of them are behind it."""
        lead = len(turns) - new - len(self.turns)
        if not self.size or lead < 0 or not all(type(turn) is SystemTurn for turn in turns[:lead]):
            return turns
        size = self.size + turns_size(turns[:lead], LARGE)
        return KnownTurns.of(turns, lead + len(self.turns), size, self.whole, self.marks)


def _is_whole(turns: tuple[Turn, ...]) -> bool:
    """Whether nothing before or behind them is needed to make sense of their calls."""
    return type(turns[0]) is UserTurn and repair(turns) is turns


def _own_places(upto: int, turns: Sequence[Turn], asked: int) -> list[int]:
    """What people said to a run that was under way."""
    return [upto + index for index in range(asked, len(turns)) if type(turns[index]) is UserTurn]


def history_of(path: Sequence[NodeRow]) -> History:
    turns: list[Turn] = []
    own: set[int] = set()
    ends: list[tuple[int, int]] = []
    for index, node in enumerate(path):
        del turns[node.upto :]
        if own:
            own = {place for place in own if place < node.upto}
        added = decode_turns(node.turns)
        own.update(_own_places(node.upto, added, node.asked))
        turns += added
        ends.append((node.number, path[index + 1].upto if index + 1 < len(path) else node.ends))
    all_turns = tuple(turns)
    size = turns_size(all_turns, LARGE) if all_turns and _is_whole(all_turns) else 0
    if not size:
        return History(all_turns, frozenset(own), tuple(ends))
    return History(all_turns, frozenset(own), tuple(ends), size, whole_results(all_turns), marks_in(all_turns))


class Place(Struct, frozen=True, omit_defaults=True):
    """Kept with a run: where in its session it goes on, and where in its input the request's turns are."""

    name: str
    parent: int
    upto: int
    stood_at: int  # the session's head when the run began
    begins: int = 0
    count: int = 0
    turns: tuple[Turn, ...] = ()  # where they are not in its input as they came: an agent has put its words among them

    @property
    def about(self) -> dict[str, Raw]:
        return {SESSION_PLACE: Raw(encode(self))}


_decode_place = msgspec.json.Decoder(Place).decode


def is_in_session(start: RunStarted) -> bool:
    """Whether a run continues a session."""
    return SESSION_PLACE in start.about


def place_of(start: RunStarted) -> Place:
    return _decode_place(start.about[SESSION_PLACE])


def conversation_turns(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Those that a session keeps: instructions are the request's."""
    return tuple([turn for turn in turns if type(turn) is not SystemTurn])


def skip_turns(turns: Sequence[Turn], count: int) -> int:
    """Where so many turns that a session keeps lie behind one."""
    at = 0
    while count:
        count -= type(turns[at]) is not SystemTurn
        at += 1
    return at


def generated_turns(run: Run) -> tuple[Turn, ...]:
    """What a run added to its conversation, as it stands: results of a turn that is not complete included."""
    turns = list(conversation_turns(run.generated))
    if turns and type(turns[-1]) is AssistantTurn and run.results:
        turns.append(ToolTurn(run.results))
    if run.ended is not None and run.ended.answer:
        turns.append(AssistantTurn((Text(run.ended.answer),)))
    return tuple(turns)


def new_node(parent: int, upto: int, asked: Sequence[Turn], generated: Sequence[Turn] = (), run: str = "") -> NewNode:
    turns = (*asked, *generated)
    return NewNode(parent, upto, encode(turns), len(turns), len(asked), run)
