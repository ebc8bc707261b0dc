"""Rare words that were replaced by common ones do not come back, in code, docs, help and messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

# What to write instead. Names in quotes or backticks, such as the user `nobody` of a system, are no prose.
INSTEAD: Final = {
    r"who(so)?ever": "the actor's name: the client, the driver, the journal",
    r"(some|any|no)body|someone": "the actor's name: the client, a person, no request",
    r"(go|goes|going|gone|went) on with": "continue, or resume",
    r"told of|(tell|tells) of": "told about, or report, or show",
    r"what came of|what comes of": "the result of",
    r"heard of": "found, or reported",
    r"(has|have) (a|no) word for": "has an equivalent of",
    r"the most that": "at most",
}
_PROSE: Final = ("src/ronda/**/*.py", "src/ronda/**/*.prompty", "docs/**/*.md", "docs/*.py", "*.md", "web/src/**/*.ts*")


def test_prose_uses_common_words() -> None:
    # A letter before "nobody" in a URL, or a quote before it, makes it a name.
    rare = re.compile(rf"(?<![\w'\"`/-])({'|'.join(INSTEAD)})(?![\w'\"`])", re.IGNORECASE)
    files = [path for pattern in _PROSE for path in ROOT.glob(pattern)]
    found = [
        f"{path.relative_to(ROOT)}:{number}: '{match[0]}': write {_instead(match[0])}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for match in rare.finditer(line)
    ]
    assert len(files) > 1_000
    assert not found, "\n".join(found)


def _instead(words: str) -> str:
    return next(plain for rare, plain in INSTEAD.items() if re.fullmatch(rare, words, re.IGNORECASE))
