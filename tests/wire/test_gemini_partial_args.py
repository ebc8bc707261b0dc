"""Gemini's arguments in pieces (`partialArgs`): they come to the call that would have come whole."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.exchanges import watched
from tests.wire.gemini_chunks import MODEL, call, chunk, contents, plain, signed
from tests.wire.test_gemini_client import events

from ronda.core.events import CallDelta, ModelFinished, Preview
from ronda.core.parts import Text, ToolCall, ToolResult, ToolTurn, user
from ronda.errors import UpstreamBroken
from ronda.wire.gemini.client_answer import Naming, Reader

NAMING = Naming(MODEL, run="run", round=2)


def piece(*partial: Any, more: bool = True, **members: Any) -> dict[str, Any]:
    said: dict[str, Any] = {**members}
    if partial:
        said["partialArgs"] = list(partial)
    return {"functionCall": {**said, "willContinue": True} if more else said}


def at(path: str, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value}


def watch(*chunks: Any, naming: Naming = NAMING) -> tuple[list[Preview], ModelFinished]:
    return watched(Reader(naming), events(*chunks))


def shown(previews: list[Preview]) -> list[str]:
    return [preview.arguments for preview in previews if type(preview) is CallDelta]


def test_arguments_in_pieces_are_shown_as_they_come_and_come_to_one_call() -> None:
    previews, finished = watch(
        chunk(signed(piece(name="write", id="w1"))),
        chunk(piece(at("$.path", stringValue="a.txt"))),
        chunk(piece(at("$.text", stringValue='one "', willContinue=True))),
        chunk(piece(at("$.text", stringValue='two"\n', willContinue=True))),
        chunk(piece(at("$.how.bold", boolValue=True), at("$.how.sizes[0]", numberValue=1.5))),
        chunk(piece(at("$.how.sizes[1]", numberValue=2), at("$['a note']", nullValue="NULL_VALUE"))),
        chunk(piece(more=False), finish="STOP"),
    )
    args = {"path": "a.txt", "text": 'one "two"\n', "how": {"bold": True, "sizes": [1.5, 2]}, "a note": None}

    assert finished == plain(signed(call("write", args, "w1")))
    assert shown(previews)[:4] == ["", '{"path":"a.txt', '","text":"one \\"', 'two\\"\\n']
    assert "".join(shown(previews)) == finished.turn.calls[0].arguments
    back = contents(user("go"), finished.turn, ToolTurn((ToolResult("w1", "ok"),)))
    assert back[1]["parts"] == [signed(call("write", args, "w1"))]


def test_calls_follow_one_another_and_text_may_stand_between() -> None:
    _, finished = watch(
        chunk({"text": "Both."}),
        chunk(piece(at("$.n", numberValue=1), name="look")),
        chunk(piece(more=False)),
        chunk(piece(at("$.n", numberValue=2), name="look", more=False)),
        chunk(piece(name="ring")),
        chunk({"functionCall": {"name": "look", "args": {"n": 3}}}),
        chunk({"functionCall": {}}, finish="STOP"),
    )

    assert finished.turn.parts == (
        Text("Both."),
        ToolCall("gemini_run_2_0", "look", '{"n":1}'),
        ToolCall("gemini_run_2_1", "look", '{"n":2}'),
        ToolCall("gemini_run_2_2", "ring", "{}"),
        ToolCall("gemini_run_2_3", "look", '{"n":3}'),
    )


def test_a_call_cut_by_length_stays_cut() -> None:
    begun = [chunk(piece(name="write")), chunk(piece(at("$.text", stringValue="on")))]
    _, finished = watch(*begun, chunk(finish="MAX_TOKENS"))

    assert (finished.turn.stop, finished.turn.calls[0].arguments) == ("length", '{"text":"on')
    assert watch(*begun, chunk(finish="STOP"))[1].turn.calls[0].arguments == '{"text":"on"}'
    with pytest.raises(UpstreamBroken):
        watch(*begun)


@pytest.mark.parametrize(
    "partial",
    [
        [at("$.a", stringValue="x"), at("$.b", stringValue="y"), at("$.a", stringValue="z")],
        [at("$.a", numberValue=1), at("$.a", numberValue=2)],
        [at("$.a", numberValue=1), at("$.a.b", numberValue=2)],
        [at("$.a.b", numberValue=1), at("$.a", numberValue=2)],
        [at("$.a[1]", numberValue=1)],
        [at("$[0]", numberValue=1)],
        [at("$", stringValue="x")],
        [at("a.b", stringValue="x")],
        [at("$..a", stringValue="x")],
        [{"stringValue": "x"}],
        [at("$.a", stringValue=7)],
        [at("$['a\\q']", stringValue="x")],
    ],
)
def test_what_is_no_document_breaks_the_answer(partial: list[Any]) -> None:
    with pytest.raises(UpstreamBroken):
        watch(chunk(piece(*partial, name="look", more=False), finish="STOP"))


WORDS = st.text(st.characters(codec="utf-8"), max_size=6)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(WORDS, inner, min_size=1, max_size=3),
    max_leaves=8,
)


def pieces_of(value: Any, path: str, data: st.DataObject) -> list[Any]:
    match value:
        case dict():
            return [one for name, item in value.items() for one in pieces_of(item, f"{path}[{json.dumps(name)}]", data)]
        case list():
            return [one for n, item in enumerate(value) for one in pieces_of(item, f"{path}[{n}]", data)]
        case bool():
            return [at(path, boolValue=value)]
        case str():
            cut = data.draw(st.integers(0, len(value)))
            return [at(path, stringValue=value[:cut], willContinue=True), at(path, stringValue=value[cut:])]
        case None:
            return [at(path, nullValue=None)]
        case _:
            return [at(path, numberValue=value)]


@given(st.dictionaries(WORDS, VALUES, max_size=4), st.data())
def test_any_object_in_pieces_is_the_object(args: dict[str, Any], data: st.DataObject) -> None:
    chunks = [chunk(piece(name="look"))]
    chunks += [chunk(piece(one)) for one in pieces_of(args, "$", data)]
    previews, finished = watch(*chunks, chunk(piece(more=False), finish="STOP"))

    assert finished == plain(call("look", args))
    assert "".join(shown(previews)) == finished.turn.calls[0].arguments
