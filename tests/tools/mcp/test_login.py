"""`ronda mcp login`: a real authorization service, a person who consents or does not, and what becomes of the token."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.tools.mcp.authorizing import Authority, authorizing
from tests.tools.mcp.serving import SECONDS, call, config, opened

from ronda.errors import ToolFailed
from ronda.tools.mcp.config import Http, McpServer, with_login
from ronda.tools.mcp.login import log_in


class Browser:
    """A person who opens what they are shown, or pastes where it leads."""

    def __init__(self, *, pastes: bool = False) -> None:
        self.shown: list[str] = []
        self._pastes = pastes
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    def show(self, address: str) -> None:
        self.shown.append(address)
        self._task = asyncio.create_task(self._open(address))

    async def _open(self, address: str) -> None:
        async with (
            aiohttp.ClientSession() as http,
            http.get(address, allow_redirects=not self._pastes) as answer,
        ):
            if self._pastes:
                self._address.set_result(answer.headers["location"])
            else:
                assert "close this page" in await answer.text()

    async def pasted(self) -> str:
        return f"{await self._address}\n"


def server(url: str, folder: Path) -> McpServer:
    return with_login(config(Http(url), "guarded"), folder)


@pytest.mark.parametrize("pastes", [False, True])
async def test_a_person_logs_in_and_the_token_is_used(tmp_path: Path, pastes: bool) -> None:
    authority = Authority()
    async with authorizing(authority) as url, asyncio.timeout(SECONDS):
        one = server(url, tmp_path)
        async with opened(one) as servers:
            [status] = servers.status()
            assert status.state == "failed"
            assert "ronda mcp login guarded" in (status.last_error or "")
        assert await log_in(one, Browser(pastes=pastes)) == 1
        assert one.login is not None
        assert stat.S_IMODE(os.stat(one.login).st_mode) == 0o600
        async with opened(one) as servers:
            assert (await call(servers, "guarded_secret")).content == "the secret"
    assert len(authority.clients) == 1


async def test_a_token_that_is_over_is_renewed_without_a_person(tmp_path: Path) -> None:
    authority = Authority()
    authority.lifetime = 1  # over at once: it is renewed half a minute early
    async with authorizing(authority) as url, asyncio.timeout(SECONDS):
        one = server(url, tmp_path)
        await log_in(one, Browser())
        authority.tokens.clear()
        authority.lifetime = 3600
        async with opened(one) as servers:
            assert (await call(servers, "guarded_secret")).content == "the secret"
        async with opened(one) as servers:  # what was renewed is kept
            assert (await call(servers, "guarded_secret")).content == "the secret"
    assert authority.renewed == 1


async def test_a_login_that_was_taken_back_names_the_way_in(tmp_path: Path) -> None:
    authority = Authority()
    async with authorizing(authority) as url, asyncio.timeout(SECONDS):
        one = server(url, tmp_path)
        await log_in(one, Browser())
        authority.tokens.clear()
        authority.refreshes.clear()
        async with opened(one) as servers:
            [status] = servers.status()
    assert status.state == "failed"
    assert "ronda mcp login guarded" in (status.last_error or "")
    assert len(authority.clients) == 1  # no client is registered anew behind a person's back


async def test_a_person_who_refuses_is_told_so(tmp_path: Path) -> None:
    authority = Authority()
    authority.refuses = True
    async with authorizing(authority) as url, asyncio.timeout(SECONDS):
        one = server(url, tmp_path)
        with pytest.raises(ToolFailed, match="refused: access_denied"):
            await log_in(one, Browser())


def test_a_token_belongs_to_one_name_at_one_address(tmp_path: Path) -> None:
    places = {
        with_login(config(Http(url), name), tmp_path).login
        for url in ("https://a.example/mcp", "https://b.example/mcp")
        for name in ("one", "two")
    }
    assert len(places) == 4


async def command(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "ronda", "mcp", *arguments, "--mcp-config", str(folder / "mcp.json"), "--data-dir", str(folder)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_the_command_prints_an_address_and_keeps_the_token(tmp_path: Path) -> None:
    async with authorizing(Authority()) as url, asyncio.timeout(SECONDS):
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"guarded": {"url": url}}}))
        process = await command(tmp_path, "login", "guarded", "--no-browser")
        assert process.stderr is not None
        address = ""
        while not address.startswith("http"):
            address = (await process.stderr.readline()).decode().strip()
        async with aiohttp.ClientSession() as http, http.get(address) as answer:
            assert answer.status == 200
        out, errors = await process.communicate()
        assert (process.returncode, out) == (0, b"logged in to 'guarded', which has 1 tools\n"), errors
        one = server(url, tmp_path)
        async with opened(one) as servers:
            assert (await call(servers, "guarded_secret")).content == "the secret"
        process = await command(tmp_path, "logout", "guarded")
        await process.communicate()
        assert one.login is not None
        assert not Path(one.login).exists()  # noqa: ASYNC240 (a test)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["login"], "at which MCP server? There is program, guarded, keyed"),
        (["login", "other"], "no MCP server is named 'other'"),
        (["login", "program"], "needs no login"),
        (["login", "keyed"], "needs no login"),
        (["login", "guarded"], "no login at 'guarded'"),
    ],
)
async def test_what_cannot_be_is_told(tmp_path: Path, arguments: list[str], why: str) -> None:
    known: dict[str, Any] = {
        "program": {"command": "x"},
        "guarded": {"url": "http://127.0.0.1:1/mcp"},
        "keyed": {"url": "http://127.0.0.1:1/mcp", "bearer_token": "t"},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": known}))
    async with asyncio.timeout(SECONDS):
        process = await command(tmp_path, *arguments, "--no-browser")
        _, errors = await process.communicate()
    assert process.returncode != 0
    assert why in errors.decode()
    assert "Traceback" not in errors.decode()
