"""`ronda schema`: a JSON Schema of the front matter of prompty files, for editors; or of a run's events, for clients."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from ronda.errors import BadConfig


def schema(asked: argparse.Namespace) -> int:
    if asked.what == "events":
        from ronda.wire.events import schema as make
    else:
        from ronda.prompty.json_schema import schema as make
    text = msgspec.json.format(msgspec.json.encode(make()), indent=2).decode() + "\n"
    if asked.output is None:
        sys.stdout.write(text)
        return 0
    try:
        Path(asked.output).write_text(text, "utf-8")
    except OSError as error:
        raise BadConfig(f"cannot write {asked.output}: {error.strerror}") from error
    return 0
