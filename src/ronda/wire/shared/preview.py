"""A tool call's arguments while the model writes them → patches of those that are worth watching.

A tool names them by JSON pointer (`preview=["/content"]`). Each piece of the arguments is read once (`wire.partial`), so the cost
is that of the text. When the turn is whole, what was shown is compared with what runs: where the arguments were repaired, or
a person replaced them, a last `set` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from ronda.core.parts import ToolCall
from ronda.core.plan import ToolSpec
from ronda.wire.codec.json import UNREADABLE
from ronda.wire.codec.partial_json import PartialJson, Patch, Path, pointer, read_pointer

_ABSENT: Final = object()


class ArgumentPatches(Struct, frozen=True, gc=False):
    """What a piece of one call's arguments added. `place` counts the calls of the turn; `id` is "" until it is known."""

    place: int
    id: str
    name: str
    patches: Sequence[Patch]


class CallPreview:
    """One call. `append` goes to the string at its path, `set` puts a value there; both are within what is watched."""

    def __init__(self, pointers: Sequence[str]) -> None:
        self._watched = [read_pointer(text) for text in pointers]
        self._arguments = PartialJson()
        self._growing: Path | None = None  # where the last patch was, for the next is nearly always there too

    def feed(self, piece: str) -> list[Patch]:
        shown: list[Patch] = []
        for patch in self._arguments.feed(piece):
            if patch.path == self._growing or self._shows(patch.path):
                self._growing = patch.path
                shown.append(patch)
            elif self._growing is not None:
                # A key above was written twice: with what was in it, what was shown is gone.
                gone = [path for path in self._watched if path[: len(patch.path)] == patch.path]
                shown += [Patch("set", path, None) for path in gone]
        return shown

    def close(self, arguments: str) -> list[Patch]:
        """What is left to say when it is known what runs."""
        try:
            final = msgspec.json.decode(arguments)
        except UNREADABLE:  # it never runs
            return []
        rest = []
        for path in self._watched:
            value = _at(final, path)
            if value is _ABSENT:
                value = None
                if _at(self._arguments.value, path) in (_ABSENT, None):
                    continue
            if not _is_same(_at(self._arguments.value, path), value):
                rest.append(Patch("set", path, value))
        if rest:
            self._arguments = PartialJson()
            self._arguments.feed(arguments)
        return rest

    def _shows(self, path: Path) -> bool:
        for watched in self._watched:
            head = path[: len(watched)]
            if head == watched or (len(head) == len(watched) and all(map(_is_key, head, watched))):
                return True
        return False


class Previews:
    """Those of one run's turns. `tools` are all that the run has."""

    def __init__(self, tools: Mapping[str, ToolSpec]) -> None:
        self._pointers = {name: spec.preview for name, spec in tools.items() if spec.preview and spec.kind != "caller"}
        self._calls: dict[int, CallPreview] = {}
        self._places: dict[str, int] = {}  # of the calls of a turn that is whole
        self._unnamed: dict[int, list[str]] = {}  # pieces of calls whose names have not come yet

    def __bool__(self) -> bool:
        return bool(self._pointers)

    def begin_turn(self) -> None:
        self._calls, self._places, self._unnamed = {}, {}, {}

    def add(self, place: int, call_id: str, name: str, piece: str) -> ArgumentPatches | None:
        call = self._calls.get(place)
        if call is None:
            if name not in self._pointers:  # another tool, or half a name
                if piece and any(known.startswith(name) for known in self._pointers):
                    self._unnamed.setdefault(place, []).append(piece)
                return None
            call = self._calls[place] = CallPreview(self._pointers[name])
            piece = "".join(self._unnamed.pop(place, ())) + piece
        patches = call.feed(piece) if piece else []
        return ArgumentPatches(place, call_id, name, patches) if patches else None

    def close_turn(self, calls: Sequence[ToolCall]) -> list[ArgumentPatches]:
        self._places = {call.id: index for index, call in enumerate(calls)}
        return [
            patches
            for index, call in enumerate(calls)
            if (patches := self.replace(index, call.id, call.name, call.arguments))
        ]

    def replace(self, place: int, call_id: str, name: str, arguments: str) -> ArgumentPatches | None:
        """It runs with these."""
        pointers = self._pointers.get(name)
        if pointers is None:
            return None
        call = self._calls.get(place)
        if call is None:
            call = self._calls[place] = CallPreview(pointers)
        patches = call.close(arguments)
        return ArgumentPatches(place, call_id, name, patches) if patches else None

    def place_of(self, call_id: str) -> int | None:
        return self._places.get(call_id)


def _is_key(key: str | int, written: str | int) -> bool:
    """In a pointer an index is a text as any other."""
    return str(key) == written


def write_patches(patches: Sequence[Patch]) -> list[dict[str, Any]]:
    return [{"op": patch.op, "path": pointer(patch.path), "value": patch.value} for patch in patches]


def _at(value: Any, path: Path) -> Any:
    for key in path:
        if type(value) is dict and key in value:
            value = value[key]
        elif type(value) is list and str(key).isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return _ABSENT
    return value


def _is_same(shown: Any, final: Any) -> bool:
    """Without taking true for 1, or 1.0 for 1."""
    if type(shown) is not type(final):
        return False
    if type(shown) is dict:
        return shown.keys() == final.keys() and all(_is_same(shown[key], final[key]) for key in shown)
    if type(shown) is list:
        return len(shown) == len(final) and all(map(_is_same, shown, final))
    return bool(shown == final)
