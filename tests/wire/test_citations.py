"""Answers that speak of their sources: every number and every address becomes a citation of exactly its span."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from ronda.wire.web.citations import (
    CitedPieces,
    CitedText,
    Source,
    cite,
    cited_stretches,
    sources_of,
)

BREAD = Source(1, "https://bread.example/loaf", "Bread")
SALT = Source(2, "https://salt.example/", "Salt")
DEEP = Source(3, "https://bread.example/loaf/rye", "Rye")
FILE = Source(4, "guides/start.md", "Start")
SOURCES = [BREAD, SALT, DEEP, FILE]


def spans(text: str) -> list[tuple[int, str]]:
    return [(one.source.number, text[one.start : one.end]) for one in cite(text, SOURCES)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Flour [1].", [(1, "[1]")]),
        ("Flour[1][2], water [2]", [(1, "[1]"), (2, "[2]"), (2, "[2]")]),
        ("both [1, 2] and [1,3]", [(1, "1"), (2, "2"), (1, "1"), (3, "3")]),
        ("unknown [9] [0] [12345] [x] [] [1.2]", []),
        ("half known [1, 9]", [(1, "1")]),
        ("[1](https://bread.example/loaf)", [(1, "[1]"), (1, "https://bread.example/loaf")]),
        ("see https://bread.example/loaf.", [(1, "https://bread.example/loaf")]),
        ("see https://bread.example/loaf?", [(1, "https://bread.example/loaf")]),
        ("see <https://bread.example/loaf>, (https://bread.example/loaf)", [(1, "https://bread.example/loaf")] * 2),
        ("see https://bread.example/loaf/", [(1, "https://bread.example/loaf/")]),
        ("see https://bread.example/loaf#crust", [(1, "https://bread.example/loaf")]),
        ("see https://bread.example/loaf/rye", [(3, "https://bread.example/loaf/rye")]),
        ("other: https://bread.example/loaf/wheat", []),
        ("other: https://bread.example/loafs", []),
        ("other: https://bread.example/loaf?x=1", []),
        ("other: https://bread.example/loaf.html", []),
        ("other: https://bread.example", []),
        (
            "with and without: https://salt.example https://salt.example/",
            [(2, "https://salt.example"), (2, "https://salt.example/")],
        ),
        ("guides/start.md, old/guides/start.md", [(4, "guides/start.md")]),
        ("code `a[1]` and\n```\nb[1]\n```\nbut [1]", [(1, "[1]")]),
        ("```\nnever closed [1]", []),
        ("never closed ` [1]", [(1, "[1]")]),
        ("not over paragraphs: ` [1]\n\n`", [(1, "[1]")]),
        ("an address in code is one: `https://salt.example/`", [(2, "https://salt.example/")]),
        ("é🙂 [2]", [(2, "[2]")]),
        ("", []),
    ],
)
def test_a_place_that_speaks_of_a_source_is_cited(text: str, expected: list[tuple[int, str]]) -> None:
    assert spans(text) == expected


def test_an_answer_of_backticks_costs_no_time() -> None:
    text = " [1] ".join("`" * (1 + index) for index in range(1_400)) + " [1]" * 100_000

    assert len(cite(text, SOURCES)) == 101_399


def test_an_answer_without_sources_has_no_citations() -> None:
    assert cite("see [1]", []) == []


@given(
    st.lists(
        st.sampled_from(["[1]", "[2]", " ", "word", "`", "\n", "https://salt.example/", "[1,2]", "é", "[7]"]),
        max_size=30,
    )
)
def test_spans_are_in_order_and_hold_a_number_or_an_address(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = cite(text, SOURCES)

    assert [one.start for one in found] == sorted(one.start for one in found)
    for one in found:
        cited = text[one.start : one.end]
        assert cited.strip("[]/") in (str(one.source.number), one.source.url.strip("/"))
    stretches = cited_stretches(text, SOURCES)
    assert "".join(piece.text for piece in stretches) == text
    assert all(piece.sources for piece in stretches[:-1])
    assert {source for piece in stretches for source in piece.sources} == {one.source for one in found}


PIECES = [
    "[1]", "[", "]", "1", "[2]", ",", " ", "word", "`", "``", "```", "\n", "\n\n", "https://", "salt.example", "https://salt.example/",
    "https://bread.example/loaf", "/rye", "/", ".", "[1, 3]", "é", "guides/", "start.md", "x" * 1_990,
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.lists(st.integers(0, 80), max_size=30))
def test_an_answer_in_pieces_has_the_same_citations(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    stream = CitedPieces(SOURCES)
    shown: list[CitedText] = []
    at = 0
    for cut in cuts:
        shown += stream.add(text[at : at + cut])
        at += cut
    shown += [*stream.add(text[at:]), *stream.end()]

    assert "".join(piece.text for piece in shown) == text
    stretches: list[CitedText] = []
    begun = ""
    for piece in shown:
        begun += piece.text
        if piece.sources:
            stretches.append(CitedText(begun, piece.sources))
            begun = ""
    if begun:
        stretches.append(CitedText(begun))
    assert stretches == cited_stretches(text, SOURCES)


def test_text_that_cites_nothing_is_not_held_back() -> None:
    stream = CitedPieces(SOURCES)

    assert stream.add("The sea is salt") == [CitedText("The sea is salt")]
    assert stream.add(", they say [") == [CitedText(", they say ")]
    assert stream.add("2") == []
    assert stream.add("]") == [CitedText("[2]")]
    assert stream.add(" and") == [CitedText("", (SALT,)), CitedText(" and")]
    assert stream.end() == []


def test_an_answer_is_cut_where_its_citations_end() -> None:
    assert cited_stretches("Flour [1][2]. Salt [1, 2]!", SOURCES) == [
        CitedText("Flour [1][2]", (BREAD, SALT)),
        CitedText(". Salt [1, 2]", (BREAD, SALT)),
        CitedText("!"),
    ]
    assert cited_stretches("plain", SOURCES) == [CitedText("plain")]
    assert cited_stretches("plain [1]", []) == [CitedText("plain [1]")]
    assert cited_stretches("", SOURCES) == []


def test_sources_are_found_in_what_a_search_says_of_itself() -> None:
    def details(value: object) -> Raw:
        return Raw(msgspec.json.encode(value))

    assert sources_of(details({"tool_type": "web_search", "results": [SALT, BREAD]})) == [SALT, BREAD]
    assert sources_of(details({"tool_type": "custom", "results": [DEEP], "why": "web_search"})) == ()
    assert sources_of(details({"tool_type": "web_search", "results": "nonsense"})) == ()
    assert sources_of(Raw(b"null")) == ()
