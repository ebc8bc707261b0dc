"""What all writers show in the same way, on runs that a script cannot have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.every_door import NAMES
from tests.wire.test_live_calls import WRITERS
from tests.wire.test_writers_read_the_log import ABOUT

from ronda.core.events import Event, ModelFinished, ModelStarted, RefusalDelta, RunFinished, RunStarted
from ronda.core.parts import AssistantTurn, Reasoning, Refusal, Text, Usage, user
from ronda.core.plan import NO_OPTIONS, Options, Plan, ResponseFormat
from ronda.core.run import rebuild

NO = "I will not."
HELD = Options(response_format=ResponseFormat("json_object"))


def written(name: str, *events: Event, options: Options = NO_OPTIONS) -> tuple[str, Any]:
    """The stream, and the plain answer."""
    start = RunStarted("run_1", Plan("m", options=options, stream=True), (user("go"),), 1.0, about=ABOUT)
    run = rebuild([start, *events])
    stream, plain = WRITERS[name]([run]), WRITERS[name]([run])
    plain.fold(0, events)
    return stream.feed(0, events).decode(), json.loads(plain.body())


@pytest.mark.parametrize("options", [NO_OPTIONS, HELD], ids=["free", "held"])
@pytest.mark.parametrize("name", NAMES)
def test_a_refusal_is_said_once(name: str, options: Options) -> None:
    turn = AssistantTurn((Refusal(NO),))
    stream, plain = written(
        name,
        ModelStarted(0),
        RefusalDelta(NO),
        ModelFinished(turn, Usage(1, 2), at=2.0),
        RunFinished("stop", at=2.0),
        options=options,
    )

    assert json.dumps(plain).count(NO) == 1
    assert stream.count(NO) == (5 if name == "responses" else 1)  # which says it again of each thing that is done


@pytest.mark.parametrize("name", NAMES)
def test_a_turn_that_came_whole_is_shown_in_its_own_order(name: str) -> None:
    turn = AssistantTurn((Text("one "), Reasoning("two "), Text("three")))
    stream, _ = written(name, ModelStarted(0), ModelFinished(turn, at=2.0), RunFinished("stop", at=2.0))

    assert stream.index("one ") < stream.index("two ") < stream.index("three")
