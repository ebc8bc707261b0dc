"""A Mustache template and its inputs → segments.

Variables (never escaped: a prompt is not HTML), sections, inverted sections, lists, dotted names, `.`, comments, delimiters.
A tag that stands alone on its line takes the line with it, as Mustache has it. Partials and lambdas would be code or files from
elsewhere: there are none. Read templates are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import Struct

from ronda.prompty.segments import Budget, Out, Rich, Segment, TemplateError
from ronda.prompty.template_values import UNDEFINED, items_of, member, text, truthy


class Literal(Struct, frozen=True, gc=False):
    text: str


class Variable(Struct, frozen=True, gc=False):
    name: str


class Section(Struct, frozen=True, gc=False):
    name: str
    inverted: bool
    body: tuple[Node, ...]


Node: TypeAlias = Literal | Variable | Section

# Values in reach, innermost last, each with the inputs it came from; the inputs themselves are the outermost.
_Frame: TypeAlias = tuple[Any, tuple[str, ...]]


def render(template: str, inputs: Mapping[str, Any], out: Out, budget: Budget) -> tuple[Segment, ...]:
    _write(read(template), [(dict(inputs), ())], out, budget)
    return out.finish()


def names(template: str) -> frozenset[str]:
    """Every name the template mentions, without what follows its dot."""
    found: set[str] = set()

    def look(nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            if not isinstance(node, Literal):
                found.add(node.name.split(".")[0])
            if isinstance(node, Section):
                look(node.body)

    look(read(template))
    return frozenset(found)


def _write(nodes: tuple[Node, ...], frames: list[_Frame], out: Out, budget: Budget) -> None:
    for node in nodes:
        budget.step()
        if isinstance(node, Literal):
            out.literal(node.text)
            continue
        value, origins = _find(node.name, frames)
        if isinstance(node, Variable):
            if isinstance(value, Rich):
                out.rich(value)
            else:
                out.interp(text(value, budget), origins)
        elif node.inverted:
            if not truthy(value):
                _write(node.body, frames, out, budget)
        elif isinstance(value, list) or (isinstance(value, Rich) and isinstance(value.value, list)):
            for item in items_of(value):
                _write(node.body, [*frames, (item, origins)], out, budget)
        elif truthy(value):
            _write(node.body, [*frames, (value, origins)], out, budget)


def _find(name: str, frames: list[_Frame]) -> _Frame:
    if name == ".":
        return frames[-1]
    first, *rest = name.split(".")
    for index in range(len(frames) - 1, -1, -1):
        whole, origins = frames[index]
        value = member(whole, first) if isinstance(whole, dict | Rich) or first.startswith("__") else UNDEFINED
        if value is not UNDEFINED:
            for key in rest:
                value = member(value, int(key) if key.isdecimal() else key)
            return value, origins or (first,)
    return UNDEFINED, (first,)


@lru_cache(maxsize=256)
def read(template: str) -> tuple[Node, ...]:
    return _Reader(template).read()


class _Reader:
    def __init__(self, template: str) -> None:
        self._template = template
        self._open, self._close = "{{", "}}"
        self._at = 0
        self._bodies: list[list[Node]] = [[]]
        self._sections: list[tuple[str, bool]] = []

    def read(self) -> tuple[Node, ...]:
        while (start := self._template.find(self._open, self._at)) >= 0:
            sigil, inner, end = self._tag(start)
            text = self._template[self._at : start]
            if sigil not in ("", "&", "{"):
                text, end = self._standalone(text, start, end)
            self._literal(text)
            self._at = end
            self._take(sigil, inner, start)
        self._literal(self._template[self._at :])
        if self._sections:
            raise TemplateError(f"Template syntax error: the section '{self._sections[-1][0]}' is never closed")
        return tuple(self._bodies[0])

    def _tag(self, start: int) -> tuple[str, str, int]:
        begin = start + len(self._open)
        sigil = self._template[begin : begin + 1]
        sigil = sigil if sigil in set("#^/!>&={") else ""
        close = {"{": "}" + self._close, "=": "=" + self._close}.get(sigil, self._close)
        end = self._template.find(close, begin + len(sigil))
        if end < 0:
            raise TemplateError(f"Template syntax error: a tag is never closed (line {self._line(start)})")
        return sigil, self._template[begin + len(sigil) : end].strip(), end + len(close)

    def _standalone(self, text: str, start: int, end: int) -> tuple[str, int]:
        """A tag that is all of its line takes the line with it."""
        line = self._template.rfind("\n", 0, start) + 1
        after = _LINE_END.match(self._template, end)
        if after is None or self._template[line:start].strip(" \t") or self._at > line:
            # What stands before on this line was read already, unless that was the end of another line's tag.
            return text, end
        return text[: len(text) - (start - line)], after.end()

    def _take(self, sigil: str, inner: str, start: int) -> None:
        match sigil:
            case "!":
                return
            case "=":
                parts = inner.split()
                if len(parts) != 2 or any("=" in part for part in parts):
                    raise TemplateError(f"Template syntax error: bad delimiters (line {self._line(start)})")
                self._open, self._close = parts
            case ">":
                raise TemplateError(f"partials are not allowed in a template: '{inner}' (line {self._line(start)})")
            case "#" | "^":
                if len(self._sections) >= _DEPTH:
                    raise TemplateError(f"Template syntax error: sections nest more than {_DEPTH} deep")
                self._sections.append((self._name(inner, start), sigil == "^"))
                self._bodies.append([])
            case "/":
                if not self._sections or self._sections[-1][0] != inner:
                    raise TemplateError(
                        f"Template syntax error: '{inner}' is closed, not open (line {self._line(start)})"
                    )
                name, inverted = self._sections.pop()
                body = tuple(self._bodies.pop())
                self._bodies[-1].append(Section(name, inverted, body))
            case _:
                self._bodies[-1].append(Variable(self._name(inner, start)))

    def _name(self, inner: str, start: int) -> str:
        if not inner or (inner != "." and not all(inner.split("."))) or any(mark.isspace() for mark in inner):
            raise TemplateError(f"Template syntax error: '{inner}' is not a name (line {self._line(start)})")
        return inner

    def _literal(self, text: str) -> None:
        if text:
            self._bodies[-1].append(Literal(text))

    def _line(self, at: int) -> int:
        return self._template.count("\n", 0, at) + 1


_DEPTH = 40
_LINE_END = re.compile(r"[ \t]*(?:\r?\n|\Z)")
