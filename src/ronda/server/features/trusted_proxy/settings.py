"""Settings of a proxy that says who its users are."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.server.setting import Setting

_proxy = partial(Setting, "a proxy that signs users in")


class TrustedProxySettings(Struct, frozen=True):
    trust_user_header: Annotated[
        str,
        _proxy(
            "--trust-user-header NAME",
            "the header in which a proxy before the server names the user that it has signed in",
            details="See [a proxy that signs users in](keys.md#a-proxy-that-signs-users-in).",
        ),
    ] = ""
    trust_user_from: Annotated[
        tuple[str, ...],
        _proxy(
            "--from NETWORK",
            "with --trust-user-header: the proxy's address or network, such as 10.0.0.5 or 10.0.0.0/24; may be repeated",
        ),
    ] = ()
