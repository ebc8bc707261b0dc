"""Blocks of a request, and where a provider's cache ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ronda.wire.upstream.projection import Projection
from ronda.wire.upstream.sent import blocks_of, write_sent


def anthropic(**members: Any) -> Projection:
    body = {"model": "claude", "max_tokens": 5, **members}
    return Projection(json.dumps(body, separators=(",", ":")).encode(), api="anthropic")


def said(*texts: str, **marks: Any) -> list[Any]:
    return [{"role": "user", "content": [{"type": "text", "text": text, **marks}]} for text in texts]


TOOLS = [{"name": "look"}, {"name": "find"}]


def test_blocks_stand_in_the_order_in_which_the_provider_reads_them() -> None:
    found = blocks_of(anthropic(messages=said("Hi"), system="Be brief.", tools=TOOLS))

    assert [(block.at, block.kind) for block in found] == [
        ("tools[0]", "tool"),
        ("tools[1]", "tool"),
        ("system", "system"),
        ("messages[0]", "message"),
        ("options", "options"),
    ]


@pytest.mark.parametrize(
    ("changed", "blocks", "broken_at"),
    [
        ({}, 4, None),
        ({"max_tokens": 9}, 4, None),
        ({"messages": said("Hi", "there")}, 4, None),
        ({"messages": said("Hi", "there", cache_control={"type": "ephemeral"})}, 4, None),
        ({"messages": said("Ho", "there")}, 3, "messages[0]"),
        ({"system": "Be verbose."}, 2, "system"),
        ({"tools": TOOLS[::-1]}, 0, "tools[0]"),
        ({"tools": TOOLS[:1]}, 1, "system"),
        ({"messages": []}, 3, "messages[0]"),
        ({"model": "another"}, 0, "options"),
    ],
)
def test_the_block_that_ends_the_cached_prefix_is_named(
    changed: dict[str, Any], blocks: int, broken_at: str | None
) -> None:
    before = {"messages": said("Hi"), "system": "Be brief.", "tools": TOOLS}
    prefix = write_sent(anthropic(**{**before, **changed}), anthropic(**before), is_exact=True, has_address=True)[
        "prefix"
    ]

    assert (prefix.blocks, prefix.broken_at) == (blocks, broken_at)
    assert (prefix.reason is None) == (broken_at is None)


def test_a_picture_is_not_counted_as_text() -> None:
    text = blocks_of(anthropic(messages=said("x")))[0].tokens
    picture = blocks_of(anthropic(messages=said("A" * 400_000)))[0].tokens

    assert text < 100 < picture < 2000


def test_what_a_caller_gave_for_mcp_servers_is_hidden() -> None:
    servers = [
        {"type": "url", "url": "https://mcp.example/sse?key=canary", "name": "one", "authorization_token": "canary"}
    ]
    tools = [
        {"type": "mcp", "server_url": "https://x.example", "authorization": "canary", "headers": {"x-key": "canary"}}
    ]
    told = write_sent(
        anthropic(mcp_servers=servers, tools=tools, messages=said("mcp")), None, is_exact=True, has_address=True
    )

    assert b"canary" not in bytes(told["body"])
    assert b"https://mcp.example/sse" in bytes(told["body"])
