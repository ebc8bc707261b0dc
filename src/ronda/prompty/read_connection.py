"""A connection as a file, or the host, says it → a `Connection` of its kind."""

from __future__ import annotations

from typing import Any

from ronda.errors import quote_names
from ronda.prompty.location import At
from ronda.prompty.model import CONNECTIONS, Connection

CONNECTION = {  # what each kind has of its own: texts, but for `scopes`
    "key": ("endpoint", "apiKey"),
    "reference": ("name", "target"),
    "remote": ("name", "endpoint", "target"),
    "anonymous": ("endpoint",),
    "foundry": ("endpoint", "name", "connectionType"),
    "oauth": ("endpoint", "clientId", "clientSecret", "tokenUrl", "scopes"),
}


def read_connection(at: At) -> Connection | None:
    if not at.is_mapping():
        return None
    kind = at["kind"].maybe_text()
    if not kind:
        if kind == "" or not at["kind"].is_given:
            at["kind"].problem(f"a connection needs a kind: {quote_names(CONNECTIONS)}, or one that the provider knows")
        return None
    common: dict[str, Any] = {
        "authentication_mode": at["authenticationMode"].maybe_text(),
        "usage_description": at["usageDescription"].maybe_text(),
    }
    if (mode := common["authentication_mode"]) not in (None, "user", "system"):
        at["authenticationMode"].warn(f"'{mode}' is neither 'user' nor 'system'")
    own = CONNECTION.get(kind, ())
    known = ("kind", "authenticationMode", "usageDescription", *own)
    common["extra"] = {key: value for key, value in at.mapping().items() if key not in known}
    if kind not in CONNECTIONS:
        return Connection(kind=kind, **common)
    fields: dict[str, Any] = {
        _snake(name): at[name].texts() if name == "scopes" else at[name].maybe_text()
        for name in own
        if at[name].is_given
    }
    if kind == "reference" and not fields.get("name"):
        at["name"].problem("a connection of kind 'reference' needs the name of a registered one")
        return None
    return CONNECTIONS[kind](**common, **fields)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
