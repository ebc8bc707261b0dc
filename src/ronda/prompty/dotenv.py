"""A `.env` file → variables, for a program that wants them. Loading a prompty file never reads one by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ronda.prompty.files import read_bytes
from ronda.prompty.references import decode_text

_LINE = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][\w.-]*)\s*=\s*(?P<value>.*?)\s*")
_QUOTED = re.compile(r"""(?P<quote>["'])(?P<text>.*?)(?P=quote)\s*(?:#.*)?""")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_MAX = 1_000_000


def read_dotenv(path: Path) -> dict[str, str]:
    """`NAME=value` by line; `#` begins a comment; quotes keep spaces and `#`. What makes no sense is passed over."""
    found: dict[str, str] = {}
    for line in decode_text(read_bytes(path.resolve(), _MAX, str(path)), str(path)).split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        quoted = _QUOTED.fullmatch(match["value"])
        found[match["name"]] = quoted["text"] if quoted else _COMMENT.sub("", match["value"]).strip()
    return found


def with_dotenv(env: Mapping[str, str], *paths: Path) -> dict[str, str]:
    """An environment and, for names it lacks, those of the files that exist; the first file that has a name wins."""
    found = dict(env)
    for path in paths:
        if path.is_file():
            for name, value in read_dotenv(path).items():
                found.setdefault(name, value)
    return found
