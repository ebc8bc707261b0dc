"""The body of a model call → the blocks that it is made of, and the block from which on a provider's cache cannot be used.

A provider keeps what it has computed for the beginning of a prompt. The next call uses it up to the first block that differs, so
what stands early must stay as it is: tools, instructions, older messages. Blocks are in the order in which a provider reads
them, which is not always that of the JSON. Nothing is sent here and nothing is known of HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda.wire.anthropic.counting import A_TOOL, A_TURN, AN_IMAGE, BYTES_A_TOKEN
from ronda.wire.upstream.projection import Change, Projection

Kind: TypeAlias = Literal["system", "tool", "message", "options"]

# Which members a prompt is made of, in the order in which a provider reads them. Anthropic documents its own ("tools, system,
# messages"); of the others only is known that tools and instructions come before the conversation.
_PROMPT: Final[Mapping[str, tuple[tuple[str, Kind], ...]]] = {
    "openai-chat": (("tools", "tool"), ("messages", "message")),
    "mistral": (("tools", "tool"), ("messages", "message")),
    "openai-responses": (("tools", "tool"), ("instructions", "system"), ("input", "message")),
    "anthropic": (("tools", "tool"), ("system", "system"), ("messages", "message")),
    "gemini": (("tools", "tool"), ("systemInstruction", "system"), ("contents", "message")),
}
# Letters of base64 without a break: a picture or a file, which a model does not read as text. 1024 is longer than any word.
_DATA: Final = re.compile(rb"[A-Za-z0-9+/=_-]{1024,}")
_MARKS: Final = re.compile(rb'"cache_control":\{[^{}]*\},|,"cache_control":\{[^{}]*\}|"cache_control":\{[^{}]*\}')
_HIDDEN: Final = "[hidden]"


class Block(Struct, frozen=True):
    """`at` is where it stands in the body. `tokens` is an estimate: only the provider can count. Two blocks with the same
    `hash` are the same to a provider: marks that say where its cache ends (`cache_control`) are not part of it."""

    at: str
    kind: Kind
    bytes: int
    tokens: int
    hash: str


class Prefix(Struct, frozen=True):
    """What a request has in common with the one before: its first `blocks`, of about `tokens`. `broken_at` is the block of this
    request that differs from what stood there before; None if the one before is how this one begins."""

    blocks: int
    tokens: int
    broken_at: str | None = None
    reason: str | None = None


def blocks_of(projection: Projection) -> list[Block]:
    """Those of the prompt, and one with all else, last."""
    members = msgspec.json.decode(projection.body, type=dict[str, Raw])
    found: list[Block] = []
    prompt = _PROMPT.get(projection.api, _PROMPT["openai-chat"])
    for name, kind in prompt:
        value = members.pop(name, None)
        if value is None:
            continue
        data = bytes(value)
        if data[:1] == b"[":
            parts = msgspec.json.decode(data, type=list[Raw])
            found += [_block(f"{name}[{index}]", kind, bytes(part)) for index, part in enumerate(parts)]
        else:
            found.append(_block(name, kind, data))
    if members:
        found.append(_block("options", "options", msgspec.json.encode(members)))
    return found


def compare(before: Sequence[Block] | None, blocks: Sequence[Block], *, same_model: bool = True) -> Prefix | None:
    """What of a prompt the provider has read before; None if nothing was asked before."""
    if before is None:
        return None
    if not same_model:
        return Prefix(0, 0, "options", "the model is another")
    tokens = 0
    old, new = ([one for one in some if one.kind != "options"] for some in (before, blocks))
    for index, (was, block) in enumerate(zip(old, new, strict=False)):
        if was.hash != block.hash:
            where = "" if was.at == block.at else f" (there stood {was.at})"
            return Prefix(index, tokens, block.at, f"{block.at} differs from the request before{where}")
        tokens += block.tokens
    if len(old) > len(new):
        return Prefix(len(new), tokens, old[len(new)].at, f"{old[len(new)].at} is not there any more")
    return Prefix(len(old), tokens)


def write_sent(
    projection: Projection, before: Projection | None, *, is_exact: bool, has_address: bool
) -> dict[str, Any]:
    """What our API says of a request that was sent, or would be."""
    blocks = blocks_of(projection)
    prefix: Prefix | None = None
    if before is not None:
        same = (before.api, before.url, _model(before)) == (projection.api, projection.url, _model(projection))
        prefix = compare(blocks_of(before), blocks, same_model=same)
    return {
        "api": projection.api,
        "method": "POST" if has_address else None,
        "url": projection.url if has_address else None,
        "headers": dict(projection.headers),
        "exact": is_exact,
        "body": Raw(_without_secrets(projection.body)),
        "bytes": len(projection.body),
        "tokens": sum([block.tokens for block in blocks]),
        "blocks": blocks,
        "prefix": prefix,
        "changes": [write_change(change) for change in projection.changes],
    }


def write_change(change: Change) -> dict[str, str | int | None]:
    return {"turn": change.turn, "kind": change.kind, "what": change.what, "why": change.why}


def _block(at: str, kind: Kind, data: bytes) -> Block:
    data = _MARKS.sub(b"", data) if b'"cache_control"' in data else data
    text, images = _DATA.subn(b"", data)
    more = 0 if kind == "options" else A_TOOL if kind == "tool" else A_TURN
    tokens = 0 if kind == "options" else more + images * AN_IMAGE + -(-len(text) // BYTES_A_TOKEN)
    return Block(at, kind, len(data), tokens, blake2b(data, digest_size=8).hexdigest())


class _Model(Struct, frozen=True):
    model: Raw = Raw(b"null")


def _model(projection: Projection) -> bytes:
    return bytes(msgspec.json.decode(projection.body, type=_Model).model)


def _without_secrets(body: bytes) -> bytes:
    """Without what a caller gave the provider to call MCP servers with."""
    if b'"mcp' not in body:
        return body
    members = msgspec.json.decode(body, type=dict[str, Any])
    for name in ("mcp_servers", "tools"):
        for one in members.get(name) or ():
            if isinstance(one, dict) and (name == "mcp_servers" or one.get("type") == "mcp"):
                for key in ("authorization_token", "authorization"):
                    if one.get(key):
                        one[key] = _HIDDEN
                if isinstance(one.get("headers"), dict):
                    one["headers"] = dict.fromkeys(one["headers"], _HIDDEN)
                for key in ("url", "server_url"):
                    if isinstance(one.get(key), str):
                        one[key] = one[key].partition("?")[0]
    return msgspec.json.encode(members)
