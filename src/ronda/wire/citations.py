"""An answer and the sources that its model was shown → which stretches of the answer speak of which source.

A model refers to a source by its number, `[2]` or `[1, 2]`, or by its address. Every such place becomes a citation of exactly
that span, in characters, the end not included. An `[n]` in code is an index, not a citation.

Where a source's number comes from is known to the tool that showed it: it stands in the details of the call, which the log
keeps, so that whoever writes an answer anew finds the same citations.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import Event, ToolFinished
from ronda.wire.json import UNREADABLE

EXCERPT: Final = 150  # characters of a source that are quoted beside a citation, as in the Messages API


class Source(Struct, frozen=True, omit_defaults=True):
    """A page that a model was shown. `excerpt` is the beginning of what it saw."""

    number: int
    url: str
    title: str = ""
    excerpt: str = ""


class Citation(Struct, frozen=True):
    source: Source
    start: int
    end: int


class CitedText(Struct, frozen=True):
    """A stretch of an answer that ends with its citations; the last stretch may have none."""

    text: str
    sources: tuple[Source, ...] = ()


class _Details(Struct):
    tool_type: str = ""
    results: list[Source] = []


_DETAILS: Final = msgspec.json.Decoder(_Details)
_WEB_SEARCH: Final = b"web_search"


def sources_in(events: Iterable[Event]) -> list[Source]:
    """What the searches among these events have shown, by number; the first source of a number is the one that has it."""
    found: dict[int, Source] = {}
    for event in events:
        if isinstance(event, ToolFinished):
            for source in sources_of(event.details):
                found.setdefault(source.number, source)
    return [found[number] for number in sorted(found)]


def sources_of(details: Raw) -> Sequence[Source]:
    """The sources of one call; none where it was no search."""
    if _WEB_SEARCH not in bytes(details):
        return ()
    try:
        read = _DETAILS.decode(details)
    except UNREADABLE:  # another program's
        return ()
    return read.results if read.tool_type == "web_search" else ()


# What goes on after an address makes it another address: `/x` is not cited by `/xyz`, and is by `/x.` at a sentence's end.
_GOES_ON: Final = r"(?![\w%~+\-/=&@]|[.,?;:!][\w%/=&])"
_STARTS: Final = r"(?<![\w./%-])"
_NUMBERS: Final = re.compile(r"\[(\d{1,4}(?: ?, ?\d{1,4})*)\]")
_NUMBER: Final = re.compile(r"\d+")
_TICKS: Final = re.compile(r"`+")
_FENCE: Final = 3  # backticks at the beginning of a line: code to the next such line, or to the end


def cite(text: str, sources: Sequence[Source]) -> list[Citation]:
    """In the order of the text."""
    if not text or not sources:
        return []
    found = [*_by_number(text, sources), *_by_address(text, sources)]
    return sorted(found, key=lambda citation: (citation.start, citation.end))


def split_at(text: str, citations: Sequence[Citation]) -> list[CitedText]:
    """The answer in stretches, each ending where its citations end: for dialects that mark whole stretches of text."""
    pieces: list[CitedText] = []
    start, at = 0, 0
    sources: list[Source] = []
    for citation in citations:
        if sources and citation.start > at:  # adjoining marks share a stretch
            pieces.append(CitedText(text[start:at], tuple(dict.fromkeys(sources))))
            start, sources = at, []
        at = max(at, citation.end)
        sources.append(citation.source)
    if sources:
        pieces.append(CitedText(text[start:at], tuple(dict.fromkeys(sources))))
        start = at
    if start < len(text):
        pieces.append(CitedText(text[start:]))
    return pieces


def _by_number(text: str, sources: Sequence[Source]) -> list[Citation]:
    numbered = {source.number: source for source in reversed(sources)}
    code = _code_in(text) if "`" in text else []
    found: list[Citation] = []
    for mark in _NUMBERS.finditer(text):
        before = bisect_right(code, (mark.start(), len(text)))
        if before and mark.start() < code[before - 1][1]:
            continue
        numbers = list(_NUMBER.finditer(text, mark.start(), mark.end()))
        for number in numbers:
            source = numbered.get(int(number[0]))
            if source is not None:  # of several in one pair of brackets each is its own place
                start, end = mark.span() if len(numbers) == 1 else number.span()
                found.append(Citation(source, start, end))
    return found


def _code_in(text: str) -> list[tuple[int, int]]:
    """Where code stands, in order: in one pass, for a model may write nothing but backticks."""
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(text)]
    closing: dict[int, int] = {}  # a run → the next one that closes it
    next_of: dict[object, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        kind = _kind(text, *runs[index])
        if kind in next_of:
            closing[index] = next_of[kind]
        next_of[kind] = index
    found: list[tuple[int, int]] = []
    index = 0
    while index < len(runs):
        start = runs[index][0]
        if index in closing:
            index = closing[index]
            found.append((start, runs[index][1]))
        elif _kind(text, *runs[index]) == "fence":
            return [*found, (start, len(text))]
        index += 1
    return found


def _kind(text: str, start: int, end: int) -> int | str:
    is_fence = end - start >= _FENCE and (start == 0 or text[start - 1] == "\n")
    return "fence" if is_fence else end - start


def _by_address(text: str, sources: Sequence[Source]) -> list[Citation]:
    by_url = {source.url.rstrip("/"): source for source in reversed(sources)}
    urls = [url for url in sorted(by_url, key=len, reverse=True) if url and url in text]
    if not urls:
        return []
    pattern = re.compile(f"{_STARTS}({'|'.join(map(re.escape, urls))})/?{_GOES_ON}")
    return [Citation(by_url[found[1]], *found.span()) for found in pattern.finditer(text)]
