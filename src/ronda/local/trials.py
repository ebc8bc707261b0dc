"""Which grammars the engine may decode under: each is tried first, one at a time, in a process that is there for nothing else.

    tried      it was compiled and has begun to bind
    suspect    the engine died while an answer under it was decoded, beside others: its next answer is a trial as a whole
    refused    the engine died of it

A grammar that the engine cannot read it ignores without a word: so each is first made to say something unlikely, and then one
token of its own.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from ronda.errors import BadRequest, UpstreamError
from ronda.local.admission import Room
from ronda.local.calls import Piece
from ronda.local.machine import Sizing
from ronda.local.process import Watch
from ronda.providers import LEAST_CONTEXT

MAX_KNOWN = 1024
CANARY = "\x1e"  # a character no model says unasked; it is one token in all but odd vocabularies …


# The process in which they are tried: some 65 MB with the default model, whose file it shares with the other.
PROVER = Sizing(slots=1, context=LEAST_CONTEXT, tokens=LEAST_CONTEXT)
TRIAL_WATCH = Watch(memory=256 * 2**20, seconds=5.0)
TRIAL_TOKENS = 3  # one is read, and two are said


_TOO_LONG = " ".join([str(number) for number in range(4 * LEAST_CONTEXT)])  # a token for each, at least


def digest_of(grammar: str) -> bytes:
    """A grammar may be large."""
    return hashlib.blake2b(grammar.encode(), digest_size=16).digest()


class Trial:
    """A grammar made to say something unlikely. Nothing else of the request matters: not what it asks, nor how."""

    def __init__(self, body: dict[str, Any]) -> None:
        inner = re.sub(r"(?m)^start(?=\s*[\[:])", "ronda_start", body["grammar"], count=1)
        self.body = {
            "prompt": body["prompt"][:1],
            "n_predict": 2,  # … and the second is the grammar's own
            "temperature": 0,
            "grammar": f"{inner}\nstart: /\\x1e/ ronda_start\n",
        }
        self.is_wanted = True
        self._text = ""

    @property
    def is_bound(self) -> bool:
        return self._text.startswith(CANARY)

    def take(self, pieces: list[Piece]) -> None:
        self._text += "".join([piece.text for piece in pieces])


class ChatTrial:
    """The grammar that the engine makes of tools, by itself: it refuses what it cannot compile, so there is nothing to bind.

    It compiles before it looks at the prompt's length, and the small process has no room for this one: that it says so is as good
    as an answer, and a large model has nothing to read. What tools are for is no part of the grammar.
    """

    is_bound = True

    def __init__(self, body: dict[str, Any]) -> None:
        tools = [{**tool, "function": {**tool["function"], "description": ""}} for tool in body["tools"]]
        self.body = {
            "messages": [{"role": "user", "content": _TOO_LONG}],
            "tools": tools,
            "tool_choice": body["tool_choice"],
            "parallel_tool_calls": body["parallel_tool_calls"],
            "n_predict": 1,
            "temperature": 0,
        }
        self.is_wanted = True

    def take(self, pieces: list[Piece]) -> None:
        """What it says does not matter."""


def is_too_long(error: UpstreamError) -> bool:
    return "exceeds the available context" in str(error)


class Trials:
    def __init__(self) -> None:
        self.turn = Room(1, 1)  # one at a time
        self._tried = _BoundedSet()
        self._suspects = _BoundedSet()
        self._refused = _BoundedSet()

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


class _BoundedSet(dict[bytes, None]):
    """A set that forgets its oldest."""

    def add(self, grammar: bytes) -> None:
        if len(self) >= MAX_KNOWN:
            del self[next(iter(self))]
        self[grammar] = None


class CannotEnforce(BadRequest):
    pass


def cannot_enforce(reason: str = "") -> BadRequest:
    return CannotEnforce(
        "the local engine cannot enforce this schema or grammar: it is not sound, or beyond what it can do"
        + (f" ({reason})" if reason else ""),
        param="grammar",
    )


def broke_down() -> BadRequest:
    return BadRequest(
        "the local engine broke down on this schema or grammar, and will not be given it again; make it smaller or simpler",
        param="grammar",
    )
