"""`ronda schema`: the front matter of prompty files as a JSON Schema, for editors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from ronda.errors import BadConfig
from ronda.prompty.json_schema import schema as front_matter


def schema(asked: argparse.Namespace) -> int:
    text = msgspec.json.format(msgspec.json.encode(front_matter()), indent=2).decode() + "\n"
    if asked.output is None:
        sys.stdout.write(text)
        return 0
    try:
        Path(asked.output).write_text(text, "utf-8")
    except OSError as error:
        raise BadConfig(f"cannot write {asked.output}: {error.strerror}") from error
    return 0
