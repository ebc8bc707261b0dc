"""The extension `grammar`: a caller's own, in one of four forms → what a grammar of ours can hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

from ronda.errors import BadRequest

_HEADER: Final = re.compile(r"^\s*%llguidance\s*\{[^}]*\}\s*")
_SLASH: Final = re.compile(r"\\.|/", re.DOTALL)
_FORMS: Final[dict[str, tuple[type, ...]]] = {
    "regex": (str,),
    "lark": (str,),
    "json_schema": (dict, bool, str),
    "llguidance": (dict, str),
}


class Custom(Struct, frozen=True):
    type: Literal["regex", "json_schema", "lark", "llguidance"]
    value: Any


def custom_of(extra: Mapping[str, Raw]) -> Custom | None:
    """The caller's grammar, if there is one."""
    raw = extra.get("grammar")
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        custom = msgspec.json.decode(raw, type=Custom)
    except ValueError as error:
        raise BadRequest(f"`grammar` must be {{type, value}}: {error}", param="grammar") from None
    if not isinstance(custom.value, _FORMS[custom.type]):
        raise BadRequest(f"`grammar.value` is not a {custom.type}", param="grammar")
    if custom.type == "json_schema" and isinstance(custom.value, str):
        try:
            return Custom("json_schema", msgspec.json.decode(custom.value))
        except ValueError as error:
            raise BadRequest(f"`grammar.value` is not JSON: {error}", param="grammar") from None
    return custom


def regex_of(custom: Custom) -> str:
    return "/" + _SLASH.sub(lambda found: found[0] if found[0] != "/" else "\\/", custom.value) + "/"


def lark_of(custom: Custom) -> str:
    """The Lark text, from either of llguidance's forms: the text itself, or a list of grammars that name each other."""
    value = custom.value
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        return _HEADER.sub("", value)
    try:
        first, *others = (msgspec.json.decode(value) if isinstance(value, str) else value)["grammars"]
        text = _HEADER.sub("", first["lark_grammar"]) if first.get("lark_grammar") else f"start: {_nested_rules(first)}"
        rules = []
        for n, other in enumerate(others):
            text = re.sub(rf"@{re.escape(other['name'])}(?![\w-])", f"grammar_{n}", text)
            rules.append(f"grammar_{n}: {_nested_rules(other)}")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadRequest("`grammar.value` is not a grammar of llguidance: {grammars: […]}", param="grammar") from None
    return "\n".join([text.rstrip(), *rules])


def _nested_rules(grammar: dict[str, Any]) -> str:
    if grammar.get("lark_grammar"):
        return f"%lark {{\n{_HEADER.sub('', grammar['lark_grammar'])}\n}}"
    return f"%json {msgspec.json.encode(grammar['json_schema']).decode()}"
