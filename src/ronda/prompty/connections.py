"""Names → connections that the host registered, for files that say `connection: {kind: reference, name: …}`.

So a file that is shared, or written by another person, holds no address and no key. Process-wide and safe from any thread.
A whole provider can be registered too: anything with a `call`, such as a `ScriptedModel`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ronda.errors import BadConfig, quote_names
from ronda.prompty.errors import BadPrompty, ConnectionMissing
from ronda.prompty.model import CONNECTIONS, Connection, OAuthConnection, ReferenceConnection
from ronda.prompty.report import At, Report
from ronda.providers.grants import Grant

if TYPE_CHECKING:
    from ronda.drive import Provider


Registered: TypeAlias = "Connection | Provider"

_lock = threading.Lock()
_registered: dict[str, Registered] = {}


def register_connection(name: str, connection: Registered | Mapping[str, Any]) -> None:
    """Register under a name; what was there before is replaced. A mapping is read as in a file, without references."""
    if isinstance(connection, Mapping):
        connection = _read(name, connection)
    with _lock:
        _registered[name] = connection


def get_connection(name: str) -> Registered:
    """What was registered under the name. A name that is not there is an error that lists those that are."""
    with _lock:
        found = _registered.get(name)
        known = quote_names(sorted(_registered))
    if found is None:
        there_is = f"there are {known}" if known else "none is"
        raise ConnectionMissing(f"no connection named '{name}' is registered; {there_is}")
    return found


def clear_connections() -> None:
    """Forget what was registered."""
    with _lock:
        _registered.clear()


def resolve_connection(connection: Connection) -> Registered:
    """The connection itself, or the one that it stands for."""
    found: Registered = connection
    seen: list[str] = []
    while isinstance(found, ReferenceConnection):
        if found.name in seen:
            raise BadPrompty(f"the connection '{found.name}' refers to itself: {' → '.join([*seen, found.name])}")
        seen.append(found.name)
        found = get_connection(found.name)
    return found


def endpoint_of(connection: Connection | None) -> str | None:
    return getattr(connection, "endpoint", None) or _extra_text(connection, "endpoint")


def key_of(connection: Connection | None) -> str | None:
    names = ("apiKey", "api_key", "key", "accessToken", "token")
    return getattr(connection, "api_key", None) or _extra_text(connection, *names)


def grant_of(connection: Connection | None, field: str) -> Grant | None:
    """How to get a key; None where that is not how the connection works."""
    if not isinstance(connection, OAuthConnection):
        return None
    if not (connection.token_url and connection.client_id and connection.client_secret):
        raise BadPrompty(
            "a connection of kind 'oauth' needs a tokenUrl, a clientId and a clientSecret, or an accessToken",
            field=field,
        )
    return Grant(connection.token_url, connection.client_id, connection.client_secret, connection.scopes or ())


def _extra_text(connection: Connection | None, *names: str) -> str | None:
    extra_fields = connection.extra if connection is not None else {}
    return next((value for name in names if isinstance(value := extra_fields.get(name), str) and value), None)


def _read(name: str, fields: Mapping[str, Any]) -> Connection:
    report = Report(None)
    connection = read_connection(At(dict(fields), (), report))
    if connection is None or report.errors:
        raise BadConfig(f"the connection '{name}' cannot be used: {report.errors[0].where}: {report.errors[0]}")
    return connection


# A connection as a file, or the host, says it → a `Connection` of its kind.

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
