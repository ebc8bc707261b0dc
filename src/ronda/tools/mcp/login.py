"""A person's consent → a token that is kept in a file, and used and renewed from there: OAuth in the browser, for MCP servers.

    log_in(server, person)     register Ronda with the server's authorization service, let a person consent, keep the tokens
    kept_login(server)         what a connection then shows the server; it renews the token, and asks no person

The protocol itself is the SDK's. A file is readable by its owner only, and belongs to one name at one address.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from aiohttp import web
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.client import Client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from ronda.errors import ToolFailed
from ronda.tools.mcp.config import McpServer, way_in
from ronda.tools.mcp.connection import error_words
from ronda.tools.mcp.process import Complaints
from ronda.tools.mcp.transports import open_streams

EARLY: Final = 30.0  # seconds before its end a token is renewed
PERSON_SECONDS: Final = 600.0
_DONE: Final = "Ronda has what it needs. You can close this page."


class Person(Protocol):
    """Who is asked to open an address in a browser."""

    def show(self, address: str) -> None: ...

    async def pasted(self) -> str:
        """The address that their browser was sent to, if it could not get here by itself; otherwise it never returns."""


class TokenFile:
    """What is known of one login. Of a token that is over only the means to renew it is told."""

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        self._path = path
        self.content: dict[str, Any] = {} if is_new else self._read()
        self._is_new = is_new

    def _read(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError):
            return {}
        return content

    def add(self, **members: Any) -> None:
        self.content |= members
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Whole or not at all, and never readable by others: the name is new, and its mode 0600.
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(self.content))
        os.replace(name, self._path)

    async def get_tokens(self) -> OAuthToken | None:
        with contextlib.suppress(ValidationError, KeyError):
            tokens = OAuthToken.model_validate(self.content["tokens"])
            if (end := self.content.get("expires_at")) is not None and end < time.time() + EARLY:
                tokens.access_token = ""  # the SDK then renews it before the first request
            return tokens
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        end = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self.add(tokens=tokens.model_dump(mode="json", exclude_none=True), expires_at=end)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        with contextlib.suppress(ValidationError, KeyError):
            return OAuthClientInformationFull.model_validate(self.content["client"])
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        if self._is_new:  # who is known already is not registered anew without a person
            self.add(client=client_info.model_dump(mode="json", exclude_none=True))


def kept_login(server: McpServer) -> httpx2.Auth | None:
    """None where there was no login."""
    if server.login is None or not (path := Path(server.login)).exists():
        return None

    async def ask_no_user(_: str) -> NoReturn:
        raise OAuthFlowError(f"the login is over; {way_in(server.name)}")

    file = TokenFile(path)
    auth = _provider(server, file, "http://127.0.0.1/callback", ask_no_user, None)
    with contextlib.suppress(ValidationError, KeyError):  # where tokens are renewed: the SDK does not keep it
        auth.context.oauth_metadata = OAuthMetadata.model_validate(file.content["authorization_server"])
    with contextlib.suppress(ValidationError, KeyError):
        auth.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(file.content["resource"])
    return auth


def _provider(server: McpServer, file: TokenFile, redirect: str, show: Any, wait: Any) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect)], client_name="Ronda", token_endpoint_auth_method=None
    )
    return OAuthClientProvider(_url(server), metadata, file, show, wait)


def _url(server: McpServer) -> str:
    url: str = getattr(server.source, "url", "")
    return url


async def log_in(server: McpServer, person: Person, port: int = 0) -> int:
    """The number of tools that the server then has. Raises ToolFailed."""
    assert server.login is not None
    file = TokenFile(Path(server.login), is_new=True)
    async with asyncio.timeout(PERSON_SECONDS):
        callback = Callback()
        address = await callback.open(port)
        try:
            auth = _provider(server, file, address, _shower(person), lambda: callback.wait(person))
            if server.client_id is not None:
                file.content["client"] = {
                    "client_id": server.client_id,
                    "client_secret": server.client_secret,
                    "redirect_uris": [address],
                    "token_endpoint_auth_method": "client_secret_basic" if server.client_secret else "none",
                }
            tools = await _first_call(server, auth)
        finally:
            await callback.close()
    context = auth.context
    found = {"authorization_server": context.oauth_metadata, "resource": context.protected_resource_metadata}
    file.add(**{key: one.model_dump(mode="json", exclude_none=True) for key, one in found.items() if one is not None})
    return tools


def _shower(person: Person) -> Any:
    async def show(address: str) -> None:
        person.show(address)

    return show


async def _first_call(server: McpServer, auth: httpx2.Auth) -> int:
    try:
        async with Client(open_streams(server, Complaints(), lambda: None, auth)) as client:
            return len((await client.list_tools()).tools)
    except TimeoutError:
        raise
    except Exception as error:  # whatever the SDK, the server or its authorization service says
        raise ToolFailed(error_words(error)) from error


class Callback:
    """Where the person's browser is sent when they have decided: an address on this machine only."""

    def __init__(self) -> None:
        self._result: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._runner: web.AppRunner | None = None

    async def open(self, port: int) -> str:
        app = web.Application()
        app.router.add_get("/callback", self._called)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        try:
            await site.start()
        except OSError as error:
            raise ToolFailed(f"cannot listen on port {port} for the browser: {error.strerror}") from error
        chosen = self._runner.addresses[0][1]
        return f"http://127.0.0.1:{chosen}/callback"

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _called(self, request: web.Request) -> web.Response:
        self._take(str(request.url))
        return web.Response(text=_DONE)

    def _take(self, address: str) -> None:
        if self._result.done():
            return
        words = {name: values[0] for name, values in parse_qs(urlsplit(address.strip()).query).items()}
        if "error" in words:
            why = words.get("error_description") or words["error"]
            self._result.set_exception(ToolFailed(f"the login was refused: {why[:500]}"))
        elif "code" in words:
            result = AuthorizationCodeResult(code=words["code"], state=words.get("state"), iss=words.get("iss"))
            self._result.set_result(result)

    async def wait(self, person: Person) -> AuthorizationCodeResult:
        paste = asyncio.create_task(self._wait_for_paste(person))
        try:
            return await self._result
        finally:
            paste.cancel()

    async def _wait_for_paste(self, person: Person) -> None:
        while not self._result.done():
            self._take(await person.pasted())
