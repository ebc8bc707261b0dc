"""A grammar of ours and a text → whether the text is in it. As slow and plain as it can be, and no engine needed.

Reads what we write of llguidance's Lark: rules, literals, expressions, `%json`, `%lark`, control tokens; `lazy` is the shortest
match. A limit on tokens says when to stop, not what may be written, and is passed over.
"""

import importlib
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from ronda.schema.validate import Validator

_TOKEN: Final = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<regex>/(?:[^/\\]|\\.)+/)|(?P<special><[^<>\s]+>)|(?P<name>[A-Za-z][\w-]*)'
    r"|(?P<count>\{\d+(?:,\d*)?\})|(?P<op>[()|?*&~])|(?P<json>%json\s+)|(?P<lark>%lark\s*\{)|(?P<blank>\s+)"
)
_RULE: Final = re.compile(r"([A-Za-z]\w*)(\[[^\]]*\])?: ?(.*)", re.DOTALL)

_Node: TypeAlias = tuple[Any, ...]


def matches(grammar: str, text: str, tokens: Mapping[str, int] | None = None) -> bool:
    """Whether the whole text is in the grammar; `tokens` are the numbers the control tokens in it stand for."""
    rules = Grammar(grammar, {number: marker for marker, number in (tokens or {}).items()})
    return any(end == len(text) for end in rules.ends(("name", "start"), text, 0))


def compiles(grammar: str) -> None:
    """Ask the real thing, where it is installed."""
    if importlib.util.find_spec("llguidance") is None:
        return
    llguidance = importlib.import_module("llguidance")
    problem = llguidance.LLMatcher.validate_grammar(grammar, llguidance.LLTokenizer("byte"))
    assert not problem, f"{problem}\n{grammar}"


class Grammar:
    def __init__(self, grammar: str, numbers: Mapping[int, str]) -> None:
        self._numbers = numbers
        self.rules: dict[str, _Node] = {}
        text = grammar.removeprefix("%llguidance {}\n")
        while text.strip():
            found = _RULE.match(text)
            assert found, text[:80]
            body, rest = self._expression(found[3])
            self.rules[found[1]] = ("lazy", body) if "lazy" in (found[2] or "") else body
            text = rest.lstrip("\n")

    # ---- reading -------------------------------------------------------------------------------------------------------

    def _expression(self, text: str) -> tuple[_Node, str]:
        """One rule's body: up to the end of its line."""
        options: list[list[_Node]] = [[]]
        while text and not text.startswith(("\n", ")")):
            found = _TOKEN.match(text)
            assert found, text[:80]
            kind, token, text = found.lastgroup, found[0], text[found.end() :]
            row = options[-1]
            if kind == "blank" and "\n" in token:
                text = token + text
                break
            if kind == "string":
                row.append(("text", json.loads(token)))
            elif kind == "regex":
                row.append(("regex", re.compile(token[1:-1])))
            elif kind == "special":
                number = re.fullmatch(r"<\[(\d+)\]>", token)
                row.append(("text", self._numbers[int(number[1])] if number else token))
            elif kind == "name":
                row.append(("name", token))
            elif kind == "json":
                schema, end = json.JSONDecoder().raw_decode(text)
                text = text[end:]
                schema.pop("x-guidance", None)
                row.append(("json", Validator(schema)))
            elif kind == "lark":
                inner, _, text = text.partition("\n}")
                row.append(("lark", Grammar(inner.lstrip("\n"), self._numbers)))
            elif kind == "count":
                least, _, most = token[1:-1].partition(",")
                row[-1] = ("repeat", row[-1], int(least), int(most or least if "," not in token else most or 10**6))
            elif token == "(":
                group, text = self._expression(text)
                assert text.startswith(")"), text[:80]
                text = text[1:]
                row.append(group)
            elif token == "|":
                options.append([])
            elif token == "?":
                row[-1] = ("repeat", row[-1], 0, 1)
            elif token == "*":
                row[-1] = ("repeat", row[-1], 0, 10**6)
            elif token in "&~":
                row.append((token,))
        return ("either", *[_row(row) for row in options]), text

    # ---- matching ------------------------------------------------------------------------------------------------------

    def ends(self, node: _Node, text: str, at: int) -> Iterator[int]:
        """Every place where a match that begins at `at` may end."""
        match node:
            case ("text", literal):
                if text.startswith(literal, at):
                    yield at + len(literal)
            case ("regex", pattern):
                for end in range(at, len(text) + 1):
                    if pattern.fullmatch(text, at, end):
                        yield end
            case ("name", name):
                yield from set(self.ends(self.rules[name], text, at))
            case ("lazy", inner):
                yield from sorted(self.ends(inner, text, at))[:1]
            case ("json", validator):
                yield from _json_ends(validator, text, at)
            case ("lark", grammar):
                yield from grammar.ends(("name", "start"), text, at)
            case ("either", *options):
                for option in options:
                    yield from self.ends(option, text, at)
            case ("row", *items):
                yield from self._row_ends(items, text, at)
            case ("and", *parts):
                whole = [set(self.ends(part, text, at)) for part in parts if part[0] != "not"]
                never = [set(self.ends(part[1], text, at)) for part in parts if part[0] == "not"]
                yield from set.intersection(*whole) - set().union(*never)
            case ("repeat", item, least, most):
                yield from self._repeat_ends(item, least, most, text, at)
            case _:
                raise AssertionError(node)

    def _row_ends(self, items: list[_Node], text: str, at: int) -> Iterator[int]:
        places = {at}
        for item in items:
            places = {end for place in places for end in self.ends(item, text, place)}
        yield from places

    def _repeat_ends(self, item: _Node, least: int, most: int, text: str, at: int) -> Iterator[int]:
        places, seen, times = {at}, set[int](), 0
        while places and times <= most:
            if times >= least:
                yield from places - seen
                seen |= places
            places = {end for place in places for end in self.ends(item, text, place) if end > place or times < least}
            times += 1


def _row(items: list[_Node]) -> _Node:
    """A sequence; or, in a terminal, what must match at once and what must not."""
    if ("&",) not in items:
        return ("row", *items)
    parts: list[_Node] = []
    negated = False
    for item in items:
        if item == ("~",):
            negated = True
        elif item != ("&",):
            parts.append(("not", item) if negated else item)
            negated = False
    return ("and", *parts)


def _json_ends(validator: Validator, text: str, at: int) -> Iterator[int]:
    try:
        value, end = json.JSONDecoder().raw_decode(text, at)
    except ValueError:
        return
    if text[at:end] == json.dumps(value, ensure_ascii=False) and not validator.problems(value):
        yield end
