"""The five writers, on runs made up by Hypothesis: what goes out as it arrives is what the run hands over in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.core.test_invariants import choices, facts, played_in_order, scripts
from tests.interaction.every_door import NAMES, Heard, read_plain, read_stream

from ronda.core.arguments import recover
from ronda.core.events import Event
from ronda.core.limits import Limits, Retry
from ronda.core.plan import ToolChoice
from ronda.core.run import Run
from ronda.providers.script import Line
from ronda.wire.anthropic.server_answer import MessageAnswer
from ronda.wire.mistral.conversation_answer import ConversationAnswer
from ronda.wire.mistral.server_answer import CompletionAnswer
from ronda.wire.openai_chat.server_answer import ChatAnswer
from ronda.wire.openai_responses.server_answer import ResponseAnswer

WRITERS: dict[str, Callable[[Sequence[Run]], Any]] = {
    "chat": ChatAnswer,
    "responses": ResponseAnswer,
    "messages": MessageAnswer,
    "completions": CompletionAnswer,
    "conversations": ConversationAnswer,
}


def streamed(name: str, run: Run, events: list[Event], *, alone: bool) -> Heard:
    writer = WRITERS[name]([run])
    batches = [[event] for event in events] if alone else [events]
    return read_stream(name, b"".join([writer.feed(0, batch) for batch in batches]))


def called(heard: Heard) -> list[tuple[str, Any]]:
    """Arguments as what they mean, where they mean something: Messages has objects, so what is whole is written anew there, with
    slips mended and what cannot be read under a name of its own; what went out as it arrived is the model's own text."""
    return [(name, _read(arguments)) for name, arguments in heard.calls]


def _read(arguments: str) -> Any:
    recovered = recover(arguments or "{}")  # as every client reads no text at all
    return recovered.value.get("INVALID_JSON", recovered.value) if recovered is not None else arguments


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(scripts, choices, st.sampled_from(["all", "first"]))
def test_a_stream_hands_out_the_calls_that_the_plain_answer_has(
    name: str, lines: list[Line], choice: ToolChoice, tool_calls: Any
) -> None:
    plan = {"choice": choice, "tool_calls": tool_calls, "limits": Limits(rounds=9)}
    run, [_, *events] = played_in_order([*lines, lines[-1]], Retry(tries=1), **plan)
    about = {"conversation": Raw(b'"conv_1"'), "model": Raw(b'"m"'), "inputs": Raw(b"[]")}
    shown = Run(msgspec.structs.replace(run.start, about=about))
    for event in events:
        shown.apply(event)
    plain = WRITERS[name]([shown])
    plain.fold(0, facts(events))
    assert shown.ended is not None
    watched = streamed(name, shown, events, alone=True)

    assert called(streamed(name, shown, events, alone=False)) == called(watched)
    assert called(streamed(name, shown, facts(events), alone=True)) == called(watched)
    if shown.ended.reason != "failed":
        assert called(watched) == called(read_plain(name, plain.body()))
        assert [one for one, _ in watched.calls] == [call.name for call in shown.open_calls]
