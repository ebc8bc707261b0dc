"""A JSON Schema → a shape: what a decoder enforces of it.

Types, required properties, enums, lengths, bounds and patterns are enforced to the letter, as are `anyOf`, `allOf` and
references. The rest is only approached, by what is cheap and most likely right, since every answer is checked when it is
complete: alternatives of `oneOf` may overlap, `not`, `contains` and `propertyNames` are left out, of `if` the case that it
names is taken, what depends on a property is always asked for. `is_exact` tells whether a schema does without those words.

Reading takes time in proportion to the schema, and no more of the stack than the JSON is deep (`bounds` limits that).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Final, TypeGuard
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from ronda.local.grammar.cost import ENDLESS
from ronda.local.grammar.digits import number
from ronda.local.grammar.merge import Merger
from ronda.local.grammar.patterns import Unreadable, analyse, search
from ronda.local.grammar.shapes import (
    ANYTHING,
    EVERY_TYPE,
    NEVER,
    Array,
    Never,
    Object,
    Property,
    Ref,
    Shape,
    String,
    Union,
    Unsupported,
    array,
    obj,
    string,
    text_of,
    union,
    values,
)
from ronda.schema.document import BASE, Document
from ronda.schema.lower_draft import modern
from ronda.schema.subschemas import escape

# A `format` → a pattern whose matches all have it.


_DATE: Final = r"(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_TIME: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,3})?(?:Z|[+-](?:0[0-9]|1[0-2]):[0-5][0-9])"
_LABEL: Final = r"[A-Za-z0-9]{1,15}(?:-[A-Za-z0-9]{1,12}){0,3}"  # two hyphens in a row would mean something
_HOST: Final = rf"{_LABEL}(?:\.{_LABEL}){{0,3}}"
_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_EMAIL: Final = (
    rf"[A-Za-z0-9]{{1,20}}(?:[._+-][A-Za-z0-9]{{1,12}}){{0,3}}"  # 64 characters at most before the @
    rf"@{_LABEL}(?:\.{_LABEL}){{0,2}}\.[A-Za-z]{{2,8}}"
)
_SEGMENT: Final = r"[A-Za-z0-9._~!$&()*+,;=:@-]{0,40}"
_PATH: Final = r"[A-Za-z0-9._~-]{1,40}"
_URI: Final = (
    rf"https?://{_HOST}(?::[1-9][0-9]{{0,3}})?(?:/{_SEGMENT}){{0,6}}"
    r"(?:\?[A-Za-z0-9._~=&-]{0,80})?(?:#[A-Za-z0-9._~=-]{0,40})?"
)
_REFERENCE: Final = rf"(?:{_URI}|/?{_PATH}(?:/{_PATH}){{0,6}}(?:#[A-Za-z0-9._~/-]{{0,40}})?|#[A-Za-z0-9._~/-]{{0,60}})"
_HEX: Final = "[0-9a-f]"

PATTERNS: Final = {
    name: f"^{pattern}$"
    for name, pattern in {
        "date": _DATE,
        "time": _TIME,
        "date-time": f"{_DATE}T{_TIME}",
        "duration": r"P(?:[1-9][0-9]{0,2}[YMWD]|T[1-9][0-9]{0,2}[HMS])",
        "email": _EMAIL,
        "idn-email": _EMAIL,
        "hostname": _HOST,
        "idn-hostname": _HOST,
        "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
        "ipv6": rf"(?:(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}|(?::|(?:{_HEX}{{1,4}}:){{1,3}}):{_HEX}{{1,4}})",
        "uuid": rf"{_HEX}{{8}}-{_HEX}{{4}}-[1-5]{_HEX}{{3}}-[89ab]{_HEX}{{3}}-{_HEX}{{12}}",
        "uri": _URI,
        "iri": _URI,
        "uri-reference": _REFERENCE,
        "iri-reference": _REFERENCE,
        "uri-template": _REFERENCE,
        "json-pointer": r"(?:/[A-Za-z0-9_-]{0,30}){0,6}",
        "relative-json-pointer": r"(?:0|[1-9][0-9]?)(?:#|(?:/[A-Za-z0-9_-]{1,30}){0,6})",
        "regex": r"\^?[A-Za-z0-9_ -]{0,40}(?:\.[*+])?[A-Za-z0-9_ -]{0,40}\$?",
    }.items()
}


MAX_COUNT: Final = 1_000  # items or properties; a higher limit is none, since each costs the engine memory
MAX_LENGTH: Final = 10_000  # characters; likewise
MAX_NESTED: Final = 16  # references that must be read to read another
_STANDARD: Final = ("http://json-schema.org/", "https://json-schema.org/")

_OF_KIND: Final = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties"),
}


class _Place(Struct, frozen=True):
    """One schema in its document."""

    node: dict[str, Any]
    base: str
    pointer: str

    def at(self, *steps: str | int) -> str:
        return self.pointer + "".join([f"/{escape(str(step))}" for step in steps])

    # What stands in it, where it is what it should be.

    def list_of(self, keyword: str) -> list[Any]:
        found = self.node.get(keyword)
        return found if isinstance(found, list) else []

    def members(self, keyword: str) -> dict[str, Any]:
        found = self.node.get(keyword)
        return found if isinstance(found, dict) else {}

    def size(self, keyword: str) -> int | None:
        value = self.node.get(keyword)
        return max(0, int(min(value, 2**53))) if _is_number(value) else None

    def limit(self, keyword: str, most: int) -> int | None:
        value = self.size(keyword)
        return None if value is None or value > most else value

    def fraction(self, keyword: str) -> Fraction | None:
        value = self.node.get(keyword)
        return Fraction(str(value)) if _is_number(value) else None


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class SchemaReader:
    """One document. `expand` gives the shape of a reference that a shape holds."""

    def __init__(self, root: Any) -> None:
        self._root = root if isinstance(root, bool) else modern(root)
        self._document = Document({} if isinstance(self._root, bool) else self._root)
        self._targets: dict[str, tuple[Any, str, str]] = {}  # a schema, the base of references in it, who refers to it
        self._shapes: dict[str, Shape] = {}
        self._reading: list[str] = []
        self._merge = Merger(self.expand).merge

    def read(self) -> Shape:
        return self._shape(self._root, BASE, "")

    def expand(self, key: str) -> Shape:
        if key in self._shapes:
            return self._shapes[key]
        if key in self._reading or len(self._reading) > MAX_NESTED:
            return ANYTHING  # two schemas that are only known together: what is known of one is enforced
        self._reading.append(key)
        try:
            self._shapes[key] = self._shape(*self._targets[key])
        finally:
            self._reading.pop()
        return self._shapes[key]

    def _sub(self, place: _Place, node: Any, *steps: str | int) -> Shape:
        return self._shape(node, place.base, place.at(*steps))

    def _shape(self, node: Any, base: str, pointer: str) -> Shape:
        if isinstance(node, bool):
            return ANYTHING if node else NEVER
        if not isinstance(node, dict):
            raise Unsupported("not a schema", pointer)
        place = _Place(node, self._document.base(node, base), pointer)
        try:
            shape = self._typed(place)
            for step in _COMBINE:
                shape = step(self, place, shape)
        except Unsupported as error:
            raise error if error.place is not None else Unsupported(str(error), pointer) from None
        return shape

    # ---- what it says of each type, and the values it lists ------------------------------------------------------------

    def _typed(self, place: _Place) -> Shape:
        names = place.node.get("type")
        listed = [names] if isinstance(names, str) else names if isinstance(names, list) else []
        kinds = dict.fromkeys("number" if name == "integer" else name for name in listed if isinstance(name, str))
        if kinds and "any" not in kinds and not kinds.keys() & EVERY_TYPE.keys():
            raise Unsupported(f"{str(names)[:40]!r} is not a type", f"{place.pointer}/type")
        if not kinds or "any" in kinds:  # lengths mean a text
            kinds = dict.fromkeys(kind for kind, words in _OF_KIND.items() if any(word in place.node for word in words))
        shape = union([self._of_kind(place, kind, listed) for kind in kinds if kind in EVERY_TYPE])
        shape = shape if kinds else ANYTHING
        for keyword, found in (("enum", place.node.get("enum")), ("const", [place.node.get("const")])):
            if keyword in place.node and isinstance(found, list):
                try:
                    shape = self._merge(values(dict.fromkeys(map(text_of, found))), shape)
                except (ValueError, OverflowError):
                    raise Unsupported("a value that is not JSON", place.at(keyword)) from None
        return shape

    def _of_kind(self, place: _Place, kind: str, listed: Iterable[Any]) -> Shape:
        match kind:
            case "string":
                return self._string(place)
            case "number":
                return self._number(place, integer="integer" in listed and "number" not in listed)
            case "array":
                return self._array(place)
            case "object":
                return self._object(place)
            case _:
                return EVERY_TYPE[kind]

    def _string(self, place: _Place) -> Shape:
        patterns: list[str] = []
        if isinstance(pattern := place.node.get("pattern"), str):
            patterns.append(_readable(pattern, place, "pattern"))
        if isinstance(name := place.node.get("format"), str) and name in PATTERNS:
            patterns.append(PATTERNS[name])
        return string(String(place.size("minLength") or 0, place.limit("maxLength", MAX_LENGTH), tuple(patterns)))

    def _number(self, place: _Place, *, integer: bool) -> Shape:
        low, high = place.fraction("minimum"), place.fraction("maximum")
        above = below = False
        if (limit := place.fraction("exclusiveMinimum")) is not None and (low is None or limit >= low):
            low, above = limit, True
        if (limit := place.fraction("exclusiveMaximum")) is not None and (high is None or limit <= high):
            high, below = limit, True
        step = place.fraction("multipleOf")
        return number(integer, low, high, above, below, step if step and step > 0 else None)

    def _array(self, place: _Place) -> Shape:
        prefix = [self._sub(place, one, "prefixItems", n) for n, one in enumerate(place.list_of("prefixItems"))]
        rest = self._sub(place, place.node.get("items", True), "items")
        least, most = place.size("minItems") or 0, place.limit("maxItems", MAX_COUNT)
        if place.node.get("uniqueItems") is True:  # the fewer there are, the likelier they differ
            most = max(1, least) if most is None else min(most, max(1, least))
        return array(Array(tuple(prefix), rest, least, most))

    def _object(self, place: _Place) -> Shape:
        patterns = tuple(
            [
                (_readable(pattern, place, "patternProperties"), self._sub(place, sub, "patternProperties", pattern))
                for pattern, sub in place.members("patternProperties").items()
            ]
        )
        rest = self._sub(place, place.node.get("additionalProperties", True), "additionalProperties")
        declared = place.members("properties")
        required = dict.fromkeys(name for name in place.list_of("required") if isinstance(name, str))
        properties: list[Property] = []
        for name in dict.fromkeys([*declared, *required]):
            matching = [value for pattern, value in patterns if search(pattern, name)]
            shape = self._sub(place, declared[name], "properties", name) if name in declared else ANYTHING
            if name not in declared and not matching:
                shape = rest
            for value in matching:
                shape = self._merge(shape, value)
            properties.append(Property(name, shape, name in required))
        most = place.limit("maxProperties", MAX_COUNT)
        properties = _fit_count(properties, place.size("minProperties") or 0, most)
        return obj(Object(tuple(properties), patterns, rest, most))

    # ---- what it says with other schemas -------------------------------------------------------------------------------

    def _references(self, place: _Place, shape: Shape) -> Shape:
        for keyword in ("$ref", "$dynamicRef"):
            if keyword in place.node:
                shape = self._merge(shape, self._reference(place.node[keyword], place.base, place.at(keyword)))
        return shape

    def _reference(self, reference: str, base: str, pointer: str) -> Shape:
        """What it leads to is read when it is looked into."""
        found = self._document.find(reference, base)
        if found is None and reference.startswith(_STANDARD):
            return Object()  # any schema
        if found is None:
            raise Unsupported(f'"{reference[:80]}" is not in this schema', pointer)
        target, address = found
        if target is True:
            return ANYTHING
        key = f"{address}#{unquote(reference.partition('#')[2])}"
        self._targets.setdefault(key, (target, address, pointer))
        return Ref(key)

    def _all_of(self, place: _Place, shape: Shape) -> Shape:
        for n, sub in enumerate(place.list_of("allOf")):
            shape = self._merge(shape, self._sub(place, sub, "allOf", n))
        return shape

    def _any_of(self, place: _Place, shape: Shape) -> Shape:
        for keyword in ("anyOf", "oneOf"):
            if options := place.list_of(keyword):
                shape = self._merge(shape, self._options(place, keyword, options))
        return shape

    def _options(self, place: _Place, keyword: str, options: list[Any]) -> Shape:
        """Those of the alternatives that can be enforced: one is enough."""
        found, problem = [], None
        for n, sub in enumerate(options):
            try:
                found.append(self._sub(place, sub, keyword, n))
            except Unsupported as error:
                problem = error
        if problem is not None and not found:
            raise problem
        return union(_apart(found) if keyword == "oneOf" else found)

    def _conditions(self, place: _Place, shape: Shape) -> Shape:
        if "if" in place.node and "then" in place.node:
            yes = self._merge(self._sub(place, place.node["if"], "if"), self._sub(place, place.node["then"], "then"))
            shape = self._possible(shape, yes)
        return shape

    def _dependencies(self, place: _Place, shape: Shape) -> Shape:
        for keyword in ("dependentRequired", "dependentSchemas"):
            for name, rule in place.members(keyword).items():
                if isinstance(rule, list):
                    names = [Property(one, ANYTHING, required=True) for one in rule if isinstance(one, str)]
                    shape = self._possible(shape, Object(tuple(names)))
                else:
                    shape = self._possible(shape, self._sub(place, rule, keyword, name))
        return shape

    def _possible(self, shape: Shape, more: Shape) -> Shape:
        """Both, unless nothing is known to be both."""
        both = self._merge(shape, more)
        return shape if isinstance(both, Never) else both

    def _unevaluated(self, place: _Place, shape: Shape) -> Shape:
        """Nothing beyond what is named: all that is known to be evaluated."""
        names = place.node.get("unevaluatedProperties", True) is not True
        items = place.node.get("unevaluatedItems", True) is not True
        return self._close(shape, names, items) if names or items else shape

    def _close(self, shape: Shape, names: bool, items: bool) -> Shape:
        match shape:
            case Ref(key):
                found = self.expand(key)
                return found if isinstance(found, Ref) else self._close(found, names, items)
            case Object() if names:
                return obj(Object(shape.properties, (), NEVER, shape.most))
            case Array() if items and isinstance(shape.rest, type(ANYTHING)):
                return array(Array(shape.first, NEVER, shape.least, shape.most))
            case Union(options):
                return union([self._close(one, names, items) for one in options])
            case _:
                return shape


_COMBINE: Final[tuple[Callable[[SchemaReader, _Place, Shape], Shape], ...]] = (
    SchemaReader._references,
    SchemaReader._all_of,
    SchemaReader._any_of,
    SchemaReader._conditions,
    SchemaReader._dependencies,
    SchemaReader._unevaluated,
)


def _readable(pattern: str, place: _Place, keyword: str) -> str:
    try:
        analyse(pattern)
    except (Unreadable, ValueError) as error:
        raise Unsupported(f"{error}, which cannot be enforced", place.at(keyword)) from None
    return pattern


def _apart(options: list[Shape]) -> list[Shape]:
    """Objects of which none has a property that only another one names: the usual way to tell such alternatives apart."""
    names = [[prop.name for prop in one.properties] if isinstance(one, Object) else [] for one in options]
    every = dict.fromkeys(name for own in names for name in own)
    return [
        replace(one, properties=(*one.properties, *[Property(name, NEVER) for name in every if name not in own]))
        if isinstance(one, Object)
        else one
        for one, own in zip(options, map(set, names), strict=True)
    ]


def _fit_count(properties: list[Property], least: int, most: int | None) -> list[Property]:
    """Optional properties made required until there are enough, or left out until there are not too many."""
    missing = least - sum(prop.required for prop in properties)
    room = ENDLESS if most is None else most - sum(prop.required for prop in properties)
    found: list[Property] = []
    for prop in properties:
        if prop.required or isinstance(prop.shape, Never):
            found.append(prop)
        else:
            found.append(Property(prop.name, prop.shape if room > 0 else NEVER, missing > 0 and room > 0))
            missing, room = missing - 1, room - 1
    return found
