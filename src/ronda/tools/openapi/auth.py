"""A key and the security schemes of a document → what is sent along to prove who is calling.

The key belongs to one origin. Whatever is called elsewhere, because a document or an answer says so, is called without it.
"""

from __future__ import annotations

import base64
import re
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from ronda.providers.grants import Grant
from ronda.tools.openapi.document import BadDocument, Document
from ronda.tools.openapi.operations import Operation
from ronda.tools.openapi.request import Request

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PRINTABLE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class Key(Struct, frozen=True):
    """A secret, or how to get one, and the origin (`https://api.example.com`) that it is for."""

    secret: str | Grant
    origin: str

    def __repr__(self) -> str:
        """Without the secret: this ends up in logs and tracebacks."""
        return f"Key(origin={self.origin!r})"


class Scheme(Struct, frozen=True):
    """Where a key is put. `name` is the header's, the query parameter's or the cookie's."""

    where: str
    name: str
    prefix: str = ""
    is_basic: bool = False


BEARER: Final = Scheme("header", "Authorization", "Bearer ")


def check_key(secret: str) -> None:
    if not _PRINTABLE.fullmatch(secret):
        raise BadDocument("the connection's key has characters that no header can hold; was it read with a line break?")


def schemes_for(document: Document, operation: Operation) -> tuple[Scheme, ...]:
    """How a key is sent with an operation: as its first requirement that a key can meet says.

    A document that declares schemes without asking for them gets the first; one that says nothing gets a bearer token.
    """
    known = {name: _scheme(document, name) for name, _ in document.root.at("components").at("securitySchemes").items()}
    if operation.security is None:
        return next(((one,) for one in known.values() if one is not None), (BEARER,))
    for names in operation.security:
        schemes = [known.get(name) for name in names]
        if schemes and all(schemes):
            return tuple(one for one in schemes if one is not None)
    return ()


def _scheme(document: Document, name: str) -> Scheme | None:
    place = document.follow(document.root.at("components").at("securitySchemes").at(name))
    match place.text("type"):
        case "apiKey" if place.text("in") in ("header", "query", "cookie"):
            called = place.text("name")
            if place.text("in") != "query" and not _HEADER.fullmatch(called):
                raise BadDocument(f"the security scheme '{name}' names {called!r}, which is no header and no cookie")
            return Scheme(place.text("in"), called)
        case "http" if place.text("scheme").lower() == "basic":
            return Scheme("header", "Authorization", "Basic ", is_basic=True)
        case "http" if place.text("scheme").lower() == "bearer":
            return BEARER
        case "oauth2" | "openIdConnect":
            return BEARER
        case _:
            return None


def sign(request: Request, schemes: tuple[Scheme, ...], secret: str) -> None:
    for one in schemes:
        value = base64.b64encode(secret.encode()).decode() if one.is_basic and ":" in secret else secret
        match one.where:
            case "header":
                for name in [name for name in request.headers if name.lower() == one.name.lower()]:
                    del request.headers[name]  # a parameter of the same name is not the model's to fill
                request.headers[one.name] = one.prefix + value
            case "query":
                base, _, query = request.url.partition("?")
                name = quote(one.name, safe="-._~")
                pairs = [pair for pair in query.split("&") if pair and pair.partition("=")[0] != name]
                request.url = base + "?" + "&".join([*pairs, f"{name}={quote(value, safe='-._~')}"])
            case _:
                found = [part for part in request.headers.get("Cookie", "").split("; ") if part]
                cookies = [part for part in found if part.partition("=")[0] != one.name]
                request.headers["Cookie"] = "; ".join([*cookies, f"{one.name}={quote(value, safe='-._~')}"])
