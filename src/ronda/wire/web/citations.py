"""An answer and the sources that its model was shown → which stretches of the answer speak of which source.

A model refers to a source by its number, `[2]` or `[1, 2]`, or by its address. Every such place becomes a citation of exactly
that span, in characters, the end not included. An `[n]` in code is an index, not a citation.

`cite` finds them in an answer; `CitedPieces` finds the same ones in an answer that is still being written.

Where a source's number comes from is known to the tool that showed it: it stands in the details of the call, which the log
keeps, so that a writer of the same answer finds the same citations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Raw, Struct

from ronda.wire.codec.json import decode_or

EXCERPT: Final = 150  # characters of a source that are quoted next to a citation, as in the Messages API


class Source(Struct, frozen=True, omit_defaults=True):
    """A page that a model was shown. `excerpt` is the beginning of what it saw.

    `document`: it was read by its address, as the document of this place among those of the run, whose text begins with exactly
    that. `is_cited`: whether an answer is told to speak of it.
    """

    number: int
    url: str
    title: str = ""
    excerpt: str = ""
    document: int | None = None
    is_cited: bool = True


class Citation(Struct, frozen=True):
    source: Source
    start: int
    end: int


class CitedText(Struct, frozen=True):
    """Text of an answer. With sources, it ends a stretch that cites them."""

    text: str
    sources: tuple[Source, ...] = ()


class _Details(Struct):
    tool_type: str = ""
    results: list[Source] = []


_WEB_SEARCH: Final = b"web_search"


def sources_of(details: Raw) -> Sequence[Source]:
    """The sources of one call; none where it was no search."""
    if _WEB_SEARCH not in bytes(details):
        return ()
    read = decode_or(_Details(), _Details, details)  # which may be another program's
    return read.results if read.tool_type == "web_search" else ()


def add_sources(known: tuple[Source, ...], details: Raw) -> tuple[Source, ...]:
    """The sources that an answer may speak of, once the model was shown those of another call."""
    found = sources_of(details)
    if not found:
        return known
    numbers = {source.number for source in known}
    return (*known, *[one for one in found if one.is_cited and one.number not in numbers])


# What goes on after an address makes it another address: `/x` is not cited by `/xyz`, and is by `/x.` at a sentence's end.
_GOES_ON: Final = r"(?![\w%~+\-/=&@]|[.,?;:!][\w%/=&])"
_LOOK_AHEAD: Final = 2  # characters: what that looks at
_STARTS: Final = r"(?<![\w./%-])"
_NUMBERS: Final = r"\[\d{1,4}(?: ?, ?\d{1,4})*\]"
_NUMBER: Final = re.compile(r"\d+")
_UNFINISHED: Final = re.compile(r"\[[\d ,]{0,60}\Z")
_CODE_ENDS: Final = re.compile(r"`+|\n[ \t]*\n")
_FENCE: Final = 3  # backticks at the beginning of a line: code to the next such line, or to the end
_LONGEST_CODE: Final = 2_000  # characters between two backticks: what is further apart is no code


def cite(text: str, sources: Sequence[Source]) -> list[Citation]:
    """In the order of the text."""
    if not text or not sources:
        return []
    return [citation for mark in _Scanner(sources).read(text, is_last=True) for citation in mark.citations]


def url_citation(citation: Citation) -> dict[str, Any]:
    """As OpenAI's APIs have it."""
    source = citation.source
    return {"url": source.url, "title": source.title, "start_index": citation.start, "end_index": citation.end}


class CitedPieces:
    """An answer as it is written → the same text, cut where a stretch ends that cites sources. `[1][2]` ends one stretch.

    What may still become a citation is held back.
    """

    __slots__ = ("_end", "_scanner", "_sources")

    def __init__(self, sources: Sequence[Source]) -> None:
        self._scanner = _Scanner(sources)
        self._sources: list[Source] = []  # that the stretch under way cites …
        self._end = 0  # … and where it does so last

    def add(self, text: str) -> list[CitedText]:
        return self._read(text, is_last=False)

    def end(self) -> list[CitedText]:
        """Nothing more comes."""
        return self._read("", is_last=True)

    def _read(self, text: str, *, is_last: bool) -> list[CitedText]:
        scanner = self._scanner
        out: list[CitedText] = []
        at = scanner.settled
        for mark in scanner.read(text, is_last=is_last):
            if self._sources and mark.start > self._end:
                out.append(self._stretch(at))
                at = self._end
            self._sources += [citation.source for citation in mark.citations]
            self._end = mark.end
        if self._sources and (is_last or scanner.settled > self._end):
            out.append(self._stretch(at))
            at = self._end
        if scanner.settled > at:
            out.append(CitedText(scanner.text(at, scanner.settled)))
        return out

    def _stretch(self, at: int) -> CitedText:
        sources, self._sources = dict.fromkeys(self._sources), []
        return CitedText(self._scanner.text(at, self._end), tuple(sources))


def cited_stretches(text: str, sources: Sequence[Source]) -> list[CitedText]:
    """A whole answer, cut in the same way."""
    if not text or not sources:
        return [CitedText(text)] if text else []
    pieces = CitedPieces(sources)
    return [*_join_pieces([*pieces.add(text), *pieces.end()])]


def _join_pieces(pieces: Iterable[CitedText]) -> Iterator[CitedText]:
    text = ""
    for piece in pieces:
        text += piece.text
        if piece.sources:
            yield CitedText(text, piece.sources)
            text = ""
    if text:
        yield CitedText(text)


class _Mark(Struct, frozen=True):
    """A place that cites: the brackets with all their numbers, or an address."""

    start: int
    end: int
    citations: tuple[Citation, ...]


class _Scanner:
    """Finds the marks of a text that comes in pieces. `settled` is how much of it no further piece can change."""

    __slots__ = (
        "_begins", "_by_url", "_code_end", "_in_fence", "_longest", "_numbered", "_start", "_text", "_token", "settled",
    )  # fmt: skip

    def __init__(self, sources: Sequence[Source]) -> None:
        self._numbered = {source.number: source for source in reversed(sources)}
        self._by_url = {url: source for source in reversed(sources) if (url := source.url.rstrip("/"))}
        urls = sorted(self._by_url, key=len, reverse=True)
        self._begins = frozenset(url[0] for url in urls)
        self._longest = len(urls[0]) if urls else 0
        address = f"|{_STARTS}(?P<url>{'|'.join(map(re.escape, urls))})/?{_GOES_ON}" if urls else ""
        self._token = re.compile(f"(?P<ticks>`+)|(?P<numbers>{_NUMBERS}){address}")
        self._text = ""
        self._start = 0  # where in the answer that begins
        self._in_fence = False
        self._code_end = 0  # of the code in a line that was found last
        self.settled = 0

    def text(self, start: int, end: int) -> str:
        """What the last piece has settled, or a part of it."""
        return self._text[start - self._start : end - self._start]

    def read(self, text: str, *, is_last: bool) -> list[_Mark]:
        past = max(0, self.settled - self._start - 1)  # one character is looked back at
        self._text, self._start = self._text[past:] + text, self._start + past
        text, marks = self._text, []
        at = self.settled - self._start
        size = len(text)
        tail = size if is_last else self._unfinished(at)
        while (found := self._token.search(text, at)) is not None:
            start, end = found.span()
            kind = found.lastgroup
            if not is_last and (
                end > tail or (kind == "ticks" and end == size) or (kind == "url" and end + _LOOK_AHEAD > size)
            ):
                tail = min(start, tail)
                break
            if kind == "ticks":
                if not self._see_ticks(start, end, is_last=is_last):
                    tail = start
                    break
            elif kind == "url":
                marks.append(self._mark(start, end, [(self._by_url[found["url"]], start, end)]))
            elif not self._in_fence and self._start + start >= self._code_end and (cited := self._numbers(start, end)):
                marks.append(self._mark(start, end, cited))
            at = end
        self.settled = self._start + tail
        return marks

    def _unfinished(self, at: int) -> int:
        """Where something begins that may become a citation."""
        text = self._text
        found = _UNFINISHED.search(text, at)
        tail = len(text) if found is None else found.start()
        for index in range(max(at, len(text) - self._longest), tail):
            if text[index] in self._begins:
                end = text[index:]
                if any(url.startswith(end) for url in self._by_url):
                    return index
        return tail

    def _see_ticks(self, start: int, end: int, *, is_last: bool) -> bool:
        """Backticks; False if what they mean is not known yet."""
        if self._start + start < self._code_end:
            return True
        if self._is_fence(start, end):
            self._in_fence = not self._in_fence
        elif not self._in_fence:
            closed = self._closing(end, end - start, is_last=is_last)
            if closed is None:
                return False
            self._code_end = self._start + closed
        return True

    def _closing(self, at: int, ticks: int, *, is_last: bool) -> int | None:
        """Where the code ends that begins here: here, if it is none. Within a paragraph, with as many backticks."""
        text, limit = self._text, at + _LONGEST_CODE
        is_known = is_last or len(text) >= limit
        for found in _CODE_ENDS.finditer(text, at, limit):
            start, end = found.span()
            if end == len(text) and not is_known:  # there may be more of them
                return None
            if text[start] == "\n" or self._is_fence(start, end) or end == limit:  # behind which there may be more
                return at
            if end - start == ticks:
                return end
        return at if is_known else None

    def _is_fence(self, start: int, end: int) -> bool:
        is_first = self._text[start - 1] == "\n" if start else self._start == 0
        return is_first and end - start >= _FENCE

    def _numbers(self, start: int, end: int) -> list[tuple[Source, int, int]]:
        """Of several in one pair of brackets each is its own place."""
        found = list(_NUMBER.finditer(self._text, start, end))
        known = [(source, one.span()) for one in found if (source := self._numbered.get(int(one[0]))) is not None]
        if len(found) == 1:
            return [(source, start, end) for source, _ in known]
        return [(source, *span) for source, span in known]

    def _mark(self, start: int, end: int, cited: Sequence[tuple[Source, int, int]]) -> _Mark:
        base = self._start
        return _Mark(base + start, base + end, tuple([Citation(one, base + a, base + b) for one, a, b in cited]))
