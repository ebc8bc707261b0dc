"""What is wrong with a request, place by place: the list under `detail` of a 422, in the words Mistral's API says it in.

A body is decoded in one go; only when that fails is it looked at again, level by level, so that everything that is wrong with
it can be said at once and with its exact place.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Sequence, Sized
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from ronda.errors import BadRequest, quote_names
from ronda.wire.codec.json import check_utf8, decoder, encode
from ronda.wire.shared.fields import why_not

T = TypeVar("T")
Loc: TypeAlias = tuple[str | int, ...]

BODY: Final[Loc] = ("body",)
_MOST_INPUT: Final = 200  # bytes of what was sent that an error says again
_MOST_PROBLEMS: Final = 50
_UNSAID: Final = Raw()


class Problem(Struct, frozen=True, omit_defaults=True):
    type: str
    loc: Loc
    msg: str
    input: Raw = _UNSAID  # left out where it is large

    @property
    def where(self) -> str:
        return ".".join(map(str, self.loc[1:] or self.loc))


class Invalid(BadRequest):
    """A request that does not fit, with every place where it does not."""

    status_hint = 422

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.details = tuple(problems)
        first = self.details[0]
        super().__init__(f"{first.where}: {first.msg}", param=first.where, code="invalid")


def problem(kind: str, loc: Loc, msg: str, sent: bytes | Raw = b"") -> Problem:
    raw = bytes(sent)
    place = tuple([name[:_MOST_INPUT] if isinstance(name, str) else name for name in loc])
    return Problem(kind, place, msg, Raw(raw) if 0 < len(raw) <= _MOST_INPUT else _UNSAID)


def refuse(kind: str, loc: Loc, msg: str, value: Any = None) -> NoReturn:
    """Say no to one place; `value` is what stood there."""
    raise Invalid([problem(kind, loc, msg, encode(value))])


def check_count(items: Sized, limit: int, loc: Loc) -> None:
    if len(items) > limit:
        refuse("too_long", loc, f"List should have at most {limit} items after validation, not {len(items)}")


def read_body(body: bytes, kind: type[T]) -> T:
    return read_value(body, kind, BODY)  # type: ignore[no-any-return]  # `kind` says which type it is


def read_value(raw: bytes | Raw, kind: Any, loc: Loc) -> Any:
    sent = bytes(raw)
    try:
        check_utf8(sent)  # what is only passed on is read nowhere else here
        try:
            return decoder(kind).decode(sent)
        except msgspec.ValidationError as error:
            decoder(Raw).decode(sent)  # it may be no JSON at all further on, which comes first
            found = _explain(sent, kind, loc)
            raise Invalid(found[:_MOST_PROBLEMS] or [problem("value_error", loc, str(error), sent)]) from error
    except RecursionError:
        raise Invalid([problem("recursion_loop", loc, "it is nested too deeply")]) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Invalid([problem("json_invalid", loc, f"JSON decode error: {why_not(sent, error)}")]) from error


# ---- looking again, level by level -------------------------------------------------------------------------------------


def _explain(raw: bytes, kind: Any, loc: Loc) -> list[Problem]:
    try:
        decoder(kind).decode(raw)
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at `$")[0]
    except RecursionError:
        return [problem("recursion_loop", loc, "it is nested too deeply")]
    except (msgspec.DecodeError, UnicodeError) as error:
        return [problem("value_error", loc, str(error))]
    else:
        return []
    members = _members(kind)
    raw = raw.strip()
    found: list[Problem] = []
    if raw[:1] == b"[":
        for inner in [typing.get_args(one)[0] for one in members if typing.get_origin(one) is list]:
            for index, item in enumerate(decoder(list[Raw]).decode(raw)):
                found += _explain(bytes(item), inner, (*loc, index))
                if len(found) >= _MOST_PROBLEMS:
                    return found
    elif raw[:1] == b"{":
        structs = [one for one in members if isinstance(one, type) and issubclass(one, Struct)]
        if structs:
            found = _explain_object(raw, structs, loc)
    return found or [_leaf(raw, members, loc, reason)]


# Asked for once: msgspec leaves a cycle each time.
_fields_of = functools.cache(msgspec.structs.fields)


def _explain_object(raw: bytes, structs: list[type[Struct]], loc: Loc) -> list[Problem]:
    fields: dict[str, Raw] = decoder(dict[str, Raw]).decode(raw)
    kind = structs[0]
    tag_field = kind.__struct_config__.tag_field
    if tag_field is not None and (len(structs) > 1 or tag_field in fields):
        tags = {one.__struct_config__.tag: one for one in structs}
        expected = quote_names(map(str, tags))
        if tag_field not in fields:
            return [problem("missing", (*loc, tag_field), "Field required", raw)]
        decoded = msgspec.json.decode(fields[tag_field])
        if not isinstance(decoded, str) or decoded not in tags:
            msg = f"Input should be one of {expected}"
            return [problem("union_tag_invalid", (*loc, tag_field), msg, fields[tag_field])]
        kind = tags[decoded]
    found: list[Problem] = []
    known = {tag_field}
    for field in _fields_of(kind):
        known.add(field.encode_name)
        if field.encode_name in fields:
            found += _explain(bytes(fields[field.encode_name]), field.type, (*loc, field.encode_name))
        elif field.required:
            found.append(problem("missing", (*loc, field.encode_name), "Field required", raw))
    if kind.__struct_config__.forbid_unknown_fields:
        why: dict[str, str] = getattr(kind, "refused", {})
        for name in [name for name in fields if name not in known][:_MOST_PROBLEMS]:
            msg = "Extra inputs are not permitted"
            found.append(
                problem("extra_forbidden", (*loc, name), f"{msg}: {why[name]}" if name in why else msg, fields[name])
            )
    return found


def _members(kind: Any) -> list[Any]:
    """A union's members, without what is only said about them."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _members(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return [inner for one in typing.get_args(kind) for inner in _members(one)]
    return [kind]


_LEAVES: Final[dict[Any, tuple[str, str]]] = {
    str: ("string_type", "a valid string"),
    bool: ("bool_type", "a valid boolean"),
    int: ("int_type", "a valid integer"),
    float: ("float_type", "a valid number"),
    list: ("list_type", "a valid list"),
    dict: ("dict_type", "a valid dictionary"),
}


def _leaf(raw: bytes, members: list[Any], loc: Loc, reason: str) -> Problem:
    literals = [value for one in members if typing.get_origin(one) is typing.Literal for value in typing.get_args(one)]
    if literals:
        expected = " or ".join(repr(value) for value in literals)
        return problem("literal_error", loc, f"Input should be {expected}", raw)
    if (bound := re.search(r"(>=|<=) (\S+)$", reason)) is not None:
        if "of length" in reason:
            beyond, limit = ("string_too_short", "least") if bound[1] == ">=" else ("string_too_long", "most")
            characters = "character" if bound[2] == "1" else "characters"
            return problem(beyond, loc, f"String should have at {limit} {bound[2]} {characters}", raw)
        beyond = "greater_than_equal" if bound[1] == ">=" else "less_than_equal"
        return problem(
            beyond,
            loc,
            f"Input should be {beyond.replace('_equal', ' than or equal').replace('_than', '')} to {bound[2]}",
            raw,
        )
    if "got" not in reason and "Expected" not in reason:
        return problem("value_error", loc, reason, raw)
    leaves = []
    for one in members:
        plain = typing.get_origin(one) or one
        plain = dict if isinstance(plain, type) and issubclass(plain, Struct) else plain
        if (leaf := _LEAVES.get(plain)) is not None and leaf not in leaves:
            leaves.append(leaf)
    if not leaves:
        return problem("value_error", loc, reason, raw)
    return problem(leaves[0][0], loc, "Input should be " + " or ".join(words for _, words in leaves), raw)
