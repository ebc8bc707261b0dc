"""YAML text → plain JSON values, and the line where each of them stands.

Prompty files may come from strangers, so only what JSON could say gets through: text keys, no tags that construct things, no key
twice, no number that JSON lacks. Aliases and merge keys work, but count as what they stand for, so a billion laughs end
early; the text is read as a flat stream of events, so depth never reaches the stack. Scalars are those of YAML 1.2 (`no` is
a word, `2026-01-01` is text), as in most runtimes of the format.

What the parser cannot get past is raised; what it can is noted in `faults`, and reading goes on, so that all are found.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from msgspec import Struct

Place: TypeAlias = tuple[str | int, ...]  # keys and positions from the root

MAX_DEPTH: Final = 60
MAX_NODES: Final = 20_000  # with every alias counted as what it stands for

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "True", "TRUE"})
_FALSE: Final = frozenset({"false", "False", "FALSE"})
_NUMBER: Final = re.compile(
    r"(?P<int>[-+]?[0-9]+)|(?P<base>0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)|(?P<none>[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
)
_CORE: Final = "tag:yaml.org,2002:"
_MAX_NUMBER: Final = 400  # characters
_LARGEST: Final = 2**64


class Fault(Struct, frozen=True):
    """`is_non_text_key`: the key is a number, a boolean or null; it was read as the text that stands there."""

    line: int
    place: Place
    message: str
    is_non_text_key: bool = False


class Tree(Struct):
    """`lines` has no entry for what came through an alias or a merge: the nearest one above says where."""

    value: Any
    lines: dict[Place, int]
    faults: list[Fault]

    def line(self, place: Place) -> int | None:
        while place not in self.lines:
            if not place:
                return None
            place = place[:-1]
        return self.lines[place]


class BadYaml(ValueError):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse_yaml(text: str, first_line: int = 1) -> Tree:
    """Lines are counted from `first_line`, where the text stands in its file. Raises `BadYaml`."""
    return _Builder(first_line).build(text)


class _Frame:
    """A mapping or list that is still open."""

    __slots__ = ("anchor", "before", "items", "key", "key_line", "line", "merged", "merges", "place", "taken")

    def __init__(self, items: dict[str, Any] | list[Any], place: Place, line: int, anchor: str | None, before: int):
        self.items = items
        self.place = place
        self.line = line
        self.anchor = anchor
        self.before = before  # nodes counted before this one
        self.key: str | None = None
        self.key_line = line
        self.merges = False  # the key is <<
        self.merged: list[dict[str, Any]] = []
        self.taken: dict[str, int] = {}  # the key → its line


class _Builder:
    def __init__(self, first_line: int) -> None:
        self._first = first_line
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int] | None] = {}  # value and size; None while it is still open
        self._count = 0
        self._root: Any = None
        self._tree = Tree(None, {}, [])

    def build(self, text: str) -> Tree:
        documents = 0
        for event, line in self._events(text):
            name = type(event).__name__
            if name == "ScalarEvent":
                self._scalar(event, line)
            elif name in ("MappingStartEvent", "SequenceStartEvent"):
                self._open(event, line, {} if name == "MappingStartEvent" else [])
            elif name in ("MappingEndEvent", "SequenceEndEvent"):
                self._close()
            elif name == "AliasEvent":
                self._alias(event.anchor, line)
            elif name == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise BadYaml("a second document begins here", line)
        self._tree.value = self._root
        return self._tree

    def _events(self, text: str) -> Iterator[tuple[Any, int]]:
        import yaml  # 25 ms that a program without prompty files never needs

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            for event in yaml.parse(text, Loader=loader):
                yield event, event.start_mark.line + self._first
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = ", ".join(part for part in (error.context, error.problem) if part)
            raise BadYaml(line, (mark.line if mark else 0) + self._first) from error
        except (yaml.YAMLError, UnicodeError) as error:
            raise BadYaml(str(error).partition("\n")[0], self._first) from error

    # ---- events -------------------------------------------------------------------------------------------------------

    def _open(self, event: Any, line: int, items: dict[str, Any] | list[Any]) -> None:
        if len(self._frames) >= MAX_DEPTH:
            raise BadYaml(f"nested more than {MAX_DEPTH} deep", line)
        if event.tag not in (None, f"{_CORE}map", f"{_CORE}seq"):
            self._fault(line, self._next_place(), f"the tag {event.tag} is not allowed")
        before = self._count
        self._grow(1, line)
        if event.anchor:
            self._anchors[event.anchor] = None
        self._frames.append(_Frame(items, self._next_place(), line, event.anchor, before))

    def _close(self) -> None:
        frame = self._frames.pop()
        for merged in frame.merged:
            assert isinstance(frame.items, dict)
            for key, value in merged.items():
                frame.items.setdefault(key, value)
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.items, self._count - frame.before)
        self._put(frame.items, frame.line)

    def _scalar(self, event: Any, line: int) -> None:
        self._grow(1, line)
        frame = self._frames[-1] if self._frames else None
        if frame is not None and isinstance(frame.items, dict) and frame.key is None:
            self._key(frame, event, line)
            return
        value = self._value(event, line)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._put(value, line)

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self._anchors:
            raise BadYaml(f"the alias *{anchor} has no anchor before it", line)
        known = self._anchors[anchor]
        if known is None:
            raise BadYaml(f"the alias *{anchor} stands inside of what it names", line)
        frame = self._frames[-1] if self._frames else None
        if frame is not None and isinstance(frame.items, dict) and frame.key is None:
            raise BadYaml("an alias cannot be a key", line)
        self._grow(known[1], line)
        self._put(known[0], line)

    # ---- values -------------------------------------------------------------------------------------------------------

    def _key(self, frame: _Frame, event: Any, line: int) -> None:
        key: str = event.value
        place = (*frame.place, key)
        frame.merges = key == "<<" and event.implicit[0]  # in quotes it is a key as any other
        value = self._value(event, line)
        if not isinstance(value, str):
            message = f'the key {key or "null"} is not text: write "{key}" in quotes'
            self._tree.faults.append(Fault(line, place, message, is_non_text_key=True))
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        if key in frame.taken and not frame.merges:
            self._fault(line, place, f"the key '{key}' stands here twice, first in line {frame.taken[key]}")
        frame.taken.setdefault(key, line)
        frame.key = key
        frame.key_line = line
        self._tree.lines.setdefault(place, line)

    def _put(self, value: Any, line: int) -> None:
        if not self._frames:
            self._root = value
            self._tree.lines.setdefault((), line)
            return
        frame = self._frames[-1]
        if isinstance(frame.items, list):
            self._tree.lines.setdefault((*frame.place, len(frame.items)), line)
            frame.items.append(value)
        elif frame.key is None:
            raise BadYaml("a list or a mapping cannot be a key", line)
        else:
            key, frame.key = frame.key, None
            if frame.merges:
                self._merge(frame, value)
            elif key not in frame.items:  # the first one stands; the second is a fault already
                frame.items[key] = value

    def _merge(self, frame: _Frame, value: Any) -> None:
        merged = value if isinstance(value, list) else [value]
        if not all(isinstance(item, dict) for item in merged):
            self._fault(frame.key_line, (*frame.place, "<<"), "only mappings can be merged with <<")
            return
        for item in merged:
            self._grow(len(item), frame.key_line)
        frame.merged += merged

    def _value(self, event: Any, line: int) -> Any:
        text: str = event.value
        tag = event.tag
        if tag is None:
            return self._plain(text, line) if event.implicit[0] else text
        if tag in (f"{_CORE}str", "!"):
            return text
        if tag not in {f"{_CORE}{name}" for name in ("int", "float", "bool", "null")}:
            self._fault(line, self._next_place(), f"the tag {tag} is not allowed")
            return text
        return self._plain(text, line)

    def _plain(self, text: str, line: int) -> Any:
        if text in _NULL:
            return None
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        found = _NUMBER.fullmatch(text) if text[0] in "+-.0123456789" else None
        if found is None:
            return text
        number: int | float = math.inf
        if len(text) <= _MAX_NUMBER:
            match found.lastgroup:
                case "int":
                    number = int(text)
                case "base":
                    number = int(text, 0)
                case "float":
                    number = float(text)
                case _:
                    pass  # .inf and .nan
        if not -_LARGEST / 2 <= number < _LARGEST and (isinstance(number, int) or math.isinf(number)):
            self._fault(line, self._next_place(), f"the number {text[:40]} is none that JSON has room for")
            return None
        return number

    def _next_place(self) -> Place:
        if not self._frames:
            return ()
        frame = self._frames[-1]
        return (*frame.place, len(frame.items) if isinstance(frame.items, list) else frame.key or "")

    def _grow(self, size: int, line: int) -> None:
        self._count += size
        if self._count > MAX_NODES:
            raise BadYaml(f"more than {MAX_NODES} values, with every alias counted as what it stands for", line)

    def _fault(self, line: int, place: Place, message: str) -> None:
        self._tree.faults.append(Fault(line, place, message))
