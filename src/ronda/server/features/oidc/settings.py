"""Settings of sign-in by OpenID Connect."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.server.setting import Setting

_oidc = partial(Setting, "sign-in by OpenID Connect")


class OidcGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """More scopes for users whose claim has this value, or has it in a list."""

    claim: str
    value: str
    scopes: tuple[str, ...]


class OidcOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """`redirect_url` is what the provider was told about this server: its address, and `/v1/oidc/callback`."""

    issuer: str
    client_id: str
    redirect_url: str
    client_secret: str = ""  # none: a public client, which PKCE protects
    name: str = ""  # what people call the provider
    request_scopes: tuple[str, ...] = ("openid", "email", "profile")
    owner_claim: str = "email"
    require: dict[str, str] = {}  # claims that a user must have, with the value or with it in a list
    scopes: tuple[str, ...] = ()  # of every user, as those of keys
    grants: tuple[OidcGrant, ...] = ()
    hours: float = 12.0  # a working day, after which the provider is asked again


class OidcSettings(Struct, frozen=True):
    oidc: Annotated[
        OidcOptions | None,
        _oidc(
            "",
            "people sign in at the page with an account of this provider: issuer, client_id, client_secret, redirect_url, name, "
            "request_scopes, owner_claim, require, scopes, grants, hours; see [OpenID Connect](keys.md#openid-connect)",
        ),
    ] = None
