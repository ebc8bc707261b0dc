"""JSON that is not quite of its API's shape → what it plainly means.

Many servers speak another vendor's API, and some get its types wrong: a number for an id, `"0"` for an index, one call where a
list of them belongs, `""` or `NaN` where there is no usage. They are read like this only after the strict reading has failed, so
that only such answers pay for it. Two things are never guessed: what was said, and what is called with which arguments. Where one
of these cannot be read the answer is as unreadable as before; anything else that cannot be read is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, inspect

from ronda.wire.codec.json import encode

T = TypeVar("T")

# Members that are left out in no case, by the names they have in any dialect.
_SAID: Final = frozenset(
    {"choices", "delta", "message", "content", "text", "tool_calls", "function", "name", "arguments", "partial_json"}
    | {"content_block", "type", "item", "response", "output", "error"}
)


class _Unfit(Exception):
    """A value that cannot be of the type that is wanted."""


# The last two: a text that is no number, a number that is no integer.
_NOT_FIT: Final = (_Unfit, ValueError, OverflowError)


def decoder(kind: type[T]) -> Callable[[bytes | Raw], T]:
    """JSON → `kind`: strictly, then leniently. Where each step counts, `read_leniently` follows a strict reading in place."""
    decode = msgspec.json.Decoder(kind).decode

    def read(data: bytes | Raw) -> T:
        try:
            return decode(data)
        except msgspec.DecodeError as error:
            return read_leniently(data, kind, error)

    return read


def read_leniently(data: bytes | Raw, kind: type[T], strict: msgspec.DecodeError) -> T:
    """`data` as `kind`. `strict` is what was wrong with it, and is raised where it cannot be read like this either."""
    try:
        value = json.loads(bytes(data), parse_constant=lambda _: None)
        info: inspect.Type = _info(kind)
        fitted: T = _fit(value, info)
    except (*_NOT_FIT, RecursionError):
        pass
    else:
        return fitted
    try:
        raise strict
    finally:
        del strict  # which knows this frame by now: a cycle


_info: Callable[[Any], inspect.Type] = cache(inspect.type_info)


def _fit(value: Any, wanted: inspect.Type) -> Any:
    match wanted:
        case inspect.AnyType():
            return value
        case inspect.RawType():
            return Raw(encode(value))
        case inspect.UnionType(types=types):
            return _fit_one(value, types)
        case inspect.StructType():
            return _fit_struct(value, wanted)
        case inspect.ListType(item_type=item):
            # One thing where a list of them belongs is a list of one; nothing, in a list, is nothing.
            items = [value] if _is_one(value, item) else value if type(value) is list else _unfit()
            return [_fit(one, item) for one in items if one is not None]
        case inspect.DictType(value_type=item) if type(value) is dict:
            return {key: _fit(one, item) for key, one in value.items()}
        case inspect.NoneType() if value is None:
            return None
        case inspect.StrType() if type(value) in (str, int, float):
            return str(value)
        case inspect.IntType() if type(value) in (str, int, float):
            return int(value)
        case inspect.FloatType() if type(value) in (str, int, float):
            return float(value)
        case _:
            return _unfit()


def _fit_one(value: Any, types: tuple[inspect.Type, ...]) -> Any:
    """As the one of them that it is; else as the first one that it can be."""
    for wanted in sorted(types, key=lambda wanted: not _is(value, wanted)):
        try:
            return _fit(value, wanted)
        except _NOT_FIT:
            continue
    return _unfit()


def _is(value: Any, wanted: inspect.Type) -> bool:
    match wanted:
        case inspect.StrType():
            return type(value) is str
        case inspect.IntType() | inspect.FloatType():
            return type(value) in (int, float)
        case inspect.ListType():
            return type(value) is list
        case inspect.StructType() | inspect.DictType():
            return type(value) is dict
        case inspect.NoneType():
            return value is None
        case _:
            return False


def _is_one(value: Any, wanted: inspect.Type) -> bool:
    """An object with any of the members that such a thing has; a text, where it has one."""
    if not isinstance(wanted, inspect.StructType):
        return False
    members = ("text",) if type(value) is str else value if type(value) is dict else ()
    return any(field.encode_name in members for field in wanted.fields)


def _fit_struct(value: Any, wanted: inspect.StructType) -> Any:
    if type(value) is str and _is_one(value, wanted):
        value = {"text": value}
    if type(value) is not dict:
        return _unfit()
    members = {}
    for field in wanted.fields:
        if field.encode_name in value:
            try:
                members[field.name] = _fit(value[field.encode_name], field.type)
            except _NOT_FIT:
                if field.required or field.encode_name in _SAID:
                    raise
    return wanted.cls(**members)


def _unfit() -> Any:
    raise _Unfit
