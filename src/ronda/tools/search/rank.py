"""Results and a budget → the passages that matter for a query, in the order in which they matter.

Pages are cut into passages of some 500 tokens; BM25 ranks the passages of all pages together, and a model of embeddings, where
there is one, ranks the best twenty of them again. The budget is spent on every result's title, address and description first,
then on passages, the best first: no long page can crowd out the others.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ronda.tools.function import in_thread
from ronda.tools.search.backend import Result

PASSAGE: Final = 2_000  # bytes: some 500 tokens
MAX_CONTENT: Final = 200_000  # characters of one page that are looked at
BEST: Final = 20  # passages that embeddings are made of
HEAD: Final = 20  # tokens of JSON around one result
_K1: Final = 1.2
_B: Final = 0.75

Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]

log = logging.getLogger("ronda.tools")

_WORD: Final = re.compile(r"\w+")
# Scripts that are written without spaces: of these each pair of characters is a word.
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


def words(text: str) -> list[str]:
    """What a text is found by. Search and index have to agree on it, so both ask here."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        at = 0
        for run in _UNSPACED.finditer(word):
            if run.start() > at:
                found.append(word[at : run.start()])
            piece = run[0]
            found += [piece[index : index + 2] for index in range(len(piece) - 1)] or [piece]
            at = run.end()
        if at < len(word):
            found.append(word[at:])
    return found


def tokens(text: str) -> int:
    """About how many tokens a model takes for it: four bytes each."""
    return (_size(text) + 3) // 4


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))  # a callback may bring halves of characters


def cut(text: str, budget: int) -> str:
    """No more than so many tokens of a text."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= 4 * budget else data[: 4 * budget].decode("utf-8", "ignore")


class _Passage(Struct, frozen=True):
    result: int
    place: int
    text: str


async def select(query: str, results: Sequence[Result], budget: int, embed: Embed | None = None) -> list[Result]:
    """The results worth showing, the best first, each with as much of its content as the budget has room for."""
    ranked = await in_thread(partial(_rank, query, results))
    if embed is not None:
        ranked = await _rerank(query, ranked, embed)
    return _within(results, ranked, budget)


def _rank(query: str, results: Sequence[Result]) -> list[_Passage]:
    found = [
        _Passage(index, place, text)
        for index, result in enumerate(results)
        for place, text in enumerate(passages(result.content[:MAX_CONTENT]) or [""])
    ]
    # A passage is found by its page's title, too.
    heads = [f"{result.title} {result.description}" for result in results]
    scores = bm25(query, [f"{heads[one.result]} {one.text}" for one in found])
    order = sorted(range(len(found)), key=lambda index: (-scores[index], found[index].result, found[index].place))
    return [found[index] for index in order]


async def _rerank(query: str, ranked: list[_Passage], embed: Embed) -> list[_Passage]:
    best = ranked[:BEST]
    try:
        query_vector, *vectors = await embed([query, *(one.text for one in best)])
        scores = [_cosine(query_vector, vector) for vector in vectors]
    except Exception as error:  # a search without embeddings is better than none
        log.warning("the results of a search are ranked without embeddings", exc_info=error)
        return ranked
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return [best[index] for index in order] + ranked[BEST:]


def _within(results: Sequence[Result], ranked: Sequence[_Passage], budget: int) -> list[Result]:
    shown: dict[int, list[_Passage]] = {}
    for index in dict.fromkeys(one.result for one in ranked):
        result = results[index]
        cost = HEAD + sum(map(tokens, (result.title, result.url, result.description)))
        if cost <= budget:
            shown[index] = []
            budget -= cost
    for one in ranked:
        cost = tokens(one.text) + 1
        if one.text and one.result in shown and cost <= budget:
            shown[one.result].append(one)
            budget -= cost
    return [replace(results[index], content=_join_passages(chosen)) for index, chosen in shown.items()]


def _join_passages(chosen: list[_Passage]) -> str:
    """In the order of the page, with a mark where something was left out."""
    text, last = "", -1
    for one in sorted(chosen, key=lambda one: one.place):
        text += (
            "" if not text and one.place == 0 else "\n" if one.place == last + 1 else "\n…\n" if text else "…\n"
        ) + one.text
        last = one.place
    return text


def passages(text: str, size: int = PASSAGE) -> list[str]:
    """Cut at the ends of lines, else of sentences, else of words, else anywhere."""
    found: list[str] = []
    current = ""
    for piece in _pieces(text, size):
        if current and _size(current) + _size(piece) + 1 > size:
            found.append(current)
            current = piece
        else:
            current = f"{current}\n{piece}" if current else piece
    return [*found, current] if current else found


def _pieces(text: str, size: int) -> list[str]:
    found: list[str] = []
    for line in text.splitlines():
        line = line.strip()
        while _size(line) > size:
            room = line.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
            at = max(room.rfind(". ") + 1, room.rfind("。") + 1)
            at = at if at > len(room) // 2 else room.rfind(" ")
            at = at if at > len(room) // 2 else len(room)
            found.append(line[:at].strip())
            line = line[at:].strip()
        if line:
            found.append(line)
    return found


def bm25(query: str, texts: Sequence[str]) -> list[float]:
    """How well each text fits a query, compared with the others."""
    wanted = dict.fromkeys(words(query))
    counts = [Counter(words(text)) for text in texts]
    lengths = [max(1, count.total()) for count in counts]
    mean = sum(lengths) / max(1, len(lengths))
    known = {word: sum(word in count for count in counts) for word in wanted}
    weights = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in known.items()}
    return [
        sum(
            weight * count[word] * (_K1 + 1) / (count[word] + _K1 * (1 - _B + _B * length / mean))
            for word, weight in weights.items()
            if word in count
        )
        for count, length in zip(counts, lengths, strict=True)
    ]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    size = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / size if size else 0.0
