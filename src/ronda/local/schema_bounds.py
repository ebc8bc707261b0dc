"""How much a JSON Schema may ask of the engine's compiler: levels, counts, sizes → a BadRequest that names the limit, or nothing.

The compiler recurses through references and multiplies what is repeated: some hundred bytes can make it run out of stack or of
memory. So a schema is measured before it is read. Only its shape is looked at, and each part once: whether it is a valid
schema, and what it means, is `schema`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeGuard

import msgspec

from ronda.errors import BadRequest
from ronda.schema.bounds import SchemaError
from ronda.schema.subschemas import follow, sum_up

MAX_BYTES: Final = 128 * 1024  # OpenAI takes 120,000 characters
MAX_LEVELS: Final = 250  # of JSON, references followed; the compiler breaks down at some 3000
MAX_PARTS: Final = 4000  # objects and lists in it
MAX_COUNT: Final = 10_000  # items or properties; the compiler gives up between this and ten times as much
MAX_COUNTS: Final = 20_000  # of all parts together: each item is a rule
MAX_NESTED_COUNT: Final = 100_000  # items of items of items …
MAX_PROPERTIES: Final = 1000
MAX_ENUM: Final = 1000  # as OpenAI has it

_COUNTS: Final = ("maxItems", "minItems", "maxProperties", "minProperties", "maxContains", "minContains")


def check_schema_text(text: bytes, param: str) -> None:
    """As it came, and not yet decoded."""
    if len(text) > MAX_BYTES:
        raise _refusal(param, f"the schema has {len(text)} bytes", f"{MAX_BYTES} bytes")
    try:
        schema = msgspec.json.decode(text)
    except RecursionError:
        raise _refusal(param, "the schema is nested too deep", f"{MAX_LEVELS} levels") from None
    except (msgspec.DecodeError, UnicodeError):
        return  # its reader says what is wrong with it
    check_schema(schema, param)


def check_schema(schema: Any, param: str) -> None:
    """Raises BadRequest, naming `param`, for what is beyond the bounds."""
    if isinstance(schema, dict):
        _Measure(schema, param).run()


def _refusal(param: str, what: str, limit: str) -> BadRequest:
    return SchemaError(f"`{param}`: {what}; a local model takes at most {limit}", param=param)


class _Measure:
    def __init__(self, root: dict[str, Any], param: str) -> None:
        self._root = root
        self._param = param
        self._anchors: dict[str, Any] = {}
        self._counts = 0.0
        self._properties = 0
        self._values = 0

    def run(self) -> None:
        self._look()
        levels, items = self._sum()
        if levels > MAX_LEVELS:
            raise self._refused(f"the schema is {levels} levels deep, references included", f"{MAX_LEVELS} levels")
        if items > MAX_NESTED_COUNT:
            raise self._refused(f"arrays in arrays come to {items} items", f"{MAX_NESTED_COUNT} items")

    def _look(self) -> None:
        """At every part by itself."""
        todo: list[Any] = [self._root]
        parts = 0
        while todo:
            node = todo.pop()
            parts += 1
            if parts > MAX_PARTS:
                raise self._refused("the schema is too large", f"{MAX_PARTS} objects and lists in one")
            if isinstance(node, dict):
                self._look_at(node)
            todo += _parts(node)

    def _look_at(self, node: dict[str, Any]) -> None:
        for keyword in _COUNTS:
            if not _is_number(count := node.get(keyword)):
                continue
            if count > MAX_COUNT:
                raise self._refused(f"`{keyword}` is {_in_few_digits(count)}", str(MAX_COUNT))
            self._counts += count
            if self._counts > MAX_COUNTS:
                raise self._refused(f"with `{keyword}` the counts in the schema come to more", f"{MAX_COUNTS} in all")
        if isinstance(members := node.get("properties"), dict):
            self._properties += len(members)
            if self._properties > MAX_PROPERTIES:
                raise self._refused("the schema has too many properties", f"{MAX_PROPERTIES} properties in all")
        if isinstance(values := node.get("enum"), list):
            self._values += len(values)
            if self._values > MAX_ENUM:
                raise self._refused("the schema has too many `enum` values", f"{MAX_ENUM} values in all")
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := node.get(keyword), str):
                self._anchors[name] = node

    def _sum(self) -> tuple[int, int]:
        """How deep the root goes, and how many items of items it may have."""

        def below(node: Any) -> list[list[Any]]:
            return [[*_parts(node), *self._target(node)]]

        def add(node: Any, sums: list[list[tuple[int, int]]]) -> tuple[int, int]:
            levels = 1 + max((levels for levels, _ in sums[0]), default=0)
            items = max((items for _, items in sums[0]), default=1) * _repeats(node)
            return levels, min(items, MAX_NESTED_COUNT**2)

        # A schema that comes back to itself goes no deeper by that.
        return sum_up([self._root], id, below, add, (0, 1))[id(self._root)]

    def _target(self, node: Any) -> Iterator[Any]:
        if not isinstance(node, dict):
            return
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = node.get(keyword)
            if isinstance(reference, str) and (found := self._follow(reference.partition("#")[2])) is not None:
                yield found

    def _follow(self, fragment: str) -> Any:
        if not fragment.startswith("/"):
            return self._anchors.get(fragment, self._root if not fragment else None)
        found = follow(self._root, fragment)
        return found if isinstance(found, dict) else None

    def _refused(self, what: str, limit: str) -> BadRequest:
        return _refusal(self._param, what, limit)


def _parts(node: Any) -> list[Any]:
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [child for child in children if isinstance(child, (dict, list))]


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _in_few_digits(count: float) -> str:
    return f"{count:g}" if isinstance(count, float) or count > 10**15 else str(count)


def _repeats(node: Any) -> int:
    """How often what is inside may come: at least so often, or at most, whichever is said and larger."""
    counts = [node.get(keyword) for keyword in ("maxItems", "minItems")] if isinstance(node, dict) else []
    return max([1, *[int(count) for count in counts if _is_number(count)]])
