"""Any history goes to any provider: strict stand-ins of all five take every projection, and the stored copy is not touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance import (
    anthropic_strict,
    gemini_strict,
    mistral_strict,
    openai_chat_strict,
    responses_strict,
)
from tests.wire.any_history import GEMINI, MISTRAL, OWN_ADDRESSES, SPOKEN, histories
from tests.wire.exchanges import request

from ronda.core.events import Event, ModelFinished, ModelStarted, RunStarted, ToolFinished, ToolStarted
from ronda.core.parts import AssistantTurn, ToolResult, ToolTurn, Turn, user
from ronda.core.plan import AUTO, Plan, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.run import rebuild
from ronda.core.transcript import repair
from ronda.providers import Where, open_provider
from ronda.wire.codec.json import in_pieces
from ronda.wire.upstream.native import maker

TOOLS = (ToolSpec("look"), ToolSpec("files.read", strict=True), ToolSpec("look_up"), ToolSpec("read_file"))
Strict = Callable[[bytes], list[str]]


def mistral(body: bytes) -> list[str]:
    request = json.loads(body)
    return [*mistral_strict.refusals(request), *mistral_strict.common_refusals(request)]


def gemini(model: str) -> Strict:
    return lambda body: gemini_strict.refusals(model, json.loads(body))


# What each is called, and who says no to what it sends.
TARGETS: dict[str, tuple[str, Strict]] = {
    "anthropic": ("anthropic:claude-sonnet-4-5", anthropic_strict.refusals),
    "anthropic, newer": ("anthropic:claude-opus-5-5", anthropic_strict.refusals),
    "gemini": (f"gemini:{GEMINI}", gemini(GEMINI)),
    "gemini, older": ("gemini:gemini-2.5-flash", gemini("gemini-2.5-flash")),
    "mistral": (f"mistral:{MISTRAL}", mistral),
    "openai": ("openai:gpt-5", lambda body: responses_strict.refusals(json.loads(body))),
    "openai, thoughtless": ("openai:gpt-4.1", lambda body: responses_strict.refusals(json.loads(body))),
    "openai-chat": ("openai-chat:gpt-5", lambda body: openai_chat_strict.refusals(json.loads(body))),
    "openai-chat, blind": ("openai-chat:gpt-4", lambda body: openai_chat_strict.refusals(json.loads(body))),
}


def request_of(turns: tuple[Turn, ...], tools: tuple[ToolSpec, ...], choice: ToolChoice = AUTO) -> ModelRequest:
    return request(*repair(turns), tools=tools, choice=choice)


def send(spec: str, turns: tuple[Turn, ...], tools: tuple[ToolSpec, ...] = TOOLS) -> bytes:
    provider: Any = open_provider(spec, Where())
    body: bytes = provider.capabilities.project(request_of(turns, tools)).body
    return body


def kept(turns: tuple[Turn, ...]) -> bytes:
    return msgspec.json.encode(turns)


@pytest.mark.parametrize("source", SPOKEN)
@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_history_of_one_provider_is_taken_by_any_other(source: str, target: str, data: st.DataObject) -> None:
    spec, refusals = TARGETS[target]
    turns = data.draw(histories(source))
    before = kept(turns)

    body = send(spec, turns, data.draw(st.sampled_from([TOOLS, ()])))

    assert (refusals(body), kept(turns)) == ([], before)


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
def test_a_session_may_change_its_model_at_every_turn(target: str, data: st.DataObject) -> None:
    spec, refusals = TARGETS[target]
    turns = data.draw(histories(*data.draw(st.permutations(list(SPOKEN)))))
    before = kept(turns)

    body = send(spec, turns, data.draw(st.sampled_from([TOOLS, ()])))

    assert (refusals(body), kept(turns)) == ([], before)


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
def test_texts_written_in_pieces_are_the_same_texts(target: str, data: st.DataObject) -> None:
    spec, _ = TARGETS[target]
    turns = data.draw(histories(*data.draw(st.permutations(list(SPOKEN)))))
    longest = data.draw(st.integers(1, 9))

    assert in_pieces(lambda: send(spec, turns), longest) == send(spec, turns)


# ---- crashes -----------------------------------------------------------------------------------------------------------


def journal_of(turns: list[tuple[AssistantTurn, list[ToolResult]]]) -> list[Event]:
    """What a run writes that hears these turns and gets these results."""
    tools = tuple([ToolSpec(name) for name in sorted({call.name for turn, _ in turns for call in turn.calls})])
    events: list[Event] = [RunStarted("run_1", Plan("m", tools, tool_calls="all"), (user("Go."),))]
    for round_index, (turn, results) in enumerate(turns):
        events += [ModelStarted(round_index), ModelFinished(turn)]
        events += [ToolStarted(call.id) for call in turn.calls]
        events += [ToolFinished(result) for result in results]
    return events


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=30)
@given(data=st.data())
def test_a_run_cut_after_any_event_goes_on_with_any_model(target: str, data: st.DataObject) -> None:
    spec, refusals = TARGETS[target]
    spoken = st.one_of([make() for make in SPOKEN.values()]).filter(
        lambda turn: (
            bool(turn.calls) and turn.stop == "tool_calls" and len({c.id for c in turn.calls}) == len(turn.calls)
        )
    )
    rounds = [
        (turn, [ToolResult(call.id, "ok") for call in turn.calls]) for turn in data.draw(st.lists(spoken, max_size=3))
    ]
    events = journal_of(rounds)
    run = rebuild(events[: data.draw(st.integers(1, len(events)))])
    run.recover()
    turns = (*run.turns, *([ToolTurn(run.results)] if run.results else []))
    before = kept(turns)

    for session in (turns, (*turns, user("Go on."))):
        assert refusals(send(spec, session)) == []
    assert kept(turns) == before


# ---- its own -----------------------------------------------------------------------------------------------------------

OWN = {
    "anthropic": "anthropic:claude-sonnet-4-5",
    "gemini": f"gemini:{GEMINI}",
    "mistral": f"mistral:{MISTRAL}",
    "openai": "openai:gpt-5",
    "openai-chat": "openai-chat:m",
}


OWN_MAKERS = {
    *[maker(api, url, None) for api, url in OWN_ADDRESSES.items()],
    *[f"gemini:{GEMINI}", f"mistral:{MISTRAL}", "openai-chat:models.example"],
}


@pytest.mark.parametrize("source", OWN)
@given(data=st.data())
def test_what_a_provider_said_goes_back_to_it_byte_for_byte(source: str, data: st.DataObject) -> None:
    turn = data.draw(SPOKEN[source]())
    results = ToolTurn(tuple([ToolResult(call.id, "ok") for call in turn.calls]))
    where = Where("https://models.example/v1") if source == "openai-chat" else Where()
    provider: Any = open_provider(OWN[source], where)
    turns: tuple[Turn, ...] = (user("Go."), turn, *([results] if turn.calls else []), user("Go on."))

    body = provider.capabilities.project(request_of(turns, TOOLS)).body

    if turn.native is not None and turn.native.api in OWN_MAKERS:
        said = bytes(turn.native.payload)
        # Thoughts that came to nothing or would be looked up, and ids longer than the API's own, are refused by their maker.
        thoughts = [item for item in json.loads(said) if item["type"] == "reasoning"] if source == "openai" else []
        own_fault = source == "openai" and (
            json.loads(said)[-1] in thoughts
            or any("encrypted_content" not in item for item in thoughts)
            or b"zzz" in said
        )
        if not own_fault:
            assert (said[1:-1] if said[:1] == b"[" and source != "mistral" else said) in body
