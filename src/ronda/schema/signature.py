"""A Python function → the JSON Schema of its parameters, and JSON arguments → the values its annotations ask for.

Types are msgspec's business. A pydantic model is handed to pydantic, which is only touched when one is there. Key order
follows the signature, always: prompt caches depend on the very bytes.

Knows nothing about tools: what a parameter named `context` means is for the caller to say, with `hide`. Done once, when
a function is decorated; calls only pay for `bind`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Final

import msgspec

from ronda.schema import docstring

JsonSchema = dict[str, Any]
Reader = Callable[[Any], Any]

_EMPTY: Final = inspect.Parameter.empty
_REFS: Final = "#/$defs/{name}"


class BadArguments(ValueError):
    """Arguments that do not fit the signature, every misfit named."""


@dataclass(frozen=True)
class Signature:
    """What a model has to know to call a function, and how to read what it sends."""

    name: str
    description: str
    parameters: JsonSchema
    readers: Mapping[str, Reader] = field(repr=False, compare=False)
    hidden: frozenset[str] = field(default=frozenset(), compare=False)
    extra: Reader | None = field(default=None, repr=False, compare=False)  # reads what **kwargs takes

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """JSON values as the annotated types, ready for `fn(**bound)`. What is absent is left to the function's defaults.

        A hidden parameter that is given anyway was put there by the host, and passes as it is.
        """
        bound: dict[str, Any] = {}
        misfits = [f"{name}: missing" for name in self.parameters["required"] if name not in arguments]
        for name, value in arguments.items():
            reader = self.readers.get(name, self.extra)
            if name in self.hidden:
                bound[name] = value
            elif reader is None:
                misfits.append(f"{name}: there is no such parameter")
            else:
                try:
                    bound[name] = reader(value)
                except ValueError as error:  # msgspec's and pydantic's ValidationError are both one
                    misfits.append(f"{name}: {_reason(error)}")
        if misfits:
            raise BadArguments("; ".join(misfits))
        return bound


def describe(fn: Callable[..., Any], *, hide: frozenset[str] = frozenset()) -> Signature:
    """Read a function, method, partial or callable object. Raises TypeError for a signature no model could call."""
    name, home, doc = _identify(fn)
    hidden = hide | _bound_names(fn)
    shown = {key: one for key, one in _parameters(fn, name).items() if key not in hidden}
    _must_be_named(shown, name)
    annotations = _resolve(shown, home, name)
    schemas, readers, definitions = _types(annotations, name)
    parsed_doc = docstring.parse(doc)

    properties: dict[str, JsonSchema] = {}
    required: list[str] = []
    additional: JsonSchema | bool = False
    extra: Reader | None = None
    for key, one in shown.items():
        schema = schemas[key]
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            additional, extra = schema or True, readers.pop(key)
            continue
        text = _annotated_text(annotations[key]) or parsed_doc.parameters.get(key)
        # What a model class says about itself gives way to what is said about the parameter.
        if text and ("description" not in schema or hasattr(annotations[key], "model_json_schema")):
            schema["description"] = text
        if one.default is _EMPTY:
            required.append(key)
        elif (default := _json(one.default)) is not _NOT_JSON:
            schema["default"] = default
        properties[key] = schema
    parameters: JsonSchema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": additional,
    }
    if definitions:
        parameters["$defs"] = definitions
    return Signature(name, parsed_doc.description, parameters, readers, hidden, extra)


# ---- the function -----------------------------------------------------------------------------------------------------


def _identify(fn: Callable[..., Any]) -> tuple[str, Any, str | None]:
    """Its name, the function whose module its annotations are to be read in, and its docstring."""
    inner: Any = fn
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not (inspect.isroutine(inner) or isinstance(inner, type) or hasattr(inner, "__wrapped__")):
        call = type(inner).__call__
        name = getattr(inner, "__name__", None) or type(inner).__name__
        return name, inspect.unwrap(call), inspect.getdoc(call) or inspect.getdoc(inner)
    home = inspect.unwrap(inner)
    return inner.__name__, vars(home).get("__init__", home) if isinstance(home, type) else home, inspect.getdoc(inner)


def _bound_names(fn: Callable[..., Any]) -> frozenset[str]:
    """What a partial fills in by name: often a key or a connection, so not the model's to see or to change."""
    fixed: frozenset[str] = frozenset()
    while isinstance(fn, functools.partial):
        fixed |= fn.keywords.keys()
        fn = fn.func
    return fixed


def _parameters(fn: Callable[..., Any], name: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(fn).parameters
    except NameError as error:  # annotations are evaluated here from Python 3.14 on
        raise TypeError(f"{name}(): an annotation names {error.name!r}, which is not defined") from error
    except ValueError as error:
        raise TypeError(f"{name}() has no signature that Python knows") from error


def _must_be_named(shown: Mapping[str, inspect.Parameter], name: str) -> None:
    for key, one in shown.items():
        if one.kind is inspect.Parameter.VAR_POSITIONAL:
            raise TypeError(f"{name}(*{key}): a model gives every argument a name; take a list instead")
        if one.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise TypeError(f"{name}({key}, /): a model gives every argument a name; drop the slash")


def _resolve(shown: Mapping[str, inspect.Parameter], home: Any, name: str) -> dict[str, Any]:
    """Annotations as types, strings evaluated where the function was defined. No annotation means anything goes."""

    def probe() -> (
        None
    ): ...  # one annotation at a time, so that a bad one can be named, and a bad return type stops no argument

    names = getattr(home, "__globals__", {})
    resolved: dict[str, Any] = {}
    for key, one in shown.items():
        annotation = Any if one.annotation is _EMPTY else one.annotation
        probe.__annotations__ = {key: annotation}
        try:
            hints = typing.get_type_hints(probe, names, include_extras=True)
        except Exception as error:  # evaluating may raise anything: the text of an annotation is a program
            raise TypeError(
                f"{name}(): cannot resolve the annotation {annotation!r} of parameter {key!r}: {error}"
            ) from error
        hint = Any if hints[key] is object else hints[key]
        # `x: str = None` is how many people write an optional parameter
        resolved[key] = hint | None if one.default is None and _refuses_none(hint) else hint
    return resolved


def _refuses_none(hint: Any) -> bool:
    try:
        msgspec.convert(None, hint)
    except msgspec.ValidationError:
        return True
    except TypeError:  # not a type msgspec knows: leave it to the library that does
        return False
    return False


# ---- its types --------------------------------------------------------------------------------------------------------


def _types(annotations: Mapping[str, Any], name: str) -> tuple[dict[str, JsonSchema], dict[str, Reader], JsonSchema]:
    """A schema and a reader for each parameter, and the definitions the schemas refer to."""
    plain = {key: hint for key, hint in annotations.items() if not is_pydantic(hint)}
    try:
        schemas, definitions = _msgspec_schemas(plain)
    except TypeError:  # one of them is not for msgspec: find out which
        plain = {key: hint for key, hint in plain.items() if _suits_msgspec(hint)}
        schemas, definitions = _msgspec_schemas(plain)
    readers: dict[str, Reader] = {key: _msgspec_reader(hint) for key, hint in plain.items()}
    for key, hint in annotations.items():
        if key not in plain:
            try:
                schemas[key], readers[key], more = _union(hint, key, definitions) or _pydantic(hint, key, definitions)
            except TypeError as error:
                raise TypeError(
                    f"{name}(): parameter {key!r} has a type no JSON can be read as: {_last_line(error)}"
                ) from error
            definitions |= more
    return schemas, readers, definitions


def _msgspec_schemas(hints: Mapping[str, Any]) -> tuple[dict[str, JsonSchema], JsonSchema]:
    schemas, definitions = msgspec.json.schema_components(hints.values(), ref_template=_REFS)
    return dict(zip(hints, schemas, strict=True)), definitions


def _suits_msgspec(hint: Any) -> bool:
    try:
        msgspec.json.schema(hint)
    except TypeError:
        return False
    return True


def _msgspec_reader(hint: Any) -> Reader:
    def read(value: Any) -> Any:
        try:
            return msgspec.convert(value, hint, str_keys=True)
        except msgspec.ValidationError:
            # 3.0 is an integer in JSON Schema, and some models write it so; msgspec wants to hear that a second time.
            if (exact := _whole_floats_as_ints(value)) is value:
                raise
            return msgspec.convert(exact, hint, str_keys=True)

    return read


def _whole_floats_as_ints(value: Any) -> Any:
    """The very same value if there are none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        members = {key: _whole_floats_as_ints(item) for key, item in value.items()}
        return members if any(members[key] is not item for key, item in value.items()) else value
    if isinstance(value, list):
        items = [_whole_floats_as_ints(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


# ---- types msgspec leaves to others -----------------------------------------------------------------------------------

_Typed = tuple[JsonSchema, Reader, JsonSchema]


def _union(hint: Any, key: str, taken: JsonSchema) -> _Typed | None:
    """`A | B` of two dataclasses, or `date | str`: msgspec cannot tell them apart, so they are tried in turn."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return None
    members = typing.get_args(hint)
    if not all(_suits_msgspec(member) for member in members):
        return None

    def make(prefix: str) -> tuple[JsonSchema, JsonSchema]:
        schemas, own = msgspec.json.schema_components(members, ref_template=f"#/$defs/{prefix}{{name}}")
        return {"anyOf": list(schemas)}, own

    schema, definitions = _apart(make, key, taken)
    readers = [(_fields(member), _msgspec_reader(member)) for member in members]

    def read(value: Any) -> Any:
        keys = value.keys() if isinstance(value, dict) else ()
        failures: list[str] = []
        # A type that would drop some of what was given comes last.
        for _, reader in sorted(readers, key=lambda one: len(keys - one[0]) if keys and one[0] else 0):
            try:
                return reader(value)
            except msgspec.ValidationError as error:
                failures.append(str(error))
        raise msgspec.ValidationError(", or ".join(dict.fromkeys(failures)))

    return schema, read, definitions


def _fields(hint: Any) -> frozenset[str]:
    return frozenset(one.encode_name for one in getattr(msgspec.inspect.type_info(hint), "fields", ()))


def is_pydantic(hint: Any) -> bool:
    """Whether pydantic has a say anywhere in a type: as a model, a Field, or inside a plain dataclass."""
    todo, seen = [hint], set()
    while todo:
        hint = todo.pop()
        if hasattr(hint, "model_json_schema") or type(hint).__module__.partition(".")[0] == "pydantic":
            return True
        todo += (*typing.get_args(hint), *getattr(hint, "__metadata__", ()))
        if isinstance(hint, type) and hint not in seen and (is_dataclass(hint) or hasattr(hint, "__total__")):
            seen.add(hint)
            with contextlib.suppress(NameError):  # msgspec will say so
                todo += typing.get_type_hints(hint, include_extras=True).values()
    return False


def _pydantic(hint: Any, key: str, taken: JsonSchema) -> _Typed:
    if not is_pydantic(hint):  # it might know more types, but then a schema would depend on who imported it
        msgspec.json.schema(hint)  # raises TypeError, saying why
    import pydantic

    def make(prefix: str) -> tuple[JsonSchema, JsonSchema]:
        schema = adapter.json_schema(ref_template=f"#/$defs/{prefix}{{model}}")
        return schema, schema.pop("$defs", {})

    try:
        adapter: Any = pydantic.TypeAdapter(hint)
        schema, definitions = _apart(make, key, taken)
    except Exception as error:  # pydantic has a dozen ways to say so
        raise TypeError(str(error).partition("\n")[0]) from error
    return schema, adapter.validate_python, definitions


def _apart(
    make: Callable[[str], tuple[JsonSchema, JsonSchema]], key: str, taken: JsonSchema
) -> tuple[JsonSchema, JsonSchema]:
    """A schema and its definitions; under the parameter's name where another type already has theirs."""
    schema, own = make("")
    if all(taken.get(name, one) == one for name, one in own.items()):
        return schema, own
    schema, own = make(f"{key}.")
    return schema, {f"{key}.{name}": one for name, one in own.items()}


# ---- small things -----------------------------------------------------------------------------------------------------

_NOT_JSON: Final = object()


def _json(default: Any) -> Any:
    """A default as the JSON a model would write, if there is such a thing."""
    try:
        dumped = default.model_dump(mode="json") if hasattr(default, "model_dump") else default
        value = msgspec.json.decode(msgspec.json.encode(dumped, order="deterministic"))
    except (TypeError, ValueError, RecursionError):
        return _NOT_JSON
    return _NOT_JSON if value is None and default is not None else value  # NaN and infinity become null


def _annotated_text(hint: Any) -> str | None:
    """`Annotated[str, "what it is"]`, also inside an Optional."""
    for note in getattr(hint, "__metadata__", ()):
        if isinstance(note, str):
            return note
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next((text for inner in typing.get_args(hint) if (text := _annotated_text(inner))), None)
    return None


def _last_line(error: Exception) -> str:
    return str(error).rstrip().rpartition("\n")[2]


def _reason(error: ValueError) -> str:
    if not hasattr(error, "errors"):
        return str(error)
    text = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
    return ", ".join(f"{where}: {what}" if where else what for where, what in text)
