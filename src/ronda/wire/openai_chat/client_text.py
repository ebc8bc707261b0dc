"""The chunk that most streams of Chat Completions are made of: some more text of the first choice, and nothing else.

A chunk may say twenty things. Looking for each of them in each chunk cost more than everything else that is done with it, so
there is a decoder for the one that says only what is needed: whatever else a `client_answer.Reader` would look at must be
missing, null or empty here, or the chunk is refused, and read the long way.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct


class _TextDelta(Struct, frozen=True, gc=False):
    """As `client_plain.Delta`, without what that has besides text."""

    content: str | None = None
    reasoning_content: Literal[""] | None = None
    reasoning: Literal[""] | None = None
    refusal: Literal[""] | None = None
    tool_calls: None = None
    function_call: None = None
    reasoning_details: None = None
    extra_content: None = None
    thought_signature: None = None


class _TextChoice(Struct, frozen=True, gc=False):
    delta: _TextDelta
    finish_reason: str | None = None
    index: Literal[0] | None = 0
    logprobs: None = None


class _TextChunk(Struct, frozen=True, gc=False):
    choices: tuple[_TextChoice]
    usage: None = None
    x_groq: None = None
    error: None = None


decode_text = msgspec.json.Decoder(_TextChunk).decode
