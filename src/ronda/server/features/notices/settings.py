"""Settings of notices."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.server.setting import Setting

_notices = partial(Setting, "notices")


class NoticesSettings(Struct, frozen=True):
    notices: Annotated[
        bool,
        _notices(
            "--notices",
            "let owners name addresses (POST /v1/notices) that are told when their runs end, fail or wait",
            details="Private addresses are called only where `fetch_allow` names them. See [notices](operate.md#notices).",
        ),
    ] = False
