"""A JSON Schema and a value → what is wrong with the value, or with the schema.

Schemas come with requests, so they are taken as hostile: their work is bounded before they are compiled (`bounds`),
patterns run on a linear engine, and a reference to anywhere outside the schema is an error, never a download or a file.
Knows nothing about tools or models; the caller decides what a problem means.

The checks are `jsonschema_rs`, imported at first use: 30 ms and 8 MB that a plain chat never needs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ronda.schema.bounds import (
    LOOK_AROUND,
    MAX_DEPTH,
    REFERENCES,
    Bounds,
    SchemaError,
    measure,
    missing_reference,
)
from ronda.schema.patterns import needs_respelling, respell
from ronda.schema.subschemas import escape, subschemas

if TYPE_CHECKING:
    import jsonschema_rs

    _Ready = tuple[jsonschema_rs.Validator, Bounds]

__all__ = ["Problem", "SchemaError", "Validator", "check_schema", "validator_for"]

Schema = dict[str, Any] | bool | bytes

MAX_CHECKS: Final = 100_000_000  # work of the schema × bytes of the value: about a second at the very worst
MAX_NESTING: Final = 1_000  # of the value: a hundred thousand levels overflow the stack in Rust, which cannot be caught
MAX_DETAILS: Final = 100_000  # errors come all at once, some 20 µs each, and that of a union brings all below it
MAX_MESSAGE: Final = 240
MAX_PATTERN_SIZE: Final = 10_000_000  # of one compiled pattern: room for `^.{1,4096}$`
CACHED: Final = 256
CACHED_SIZE: Final = 64_000  # a larger schema, or one with larger patterns, is compiled each time:
CACHED_STATES: Final = 2_000  # 256 of them would fill the memory


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with a value. `path` is a JSON pointer into the value; empty for the value itself."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class Validator:
    """Checks values against one schema, which is compiled when the first value comes.

    The draft is the one `$schema` names, else 2020-12. `formats` says if `format` is asserted or only a note.
    """

    def __init__(self, schema: Schema, *, formats: bool = False) -> None:
        self._schema = schema
        self._formats = formats
        self._ready: _Ready | None = None

    def problems(self, value: Any, limit: int = 5) -> list[Problem]:
        """The first few things wrong with a JSON value; empty when it fits. Raises SchemaError for a bad schema."""
        validator, bounds = self._compiled()
        try:
            text = msgspec.json.encode(value)
            if _is_too_deep(value, text):
                return [Problem("", "nested too deeply to be checked")]
            if len(text) * bounds.work > MAX_CHECKS:
                return [Problem("", "too large to be checked against its schema")]
            if validator.is_valid(value):
                return []
        except RecursionError:
            return [Problem("", "nested too deeply to be checked")]
        except (ValueError, TypeError) as error:  # a lone surrogate, or something that is not JSON
            return [Problem("", f"not JSON: {error}")]
        return _details((validator, bounds), value, len(text), limit)

    def explain(self, value: Any) -> str | None:
        """What is wrong with a value, in one line; None when it fits."""
        return "; ".join(map(str, self.problems(value))) or None

    def _compiled(self) -> _Ready:
        if self._ready is not None:
            return self._ready
        ready = _compile(_read(self._schema), self._formats)
        if ready[1].states <= CACHED_STATES:
            self._ready = ready
        return ready


def check_schema(schema: Schema) -> str | None:
    """Why a thing is not a JSON Schema we can check against, naming the place; None when it is one."""
    try:
        _compile(_read(schema), formats=False)
    except SchemaError as error:
        return str(error)
    return None


def validator_for(schema: bytes, *, formats: bool = False) -> Validator:
    """The validator of a schema, kept for the next time it is asked for."""
    return _compile_cached(schema, formats) if len(schema) <= CACHED_SIZE else Validator(schema, formats=formats)


@functools.lru_cache(maxsize=CACHED)
def _compile_cached(schema: bytes, formats: bool) -> Validator:
    return Validator(schema, formats=formats)


# ---- compiling --------------------------------------------------------------------------------------------------------


def _read(schema: Schema) -> dict[str, Any] | bool:
    value: Any = schema
    if isinstance(schema, bytes):
        try:
            value = msgspec.json.decode(schema)
        except RecursionError:
            raise SchemaError(f"nested deeper than {MAX_DEPTH} levels") from None
        except ValueError as error:
            raise SchemaError(f"not JSON: {error}") from error
    if isinstance(value, (dict, bool)):
        return value
    raise SchemaError("a JSON Schema is an object or a boolean")


def _compile(schema: dict[str, Any] | bool, formats: bool) -> _Ready:
    import jsonschema_rs

    bounds = measure(schema)
    try:
        if isinstance(schema, dict):
            schema = _with_patterns_in_order(schema, bounds.look_around)
        compiled = jsonschema_rs.validator_for(
            schema,
            validate_formats=formats,
            offline=True,  # else it would fetch http: and file: references
            pattern_options=jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_SIZE),
            keywords={_LOOK_AROUND: _LookAround} if bounds.look_around else None,
        )
    except jsonschema_rs.ValidationError as error:
        raise _blame(error, schema) from None
    except ValueError as error:  # keys that are no strings, values that are no JSON
        raise SchemaError(f"not JSON: {error}") from error
    return compiled, bounds


def _blame(error: jsonschema_rs.ValidationError, schema: dict[str, Any] | bool) -> SchemaError:
    if error.kind.name == "$ref" and isinstance(schema, dict):
        for spot in subschemas(schema):
            for keyword in REFERENCES:
                if isinstance(reference := spot.node.get(keyword), str) and _is_about(error.message, reference):
                    return missing_reference(f"{spot.pointer()}/{keyword}", reference)
        return SchemaError(_short(error.message))
    problem = _plain(error)[0]
    if error.kind.name == _LOOK_AROUND or (error.kind.name == "format" and '"regex"' in problem.message):
        place = problem.path.replace(_LOOK_AROUND, "pattern")
        return SchemaError(f"{place}: not a regular expression that can be matched in linear time")
    return SchemaError(str(problem))


def _is_about(message: str, reference: str) -> bool:
    """The library does not say where a bad reference is, but it quotes the fragment, or has the address in its message."""
    address, _, fragment = reference.partition("#")
    return f"'{fragment}'" in message or (address != "" and address in message)


# ---- patterns with look-around ----------------------------------------------------------------------------------------

# The linear engine cannot look around, but the TypeScript world writes e-mail patterns that do, into every tool with an
# address. They go to the backtracking engine, one pattern at a time and only for short strings: fifty of them on a long
# one took it two minutes, whatever its own limit says.
_LOOK_AROUND: Final = "x-ronda-look-around"
_LOOK_AROUND_LENGTH: Final = 256
_LOOK_AROUND_STEPS: Final = 10_000


class _LookAround:
    """A `pattern` that looks around. A string too long for it passes: the tool has to know its limits anyway."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: Sequence[str | int]) -> None:
        import jsonschema_rs

        self._pattern = value
        self._validator = jsonschema_rs.validator_for(
            {"pattern": value},
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(_LOOK_AROUND_STEPS, size_limit=MAX_PATTERN_SIZE),
        )

    def validate(self, instance: Any) -> None:
        short = isinstance(instance, str) and len(instance) <= _LOOK_AROUND_LENGTH
        if short and not self._validator.is_valid(instance):
            raise ValueError(f'"{instance}" does not match "{self._pattern}"')


def _with_patterns_in_order(schema: dict[str, Any], look_around: bool) -> dict[str, Any]:
    """A copy whose patterns are spelt as every draft takes them, those that look around apart; the schema where none is."""
    if not look_around and not needs_respelling(schema):
        return schema
    copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    respell(copy)
    for node in [spot.node for spot in subschemas(copy)]:
        if isinstance(pattern := node.get("pattern"), str) and LOOK_AROUND.search(pattern):
            node[_LOOK_AROUND] = node.pop("pattern")
    return copy


# ---- saying what is wrong ---------------------------------------------------------------------------------------------


def _details(ready: _Ready, value: Any, size: int, limit: int) -> list[Problem]:
    """Where and why, if finding that out is affordable: the library makes every error before it shows the first."""
    validator, bounds = ready
    nodes, depth = _extent(value)
    errors = nodes * bounds.work // (1 + bounds.growth) * max(bounds.growth, 1) ** min(depth, 32)
    try:
        if size * bounds.work > MAX_CHECKS // 2:
            found: list[jsonschema_rs.ValidationError] = []
        elif errors <= MAX_DETAILS:
            found = list(validator.iter_errors(value))
        elif bounds.unions or bounds.growth > 1:  # it would go down every way there is, again and again
            found = []
        else:
            found = list(_first(validator, value))
    except ValueError:  # nested more deeply than its messages go
        found = []
    problems = dict.fromkeys(problem for error in found for problem in _plain(error))
    return list(problems)[:limit] or [Problem("", "does not fit its schema")]


def _first(validator: jsonschema_rs.Validator, value: Any) -> Iterator[jsonschema_rs.ValidationError]:
    import jsonschema_rs

    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        yield error


def _is_too_deep(value: Any, text: bytes) -> bool:
    brackets = text.count(b"[") + text.count(b"{")  # far cheaper than a look at the value, and mostly enough
    return brackets > MAX_NESTING and _extent(value)[1] > MAX_NESTING


def _extent(value: Any) -> tuple[int, int]:
    level, nodes, depth = [value], 0, 0
    while level:
        nodes += len(level)
        depth += 1
        level = [
            item
            for node in level
            if isinstance(node, (dict, list, tuple))
            for item in (node.values() if isinstance(node, dict) else node)
        ]
    return nodes, depth


# Signs that an alternative was not the one meant, the surest first: error kind, and how far down in the value.
_SIGNS: Final = (
    frozenset({("type", 0)}),
    frozenset({("type", 0), ("enum", 0), ("const", 0)}),
    frozenset({("type", 0), ("enum", 0), ("const", 0), ("enum", 1), ("const", 1)}),  # 1: the tag of a tagged union
)


def _plain(error: jsonschema_rs.ValidationError) -> list[Problem]:
    """An error as problems. Of a union, those of the one alternative that was meant, where that can be told."""
    branches: list[list[jsonschema_rs.ValidationError]] = getattr(error.kind, "context", [])
    level = len(error.instance_path)
    if all(branches):  # an empty one is an alternative that fits, in a oneOf that fits twice
        signs = [{(inner.kind.name, len(inner.instance_path) - level) for inner in branch} for branch in branches]
        for wrong in _SIGNS:
            meant = [branch for branch, seen in zip(branches, signs, strict=True) if not seen & wrong]
            if len(meant) == 1:
                return [problem for inner in meant[0] for problem in _plain(inner)]
        if signs and all(seen == {("type", 0)} for seen in signs):
            types = dict.fromkeys(name for branch in branches for name in getattr(branch[0].kind, "types", ()))
            value = branches[0][0].message.rpartition(" is not of type")[0]
            return [
                Problem(
                    _pointer(error), f"{_short(value)} is not of type " + " or ".join(f'"{name}"' for name in types)
                )
            ]
    return [Problem(_pointer(error), _short(error.message))]


def _pointer(error: jsonschema_rs.ValidationError) -> str:
    return "".join(f"/{escape(str(step))}" for step in error.instance_path)


def _short(message: str) -> str:
    """Messages quote the value first and say what is wrong with it last: the middle can go."""
    if len(message) <= MAX_MESSAGE:
        return message
    half = MAX_MESSAGE // 2
    return f"{message[:half]}…{message[-half:]}"
