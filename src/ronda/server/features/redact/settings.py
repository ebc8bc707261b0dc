"""Settings of redaction."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.server.setting import Setting

_redact = partial(Setting, "redaction")


class RedactRule(Struct, frozen=True, forbid_unknown_fields=True):
    """`pattern` is a regular expression as RE2 reads it; `replacement` is a text."""

    pattern: str
    replacement: str = "[redacted]"


class RedactSettings(Struct, frozen=True):
    redact: Annotated[
        tuple[RedactRule, ...],
        _redact(
            "",
            "words that are replaced before anything is kept, logged or traced: pattern, replacement; see "
            "[redaction](security.md#redaction)",
        ),
    ] = ()
