"""What a model wrote as a tool call's arguments → a JSON object, or nothing.

Models fence their JSON, talk around it, leave a comma behind, or encode it twice. Each of these has one reading, so it
is taken, and the repair is named. Cut arguments have many readings, so they have none here: the loop asks again.

Every step is one pass of a regular expression that cannot back up, because the text may be a megabyte of braces meant
to stall us. Knows nothing about the tool's schema, nor what empty arguments mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

# A text encoded n times needs 2ⁿ backslashes before each quote: no model means more than a few layers.
_MAX_LAYERS: Final = 4
_LAYER: Final = ("{", '"', "`")  # how a string begins that holds arguments rather than talk


class RecoveredArguments(msgspec.Struct, frozen=True):
    """Arguments that are a JSON object, and what it took: "fence", "balanced", "trailing_comma", "double_encoded"."""

    value: dict[str, Any]
    text: str  # as the model wrote it when nothing was repaired, else the canonical JSON of `value`
    repairs: tuple[str, ...] = ()


def recover(text: str) -> RecoveredArguments | None:
    """Read the arguments of a tool call, repairing what can only mean one thing."""
    value = _decode(text)
    if type(value) is dict:
        return RecoveredArguments(value, text)
    repairs: list[str] = []
    for _ in range(_MAX_LAYERS):
        if value is _NOT_JSON:
            value = _mend(text, repairs)
        if type(value) is dict:
            try:
                return RecoveredArguments(value, canonical(value).decode(), tuple(dict.fromkeys(repairs)))
            except RecursionError:  # just shallow enough to be read, not to be written
                return None
        if type(value) is not str or not value.lstrip().startswith(_LAYER):
            return None  # JSON, but nothing to call a tool with: a list, a number, null, a sentence
        repairs.append("double_encoded")
        text = value
        value = _decode(text)
    return None


def is_object(text: str) -> bool:
    """Whether arguments are what every server takes. Nothing is made of what is inside."""
    try:
        _members(text)
    except (ValueError, RecursionError):
        return False
    return True


def as_object(text: str) -> str:
    """Arguments as every server takes them back: some (llama-server, vLLM) read a model's own calls before they show them to it,
    and refuse a conversation with one that is no JSON object. Where nothing can be read, the model finds its own words."""
    if is_object(text):
        return text
    if (recovered := recover(text)) is not None:
        return recovered.text
    return canonical({"unreadable": text} if text.strip() else {}).decode()


def canonical(value: Any) -> bytes:
    """JSON that is the same for equal values: keys sorted, no spaces."""
    return msgspec.json.encode(value, order="sorted")


# ---- steps -----------------------------------------------------------------------------------------------------------

_NOT_JSON: Final = object()
_decoder: Final = msgspec.json.Decoder()
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _decode(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):  # ValueError: not JSON, or a lone surrogate, which JSON text cannot hold
        return _NOT_JSON


def _mend(text: str, repairs: list[str]) -> Any:
    """The first reading of `text` that is JSON, adding to `repairs` what it took; or _NOT_JSON."""
    for piece, taken in _pieces(text):
        if (value := _decode(piece)) is not _NOT_JSON:
            repairs += taken
            return value
        if (fewer := _without_trailing_commas(piece)) != piece and (value := _decode(fewer)) is not _NOT_JSON:
            repairs += (*taken, "trailing_comma")
            return value
    return _NOT_JSON


def _pieces(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Parts of the text that may be the arguments, the most likely first, with the repair each stands for."""
    fence = _FENCE.search(text)
    brace = text.find("{")
    if fence is None or -1 < brace < fence.start():  # backticks after a brace belong to a string inside the object
        fenced: tuple[str, ...] = ()
        yield text, fenced
    else:
        fenced = ("fence",)
        text = text[fence.end() :]
        # The object may have backticks in its strings, and the prose after it a fence of its own: try both ends.
        first, last = text.find("```"), text.rfind("```")
        if first >= 0:
            yield text[:first], fenced
        if last > first:
            yield text[:last], fenced
        yield text, fenced  # never closed
    if (found := _first_object(text)) is not None:
        yield found, (*fenced, "balanced")


_FENCE: Final = re.compile(r"`{3,}[ \t]*[\w+-]*")

# A string that never ends takes the rest of the text with it. Were it no match, the search would start again at each
# quote inside it, and a megabyte of escaped quotes would take hours.
_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_BRACES: Final = re.compile(_STRING + r"|\{++|\}++", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(_STRING + r"|,(?=\s*+[}\]])", re.DOTALL)
_ANOTHER: Final = re.compile(r"[\s,;]*+\{")


def _first_object(text: str) -> str | None:
    """From the first brace to the one that closes it. An inner object is never taken for the one that was cut."""
    start = text.find("{")
    if start < 0 or text[:start].rstrip().endswith("["):  # the first item of a list is not the arguments
        return None
    depth = 0
    for token in _BRACES.finditer(text, start):
        kind = text[token.start()]
        if kind == "{":
            depth += token.end() - token.start()
        elif kind == "}":
            depth -= token.end() - token.start()
            if depth <= 0:
                end = token.end() + depth
                # Two objects in a row are two calls run together, or a vendor's empty start glued to the real thing.
                return None if _ANOTHER.match(text, end) else text[start:end]
    return None


def _without_trailing_commas(text: str) -> str:
    return _TRAILING_COMMA.sub(lambda token: "" if token[0] == "," else token[0], text)
