"""Partial JSON against `json.loads`, at every prefix and under every cut."""

import copy
import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.wire.codec.partial_json import Json, PartialJson, Patch, Path, pointer

SPECIMEN = r"""
{"path": "a\/b\\c.py", "text": "line\n\t\"q\" \u00e9\u6f22 \ud83d\ude00 é漢😀 \ud83d \ude00\ud83d",
 "n": [0, -1, 2.5, 1e3, -0.0, 1E-2, 12345678901234567890], "l": [true, false, null], "empty": [{}, [], ""],
 "\ud83d\ude00 \"key\"": {"deep": [[{"a": {"b": "c"}}]]}, "": "no name", "twice": [1], "twice": "later" }
"""


def whole(text: str) -> Json:
    """What `json.loads` says, with what cannot be UTF-8 replaced."""
    units = json.dumps(json.loads(text), ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    value: Json = json.loads(units.decode("utf-16-le", "replace"))
    return value


def apply(patches: Iterable[Patch], root: Any = None) -> Any:
    """A reader of patches that knows only what the docstring of `Patch` says."""
    for patch in patches:
        # A list grows by one where the index is its length; a dict takes any key.
        value = copy.deepcopy(patch.value)
        if not patch.path:
            root = value if patch.op == "set" else root + value
            continue
        *above, last = patch.path
        place = root
        for key in above:
            place = place[key]
        if patch.op == "append":
            place[last] += value
        elif isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return root


def read(*pieces: str) -> tuple[PartialJson, list[Patch]]:
    reader = PartialJson()
    return reader, [patch for piece in pieces for patch in reader.feed(piece)] + reader.close()


def told(reader: PartialJson) -> tuple[str, bool, str | None]:
    return exact(reader.value), reader.complete, reader.error


def exact(value: Json) -> str:
    """Equal only if the types and the order of keys are equal too: True is not 1, 0 is not -0.0."""
    return repr(value)


def cut(text: str, places: set[int]) -> list[str]:
    edges = [0, *sorted(place for place in places if place < len(text)), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def strings(value: Json, path: Path = ()) -> dict[Path, str]:
    match value:
        case str():
            return {path: value}
        case dict():
            return {at: text for key, item in value.items() for at, text in strings(item, (*path, key)).items()}
        case list():
            return {at: text for i, item in enumerate(value) for at, text in strings(item, (*path, i)).items()}
        case _:
            return {}


letters = st.characters() | st.sampled_from('"\\/\b\f\n\r\t\0\x7f😀é')
texts = st.text(letters | st.sampled_from("\ud83d\ude00"), max_size=8)
keys = st.text(letters, max_size=4)  # without lone surrogates, which would make two keys one
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=8)
indents = st.sampled_from([None, 1, "\t", "\r\n"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    text = json.dumps(draw(values), ensure_ascii=draw(st.booleans()), indent=draw(indents))
    return draw(st.sampled_from(["", " ", "\r\n\t"])) + text + draw(st.sampled_from(["", " ", "\n\n"]))


# Mostly not JSON, but nearly.
SCRAPS = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    '"a"',
    '"a":',
    "\\",
    "\\u",
    "\\ud83d",
    "\\ude00",
    "\\n",
    "\\x",
    "00e9",
    "a",
]
SCRAPS += [
    "1",
    "-",
    "0",
    ".",
    "e",
    "+",
    "true",
    "nul",
    "l",
    "NaN",
    "Infinity",
    " ",
    "\n",
    "\0",
    "é",
    "\ud83d",
    "\ude00",
]
scraps = st.lists(st.sampled_from(SCRAPS), max_size=12).map("".join)
cuts = st.sets(st.integers(0, 60), max_size=8)


def test_the_specimen_reads_as_json_loads_reads_it() -> None:
    reader, patches = read(SPECIMEN)
    assert told(reader) == (exact(whole(SPECIMEN)), True, None)
    assert apply(patches) == whole(SPECIMEN)


def test_every_prefix_shows_the_same_whether_it_came_at_once_or_by_the_character() -> None:
    by_character, patches = PartialJson(), list[Patch]()
    for end in range(len(SPECIMEN) + 1):
        at_once = PartialJson()
        assert exact(apply(at_once.feed(SPECIMEN[:end]))) == exact(apply(patches))
        assert told(at_once) == told(by_character)
        assert exact(at_once.value) == exact(apply(patches))
        if end < len(SPECIMEN):
            patches += by_character.feed(SPECIMEN[end])


@given(documents(), cuts)
def test_any_document_cut_anywhere_ends_as_json_loads_reads_it(text: str, places: set[int]) -> None:
    reader, patches = read(*cut(text, places))
    assert told(reader) == (exact(whole(text)), True, None)
    assert exact(apply(patches)) == exact(whole(text))


@given(documents(), cuts)
def test_the_patches_so_far_always_make_the_value_so_far(text: str, places: set[int]) -> None:
    reader, mirror = PartialJson(), None
    for piece in cut(text, places):
        mirror = apply(reader.feed(piece), mirror)
        assert exact(reader.value) == exact(mirror)


@given(documents())
def test_whatever_is_shown_of_a_string_begins_what_it_becomes(text: str) -> None:
    final = strings(whole(text))
    reader = PartialJson()
    before: dict[Path, str] = {}
    for character in text:
        reader.feed(character)
        now = strings(reader.value)
        assert all(final[path].startswith(shown) for path, shown in now.items())
        assert all(now[path].startswith(shown) for path, shown in before.items())
        before = now


@given(documents())
def test_a_number_or_literal_is_shown_only_as_it_will_stay(text: str) -> None:
    final, reader = whole(text), PartialJson()
    for patch in [patch for character in text for patch in reader.feed(character)] + reader.close():
        if patch.op == "set" and patch.value not in ("", {}, []):
            there: Any = final
            for key in patch.path:
                there = there[key]
            assert exact(there) == exact(patch.value)


@given(scraps | documents().map(lambda text: text[:-1]) | st.text(), cuts)
def test_any_text_at_all_is_judged_as_json_loads_judges_it(text: str, places: set[int]) -> None:
    reader, patches = read(*cut(text, places))
    try:
        # Python alone takes NaN and the infinities; RFC 8259 has no such numbers.
        json.loads(text, parse_constant=lambda name: json.loads(f"no {name}"))
    except ValueError:
        assert reader.error is not None
    else:
        assert told(reader) == (exact(whole(text)), True, None)
    assert exact(apply(patches)) == exact(reader.value)


@given(scraps, cuts)
def test_how_broken_text_was_cut_changes_neither_the_error_nor_the_value(text: str, places: set[int]) -> None:
    assert told(read(*cut(text, places))[0]) == told(read(text)[0])


@given(scraps | documents(), cuts)
def test_everything_shown_can_be_written_as_utf8(text: str, places: set[int]) -> None:
    reader, patches = read(*cut(text, places))
    written = msgspec.json.encode([patches, reader.value, reader.error and "error"])  # raises for half a character
    assert len(msgspec.json.decode(written)) == 3


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "character 0: the text ends before the document does"),
        ('{"a": "b', "character 8: the text ends before the document does"),
        ('["\\u12', "character 6: the text ends before the document does"),
        ("[1, 2 3]", "character 6: expected ',' or ']', found '3'"),
        ("[1,]", "character 3: expected a value, found ']'"),
        ("[}", "character 1: expected a value or ']', found '}'"),
        ("{]", "character 1: expected a key in quotes or '}', found ']'"),
        ('{"a":1,}', "character 7: expected a key in quotes, found '}'"),
        ('{"a" 1}', "character 5: expected ':', found '1'"),
        ('{"a":1 "b"', "character 7: expected ',' or '}', found '\"'"),
        ("{} x", "character 3: expected nothing after the document, found 'x'"),
        ("[01]", "character 1: 01 is not a number"),
        ("[-]", "character 1: - is not a number"),
        ("1.", "character 0: 1. is not a number"),
        ("[" + "9" * 5000 + "]", "character 1: 99999999999999999999… has too many digits"),
        ("[nuts]", "character 3: expected 'll', found 't'"),
        ('["a\nb"]', "character 3: '\\n' must be escaped in a string"),
        ('["\\x"]', "character 2: broken escape"),
        ('["\\u12G4"]', "character 2: broken escape"),
        ("'a'", 'character 0: expected a value, found "\'"'),
    ],
)
def test_an_error_says_where_and_why(text: str, error: str) -> None:
    assert read(text)[0].error == error
    assert read(*text)[0].error == error


def test_after_an_error_nothing_more_is_read() -> None:
    reader = PartialJson()
    reader.feed('{"a": "b", "c": "d\n')
    error = reader.error
    assert error is not None
    assert reader.feed('e"}') == []
    assert reader.close() == []
    assert told(reader) == (exact({"a": "b", "c": "d"}), False, error)


def test_an_error_after_the_document_leaves_it_complete() -> None:
    reader, _ = read('{"a": 1}}')
    assert (reader.value, reader.complete) == ({"a": 1}, True)
    assert reader.error is not None


def test_depth_is_limited_and_needs_no_stack() -> None:
    assert read("[" * 512 + "]" * 512)[0].error is None
    assert read("[" * 513)[0].error == "character 512: more than 512 levels deep"
    deep = PartialJson(depth=100_000)
    for _ in range(5_000):
        deep.feed("[")
    deep.feed("]" * 5_000)
    assert deep.complete


def test_patches_show_each_thing_as_it_becomes_known() -> None:
    reader = PartialJson()
    assert [reader.feed(piece) for piece in ['{"na', 'me": "Zo', "\\u00", 'eb", "n": [12', "3, tru", "e]}"]] == [
        [Patch("set", (), {})],
        [Patch("set", ("name",), ""), Patch("append", ("name",), "Zo")],
        [],
        [Patch("append", ("name",), "ë"), Patch("set", ("n",), [])],
        [Patch("set", ("n", 0), 123)],
        [Patch("set", ("n", 1), True)],
    ]
    assert told(reader) == (exact({"name": "Zoë", "n": [123, True]}), True, None)


def test_half_a_surrogate_pair_waits_for_the_other() -> None:
    reader = PartialJson()
    reader.feed('["a\\ud83d')
    assert reader.value == ["a"]
    reader.feed("\\ude")
    assert reader.value == ["a"]
    reader.feed("00")
    assert reader.value == ["a😀"]
    reader.feed("\\ud83d")
    assert reader.value == ["a😀"]
    reader.feed("!")
    assert reader.value == ["a😀\ufffd!"]


def test_a_number_that_is_the_whole_document_ends_when_the_text_does() -> None:
    reader = PartialJson()
    assert reader.feed("4") == reader.feed("2") == []
    assert not reader.complete
    assert reader.close() == [Patch("set", (), 42)]
    assert told(reader) == ("42", True, None)


def test_the_value_is_the_same_object_from_piece_to_piece() -> None:
    reader = PartialJson()
    reader.feed('{"a": ["b')
    first = reader.value
    reader.feed('c", 1')
    assert reader.value is first
    assert first == {"a": ["bc"]}


def test_a_patch_does_not_change_after_it_was_given() -> None:
    reader = PartialJson()
    patches = reader.feed('{"a": [')
    reader.feed("1, 2]}")
    assert patches == [Patch("set", (), {}), Patch("set", ("a",), [])]


def test_a_patch_survives_json() -> None:
    _, patches = read(SPECIMEN)
    assert msgspec.json.decode(msgspec.json.encode(patches), type=list[Patch]) == patches


@pytest.mark.parametrize(
    ("path", "expected"),
    [((), ""), (("a", 0), "/a/0"), (("",), "/"), (("a/b", "m~n", "~1"), "/a~1b/m~0n/~01"), (("é ",), "/é ")],
)
def test_a_pointer_is_written_as_rfc_6901_says(path: Path, expected: str) -> None:
    assert pointer(path) == expected
