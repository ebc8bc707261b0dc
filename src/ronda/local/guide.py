"""The words of a question, and those of the tools → the tools that a small model should call now, if any.

A model of a few hundred million parameters that was never shown tools does not begin a call by itself, however it is asked: it
answers. It can fill in a call that it must make. So whether it calls is decided here, from words only: how many words of the
question a tool uses to describe itself, and whether the question names things that could be arguments. That is no
understanding. It needs a language that puts blanks between words, and misses what is said in other words ("Is it raining?"
where the tool says weather); then the model answers, as it would have without this.

Only the last question is looked at, so that no tool is called for "Thank you!". docs/models.md has the figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from ronda.core.parts import Text, Turn, UserTurn
from ronda.core.plan import ToolSpec

# Chosen on 69 tasks of function calling and 128 questions without; docs/models.md has the results on others.
ENOUGH: Final = 1.5  # points: words that are shared, and values
WORDS_PER_SHARED: Final = 12  # in a long text some words are shared by chance
PARAMETER_WORD: Final = 0.5  # a word from a tool's parameters, beside one from its name or description
MOST_VALUES: Final = 3

_WORD: Final = re.compile(r"[^\W\d_]{4,40}")  # shorter ones are articles and the like, in most languages
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDINGS: Final = re.compile(r"(?<=...)(?:ations?|ings?|ies|ed|es|s|e|ly|y|or|er)$")
_COMMON: Final = frozenset(
    _WORD.findall(
        """about above after again also because been before being below between both could does doing down during each
        every find from further give have having here into just know like make more most much need once only other over
        please same should show some such tell than that their them then there these they this those through under until
        used using very want were what when where which while whom will with would your"""
    )
)
# What may become an argument: numbers, quotations, addresses, names in the middle of a sentence, abbreviations.
_VALUE: Final = re.compile(
    r"\d[\d.,:/%-]*|\"[^\"\n]{1,200}\"|'[^'\n]{2,200}'|[^\s@]{1,64}@[^\s@]{1,200}|(?<=[a-z,;:] )[A-Z]\w+|\b[A-Z]{2,5}\b"
)


def tools_to_call(turns: Sequence[Turn], tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    """The names of the tools that fit the last question best, if they fit well enough; () when it is to be answered."""
    question = _last_question(turns)
    words = set(_words(question))
    if not words or not tools:
        return ()
    shared = {tool.name: _shared_words(words, tool) for tool in tools}
    best = max(shared.values())
    values = sum(1 for _ in islice(_VALUE.finditer(question), MOST_VALUES))
    if not best or best < len(words) / WORDS_PER_SHARED or best + values < ENOUGH:
        return ()
    return tuple(name for name, points in shared.items() if points == best)


def _last_question(turns: Sequence[Turn]) -> str:
    last = turns[-1] if turns else None
    return "\n".join([part.text for part in last.parts if type(part) is Text]) if type(last) is UserTurn else ""


def _shared_words(words: set[str], tool: ToolSpec) -> float:
    own = set(_words(f"{tool.name} {tool.description}"))
    parameters = set(_words(" ".join(_texts(msgspec.json.decode(tool.parameters)))))
    return len(words & own) + PARAMETER_WORD * len(words & (parameters - own))


def _words(text: str) -> Iterator[str]:
    for found in _WORD.finditer(_HUMP.sub(" ", text)):
        if (word := found[0].lower()) not in _COMMON:
            yield _ENDINGS.sub("", word)


def _texts(schema: Any) -> Iterator[str]:
    """The names, descriptions and listed values of a tool's parameters."""
    todo = [schema]
    while todo:
        node = todo.pop()
        if not isinstance(node, dict):
            continue
        if isinstance(properties := node.get("properties"), dict):
            yield from properties
            todo += properties.values()
        todo.append(node.get("items"))
        for texts in ([node.get("description")], node.get("enum")):
            yield from [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else ()
