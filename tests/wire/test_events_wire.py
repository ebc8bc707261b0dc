"""A run's events as JSON: what is written is read again, fits its schema, and leaves out what no client may see."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.any_event import EVENTS

from ronda.core.events import Event, NativeDelta, RunStarted, TextDelta, ToolStarted
from ronda.core.parts import SystemTurn, user
from ronda.core.plan import Options, Plan, ToolSpec
from ronda.schema.validate import Validator
from ronda.wire.own.events import VERSION, WireEvent, schema, wire_event, write_frame

write = msgspec.json.Encoder().encode
read = msgspec.json.Decoder(WireEvent).decode

SCHEMA = schema()
FITS = Validator(SCHEMA)


@given(EVENTS)
def test_what_is_written_is_read_again(event: Event) -> None:
    said = wire_event(event)
    if said is None:
        return
    written = write(said)

    again = read(written)

    assert json.loads(write(again)) == json.loads(written)
    assert type(again) is type(said)


@given(EVENTS)
def test_what_is_written_fits_the_schema(event: Event) -> None:
    said = wire_event(event)
    if said is not None:
        assert FITS.explain(json.loads(write(said))) is None


def test_every_kind_of_event_but_a_providers_own_is_said() -> None:
    tags = {kind.__struct_config__.tag for kind in get_args(Event) if kind is not NativeDelta}

    # One follows other events, and is made of them.
    assert {*SCHEMA["discriminator"]["mapping"]} == tags | {"call_preview"}


@given(EVENTS, st.dictionaries(st.sampled_from(["newer", "x_trace", "z"]), st.integers(), min_size=1))
def test_members_that_are_newer_than_the_reader_are_passed_over(event: Event, more: dict[str, int]) -> None:
    said = wire_event(event)
    if said is None:
        return
    written = json.loads(write(said))

    assert read(json.dumps({**more, **written}).encode()) == read(json.dumps(written).encode())


SECRET = "kept to ourselves"


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {*value, *[key for one in value.values() for key in keys(one)]}
    return {key for one in value for key in keys(one)} if isinstance(value, list) else set()


@given(EVENTS)
def test_a_providers_own_json_is_never_said(event: Event) -> None:
    said = wire_event(event)

    assert said is None or not keys(json.loads(write(said))) & {"native", "plan", "owner", "about", "held", "rewrite"}


def test_instructions_and_how_a_run_is_kept_are_not_said() -> None:
    plan = Plan("script:x", (ToolSpec("look", SECRET),), options=Options(extra={}))
    start = RunStarted("run_1", plan, (SystemTurn(SECRET), user("hi")), 1.0, owner=SECRET)
    said = wire_event(start)
    assert said is not None

    assert SECRET.encode() not in write(said)
    assert json.loads(write(said)) == {
        "type": "run_started",
        "version": VERSION,
        "run": "run_1",
        "model": "script:x",
        "tools": ["look"],
        "turns": [{"type": "user", "parts": [{"type": "text", "text": "hi"}]}],
        "at": 1.0,
    }


def test_a_frame_has_the_position_and_the_kind() -> None:
    assert (
        write_frame("12.345", TextDelta("é"))
        == 'id: 12.345\nevent: text_delta\ndata: {"type":"text_delta","text":"é"}\n\n'.encode()
    )
    assert write_frame("12", ToolStarted("c1", name="look")).startswith(b"id: 12\nevent: tool_started\n")
