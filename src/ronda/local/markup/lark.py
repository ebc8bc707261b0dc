"""The text of a grammar, piece by piece, in llguidance's dialect of Lark.

Knows how things are quoted there, which markers are tokens, and how a row of optional members is said. Knows no family.

A marker that the vocabulary holds as a control token can only be had as that token: no text is it. By name where llguidance
can say the name (`<|…|>`), by its number where the vocabulary is known: `[TOOL_CALLS]` has no other way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ronda.local.grammar import SEPARATORS

ANY_TEXT: Final = "(?s:.*)"
_NAMEABLE: Final = re.compile(r"<[^<>\s]+>")
_META: Final = re.compile(r"[\\.+*?()|\[\]{}^$/#&~-]")


def literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def in_regex(text: str) -> str:
    """A text as part of a regular expression between slashes."""
    return _META.sub(lambda meta: "\\" + meta[0], text).replace("\n", "\\n")


class Lark:
    def __init__(self, control: frozenset[str], tokens: Mapping[str, int] | None) -> None:
        if tokens is None:
            self._refs = {marker: marker for marker in control if _NAMEABLE.fullmatch(marker)}
        else:
            self._refs = {marker: f"<[{token}]>" for marker, token in tokens.items()}
        self._rules: list[str] = []
        self._known: dict[tuple[str, str], str] = {}

    def is_token(self, marker: str) -> bool:
        return marker in self._refs

    def text(self, *pieces: str) -> str:
        """A literal text, with the control tokens in it as such."""
        whole = "".join(pieces)
        found = [marker for marker in self._refs if marker in whole]
        split = (
            re.split("(" + "|".join(map(re.escape, sorted(found, key=len, reverse=True))) + ")", whole)
            if found
            else [whole]
        )
        return " ".join(self._refs.get(piece, literal(piece)) for piece in split if piece)

    def fill(self, text: str, terminals: Mapping[str, str]) -> str:
        """A literal text in which some places are to be filled in by the model."""
        split = re.split("(" + "|".join(map(re.escape, terminals)) + ")", text)
        return " ".join([self.terminal(terminals[one]) if one in terminals else self.text(one) for one in split if one])

    def rule(self, body: str, options: str = "", name: str = "r") -> str:
        """A rule of its own, or the one that says the same."""
        if (body, options) not in self._known:
            made = f"{name}{len(self._known)}"
            self._known[body, options] = made
            self._rules.append(f"{made}{f'[{options}]' if options else ''}: {body}")
        return self._known[body, options]

    def terminal(self, body: str) -> str:
        return self.rule(body, name="T")

    def json(self, schema: Any) -> str:
        whole = {**schema, "x-guidance": SEPARATORS}
        return self.rule(f"%json {json.dumps(whole, ensure_ascii=False)}", name="j")

    def members(self, members: Sequence[tuple[str, bool]], separator: str) -> str:
        """Members in their order, each there or, if it is not required, perhaps not there; a separator between any two."""
        if not members:
            return ""
        between = f"{literal(separator)} " if separator else ""
        rest = first = ""
        for body, required in reversed(members):
            before = first
            then = f" {rest}" if rest else ""
            if required:
                first = self.rule(body + then)
                rest = self.rule(f"{between}{body}{then}")
            else:
                first = self.rule(f"{body}{then} | {before}" if before else f"({body}{then})?")
                rest = self.rule(f"({between}{body})?{then}")
        return first

    def items(self, first: Sequence[str], rest: str, least: int, most: int, separator: str) -> str:
        """From `least` to `most` items, the first of them each in its own form."""
        between = f"{literal(separator)} "
        size = min(len(first), most)
        tail = ""
        if rest and most > size:
            more = (max(0, least - size), most - size)
            tail = f"({between if size else ''}{rest})"
            if size:
                tail = f"({between}{rest}){{{more[0]},{more[1]}}}"
            elif more[1] == 1:
                tail = rest if more[0] else f"({rest})?"
            else:
                several = f"{rest} ({between}{rest}){{{max(0, more[0] - 1)},{more[1] - 1}}}"
                tail = several if more[0] else f"({several})?"
        for n in reversed(range(size)):
            body = f"{between if n else ''}{first[n]}{f' {tail}' if tail else ''}"
            tail = self.rule(body) if n < least else f"({self.rule(body)})?"
        return tail

    def write(self, start: str) -> str:
        return "\n".join(["%llguidance {}", f"start: {start}", *self._rules, ""])


def alternatives(options: Iterable[str]) -> str:
    found = list(dict.fromkeys(options))
    return found[0] if len(found) == 1 else "(" + " | ".join(found) + ")"
