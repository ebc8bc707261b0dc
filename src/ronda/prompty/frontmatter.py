"""The text of a prompty file → its front matter and its body.

Front matter stands between two marker lines, `---` or `+++`. The specification's expression ends it at the first marker
anywhere, so that `description: a --- b` would cut it in two and a table in a file without a closing marker would close it;
here a marker has a line to itself. Files that follow the specification's examples are split the same way.
"""

from __future__ import annotations

import re

from msgspec import Struct

from ronda.prompty.errors import BadPrompty

_OPENING = re.compile(r"\s*?(?P<indent>[ \t]*)(?P<marker>---|\+\+\+)[ \t]*(?:\n|$)")
_CLOSING = re.compile(r"^(?P<indent>[ \t]*)(?:---|\+\+\+)[ \t]*$", re.MULTILINE)
_STARTS = re.compile(r"\s*(?:---|\+\+\+)")


class Split(Struct, frozen=True):
    """`yaml` is None for a file that has no front matter. Lines count from 1."""

    yaml: str | None
    yaml_line: int
    body: str
    body_line: int


def split(text: str, path: str | None = None) -> Split:
    """Raises `BadPrompty` where front matter begins and does not end."""
    if not _STARTS.match(text):
        return Split(None, 1, text, 1)
    opening = _OPENING.match(text)
    if opening is None:
        line = text[: len(text) - len(text.lstrip())].count("\n") + 1
        raise BadPrompty(
            f"{_malformed_message(path)}: the opening marker must have a line to itself", path=path, line=line
        )
    start = opening.end()
    yaml_line = text.count("\n", 0, start) + 1
    for closing in _CLOSING.finditer(text, start):
        if len(closing["indent"]) <= len(opening["indent"]):  # one that is deeper is text inside the YAML
            rest = text[closing.end() :]
            body = rest.lstrip()
            skipped = text.count("\n", 0, len(text) - len(body))
            return Split(text[start : closing.start()], yaml_line, body.rstrip("\n"), skipped + 1)
    raise BadPrompty(
        f"{_malformed_message(path)}: no line with a closing {opening['marker']}", path=path, line=max(yaml_line - 1, 1)
    )


def _malformed_message(path: str | None) -> str:
    return f"Malformed frontmatter in {path}" if path else "Malformed frontmatter"
