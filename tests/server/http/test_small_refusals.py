"""What goes wrong at the edges is told in the caller's own words, and tells no client what it may not know."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.interaction.doors import Door, soon
from tests.server.refusals import Nodding

from ronda.files.file_store import FileFacts
from ronda.server.http.auth import KeyAuth
from ronda.store.claims import FileClaims
from ronda.store.keys import new_key
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel
from ronda.tools.mcp.connection import _without_paths


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": [{"type": ""}]}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": ""}]}],
        [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "text", "text": "b"}, {"type": ""}]},
            {"role": "user", "content": "c"},
        ],
    ],
)
async def test_a_block_without_a_type_is_the_clients_mistake(door: Door, messages: Any) -> None:
    body = {"model": "default", "max_tokens": 9, "messages": messages}
    async with door.serving(Nodding()) as served, served.http.post(f"{served.url}/messages", json=body) as answer:
        error = (await answer.json())["error"]

    assert (answer.status, error["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/files/file-x/nothing"),
        ("PUT", "/files"),
        ("GET", "/skills/skill_x/nothing/at/all"),
        ("PATCH", "/skills"),
        ("GET", "/files/file-x"),
        ("GET", "/skills/skill_x"),
    ],
)
async def test_where_nothing_is_each_client_is_told_in_its_own_dialect(door: Door, method: str, path: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        said = {}
        for name, headers in (("anthropic", {"anthropic-version": "2023-06-01"}), ("openai", {})):
            async with served.http.request(method, served.url + path, headers=headers) as answer:
                said[name] = await answer.json()
                assert answer.status in (404, 405)

    assert (said["anthropic"]["type"], "code" in said["anthropic"]["error"]) == ("error", False)
    assert sorted(said["openai"]["error"]) == ["code", "message", "param", "type"]


async def test_a_link_to_a_file_ends_with_the_key_that_it_was_made_with(door: Door) -> None:
    catalog = MemoryCatalog()
    key, row = new_key("ann", 0.0)
    await catalog.keys.add(row)
    await catalog.keys.add(new_key("ann", 0.0)[1])
    async with (
        door.serving(ScriptedModel(), catalog=catalog, auth=KeyAuth(catalog.keys, fresh_for=0.0)) as served,
        soon(),
    ):
        file = await served.server.files.add("ann", b"secret", FileFacts("a.txt"))
        url = f"{served.url}/files/{file.id}/url"
        async with served.http.get(url, headers={"authorization": f"Bearer {key}"}) as answer:
            link = urlsplit((await answer.json())["url"]).path
        root = served.url.removesuffix("/v1")
        async with served.http.get(root + link) as answer:
            before = answer.status, await answer.read()
        await catalog.keys.revoke(row.id, time.time())
        async with served.http.get(root + link) as answer:
            after = answer.status, b"secret" in await answer.read()

    assert before == (200, b"secret")
    assert after == (404, False)


async def test_claim_files_of_killed_processes_go(tmp_path: Path) -> None:
    (tmp_path / "left").touch()
    held = os.open(tmp_path / "held", os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        claims = FileClaims(str(tmp_path))
        assert await claims.claim("ann", "s")
        names = os.listdir(tmp_path)
        claims.close()
    finally:
        os.close(held)

    assert "left" not in names
    assert len(names) == 2
    assert "held" in names


@pytest.mark.parametrize(
    "sent",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_malformed_http_is_answered_in_json(door: Door, sent: bytes) -> None:
    address = urlsplit(door.url)
    async with door.serving(ScriptedModel()), soon():
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


def test_no_log_has_the_path_of_an_mcp_servers_address() -> None:
    said = "Client error '404' for url 'https://mcp.example/s/SECRET?key=SECRET' and wss://b.example:8/SECRET"

    assert _without_paths(said) == "Client error '404' for url 'https://mcp.example/…' and wss://b.example:8/…"
