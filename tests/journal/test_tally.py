"""What is counted of a run is what its usages add up to."""

from __future__ import annotations

from functools import reduce
from operator import add

from hypothesis import given
from hypothesis import strategies as st

from ronda.core.events import ModelFinished
from ronda.core.parts import NO_USAGE, AssistantTurn, Usage
from ronda.journal.tally import Tally

numbers = st.integers(0, 1000)
usages = st.builds(Usage, numbers, numbers, numbers, numbers, cost=st.none() | st.integers(0, 100).map(float))


@given(st.lists(usages | st.just(NO_USAGE), max_size=5))
def test_the_figures_of_a_run_are_the_sum_of_its_usages(used: list[Usage]) -> None:
    tally = Tally()
    tally.add([ModelFinished(AssistantTurn(()), usage) for usage in used])
    total = reduce(add, used, NO_USAGE)

    figures = tally.figures
    assert (figures.input, figures.output, figures.cached, figures.reasoning, figures.cost) == (
        total.input,
        total.output,
        total.cached,
        total.reasoning,
        total.cost,
    )
