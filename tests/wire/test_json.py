"""JSON of a conversation: a huge text is encoded in pieces, which a reader cannot tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.wire.codec.json import encode, encode_message, in_pieces

TEXTS = st.text(max_size=40)
MESSAGES = st.recursive(
    TEXTS | st.none() | st.booleans() | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(MESSAGES, st.integers(1, 9))
def test_pieces_of_any_size_give_the_same_bytes(message: object, longest: int) -> None:
    assert in_pieces(lambda: encode_message(message), longest) == encode(message)


@pytest.mark.parametrize("text", ["\ud83d", "abc\ude00", "\ud83d\ude00"])
@pytest.mark.parametrize("longest", [1, 2, 9])
def test_half_a_character_is_refused_in_pieces_too(text: str, longest: int) -> None:
    with pytest.raises(UnicodeEncodeError):
        encode({"text": text})
    with pytest.raises(UnicodeEncodeError):
        in_pieces(lambda: encode_message({"text": text}), longest)


def test_only_what_is_asked_for_is_done_in_pieces() -> None:
    """Nothing is left behind in the thread by one who failed."""
    with pytest.raises(UnicodeEncodeError):
        in_pieces(lambda: encode_message("\ud83d"), 1)
    assert encode_message("ab") == b'"ab"'
