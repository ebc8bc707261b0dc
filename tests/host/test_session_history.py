"""A session's history grows node by node; read from its nodes it is the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ronda.core.parts import AssistantTurn, KnownTurns, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, Turn, user
from ronda.core.sizes import LARGE, turns_size
from ronda.core.transcript import repair
from ronda.host.history import History, history_of, new_node
from ronda.store.values.sessions import NodeRow

CALL = AssistantTurn((ToolCall("c", "look", "{}"),), "tool_calls")
RESULT = ToolTurn((ToolResult("c", "seen"),))
NODES: list[tuple[tuple[Turn, ...], int]] = [
    ((user("a"), AssistantTurn((Text("b"),))), 1),
    ((user("a"), CALL, RESULT, user("hurry"), AssistantTurn((Text("b"),))), 1),
    ((user("a"), CALL), 1),
    ((RESULT, AssistantTurn((Text("b"),))), 1),
]


@st.composite
def growths(draw: st.DrawFn) -> list[tuple[tuple[Turn, ...], int, int]]:
    """Nodes, and how much of what was there each leaves."""
    length, found = 0, []
    for _ in range(draw(st.integers(1, 8))):
        turns, asked = draw(st.sampled_from(NODES))
        upto = length if draw(st.booleans()) else draw(st.integers(0, length))
        found.append((turns, asked, upto))
        length = upto + len(turns)
    return found


@given(growths())
def test_a_history_that_grew_is_the_one_that_is_read(growth: list[tuple[tuple[Turn, ...], int, int]]) -> None:
    grown, rows = History(), dict[int, NodeRow]()
    path: list[int] = []
    for number, (turns, asked, upto) in enumerate(growth, 1):
        parent = grown.node_at(upto)
        node = new_node(parent, upto, turns[:asked], turns[asked:])
        rows[number] = NodeRow(parent, upto, node.turns, node.count, node.asked, "", number, 0.0)
        grown = grown.extend(number, upto, turns, asked)
        path = [*path[: path.index(parent) + 1], number] if parent else [number]
        read = history_of([rows[one] for one in path])
        assert (read.turns, read.own, read.ends) == (grown.turns, grown.own, grown.ends)
        assert grown.size in (0, turns_size(grown.turns, LARGE))
        if grown.size:
            assert repair(grown.turns) is grown.turns


@given(growths(), st.booleans())
def test_what_is_known_of_a_history_changes_nothing(
    growth: list[tuple[tuple[Turn, ...], int, int]], instructed: bool
) -> None:
    history = History()
    for number, (turns, asked, upto) in enumerate(growth, 1):
        history = history.extend(number, upto, turns, asked)
    lead = (SystemTurn("Be kind."),) if instructed else ()
    for new in ((user("z"),), (user("y"), CALL), (RESULT, user("z"))):
        whole = (*lead, *history.turns, *new)
        known = history.known_in(whole, len(new))
        assert known == whole
        assert turns_size(known, LARGE) == turns_size(whole, LARGE)
        count = known.known if isinstance(known, KnownTurns) else 0
        assert list(repair(known, count)) == list(repair(whole))
