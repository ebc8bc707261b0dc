"""How much a caller's grammar may ask of the engine's compiler: rules, levels, repetitions → a BadRequest, or nothing.

The text of a Lark grammar is only cut into words, which is enough to see which rule names which, and what is repeated how
often. What is no grammar at all the engine refuses.
"""

from __future__ import annotations

import json
import re
from typing import Final

from msgspec import Struct

from ronda.errors import BadRequest
from ronda.local import schema_bounds
from ronda.local.markup.custom import Custom, lark_of
from ronda.schema.bounds import MAX_STATES, count_states
from ronda.schema.subschemas import sum_up

MAX_BYTES: Final = 64 * 1024
MAX_WORDS: Final = 10_000
MAX_RULES: Final = 500
MAX_LEVELS: Final = 100  # rules that lead to rules, and brackets in brackets; the compiler breaks down at some 3000
MAX_REPEATS: Final = 10_000  # repetitions in repetitions multiplied

_WORD: Final = re.compile(
    r"""
      (?P<blank>\s+|//[^\n]*|\#[^\n]*)
    | (?P<json>%json\s*)
    | (?P<definition>^[ \t]*[!?]?[A-Za-z_][\w-]*[ \t]*(?:\.-?\d+[ \t]*)?(?:\[[^\]\n]*\][ \t]*|\{[^}\n]*\}[ \t]*|::[^:\n]*)?:)
    | (?P<text>"(?:\\.|[^"\\])*+"i?)
    | (?P<regex>/(?:\\.|[^/\\\n])++/[a-z]*)
    | (?P<repeat>\{\s*\d*\s*(?:,\s*\d*\s*)?\}|~\s*\d+(?:\s*\.\.\s*\d+)?)
    | (?P<name>[A-Za-z_@][\w-]*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")


def check_grammar(custom: Custom, size: int) -> None:
    """`size`: of the whole, in bytes. Raises BadRequest, naming `grammar`, for what is beyond the bounds."""
    if size > schema_bounds.MAX_BYTES:
        raise _refusal(f"it has {size} bytes", f"{schema_bounds.MAX_BYTES} bytes")
    match custom.type:
        case "json_schema":
            schema_bounds.check_schema(custom.value, "grammar")
        case "regex":
            _check_size(custom.value)
            _check_regex(custom.value)
        case _:
            text = lark_of(custom)
            _check_size(text)
            _Reading(text).check()


def _refusal(what: str, most: str) -> BadRequest:
    return BadRequest(f"`grammar`: {what}; a local model takes at most {most}", param="grammar")


def _check_size(text: str) -> None:
    if len(text) > MAX_BYTES:
        raise _refusal(f"it has {len(text)} characters", f"{MAX_BYTES} characters")


def _check_regex(pattern: str) -> None:
    if (states := count_states(pattern)) > MAX_STATES:
        raise _refusal(f"a regular expression has {states} states, repetitions counted", f"{MAX_STATES} states")
    depth = deepest = 0
    for bracket in re.findall(r"\\.|[()]", pattern):
        depth += {"(": 1, ")": -1}.get(bracket, 0)
        deepest = max(deepest, depth)
    if deepest > MAX_LEVELS:
        raise _refusal(f"a regular expression has {deepest} brackets in brackets", f"{MAX_LEVELS} levels")


class _Use(Struct):
    """A rule named in another, or a text (no name), which may come so often."""

    name: str
    times: int = 1


class _Reading:
    """One Lark text. A nested one (`%lark {…}`) is read as if its rules were the outer one's: too much rather than too little."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rules: dict[str, list[_Use]] = {}
        self._groups: list[list[_Use]] = [[]]  # open brackets, the rule itself first; what each holds so far
        self._last: list[_Use] = []  # what a repetition behind it would repeat

    def check(self) -> None:
        at = words = 0
        while (found := _WORD.match(self._text, at)) is not None:
            at = found.end()
            if (kind := found.lastgroup) == "blank":
                continue
            words += 1
            if words > MAX_WORDS:
                raise _refusal("it is too long", f"{MAX_WORDS} words")
            if kind == "json":
                at = self._skip_json(at)
            else:
                self._read(str(kind), found[0])
        self._sum()

    def _read(self, kind: str, word: str) -> None:
        if kind == "definition":
            name = _NAME.search(word)
            self._groups = [self._rules.setdefault(name[0] if name is not None else "", [])]
            self._last = []
            if len(self._rules) > MAX_RULES:
                raise _refusal("it has too many rules", f"{MAX_RULES} rules")
        elif kind == "repeat":
            times = max([1, *[int(number[:10]) for number in re.findall(r"\d+", word)]])
            for use in self._last:
                use.times = min(use.times * times, MAX_REPEATS**2)
        elif word in ("(", "["):
            self._groups.append([])
            if len(self._groups) > MAX_LEVELS:
                raise _refusal("it has too many brackets in brackets", f"{MAX_LEVELS} levels")
        elif word in (")", "]"):
            self._last = self._groups.pop() if len(self._groups) > 1 else []
            self._groups[-1] += self._last
        elif kind in ("text", "regex", "name"):
            if kind == "regex":
                _check_regex(word[1:].rpartition("/")[0])
            self._last = [_Use(word if kind == "name" else "")]
            self._groups[-1] += self._last

    def _skip_json(self, at: int) -> int:
        try:
            schema, end = json.JSONDecoder().raw_decode(self._text, at)
        except RecursionError:
            raise _refusal("a schema in it is nested too deep", f"{MAX_LEVELS} levels") from None
        except ValueError:
            return at  # the engine says what is wrong with it
        schema_bounds.check_schema(schema, "grammar")
        return end

    def _sum(self) -> None:
        """Rules that lead to rules. One that comes back to itself goes no deeper by that."""

        def below(name: str) -> list[list[str]]:
            return [[use.name for use in self._rules.get(name, ())]]

        def add(name: str, sums: list[list[tuple[int, int]]]) -> tuple[int, int]:
            if name not in self._rules:  # a text
                return 0, 1
            levels = 1 + max((levels for levels, _ in sums[0]), default=0)
            uses = zip(self._rules[name], sums[0], strict=True)
            repeats = max((repeats * use.times for use, (_, repeats) in uses), default=1)
            if levels > MAX_LEVELS:
                raise _refusal(f"its rules lead through more than {MAX_LEVELS} others", f"{MAX_LEVELS} levels")
            if repeats > MAX_REPEATS:
                raise _refusal(f"repetitions come to {repeats}", f"{MAX_REPEATS}, those in one another multiplied")
            return levels, repeats

        sum_up(self._rules, str, below, add, (0, 1))
