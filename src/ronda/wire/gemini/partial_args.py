"""Arguments that come as values at paths (`partialArgs`, where `streamFunctionCallArguments` was asked for) → their JSON text.

The model writes them in the order of the document, so each piece adds to the text and nothing in it changes any more: a
container is closed when a path leads out of it. Whatever goes back into one that is closed is no document, and an error.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from ronda.core.parts import NULL
from ronda.errors import UpstreamBroken
from ronda.wire.codec.json import decode_text, encode

Path: TypeAlias = list[str | int]

_STEP: Final = re.compile(
    r"""\.([^.\[\]'"]+)|\[(\d{1,9})\]|\[("(?:[^"\\]|\\.)*")\]|\['((?:[^'\\]|\\.)*)'\]""", re.DOTALL
)


class Arguments:
    """`add` and `close` give what they add to the text; `text` is all of it so far."""

    __slots__ = ("_in_string", "_levels", "_path", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._path: Path = []  # where the last value is
        self._levels: list[_Object | _List] = []  # the containers around it, outermost first
        self._in_string = False

    @property
    def has_begun(self) -> bool:
        return bool(self._pieces)

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def begin_with(self, args: Raw) -> str:
        """Members that came as an object, before any that come in pieces."""
        members = msgspec.json.decode(args, type=dict[str, Raw])
        return self._write([self._put([name], bytes(value).decode()) for name, value in members.items()])

    def add(self, piece: dict[str, Raw]) -> str:
        """One of `partialArgs`: a path and a value. A string grows as long as it stays at its path."""
        path = read_path(decode_text(piece.get("jsonPath", NULL)))
        kind = next((name for name in piece if name.endswith("Value")), None)
        if kind is None:  # nothing more comes at this path
            return ""
        if kind == "nullValue":
            return self._write([self._put(path, "null")])
        if kind != "stringValue":
            return self._write([self._put(path, bytes(piece[kind]).decode())])
        text = encode(decode_text(piece[kind])).decode()[1:-1]
        if self._in_string and path == self._path:
            return self._write([text])
        begun = self._put(path, f'"{text}')
        self._in_string = True
        return self._write([begun])

    def close(self) -> str:
        """There are no more."""
        return self._write([self._end_of(0) or ("" if self._pieces else "{}")])

    def _write(self, pieces: list[str]) -> str:
        self._pieces += pieces
        return "".join(pieces)

    def _put(self, path: Path, value: str) -> str:
        same = 0
        while same < min(len(path), len(self._path)) and path[same] == self._path[same]:
            same += 1
        if not path or same == len(path) or (self._path and same == len(self._path)):
            raise _broken("two values at one place")
        out = [self._end_of(same + 1)]
        for step in path[same:]:
            if len(self._levels) == same:
                level = _Object() if isinstance(step, str) else _List()
                self._levels.append(level)
                out.append(level.opens)
            out.append(self._levels[same].next(step))
            same += 1
        self._path = path
        return "".join([*out, value])

    def _end_of(self, depth: int) -> str:
        """What closes the string, and the containers from this depth on."""
        out = ['"'] if self._in_string else []
        out += [level.closes for level in reversed(self._levels[depth:])]
        del self._levels[depth:]
        self._in_string = False
        return "".join(out)


class _Object:
    opens, closes = "{", "}"

    def __init__(self) -> None:
        self._names: set[str] = set()

    def next(self, step: str | int) -> str:
        if not isinstance(step, str) or step in self._names:
            raise _broken("a member that was there already")
        comma = "," if self._names else ""
        self._names.add(step)
        return f"{comma}{encode(step).decode()}:"


class _List:
    opens, closes = "[", "]"

    def __init__(self) -> None:
        self._size = 0

    def next(self, step: str | int) -> str:
        if step != self._size:
            raise _broken("an item that is not the next")
        self._size += 1
        return "," if step else ""


def read_path(path: str) -> Path:
    """The part of RFC 9535 that names one place: `$.foo.bar[0]['a b']`."""
    found: Path = []
    at = 1
    while path[:1] == "$" and (step := _STEP.match(path, at)):
        name, index, quoted, single = step.groups()
        if index is not None:
            found.append(int(index))
        elif name is not None:
            found.append(name)
        else:
            text = quoted if single is None else '"' + single.replace("\\'", "'").replace('"', '\\"') + '"'
            found.append(decode_text(text))
        at = step.end()
    if at != len(path) or not found or not isinstance(found[0], str):
        raise _broken(f"the path {path[:80]!r}")
    return found


def _broken(what: str) -> UpstreamBroken:
    return UpstreamBroken(f"the model's arguments cannot be put together: {what}", retryable=True)
