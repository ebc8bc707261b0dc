"""A request's bytes → its fields, and each of those decoded; what is wrong with one is said with its full path.

For every dialect whose requests are one JSON object: what they have in common besides that is read here, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sized
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Raw

from ronda._suggest import closest
from ronda.core.parts import NULL
from ronda.core.plan import Approval
from ronda.errors import BadRequest
from ronda.schema.validate import check_schema
from ronda.wire.codec.json import check_utf8, decode_members, decoder

T = TypeVar("T")

# Fields that ask for something of the server, in whatever dialect, and it is not here: passing them on would promise it.
NOT_HERE: Final[dict[str, str]] = {
    "tool_dispatch_url": "it is the operator's to set, with --tool-dispatch-url",
}

# Under either name: whether the server's tools run, wait for a person, or are refused.
PERMISSION: Final = ("agent_permission", "code_execution_permission")
PERMISSION_FATES: Final = dict.fromkeys(
    PERMISSION, "read: auto, ask or deny; it can only be stricter than the server's own"
)

# Tools that a request goes without.
DISABLED: Final = "disabled_tools"
SERVER_PREFIX: Final = "mcp:"
DISABLED_FATE: Final = (
    "read (ours): names of the server's tools that the run goes without; `*` and `?` stand for any text and any character, "
    "`mcp:NAME` for all tools of an MCP server"
)
# Many more than the settings of a client have switches.
DisabledTools: TypeAlias = Annotated[list[Annotated[str, Meta(min_length=1, max_length=256)]], Meta(max_length=256)]

_MOST: Final = 2**63
# Many more than any client sends: OpenAI takes 2,048 messages and 128 tools, a day with a coding agent has some thousand.
MAX_MESSAGES: Final = 10_000
MAX_TOOLS: Final = 1_000
MAX_FIELDS: Final = 1_000


def read_fields(body: bytes) -> dict[str, Raw]:
    """The members of a JSON object that say something."""
    try:
        check_utf8(body)  # parts that are only passed on are read nowhere else
        fields = decode_members(body)
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest(f"the body is not a JSON object: {why_not(body, error)}") from error
    if len(fields) > MAX_FIELDS:
        raise BadRequest(f"the body has {len(fields)} fields; this server takes {MAX_FIELDS}")
    return {name: value for name, value in fields.items() if value != NULL} if NULL in fields.values() else fields


def why_not(body: bytes, error: Exception) -> str:
    """msgspec calls half a surrogate pair "truncated", which sends people looking in the wrong place."""
    if re.search(rb"\\u[dD][89a-fA-F]", body) and "truncated" in str(error):
        return "it has a lone surrogate (\\ud800 to \\udfff without its pair), which is no character"
    return str(error)


def field(fields: Mapping[str, Raw], name: str, kind: Any, default: T) -> T:
    raw = fields.get(name)
    if raw is None:
        return default
    return decode_field(raw, kind, name)  # type: ignore[no-any-return]  # `kind` says which type it is


class Members(NamedTuple):  # of a `DoorRequest`, its `Options` and its `AnswerOptions`
    request: dict[str, Any]
    options: dict[str, Any]
    answer: dict[str, Any]


def read_members(readers: Iterable[tuple[str, Any, int, str]], fields: Mapping[str, Raw]) -> Members:
    members = Members({}, {}, {})
    for name, read, index, member in readers:  # of a `field_table`
        if name in fields:
            members[index][member] = read(fields, name)
    return members


def read_permission(fields: Mapping[str, Raw]) -> Approval:
    """The first of the two counts, as with mistral.rs."""
    for name in PERMISSION:
        if name in fields:
            return field(fields, name, Approval, "auto")
    return "auto"


def read_disabled_tools(fields: Mapping[str, Raw]) -> tuple[str, ...]:
    names: list[str] = field(fields, DISABLED, DisabledTools, [])
    return tuple(names)


def read_bounded(fields: Mapping[str, Raw], name: str, least: int, most: int | None = None) -> int | None:
    value = whole(fields, name)
    if value is not None and (value < least or (most is not None and value > most)):
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        raise BadRequest(f"{name} must be {bounds}.", param=name)
    return value


def whole(fields: Mapping[str, Raw], name: str) -> int | None:
    value: int | None = field(fields, name, int, None)
    return None if value is None else sane(value, name)


def sane(value: int, path: str) -> int:
    """JSON knows no end of digits; no upstream and no journal counts that far."""
    if not -_MOST < value < _MOST:
        raise bad(path, "has too many digits")
    return value


DISCONNECT: Final = 'read (ours): `"cancel"`, `"detach"` or `"grace:SECONDS"`'
BACKGROUND: Final = "read (ours): the answer is 202 at once, or a stream that outlives its connection"


def read_background(fields: Mapping[str, Raw]) -> bool:
    return field(fields, "background", bool, False)


def read_disconnect(fields: Mapping[str, Raw]) -> float:
    """How many seconds the runs of a request go on when its client is gone."""
    if read_background(fields):
        return math.inf
    text: str | None = field(fields, "on_disconnect", str | None, None)
    seconds = seconds_without_client("cancel" if text is None else text)
    if seconds is None:
        raise bad("on_disconnect", f'is {text!r:.60}; it can be "cancel", "detach" or "grace:SECONDS"')
    return seconds


def seconds_without_client(text: str) -> float | None:
    if text in ("cancel", "detach"):
        return 0.0 if text == "cancel" else math.inf
    kind, _, seconds = text.partition(":")
    return float(seconds) if kind == "grace" and seconds.isdecimal() and len(seconds) < 10 else None


def decode_field(raw: Raw, kind: Any, path: str) -> Any:
    try:
        return decoder(kind).decode(raw)
    except RecursionError:
        raise BadRequest(f"'{path}' is nested too deeply", param=path) from None
    except msgspec.DecodeError as error:
        reason, _, where = str(error).partition(" - at `$")
        path += where.rstrip("`")
        raise BadRequest(f"'{path}': {reason}", param=path) from error
    except UnicodeError as error:
        raise BadRequest(f"'{path}' is not valid text: {error}", param=path) from error


def check_count(items: Sized, limit: int, path: str) -> None:
    if len(items) > limit:
        raise bad(path, f"has {len(items)} entries; this server takes {limit}")


def bad(path: str, reason: str) -> BadRequest:
    return BadRequest(f"'{path}' {reason}", param=path)


def must_be_schema(raw: Raw, path: str) -> dict[str, Any]:
    schema = decode_field(raw, dict[str, Any], path)
    if (problem := _problem_with_schema(bytes(raw))) is not None:
        raise BadRequest(f"'{path}' is not a JSON Schema: {problem}", param=path)
    return schema  # type: ignore[no-any-return]  # decoded as such


@lru_cache(maxsize=512)  # a client declares the same tools with every request
def _problem_with_schema(schema: bytes) -> str | None:
    return check_schema(msgspec.json.decode(schema))


def misspelt(fields: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Warnings of fields that mean nothing here, and whose names are close to one that does. `known` is every field's fate."""
    unknown = set(fields) - known.keys()
    return tuple([warning for name in sorted(unknown) if (warning := _misspelt(name, tuple(known)))]) if unknown else ()


@lru_cache(maxsize=512)  # a client sends the same fields with every request
def _misspelt(name: str, known: tuple[str, ...]) -> str | None:
    meant = closest(name, known, cutoff=_SURE)
    return None if meant is None else f"'{name}' means nothing to this server; did you mean '{meant}'?"


_SURE: Final = 0.88  # of difflib's ratio: `top_k` and `min_tokens`, which are for the upstream, are less like ours
