"""Gemini's `logprobsResult` → token probabilities in the form of Chat Completions, which the loop carries."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.wire.codec.json import decode_or, encode


class _Token(Struct, frozen=True, rename="camel"):
    token: str = ""
    log_probability: float = 0.0


class _Candidates(Struct, frozen=True):
    candidates: list[_Token] = []


class _Result(Struct, frozen=True, rename="camel"):
    chosen_candidates: list[_Token] = []
    top_candidates: list[_Candidates] = []


def chat_logprobs(raw: Raw) -> Raw:
    result = decode_or(_Result(), _Result, raw)  # not worth an answer
    tops = [step.candidates for step in result.top_candidates]
    content = [
        {**_token(token), "top_logprobs": [_token(one) for one in (tops[n] if n < len(tops) else ())]}
        for n, token in enumerate(result.chosen_candidates)
    ]
    return Raw(encode({"content": content})) if content else NULL


def _token(token: _Token) -> dict[str, Any]:
    return {"token": token.token, "logprob": token.log_probability, "bytes": list(token.token.encode())}
