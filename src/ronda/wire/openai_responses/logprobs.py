"""Token probabilities in the one shape the loop knows → as this API has them."""

from __future__ import annotations

from msgspec import Raw, Struct

from ronda.wire.codec.json import decode_or, encode


class _Top(Struct, frozen=True):
    token: str = ""
    logprob: float = 0.0
    bytes: list[int] | None = None


class _Token(Struct, frozen=True):
    token: str = ""
    logprob: float = 0.0
    bytes: list[int] | None = None
    top_logprobs: list[_Top] | None = None


class _Logprobs(Struct, frozen=True):
    content: list[_Token] | None = None


def read_logprobs(raw: Raw) -> list[bytes]:
    """Token probabilities as this API has them: every member is there."""
    tokens = decode_or(_Logprobs(), _Logprobs, raw).content or []
    return [
        encode(
            {
                "token": one.token,
                "logprob": one.logprob,
                "bytes": _bytes(one),
                "top_logprobs": [
                    {"token": top.token, "logprob": top.logprob, "bytes": _bytes(top)} for top in one.top_logprobs or ()
                ],
            }
        )
        for one in tokens
    ]


def _bytes(token: _Top | _Token) -> list[int]:
    return token.bytes if token.bytes is not None else list(token.token.encode("utf-8", "replace"))
