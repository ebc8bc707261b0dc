"""A way to sign in at the page besides giving a key: what another feature provides, and `GET /v1/login` lists."""

from __future__ import annotations

from msgspec import Struct


class LoginWay(Struct, frozen=True):
    kind: str
    name: str  # what people call it
    url: str  # where a browser goes
