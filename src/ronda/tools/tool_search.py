"""Many tools → the few that fit what a model looks for: BM25 over their names, descriptions and parameters.

A model that is shown hundreds of definitions chooses badly and pays for all of them. It gets `find_tools` instead, and the tools
that it found. Nothing here knows where a tool comes from, or how it is offered.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ronda.core.parts import NULL
from ronda.core.plan import ToolSpec
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.drive.offload import aside

FIND_TOOLS: Final = "find_tools"
FOUND: Final = 5  # tools that one search gives, unless the model asks for more
MAX_FOUND: Final = 20
# Robertson's usual constants; a shorter length penalty, since a tool with many parameters is not less likely the right one.
_SATURATION: Final = 1.2
_LENGTH: Final = 0.5
_NAME_WEIGHT: Final = 3  # a word of the name says more than one of the prose
_DEPTH: Final = 6  # of nested parameters

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_COMMON: Final = {
    *("a", "an", "the", "this", "that", "it", "its", "i", "me", "my", "you", "your", "them", "their"),
    *("and", "or", "if", "then", "of", "to", "in", "on", "at", "by", "for", "from", "with", "as"),
    *("is", "are", "be", "was", "do", "does", "has", "have", "can", "could", "will", "would", "should"),
    *("how", "what", "when", "where", "which", "want", "need", "please"),
}


def words(text: str) -> list[str]:
    """`getUserName`, `get_user_names` and "get user's names" have the same words."""
    return [_stem(word) for word in map(str.lower, _WORDS.findall(text)) if word not in _COMMON]


def _stem(word: str) -> str:
    """Enough to make one word of its forms; what it does to a word that has none does not matter, as it does it each time."""
    for ending in ("ations", "ation", "ings", "ing", "ers", "er", "ies", "es", "ed", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


class ToolIndex:
    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        self._specs = tuple(specs)
        self._counts = [Counter(_terms(spec)) for spec in self._specs]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / max(1, len(self._lengths)) or 1.0
        self._holders = Counter(term for counts in self._counts for term in counts)

    def search(self, query: str, limit: int = FOUND) -> list[ToolSpec]:
        """The best first; none that shares no word with the query."""
        scores = [0.0] * len(self._specs)
        for term in dict.fromkeys(words(query)):
            holders = self._holders.get(term, 0)
            if not holders:
                continue
            rarity = math.log(1 + (len(self._specs) - holders + 0.5) / (holders + 0.5))
            for place, counts in enumerate(self._counts):
                if count := counts.get(term):
                    length = 1 - _LENGTH + _LENGTH * self._lengths[place] / self._mean
                    scores[place] += rarity * count * (_SATURATION + 1) / (count + _SATURATION * length)
        ranked = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
        return [self._specs[place] for place in ranked[:limit] if scores[place] > 0]


def _terms(spec: ToolSpec) -> list[str]:
    schema: Any = msgspec.json.decode(spec.parameters)
    return [*words(spec.name) * _NAME_WEIGHT, *words(spec.description), *_schema_terms(schema, _DEPTH)]


def _schema_terms(schema: Any, depth: int) -> list[str]:
    if depth == 0 or not isinstance(schema, dict):
        return []
    found = words(schema["description"]) if isinstance(schema.get("description"), str) else []
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        found += words(name)
        found += _schema_terms(inner, depth - 1)
    choices = schema.get("enum")
    for choice in choices[:20] if isinstance(choices, list) else ():
        found += words(choice) if isinstance(choice, str) else []
    return found + _schema_terms(schema.get("items"), depth - 1)


class FindTools:
    """The tool that finds tools. Its `details` name them: from then on the model is shown these, too (`core.found`)."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self._specs = specs
        self._index: ToolIndex | None = None  # made by the first search: most runs need none
        self.spec = ToolSpec(
            name=FIND_TOOLS,
            description=(
                f"Find tools for a task. There are {len(specs)} tools beside those that you see: say in a few words what you "
                "want to do, and you get the tools that fit best. You can call them from then on."
            ),
            parameters=Raw(
                msgspec.json.encode(
                    {
                        "type": "object",
                        "properties": {
                            "query": {"type": "string", "description": "What the tool should do, in a few words."},
                            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND, "default": FOUND},
                        },
                        "required": ["query"],
                        "additionalProperties": False,
                    }
                )
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
        lines = [f"{spec.name}: {spec.description.strip().partition(chr(10))[0][:300]}" for spec in found]
        return ToolOutput("\n".join(lines), details=details)


def with_finder(
    specs: Sequence[ToolSpec], most: int, needed: Collection[str] = ()
) -> tuple[tuple[ToolSpec, ...], Tool | None]:
    """The tools as a run is to have them, and the tool that finds those that its model is not shown.

    Where there are more than `most`, the tools that run here are put back, all of them: a caller's are its own to hold back
    (`defer_loading`). Those in `needed` are shown, since the choice names them.
    """
    many = len(specs) > most
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
