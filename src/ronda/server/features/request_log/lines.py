"""What is known of a request when its answer has ended → a line, as text or JSON. It holds no word of a client: paths are
patterns of the table of addresses, and an id must look like one."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

Format = Literal["text", "json"]

_LONGEST_VALUE: Final = 200  # characters: names of owners and models are shorter
_PLAIN: Final = re.compile(r"[\w.:/@+,<>{}-]+", re.ASCII)


class Tokens(Struct, frozen=True):
    input: int
    output: int


class Line(Struct, frozen=True, omit_defaults=True):
    """The fields of a JSON line, in their order. What is not known is absent."""

    time: str
    method: str
    path: str
    status: int  # 0: the client left before there was one
    ms: float
    request_id: str
    run: str | None = None  # of several, the first, with commas between
    owner: str | None = None
    model: str | None = None
    tokens: Tokens | None = None
    cost: float | None = None  # in US dollars


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_line(line: Line, form: Format) -> str:
    return msgspec.json.encode(line).decode() if form == "json" else _text(line)


def without_secrets(name: str) -> str:
    """A name of a model may be an address: of one, only scheme and host are told."""
    if "://" in name:
        before, scheme, rest = re.split(r"([a-zA-Z][\w+.-]*://)", name, maxsplit=1)
        try:
            name = f"{before}{scheme}{urlsplit('//' + rest).hostname or ''}"
        except ValueError:
            name = f"{before}{scheme}"
    return name[:_LONGEST_VALUE]


def _text(line: Line) -> str:
    pieces = [line.time, line.method, line.path, str(line.status), f"{line.ms:.1f}ms"]
    named = {"run": line.run, "owner": line.owner, "model": line.model}
    pieces += [f"{name}={_value(value)}" for name, value in named.items() if value]
    if line.tokens is not None:
        pieces.append(f"tokens={line.tokens.input}+{line.tokens.output}")
    if line.cost is not None:
        pieces.append(f"cost=${line.cost:.6f}")
    pieces.append(f"id={_value(line.request_id)}")
    return " ".join(pieces)


def _value(value: str) -> str:
    """In quotes where it could be taken for several, or for another line."""
    return value if _PLAIN.fullmatch(value) else json.dumps(value)
