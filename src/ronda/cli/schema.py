"""`ronda schema`: a JSON Schema of the front matter of prompty files, for editors; or of a run's events, for clients; or of
evaluations, for editors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from ronda.errors import BadConfig


def schema(arguments: argparse.Namespace) -> int:
    if arguments.what == "events":
        from ronda.wire.own.events import schema as make
    elif arguments.what == "eval":
        from ronda.evals.schema import schema as make
    else:
        from ronda.prompty.json_schema import schema as make
    text = msgspec.json.format(msgspec.json.encode(make()), indent=2).decode() + "\n"
    if arguments.output is None:
        sys.stdout.write(text)
        return 0
    try:
        Path(arguments.output).write_text(text, "utf-8")
    except OSError as error:
        raise BadConfig(f"cannot write {arguments.output}: {error.strerror}") from error
    return 0
