"""The five writers are functions of a run's log: what they write depends on nothing else, and on no moment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from tests.core.test_invariants import broken_scripts, choices, facts, played_in_order, scripts
from tests.interaction.every_door import NAMES, read_stream
from tests.wire.test_live_calls import WRITERS

from ronda.core.events import Event, LogprobsDelta, RunStarted, TextDelta
from ronda.core.limits import Limits, Retry
from ronda.core.plan import NO_OPTIONS, Options, ResponseFormat
from ronda.core.run import Run, rebuild
from ronda.providers.script import Line

ONCE = Retry(tries=1)
LOGPROBS = LogprobsDelta(Raw(b'{"content":[{"token":"a","logprob":-0.1,"bytes":[97],"top_logprobs":[]}]}'))
PLANS = st.fixed_dictionaries(
    {
        "choice": choices,
        "tool_calls": st.sampled_from(["all", "first"]),
        "options": st.sampled_from(
            [
                NO_OPTIONS,
                Options(extra={"logprobs": Raw(b"true")}),
                Options(response_format=ResponseFormat("json_object")),
            ]
        ),
    }
)
ABOUT = {
    "conversation": Raw(b'"conv_1"'),
    "model": Raw(b'"m"'),
    "inputs": Raw(b"[]"),
    "chat": Raw(b'{"model":"m","warnings":["so so"],"include_usage":true}'),
    "message": Raw(b'{"model":"m","warnings":["so so"]}'),
    "answer": Raw(b'{"model":"m","warnings":["so so"]}'),
    "response": Raw(b'{"model":"m","warnings":["so so"]}'),
}


def log_of(lines: Sequence[Line], plan: dict[str, Any], probable: Sequence[bool], retry: Retry = ONCE) -> list[Event]:
    """A run that was watched, from its first event to its last, with probabilities behind some of its text."""
    _, [start, *events] = played_in_order([*lines, lines[-1]], retry, limits=Limits(rounds=9), **plan)
    assert isinstance(start, RunStarted)
    log: list[Event] = [replace(start, about=ABOUT)]
    chances = iter(probable)
    for event in events:
        log.append(event)
        if type(event) is TextDelta and next(chances, False):
            log.append(LOGPROBS)
    return log


def watched(name: str, log: Sequence[Event]) -> list[bytes]:
    """What a writer writes that is there while it happens, event by event."""
    [start, *events] = log
    assert isinstance(start, RunStarted)
    run = Run(start)
    writer = WRITERS[name]([run])
    written: list[bytes] = []
    for event in events:
        run.apply(event)
        written.append(writer.feed(0, [event]))
    return written


PROBABLE = st.lists(st.booleans(), max_size=12)
SCRIPTS = scripts | broken_scripts


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(SCRIPTS, PLANS, PROBABLE, st.data())
def test_the_bytes_do_not_depend_on_how_events_were_batched(
    name: str, lines: list[Line], plan: dict[str, Any], probable: list[bool], data: st.DataObject
) -> None:
    log = log_of(lines, plan, probable)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(log)), max_size=6)))
    run = rebuild(facts(log))
    writer = WRITERS[name]([run])
    batched = b""
    for begin, end in zip([1, *cuts], [*cuts, len(log)], strict=True):
        batched += writer.feed(0, log[begin:end])

    assert batched == b"".join(watched(name, log))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(SCRIPTS, PLANS, PROBABLE)
def test_an_answer_written_from_the_log_alone_is_the_one_that_was_sent(
    name: str, lines: list[Line], plan: dict[str, Any], probable: list[bool]
) -> None:
    log = log_of(lines, plan, probable)
    read: list[Event] = msgspec.json.decode(msgspec.json.encode(log), type=list[Event])
    writer = WRITERS[name]([rebuild(facts(read))])

    assert b"".join([writer.feed(0, [event]) for event in read[1:]]) == b"".join(watched(name, log))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(broken_scripts, PLANS)
def test_a_log_that_has_lost_its_previews_says_the_same(name: str, lines: list[Line], plan: dict[str, Any]) -> None:
    log = log_of(lines, plan, (), Retry(tries=1, on_interrupt="again"))
    run = rebuild(facts(log))
    heard = [
        read_stream(name, WRITERS[name]([run]).feed(0, [event for event in kept if type(event) is not RunStarted]))
        for kept in (log, facts(log))
    ]

    assert (heard[0].text, heard[0].reasoning) == (heard[1].text, heard[1].reasoning)


@pytest.mark.parametrize("name", ["chat", "completions"])
@settings(max_examples=40)
@given(st.tuples(SCRIPTS, SCRIPTS), PLANS, st.lists(st.booleans(), max_size=40))
def test_a_choice_is_the_same_whatever_the_other_one_does(
    name: str, lines: tuple[list[Line], list[Line]], plan: dict[str, Any], turns: list[bool]
) -> None:
    logs = [log_of(one, plan, ()) for one in lines]
    alone = [_choice(WRITERS[name]([rebuild(facts(log))]).feed(0, log[1:]), 0) for log in logs]
    both = WRITERS[name]([rebuild(facts(log)) for log in logs])
    written, rest = b"", [log[1:] for log in logs]
    for index in [*map(int, turns), *[0] * len(rest[0]), *[1] * len(rest[1])]:
        if rest[index]:
            written += both.feed(index, [rest[index].pop(0)])

    assert [_choice(written, 0), _choice(written, 1)] == alone


def _choice(stream: bytes, index: int) -> list[Any]:
    """What a stream says of one of its choices; which of them that is does not matter."""
    blocks = [block.rpartition("data: ")[2] for block in stream.decode().split("\n\n") if block]
    chunks = [json.loads(data) for data in blocks if data != "[DONE]"]
    choices = [choice for chunk in chunks for choice in chunk.get("choices", ()) if choice["index"] == index]
    return [{**choice, "index": 0} for choice in choices]
