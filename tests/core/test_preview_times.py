"""When previews came: said of the first of a model call, and then now and again."""

from __future__ import annotations

from tests.driving import drive

from ronda.core.events import Event, ModelFinished, Preview, RunStarted, TextDelta
from ronda.core.parts import AssistantTurn, Text, user
from ronda.core.plan import Plan
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Show


class Clocked:
    """Shows a word, and lets time pass before the next."""

    def __init__(self, *words: tuple[str, float]) -> None:
        self.words = words
        self.now = 100.0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        for word, seconds in self.words:
            batch: list[Preview] = [TextDelta(word), TextDelta("!")]
            show(batch)
            self.now += seconds
        return ModelFinished(AssistantTurn((Text("".join([f"{word}!" for word, _ in self.words])),)))


async def played(model: Clocked) -> list[Event]:
    run = Run(RunStarted("run", Plan(model="test"), (user("go"),)))
    events: list[Event] = []
    await drive(run, provider=model, tools={}, emit=events.extend, now=lambda: model.now)
    return events


async def test_pieces_that_come_close_together_do_not_all_say_when() -> None:
    events = await played(Clocked(("a", 0.01), ("b", 0.03), ("c", 0.02), ("d", 5.0), ("e", 0.0)))
    timed = [(event.text, event.at) for event in events if type(event) is TextDelta and event.at]
    assert timed == [("a", 100.0), ("d", 100.06), ("e", 105.06)]
    [finished] = [event for event in events if type(event) is ModelFinished]
    assert (finished.first_at, finished.at) == (100.0, 105.06)


async def test_an_answer_of_which_nothing_was_shown_has_no_first_time() -> None:
    [finished] = [event for event in await played(Clocked()) if type(event) is ModelFinished]
    assert finished.first_at == 0.0


def test_previews_are_equal_if_they_show_the_same() -> None:
    assert TextDelta("a", at=1.0) == TextDelta("a")
    assert hash(TextDelta("a", at=1.0)) == hash(TextDelta("a"))
    assert TextDelta("a") != TextDelta("b")
