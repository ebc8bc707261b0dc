"""Which grammars the engine may decode under: a grammar is tried first, one at a time, so that it is known who it was.

    tried      it was compiled and has begun to bind
    suspect    the engine died while an answer under it was decoded, beside others: its next answer is a trial as a whole
    refused    the engine died of it

A grammar that the engine cannot read it ignores without a word: so each is first made to say something unlikely, and then one
token of its own.
"""

from __future__ import annotations

import hashlib
import re

from ronda.errors import BadRequest
from ronda.providers.local.admission import Room

MAX_KNOWN = 1024
CANARY = "\x1e"  # a character no model says unasked; it is one token in all but odd vocabularies …
CANARY_TOKENS = 2  # … and the second is the grammar's own


def digest_of(grammar: str) -> bytes:
    """A grammar may be large."""
    return hashlib.blake2b(grammar.encode(), digest_size=16).digest()


def with_canary(grammar: str) -> str:
    inner = re.sub(r"(?m)^start(?=\s*[\[:])", "ronda_start", grammar, count=1)
    return f"{inner}\nstart: /\\x1e/ ronda_start\n"


class Trials:
    def __init__(self) -> None:
        self.turn = Room(1, 1)  # one at a time
        self._tried = _Bounded()
        self._suspects = _Bounded()
        self._refused = _Bounded()

    def is_settled(self, grammar: bytes) -> bool:
        """Whether it may be used without a trial. Raises BadRequest for one that the engine died of."""
        if grammar in self._refused:
            raise broke_down()
        return grammar in self._tried

    def is_suspect(self, grammar: bytes) -> bool:
        return grammar in self._suspects

    def settle(self, grammar: bytes) -> None:
        self._suspects.pop(grammar, None)
        self._tried.add(grammar)

    def suspect(self, grammar: bytes) -> None:
        self._tried.pop(grammar, None)
        self._suspects.add(grammar)

    def refuse(self, grammar: bytes) -> None:
        self._refused.add(grammar)


class _Bounded(dict[bytes, None]):
    """A set that forgets its oldest."""

    def add(self, grammar: bytes) -> None:
        if len(self) >= MAX_KNOWN:
            del self[next(iter(self))]
        self[grammar] = None


def cannot_enforce(reason: str = "") -> BadRequest:
    return BadRequest(
        "the local engine cannot enforce this schema or grammar: it is not sound, or beyond what it can do"
        + (f" ({reason})" if reason else ""),
        param="grammar",
    )


def broke_down() -> BadRequest:
    return BadRequest(
        "the local engine broke down on this schema or grammar, and will not be given it again; make it smaller or simpler",
        param="grammar",
    )
