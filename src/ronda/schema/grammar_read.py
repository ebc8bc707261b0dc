"""A JSON Schema → a shape: everything the schema says, in the forms a decoder can enforce.

Of each keyword it is known how to follow it, or how to be on the safe side: what is decoded must be valid, but need not be
everything that is. `uniqueItems` becomes an array of one, a `oneOf` whose branches overlap the part of each that does not.
Where even that is not known, the schema is refused, with the place.

The same reader makes the other kind of shape (`loose`), which admits at least what the schema does: what is under `not`, and
what the other branches of a `oneOf` would take.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from ronda.schema.bounds import escape
from ronda.schema.grammar_formats import PATTERNS
from ronda.schema.grammar_regex import Unreadable, analyse
from ronda.schema.grammar_shape import (
    ANYTHING,
    EVERY_TYPE,
    NEVER,
    Algebra,
    Anything,
    Array,
    Never,
    Number,
    Object,
    Property,
    Ref,
    Shape,
    String,
    Union,
    Unsupported,
    Values,
    array,
    obj,
    search,
    text_of,
    union,
)

_Schema = dict[str, Any]

_STRING: Final = ("minLength", "maxLength", "pattern", "format")
_NUMBER: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ARRAY: Final = (
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
)
_OBJECT: Final = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "propertyNames",
)
_TYPED: Final = {"string": _STRING, "number": _NUMBER, "array": _ARRAY, "object": _OBJECT}
_LOOSE: Final = "loose "  # before the key of a reference that is read that way


class SchemaReader:
    """One document. `expand` gives the shape of a reference that a shape holds."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._nodes: dict[str, tuple[Any, str, str]] = {}  # key → node, base, pointer
        self._shapes: dict[str, Shape] = {}
        self._reading: set[str] = set()
        self._later: dict[str, Callable[[], Shape]] = {}  # combinations with a reference that is still being read
        named = root.get("$schema") if isinstance(root, dict) else None
        # Up to draft 7 a reference stands for itself alone: whatever is said beside it is not there.
        self._alone = isinstance(named, str) and any(f"draft-0{n}" in named for n in "34567")
        self._id_keyword = "id" if isinstance(named, str) and ("draft-04" in named or "draft-03" in named) else "$id"
        self._resources: dict[str, Any] = {"": root}
        self._anchors: dict[tuple[str, str], Any] = {}
        self.algebra = Algebra(self.expand)
        self._base = self._index(root, "")

    def read(self) -> Shape:
        return self.shape(self._root, self._base, "", loose=False)

    def expand(self, key: str) -> Shape:
        if key not in self._shapes:
            if key in self._reading:
                raise Unsupported(f"{self._nodes[key][2]}: a reference that leads to itself")
            self._reading.add(key)
            try:
                self._shapes[key] = self._read(key)
            finally:
                self._reading.remove(key)
        return self._shapes[key]

    def _read(self, key: str) -> Shape:
        if key in self._later:
            return self._later[key]()
        node, base, pointer = self._nodes[key]
        return self.shape(node, base, pointer, loose=key.startswith(_LOOSE))

    def both(self, shape: Shape, reference: Ref, pointer: str, combine: Callable[[], Shape]) -> Shape:
        """A shape and a reference. One that is being read right now is waited for."""
        if isinstance(shape, Anything) or reference.key not in self._reading:
            return combine()
        key = f"{reference.key} at {pointer}"
        self._nodes[key] = (None, "", pointer)
        self._later[key] = combine
        return Ref(key)

    # ---- references ----------------------------------------------------------------------------------------------------

    def _index(self, node: Any, base: str) -> str:
        """Note where `$id` and anchors are. Returns the base of the node itself."""
        own = base
        if isinstance(node, dict):
            name = self._id(node)
            if name is not None:
                address, fragment = urldefrag(_join(base, name))
                if fragment:
                    self._anchors[base, fragment] = node
                if address and address != base:
                    own = address
                    self._resources[own] = node
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    self._anchors[own, node[keyword]] = node
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        for child in children:
            self._index(child, own)
        return own

    def _id(self, node: _Schema) -> str | None:
        if self._alone and "$ref" in node:
            return None
        name = node.get(self._id_keyword)
        return name if isinstance(name, str) else None

    def reference(self, text: Any, base: str, pointer: str, *, loose: bool) -> Shape:
        if not isinstance(text, str):
            raise Unsupported(f"{pointer}: not a reference")
        address, fragment = urldefrag(_join(base, text))
        if (
            address.startswith(("http://json-schema.org/", "https://json-schema.org/"))
            and address not in self._resources
        ):
            return Object() if loose else Object(rest=NEVER)  # any schema; the empty one is one
        resource = self._resources.get(address, self._root if not address else None)
        fragment = unquote(fragment)
        node = self._anchors.get((address, fragment)) if fragment and not fragment.startswith("/") else resource
        if fragment.startswith("/"):
            node = _follow(resource, fragment)
        if node is None:
            raise Unsupported(f'{pointer}: "{text[:80]}" is not in this schema')
        key = f"{_LOOSE if loose else ''}{address}#{fragment}"
        self._nodes.setdefault(key, (node, address, pointer))
        return Ref(key)

    # ---- a schema --------------------------------------------------------------------------------------------------------

    def shape(self, node: Any, base: str, pointer: str, *, loose: bool) -> Shape:
        if isinstance(node, bool):
            return ANYTHING if node else NEVER
        if not isinstance(node, dict):
            raise Unsupported(f"{pointer or '/'}: not a schema")
        if self._alone and "$ref" in node:
            node = {"$ref": node["$ref"]}
        name = self._id(node)
        if name is not None and (address := urldefrag(_join(base, name))[0]) and address in self._resources:
            base = address
        return _Node(self, node, base, pointer, loose).shape()


class _Node:
    """One schema being read."""

    def __init__(self, reader: SchemaReader, node: _Schema, base: str, pointer: str, loose: bool) -> None:
        self._reader = reader
        self._algebra = reader.algebra
        self._node = node
        self._base = base
        self._pointer = pointer
        self._loose = loose

    def shape(self) -> Shape:
        shape = self._typed()
        for step in (
            self._references,
            self._all_of,
            self._dependencies,
            self._any_of,
            self._one_of,
            self._conditions,
            self._negation,
            self._unevaluated,
        ):
            if isinstance(shape, Never):
                break
            shape = step(shape)
        return shape

    def _both(self, one: Shape, other: Shape, keyword: str) -> Shape:
        try:
            return self._algebra.intersect(one, other, loose=self._loose)
        except Unsupported as error:
            raise self._refused(keyword, error) from None

    def _without(self, one: Shape, other: Shape, keyword: str) -> Shape:
        try:
            return self._algebra.exclude(one, other)
        except Unsupported as error:
            raise self._refused(keyword, error) from None

    def _refused(self, keyword: str, why: Any) -> Unsupported:
        text = str(why)
        return Unsupported(text if text.startswith("/") else f"{self._pointer}/{keyword}: {text}")

    def _sub(self, node: Any, *steps: str | int, loose: bool | None = None) -> Shape:
        place = self._pointer + "".join(f"/{escape(str(step))}" for step in steps)
        return self._reader.shape(node, self._base, place, loose=self._loose if loose is None else loose)

    # ---- types, enum, const --------------------------------------------------------------------------------------------

    def _typed(self) -> Shape:
        node = self._node
        names = node.get("type")
        listed = [names] if isinstance(names, str) else names if isinstance(names, list) else list(EVERY_TYPE)
        kinds = dict.fromkeys("number" if name == "integer" else name for name in listed if isinstance(name, str))
        if not any(kind in EVERY_TYPE for kind in kinds):
            if kinds and "any" not in kinds:
                raise Unsupported(f"{self._pointer}/type: {str(names)[:40]!r} is not a type")
            kinds = dict.fromkeys(EVERY_TYPE)
        keywords = [word for words in _TYPED.values() for word in words]
        is_open = len(kinds) == len(EVERY_TYPE) and not any(word in node for word in keywords)
        shape = ANYTHING if is_open else union([self._of_type(kind, listed) for kind in kinds if kind in EVERY_TYPE])
        values = node["enum"] if isinstance(node.get("enum"), list) else None
        if "const" in node:
            values = (
                [node["const"]] if values is None else [one for one in values if text_of(one) == text_of(node["const"])]
            )
        if values is None:
            return shape
        try:
            return self._both(Values(tuple(dict.fromkeys(map(text_of, values)))), shape, "enum") if values else NEVER
        except (ValueError, OverflowError):
            raise Unsupported(f"{self._pointer}/enum: a value that is not JSON") from None

    def _of_type(self, kind: str, listed: Iterable[Any]) -> Shape:
        make: dict[str, Callable[[], Shape]] = {"string": self._string, "array": self._array, "object": self._object}
        if kind in make:
            return make[kind]()
        return self._number(integer="number" not in listed) if kind == "number" else EVERY_TYPE[kind]

    def _string(self) -> Shape:
        node = self._node
        patterns = []
        if isinstance(pattern := node.get("pattern"), str) and not self._is_readable(pattern, "pattern"):
            pattern = None
        if isinstance(pattern, str):
            patterns.append(pattern)
        if not self._loose and isinstance(name := node.get("format"), str) and name in PATTERNS:
            patterns.append(PATTERNS[name])
        shape = String(_size(node, "minLength") or 0, _size(node, "maxLength"), tuple(patterns))
        return NEVER if shape.most is not None and shape.most < shape.least else shape

    def _is_readable(self, pattern: str, *steps: str) -> bool:
        """Whether a pattern can be enforced. Where more may be admitted, one that cannot be is left out."""
        try:
            analyse(pattern)
        except (Unreadable, ValueError) as error:
            if self._loose:
                return False
            place = self._pointer + "".join(f"/{escape(step)}" for step in steps)
            raise Unsupported(f"{place}: {error}, which cannot be enforced") from None
        return True

    def _number(self, *, integer: bool) -> Shape:
        node = self._node
        low, high = _number(node, "minimum"), _number(node, "maximum")
        above = node.get("exclusiveMinimum") is True and low is not None  # how draft 4 said it
        below = node.get("exclusiveMaximum") is True and high is not None
        if (limit := _number(node, "exclusiveMinimum")) is not None and (low is None or limit >= low):
            low, above = limit, True
        if (limit := _number(node, "exclusiveMaximum")) is not None and (high is None or limit <= high):
            high, below = limit, True
        step = _number(node, "multipleOf")
        shape = Number(integer, low, high, above, below, step if step and step > 0 else None)
        return self._both(Number(), shape, "minimum")

    def _array(self) -> Shape:
        node = self._node
        items = node.get("items")
        first = node.get("prefixItems")
        rest: Any = node.get("items", True)
        if isinstance(items, list):  # how it was written before 2020-12
            first, rest = items, node.get("additionalItems", True)
        key = "prefixItems" if "prefixItems" in node else "items"
        prefix = [self._sub(one, key, n) for n, one in enumerate(first)] if isinstance(first, list) else []
        rest_key = "additionalItems" if isinstance(items, list) else "items"
        shape = Array(tuple(prefix), self._sub(rest, rest_key), _size(node, "minItems") or 0, _size(node, "maxItems"))
        if self._loose:
            return array(shape)
        wanted = (self._sub(node["contains"], "contains"),) if "contains" in node else ()
        if wanted and node.get("minContains") == 0:
            wanted = ()
        if wanted and ((_size(node, "minContains") or 1) > 1 or "maxContains" in node):
            raise Unsupported(f"{self._pointer}/contains: how often it may be contained cannot be enforced")
        return array(Array(shape.first, shape.rest, shape.least, shape.most, node.get("uniqueItems") is True, wanted))

    def _object(self) -> Shape:
        node = self._node
        written = node["patternProperties"] if isinstance(node.get("patternProperties"), dict) else {}
        declared = node["properties"] if isinstance(node.get("properties"), dict) else {}
        listed = node["required"] if isinstance(node.get("required"), list) else []
        required = [name for name in listed if isinstance(name, str)]
        patterns = {
            pattern: self._sub(sub, "patternProperties", pattern)
            for pattern, sub in written.items()
            if self._is_readable(pattern, "patternProperties", pattern)
        }
        rest = self._sub(node.get("additionalProperties", True), "additionalProperties")
        if len(patterns) < len(written):  # only where more may be admitted
            rest, patterns = ANYTHING, {}
        others = Object((), tuple(patterns.items()), rest)
        properties = []
        for name in dict.fromkeys([*declared, *required]):
            if name in declared:
                shape = self._sub(declared[name], "properties", name)
                for pattern, more in patterns.items():
                    if search(pattern, name):
                        shape = self._both(shape, more, "patternProperties")
            else:
                shape = self._algebra.value(others, name)
            properties.append(Property(name, shape, name in required))
        names = (self._sub(node["propertyNames"], "propertyNames"),) if "propertyNames" in node else ()
        return obj(
            Object(
                tuple(properties),
                others.patterns,
                rest,
                _size(node, "minProperties") or 0,
                _size(node, "maxProperties"),
                () if self._loose else names,
            )
        )

    # ---- combinations ----------------------------------------------------------------------------------------------------

    def _references(self, shape: Shape) -> Shape:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in self._node:
                place = f"{self._pointer}/{keyword}"
                target = self._reader.reference(self._node[keyword], self._base, place, loose=self._loose)
                if isinstance(target, Ref):
                    combine = functools.partial(self._both, shape, target, keyword)
                    shape = self._reader.both(shape, target, place, combine)
                else:
                    shape = self._both(shape, target, keyword)
        return shape

    def _all_of(self, shape: Shape) -> Shape:
        for n, sub in enumerate(self._list("allOf")):
            shape = self._both(shape, self._sub(sub, "allOf", n), "allOf")
        return shape

    def _any_of(self, shape: Shape) -> Shape:
        if not (options := self._list("anyOf")):
            return shape
        return self._both(shape, self._union(options, "anyOf"), "anyOf")

    def _union(self, options: list[Any], keyword: str) -> Shape:
        """Those of the options that can be enforced; all of them where more may be admitted."""
        found, problem = [], None
        for n, sub in enumerate(options):
            try:
                found.append(self._sub(sub, keyword, n))
            except Unsupported as error:
                if self._loose:
                    return ANYTHING
                problem = error
        if not found and problem is not None:
            raise problem
        return union(found)

    def _one_of(self, shape: Shape) -> Shape:
        options = self._list("oneOf")
        if len(options) <= 1 or self._loose:
            return self._both(shape, self._union(options, "oneOf"), "oneOf") if options else shape
        found, problem = [], None
        taken = [self._sub(sub, "oneOf", n, loose=True) for n, sub in enumerate(options)]
        for n, sub in enumerate(options):
            try:
                branch = self._both(shape, self._sub(sub, "oneOf", n), "oneOf")
                for other in taken[:n] + taken[n + 1 :]:
                    branch = self._without(branch, other, "oneOf")
                found.append(branch)
            except Unsupported as error:
                problem = error
        whole = union(found)
        if isinstance(whole, Never):
            raise problem or Unsupported(f"{self._pointer}/oneOf: the alternatives cannot be told apart")
        return whole

    def _conditions(self, shape: Shape) -> Shape:
        node = self._node
        if "if" not in node or not ("then" in node or "else" in node):
            return shape
        if self._loose:
            return shape
        yes = self._both(shape, self._sub(node["if"], "if"), "if")
        if "then" in node:
            yes = self._both(yes, self._sub(node["then"], "then"), "then")
        try:
            no = self._without(shape, self._sub(node["if"], "if", loose=True), "if")
        except Unsupported:
            no = NEVER
        if "else" in node:
            no = self._both(no, self._sub(node["else"], "else"), "else")
        both = union([yes, no])
        if isinstance(both, Never):
            raise Unsupported(f"{self._pointer}/if: no value is known to fit it")
        return both

    def _negation(self, shape: Shape) -> Shape:
        if "not" not in self._node or self._loose:
            return shape
        left = self._without(shape, self._sub(self._node["not"], "not", loose=True), "not")
        if isinstance(left, Never):
            raise Unsupported(f"{self._pointer}/not: nothing is known to be left")
        return left

    def _dependencies(self, shape: Shape) -> Shape:
        if self._loose:
            return shape
        for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
            rules = self._node.get(keyword)
            for name, rule in rules.items() if isinstance(rules, dict) else ():
                if isinstance(rule, list):
                    names = [Property(one, ANYTHING, required=True) for one in rule if isinstance(one, str)]
                    then: Shape = Object(tuple(names))
                else:
                    then = self._sub(rule, keyword, name)
                # Either it is not there, or what it brings along is; what is no object has no properties.
                others = [kind for name_, kind in EVERY_TYPE.items() if name_ != "object"]
                without = Object((Property(name, NEVER),))
                shape = self._both(shape, union([then, without, *others]), keyword)
        return shape

    def _unevaluated(self, shape: Shape) -> Shape:
        if self._loose:
            return shape
        if "unevaluatedProperties" in self._node:
            rest = self._sub(self._node["unevaluatedProperties"], "unevaluatedProperties")
            if not isinstance(rest, Anything):
                shape = self._close(shape, Object)
        if "unevaluatedItems" in self._node:
            rest = self._sub(self._node["unevaluatedItems"], "unevaluatedItems")
            if not isinstance(rest, Anything):
                shape = self._close(shape, Array)
        return shape

    def _close(self, shape: Shape, kind: type[Object] | type[Array]) -> Shape:
        """Nothing beyond what is named: all that is known to be evaluated."""
        match shape:
            case Ref(key):
                return self._close(self._reader.expand(key), kind)
            case Anything():
                return union([self._close(one, kind) for one in EVERY_TYPE.values()])
            case Object() if kind is Object:
                return obj(Object(shape.properties, (), NEVER, shape.least, shape.most, shape.names))
            case Array() if kind is Array:
                most = len(shape.first) if isinstance(shape.rest, Anything) else shape.most
                return array(Array(shape.first, shape.rest, shape.least, most, shape.unique, shape.contains))
            case Union(options):
                return union([self._close(one, kind) for one in options])
            case _:
                return shape

    def _list(self, keyword: str) -> list[Any]:
        found = self._node.get(keyword)
        return found if isinstance(found, list) else []


def _join(base: str, reference: str) -> str:
    return base + reference if reference.startswith("#") else urljoin(base, reference)  # a URN can be joined too


def _follow(node: Any, fragment: str) -> Any:
    for step in fragment.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return node


def _size(node: _Schema, keyword: str) -> int | None:
    value = node.get(keyword)
    return max(0, int(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _number(node: _Schema, keyword: str) -> Fraction | None:
    value = node.get(keyword)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return Fraction(str(value))
