"""Arguments that do not fit a tool's schema → arguments that do and mean the same, or nothing.

Models write "3" for 3, `City` for `city`, one thing for a list of one, null for what they leave out. Each of these has one
reading in the light of the schema, so it is taken, and named. Where there are two, nothing is done, and the model is asked
again. What fits is never touched, neither the whole nor any part of it.

Nothing is made up. A missing property is filled in only with what the schema itself says: its default, or the one value
it can have. A property is taken out only where the schema forbids it and everything else fits; that is the last resort.

Work is bounded, for the schema and the arguments both come from outside. What comes out has passed the validator.
"""

from __future__ import annotations

import copy
import re
from typing import Any, Final, Protocol

import msgspec

from ronda.core.arguments import recover
from ronda.schema.bounds import SchemaError
from ronda.schema.document import BASE, Document
from ronda.schema.lower_draft import draft_of, modern
from ronda.schema.lower_merge import same
from ronda.schema.lower_rules import WRITTEN_OUT
from ronda.schema.lower_walk import Walk, types_of
from ronda.schema.subschemas import Schema, escape, everywhere
from ronda.schema.validate import Problem, Validator

MAX_STEPS: Final = 20_000  # schemas met with values
MAX_CHECKS: Final = 200  # of a part against an alternative, which may have to be compiled first
MAX_DEPTH: Final = 100


class RepairedArguments(msgspec.Struct, frozen=True):
    """Arguments that fit, and what it took: the place as a JSON pointer, and what was done there. Nothing, if they fitted."""

    arguments: dict[str, Any]
    repairs: tuple[str, ...] = ()


class Checks(Protocol):
    """Says what is wrong with a value; see `schema.validate.Validator`."""

    def problems(self, value: Any, limit: int = 5) -> list[Problem]: ...


def repair(arguments: dict[str, Any], schema: dict[str, Any], validator: Checks) -> RepairedArguments | None:
    """The arguments as the schema wants them, or None. `validator` has the last word; it may raise SchemaError."""
    if not validator.problems(arguments, 1):
        return RepairedArguments(arguments)
    for last_resort in (False, True):
        work = _Repair(schema, last_resort)
        try:
            repaired = work.fix(arguments, work.root, "", BASE, 0)
        except (_TooMuch, RecursionError):
            return None
        if work.done and isinstance(repaired, dict) and not validator.problems(repaired, 1):
            return RepairedArguments(repaired, tuple(text for _, text in work.done))
    return None


def leave_out_nulls(arguments: dict[str, Any], schema: dict[str, Any]) -> RepairedArguments:
    """The arguments without null for what may be absent and may not be null: a model under a strict schema writes it so."""
    work = _Repair(schema, last_resort=False, only_nulls=True)
    try:
        left = work.fix(arguments, work.root, "", BASE, 0)
    except (_TooMuch, RecursionError, SchemaError):
        return RepairedArguments(arguments)
    return RepairedArguments(left, tuple(text for _, text in work.done))


NULL_LEFT_OUT: Final = "null taken out: it may be absent"


class _TooMuch(Exception):
    pass


# What a repair costs, when alternatives of a union are weighed: the cheapest reading is the one that was meant.
_CASE: Final = 1
_TYPE: Final = 2
_NAME: Final = 2
_DECODE: Final = 3
_FILL: Final = 3
_WRAP: Final = 4
_DROP: Final = 10


class _Repair:
    """One attempt. Values are copied where they change; the rest is shared with the arguments."""

    def __init__(self, schema: Schema, last_resort: bool, only_nulls: bool = False) -> None:
        self._only_nulls = only_nulls
        self.root = modern(schema)
        self.done: list[tuple[int, str]] = []
        self._last_resort = last_resort
        self._whole_floats = draft_of(schema) > 4  # since draft 6 an integer may be written 3.0
        self._document = Document(self.root)
        self._validators: dict[int, Validator] = {}
        self._steps = self._checks = 0

    def fix(self, value: Any, schema: Any, at: str, base: str, depth: int) -> Any:
        if not isinstance(schema, dict):
            return value
        self._steps += 1
        if self._steps > MAX_STEPS or depth > MAX_DEPTH:
            raise _TooMuch
        base = self._document.base(schema, base)
        if not self._only_nulls:
            value = self._typed(value, schema, at)
            value = self._listed(value, schema, at)
        if isinstance(value, dict):
            value = self._object(value, schema, at, base, depth)
        elif isinstance(value, list):
            value = self._array(value, schema, at, base, depth)
        for keyword in ("$ref", "$dynamicRef"):
            found = self._document.find(schema[keyword], base) if isinstance(schema.get(keyword), str) else None
            if found is not None:
                value = self.fix(value, found[0], at, found[1], depth + 1)
        for part in _list(schema, "allOf"):
            value = self.fix(value, part, at, base, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if branches := _list(schema, keyword):
                value = self._alternative(value, branches, at, base, depth)
        if "if" in schema:
            chosen = "then" if self._fits(value, schema["if"], base) else "else"
            value = self.fix(value, schema.get(chosen), at, base, depth + 1)
        return value

    def _note(self, cost: int, at: str, what: str) -> None:
        self.done.append((cost, f"{at}: {what}" if at else what))

    # ---- one value -----------------------------------------------------------------------------------------------------

    def _typed(self, value: Any, schema: Schema, at: str) -> Any:
        types = types_of(schema)
        kind = _kind(value)
        if not types or kind in types or (kind == "integer" and "number" in types):
            return value
        whole = kind == "number" and value.is_integer()
        if whole and "integer" in types and self._whole_floats:
            return value
        if kind == "string" and (read := _read(value, types)) is not _NOTHING:
            cost = _DECODE if isinstance(read, (dict, list)) else _TYPE
            self._note(cost, at, f"string read as {_kind(read)}")
            return read
        if whole and "integer" in types:
            self._note(_TYPE, at, "number written as integer")
            return int(value)
        if kind in ("integer", "number", "boolean") and "string" in types:
            self._note(_TYPE, at, f"{kind} written as string")
            return msgspec.json.encode(value).decode()
        if kind == "array" and len(value) == 1 and "object" not in types:
            inner = value[0]
            if not isinstance(inner, (list, dict)) and inner is not None:
                self._note(_WRAP, at, "taken out of a list of one")
                return self._typed(inner, {"type": types}, at)
        if "array" in types and value is not None and not (kind == "string" and _MORE.search(value)):
            self._note(_WRAP, at, f"{kind} made a list of one")
            return [value]
        return value

    def _listed(self, value: Any, schema: Schema, at: str) -> Any:
        options = [schema["const"]] if "const" in schema else _list(schema, "enum")
        if not options or any(same(option, value) for option in options):
            return value
        if isinstance(value, (dict, list)) or value is None:
            return value
        matches = [option for option in options if isinstance(value, str) and option == value.strip()]
        matches = matches or [option for option in options if _spelling(option) == _spelling(value)]
        if len(matches) != 1 or matches[0] is None or isinstance(matches[0], (dict, list)):
            return value
        self._note(_CASE, at, f"spelled as {msgspec.json.encode(matches[0]).decode()}")
        return matches[0]

    def _alternative(self, value: Any, branches: list[Any], at: str, base: str, depth: int) -> Any:
        if any(self._fits(value, branch, base) for branch in branches):
            return value  # if it fits too many, there is nothing to be done
        readings: list[tuple[int, Any, list[tuple[int, str]]]] = []
        for branch in branches:
            mark = len(self.done)
            changed = self.fix(value, branch, at, base, depth + 1)
            done = self.done[mark:]
            del self.done[mark:]
            if done and self._fits(changed, branch, base):
                readings.append((sum(cost for cost, _ in done), changed, done))
        if not readings:
            return value
        least = min(cost for cost, _, _ in readings)
        cheapest = [reading for reading in readings if reading[0] == least]
        if any(not same(changed, cheapest[0][1]) for _, changed, _ in cheapest):
            return value
        self.done += cheapest[0][2]
        return cheapest[0][1]

    # ---- objects and lists ---------------------------------------------------------------------------------------------

    def _object(self, value: dict[str, Any], schema: Schema, at: str, base: str, depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        rest = schema.get("additionalProperties", True)
        if "patternProperties" in schema:
            rest = True  # what a pattern allows is not known here
        required = [name for name in _list(schema, "required") if isinstance(name, str)]
        named = value if self._only_nulls else self._named(value, properties, required, rest is False, at)
        fixed: dict[str, Any] = {}
        for name, item in named.items():
            place = f"{at}/{escape(name)}"
            sub = properties.get(name, rest)
            if name not in properties and rest is False and self._last_resort:
                self._note(_DROP, place, "taken out: the schema does not allow it")
            elif item is None and self._is_absent(name, properties, required, base):
                if name not in required:
                    self._note(_FILL, place, NULL_LEFT_OUT)
            else:
                fixed[name] = self.fix(item, sub, place, base, depth + 1)
        for name in required:
            if name not in fixed and not self._only_nulls:
                self._fill(fixed, name, properties.get(name), at, base)
        unchanged = fixed.keys() == value.keys() and all(fixed[name] is value[name] for name in value)
        return value if unchanged else fixed

    def _is_absent(self, name: str, properties: Schema, required: list[str], base: str) -> bool:
        """Whether null for it is as good as nothing."""
        if name not in properties or (self._only_nulls and name in required):
            return False
        return not self._fits(None, properties[name], base)

    def _named(
        self, value: dict[str, Any], properties: Schema, required: list[str], closed: bool, at: str
    ) -> dict[str, Any]:
        """Names as the schema spells them, where only the spelling differs and no other name is the same."""
        unknown = [name for name in value if name not in properties]
        missing = [name for name in properties if name not in value]
        spellings: dict[str, str] = {}
        for name in unknown:
            likely = [other for other in missing if _name(other) == _name(name)]
            alike = [other for other in unknown if _name(other) == _name(name)]
            if len(likely) == len(alike) == 1 and (closed or likely[0] in required):
                spellings[name] = likely[0]
                self._note(_NAME, f"{at}/{escape(name)}", f"renamed to {likely[0]}")
        return {spellings.get(name, name): item for name, item in value.items()} if spellings else value

    def _fill(self, fixed: dict[str, Any], name: str, schema: Any, at: str, base: str) -> None:
        for key, options in self._alternatives(schema, base):
            if len(options) == 1 and self._fits(options[0], schema, base):
                fixed[name] = copy.deepcopy(options[0])
                what = "default" if key == "default" else "only value"
                self._note(_FILL, f"{at}/{escape(name)}", f"was missing: its {what} filled in")
                return

    def _alternatives(self, schema: Any, base: str) -> list[tuple[str, list[Any]]]:
        """What a schema says its value is: itself, or where it refers to."""
        options: list[tuple[str, list[Any]]] = []
        for _ in range(8):
            if not isinstance(schema, dict):
                break
            options += [("default", [schema["default"]])] if "default" in schema else []
            options += [("const", [schema["const"]])] if "const" in schema else []
            options += [("enum", _list(schema, "enum"))]
            found = self._document.find(schema["$ref"], base) if isinstance(schema.get("$ref"), str) else None
            if found is None:
                break
            schema, base = found
        return options

    def _array(self, value: list[Any], schema: Schema, at: str, base: str, depth: int) -> list[Any]:
        first = _list(schema, "prefixItems")
        rest = schema.get("items", True)
        fixed = [
            self.fix(item, first[n] if n < len(first) else rest, f"{at}/{n}", base, depth + 1)
            for n, item in enumerate(value)
        ]
        return value if all(new is old for new, old in zip(fixed, value, strict=True)) else fixed

    # ---- parts on their own --------------------------------------------------------------------------------------------

    def _fits(self, value: Any, schema: Any, base: str) -> bool:
        if not isinstance(schema, dict):
            return schema is not False
        self._checks += 1
        if self._checks > MAX_CHECKS:
            raise _TooMuch
        if id(schema) not in self._validators:
            self._validators[id(schema)] = Validator(self._without_references(schema, base))
        try:
            return not self._validators[id(schema)].problems(value, 1)
        except SchemaError:
            return False

    def _without_references(self, schema: Schema, base: str) -> Any:
        """A part of the schema, with what it refers to written out."""
        if not any("$ref" in node or "$dynamicRef" in node for node in everywhere(schema)):
            return schema
        return Walk(self.root, WRITTEN_OUT, base).node(schema)


# ---- readings ---------------------------------------------------------------------------------------------------------

_NOTHING: Final = object()
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,29})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_MORE: Final = re.compile(r"[,;\n|]|^\s*[\[{]")  # a text that may be several, or JSON that was cut: who knows
_EXACT: Final = 2**53  # beyond this a float is not the number that was written


def _read(text: str, types: list[str]) -> Any:
    """A string as the one other thing it can be."""
    plain = text.strip()
    word = plain.casefold()
    if "boolean" in types and word in ("true", "false"):
        return word == "true"
    if "null" in types and word in ("null", "none"):
        return None
    if ("integer" in types or "number" in types) and (number := _NUMBER.fullmatch(plain)):
        if not number[1] and not number[2]:
            return int(plain)
        value = float(plain)
        if "number" in types and value not in (float("inf"), float("-inf")):
            return value
        if value.is_integer() and abs(value) < _EXACT:
            return int(value)
    if "object" in types and (recovered := recover(plain)) is not None:
        return recovered.value
    if "array" in types and plain.startswith("["):
        try:
            value = msgspec.json.decode(plain)
        except (ValueError, RecursionError):
            return _NOTHING
        if isinstance(value, list):
            return value
    return _NOTHING


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case dict():
            return "object"
        case _:
            return "array"


def _spelling(value: Any) -> str:
    """What is left of a value when case, space around it and quotes do not count."""
    return value.strip().casefold() if isinstance(value, str) else msgspec.json.encode(value).decode()


def _name(name: str) -> str:
    return re.sub(r"[\s_.-]", "", name).casefold()


def _list(schema: Schema, keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []
