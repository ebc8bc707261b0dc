"""What is shown of a call's arguments while they are written: right at every cut, and in the end what runs."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda import tool
from ronda.core.parts import ToolCall
from ronda.core.plan import ToolSpec
from ronda.errors import BadConfig
from ronda.wire.codec.partial_json import Patch
from ronda.wire.shared.preview import CallPreview, Previews, write_patches

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def seen(patches: Sequence[Patch], path: tuple[str | int, ...]) -> Any:
    """The value at a path, for one who knows patches alone; None before there is one."""
    value: Any = None
    for patch in patches:
        below = patch.path[len(path) :]
        if not below:
            value = copy.deepcopy(patch.value) if patch.op == "set" else value + patch.value
            continue
        place = value
        for key in below[:-1]:
            place = place[key]
        last = below[-1]
        if patch.op == "append":
            place[last] += patch.value
        elif isinstance(place, list) and last == len(place):
            place.append(copy.deepcopy(patch.value))
        else:
            place[last] = copy.deepcopy(patch.value)
    return value


def cut(text: str, dice: Random) -> list[str]:
    pieces, at = [], 0
    while at < len(text):
        size = dice.randint(1, dice.choice((1, 4, 30, 2000)))
        pieces.append(text[at : at + size])
        at += size
    return pieces


@given(st.dictionaries(st.sampled_from(["content", "path", "other"]), VALUES), st.booleans(), st.randoms())
def test_the_last_patch_makes_it_what_runs(arguments: dict[str, Any], ascii: bool, dice: Random) -> None:
    text = json.dumps(arguments, ensure_ascii=ascii)
    preview = CallPreview(["/content"])

    patches = [patch for piece in cut(text, dice) for patch in preview.feed(piece)] + preview.close(text)

    assert seen(patches, ("content",)) == arguments.get("content")
    assert all(patch.path[:1] == ("content",) for patch in patches)


@given(st.text(), st.text(), st.booleans(), st.booleans())
def test_a_text_only_grows_and_nothing_around_it_leaks(content: str, path: str, ascii: bool, first: bool) -> None:
    """At every prefix, with the text before or behind another member."""
    members = {"content": content, "path": path} if first else {"path": path, "content": content}
    text = json.dumps(members, ensure_ascii=ascii)
    preview, shown = CallPreview(["/content"]), ""
    for sign in text:
        for patch in preview.feed(sign):
            assert patch.path == ("content",)
            shown = patch.value if patch.op == "set" else shown + patch.value
        assert content.startswith(shown)

    assert shown == content
    assert preview.close(text) == []


def test_a_long_document_at_random_cuts() -> None:
    dice = Random(14)
    content = "".join(dice.choice(["<p>", '"', "\\", "\n", "é", "漢", "😀", "x" * 50]) for _ in range(140_000))
    text = json.dumps({"content": content, "path": "index.html"})
    preview = CallPreview(["/content"])

    patches = [patch for piece in cut(text, dice) for patch in preview.feed(piece)]

    assert len(content) > 900_000
    assert "".join([patch.value for patch in patches]) == content
    assert [patch.op for patch in patches[:2]] == ["set", "append"]


def test_arguments_that_were_repaired_are_shown_as_they_run() -> None:
    preview = CallPreview(["/content"])
    shown = preview.feed('```json\n{"content": "hi",}\n```')

    assert shown == []
    assert preview.close('{"content":"hi"}') == [Patch("set", ("content",), "hi")]
    assert preview.close('{"content":"hi"}') == []


def test_what_is_gone_in_the_end_is_taken_back() -> None:
    preview = CallPreview(["/a/content"])

    patches = preview.feed('{"a": {"content": "x"}, "a": {}}')

    assert seen(patches, ("a", "content")) is None
    assert preview.close('{"a": {}}') == []


@given(st.lists(st.text(), max_size=4))
def test_an_index_in_a_pointer_is_an_index(texts: list[str]) -> None:
    preview = CallPreview(["/edits/1/new_text"])

    patches = preview.feed(json.dumps({"edits": [{"new_text": text} for text in texts]}))

    assert seen(patches, ("edits", 1, "new_text")) == (texts[1] if len(texts) > 1 else None)
    assert all(row["path"] == "/edits/1/new_text" for row in write_patches(patches))


def test_a_name_that_comes_in_pieces_loses_nothing() -> None:
    previews = Previews({"create_file": ToolSpec("create_file", preview=("/content",)), "other": ToolSpec("other")})
    first = previews.add(0, "", "create", '{"content": "a')
    then = previews.add(0, "c1", "create_file", 'b"}')

    assert first is None
    assert then is not None
    assert seen(then.patches, ("content",)) == "ab"
    assert previews.close_turn([ToolCall("c1", "create_file", '{"content": "ab"}')]) == []


def test_calls_that_came_whole_are_shown_when_the_turn_is() -> None:
    previews = Previews({"create_file": ToolSpec("create_file", preview=("/content",))})

    (patches,) = previews.close_turn([ToolCall("c1", "create_file", '{"content": "ab"}')])

    assert (patches.place, patches.id, list(patches.patches)) == (0, "c1", [Patch("set", ("content",), "ab")])


def test_a_callers_tool_has_none() -> None:
    previews = Previews({"theirs": ToolSpec("theirs", kind="caller", preview=("/x",))})

    assert not previews


def test_what_is_no_pointer_is_refused() -> None:
    with pytest.raises(BadConfig, match="'content'"):

        @tool(preview=["content"])
        def write(content: str) -> str:
            """Write."""
            return content
