"""Many tools → the few that fit what a model looks for: BM25 over their names, descriptions and parameters.

A model that is shown hundreds of definitions chooses badly and pays for all of them. It gets `find_tools` instead, and the tools
that it found. Nothing here knows where a tool comes from, or how it is offered.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ronda.core.found_tools import FIND_TOOLS, describe_found
from ronda.core.parts import NULL
from ronda.core.plan import ToolSpec
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.drive.offload import aside
from ronda.tools.parameters import parameters

FOUND: Final = 5  # tools that one search gives, unless the model asks for more
MAX_FOUND: Final = 20
# Chosen on one half of the tasks that `make conformance` measures, and checked on the other: 95 of 102 and 102 of 109 right tools
# are among the first five. Figures near these do as well.
_SATURATION: Final = 0.8  # that several words are found says more than that one is found often
_LENGTH: Final = 0.3  # a tool with many parameters is not less likely the right one
_NAME_WEIGHT: Final = 4.0  # a word of the name says more than one of the prose …
_DETAIL_WEIGHT: Final = 0.5  # … and one of a parameter's description, or of its values, less
_WHOLE_NAME: Final = 0.5  # how much more a tool counts all of whose name is in the query
_DEPTH: Final = 6  # of nested parameters
_VALUES: Final = 20  # of an enumeration

_WORDS: Final = re.compile(r"(?:[A-Z]+(?![a-z])|[A-Z]?[a-z]+)\d*|\d+|[^\W\d_A-Za-z]+")
_DIGITS: Final = "0123456789"
_COMMON: Final = {
    *("a", "an", "the", "this", "that", "it", "its", "i", "me", "my", "you", "your", "them", "their"),
    *("and", "or", "if", "then", "of", "to", "in", "on", "at", "by", "for", "from", "with", "as"),
    *("is", "are", "be", "was", "do", "does", "has", "have", "can", "could", "will", "would", "should"),
    *("how", "what", "when", "where", "which", "want", "need", "please"),
}
# An ending, and what takes its place; the first that fits. Enough to make one word of most forms of it: what this does to a
# word that has none does not matter, since it does it each time.
_ENDINGS: Final = (
    *(("ization", "iz"), ("isation", "iz"), ("ations", "at"), ("ation", "at"), ("ators", "at"), ("ator", "at")),
    *(("ities", "it"), ("ity", "it"), ("ments", "ment"), ("ically", "ic"), ("ical", "ic"), ("ally", "al")),
    *(("ings", ""), ("ing", ""), ("ers", ""), ("er", ""), ("ies", "i"), ("ed", ""), ("ates", "at"), ("ate", "at")),
    *(("es", ""), ("s", ""), ("ly", ""), ("y", "i"), ("e", "")),
)


def words(text: str) -> list[str]:
    """`getUserName`, `get_user_names` and "get user's names" have the same words.

    Numbers are values, which no tool is found by, unless there is nothing else; `s3` is a word, and `oauth2` also `oauth`.
    """
    found: list[str] = []
    numbers: list[str] = []
    for word in map(str.lower, _WORDS.findall(text)):
        if word.isdecimal():
            numbers.append(word)
            continue
        if (letters := word.rstrip(_DIGITS)) != word:
            found.append(word)
        if letters not in _COMMON:
            found.append(_stem(letters))
    return found or numbers


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word.removesuffix(ending) + instead
            is_doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz"  # planning, plan
            return stem[:-1] if is_doubled else stem
    return word


class ToolIndex:
    """What is known of the words: which tools have them, how much each says of them, and how rare they are."""

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        self._specs = tuple(specs)
        counts = [_counts(spec) for spec in self._specs]
        lengths = [sum(one.values()) for one in counts]
        mean = sum(lengths) / max(1, len(lengths)) or 1.0
        holders: dict[str, list[tuple[int, float]]] = {}
        for index, (one, length) in enumerate(zip(counts, lengths, strict=True)):
            penalty = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
            for word, count in one.items():
                holders.setdefault(word, []).append((index, count * (_SATURATION + 1) / (count + penalty)))
        self._holders = holders
        self._rarity = {word: _rarity(len(found), len(counts)) for word, found in holders.items()}
        self._names = [self._rarities(spec.name) for spec in self._specs]
        self._places = {spec.name: index for index, spec in enumerate(self._specs)}

    def search(self, query: str, limit: int = FOUND) -> list[ToolSpec]:
        """The best first, and of equals the first; none that shares no word with the query."""
        scores: dict[int, float] = {}
        query_words = self._rarities(query)
        for word, rarity in query_words.items():
            for place, weight in self._holders[word]:
                scores[place] = scores.get(place, 0.0) + rarity * weight
        for mention in (
            self._places.keys() & query.split()
        ):  # a name of common words and numbers has no word to be found by
            scores.setdefault(self._places[mention], _rarity(1, len(self._specs)))
        for place in scores:
            name = self._names[place]
            if shared := name.keys() & query_words.keys():
                share = math.fsum([name[word] for word in shared]) / math.fsum(name.values())
                scores[place] *= 1 + _WHOLE_NAME * share
        ranked = sorted(scores, key=lambda place: (-scores[place], place))
        return [self._specs[place] for place in ranked[:limit]]

    def _rarities(self, text: str) -> dict[str, float]:
        """The words of a text that any tool has."""
        return {word: self._rarity[word] for word in words(text) if word in self._rarity}


def _rarity(holders: int, tools: int) -> float:
    return math.log(1 + (tools - holders + 0.5) / (holders + 0.5))


def _counts(spec: ToolSpec) -> dict[str, float]:
    """How much each word says of a tool."""
    counts: dict[str, float] = {}
    schema: Any = msgspec.json.decode(spec.parameters)
    for text, weight in ((spec.name, _NAME_WEIGHT), (spec.description, 1.0), *_schema_texts(schema, _DEPTH)):
        for word in words(text):
            counts[word] = counts.get(word, 0.0) + weight
    return counts


def _schema_texts(schema: Any, depth: int) -> Iterator[tuple[str, float]]:
    if depth == 0 or not isinstance(schema, dict):
        return
    if isinstance(text := schema.get("description"), str):
        yield text, _DETAIL_WEIGHT
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        yield name, 1.0
        yield from _schema_texts(inner, depth - 1)
    choices = schema.get("enum")
    for choice in choices[:_VALUES] if isinstance(choices, list) else ():
        if isinstance(choice, str):
            yield choice, _DETAIL_WEIGHT
    yield from _schema_texts(schema.get("items"), depth - 1)


class FindTools:
    """The tool that finds tools. Its `details` name them: from then on the model is shown these, too (`core.found`)."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self._specs = specs
        self._index: ToolIndex | None = None  # made by the first search: most runs need none
        self.spec = ToolSpec(
            name=FIND_TOOLS,
            description=(
                f"Find tools for a task. There are {len(specs)} tools besides those that you see: say in a few words what you "
                "want to do, and you get the tools that fit best. You can call them from then on."
            ),
            parameters=parameters(
                {
                    "query": {"type": "string", "description": "What the tool should do, in a few words."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND, "default": FOUND},
                },
                "query",
            ),
            kind="builtin",
            repeatable=True,
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        if self._index is None:
            self._index = await aside(ToolIndex, self._specs)
        found = self._index.search(arguments["query"], arguments.get("limit", FOUND))
        details = {"found_tools": [spec.name for spec in found]}
        if not found:
            return ToolOutput("No tool fits. Try other words.", details=details)
        return ToolOutput(describe_found(found), details=details)


def with_finder(
    specs: Sequence[ToolSpec], limit: int, needed: Collection[str] = ()
) -> tuple[tuple[ToolSpec, ...], Tool | None]:
    """The tools as a run is to have them, and the tool that finds those that its model is not shown.

    Where there are more than `limit`, the tools that run here are put back, all of them: a caller's are its own to hold back
    (`defer_loading`). Those in `needed` are shown, since the choice names them.
    """
    many = len(specs) > limit
    if not many and not any(spec.deferred for spec in specs):
        return tuple(specs), None
    made = [_put_back(spec, many) if spec.name not in needed else replace(spec, deferred=False) for spec in specs]
    if not (deferred := [spec for spec in made if spec.deferred]) or any(spec.name == FIND_TOOLS for spec in specs):
        return tuple(specs), None
    finder = FindTools(deferred)
    return (finder.spec, *made), finder


def _put_back(spec: ToolSpec, many: bool) -> ToolSpec:
    if spec.deferred or (many and spec.kind in _PUT_BACK):
        # The caller's own words would tell an upstream to hold it back, too, also when it is found.
        return replace(spec, deferred=True, native=NULL, native_api="")
    return spec


_PUT_BACK: Final = ("function", "callback", "mcp", "dispatch")
