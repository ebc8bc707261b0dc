"""The HTTP client that the SDK's transports are given, and what became of a request that it sent.

The SDK tears a connection down with all its calls when one request cannot be sent, and does not say which status a refusal
had. Here such a request is answered instead, with an error of JSON-RPC's own, so that it fails alone; and its `Delivery` is
told how far it got.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from functools import cache
from typing import Final

import httpx2
import msgspec
from yarl import URL

from ronda.providers.grants import Grant
from ronda.providers.http.address import Origin
from ronda.providers.http.proxy import Proxy
from ronda.providers.http.transport import DIRECT, Routes
from ronda.providers.oauth import token_for
from ronda.tools.fetch.addresses import AllowList
from ronda.tools.fetch.fetcher import Fetcher, FetchFailed
from ronda.tools.mcp.bounds import MAX_MESSAGE, is_too_much
from ronda.tools.mcp.streams import delivery

NOT_ANSWERED: Final = 1  # outside what JSON-RPC reserves for itself and for servers


def http_client(
    headers: Mapping[str, str],
    auth: httpx2.Auth | None,
    read_seconds: float,
    failed: Callable[[], None] | None = None,
    guard: Guard | None = None,
    routes: Routes = DIRECT,
) -> httpx2.AsyncClient:
    """No redirect leaves the origin (the SDK sees to that).

    `failed` is called when a message could not be brought to the server. `guard` decides which addresses may be called, and
    `routes` are the way to them: no proxy is taken from the environment.
    """
    return httpx2.AsyncClient(
        headers={"User-Agent": "ronda", **headers},
        timeout=httpx2.Timeout(30.0, read=read_seconds),
        transport=_Transport(failed, guard, routes),
        auth=auth,
        trust_env=False,
    )


@cache
def tls_context() -> ssl.SSLContext:
    """One for all connections: reading the certificates takes 40 ms, in which the first one should not hold the loop either."""
    return httpx2.create_ssl_context()


class GrantedToken(httpx2.Auth):
    """OAuth client credentials. A token that is refused is asked for anew, once."""

    def __init__(self, grant: Grant, routes: Routes = DIRECT) -> None:
        self._grant = grant
        self._routes = routes
        self._asking = asyncio.Lock()  # a connection's requests are refused together, and need one token

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = await token_for(self._grant, routes=self._routes)
        request.headers["Authorization"] = f"Bearer {token}"
        answer = yield request
        if answer.status_code == 401:
            async with self._asking:
                known = await token_for(self._grant, routes=self._routes)
                if known == token:  # no other call has asked meanwhile
                    known = await token_for(self._grant, anew=True, routes=self._routes)
            request.headers["Authorization"] = f"Bearer {known}"
            yield request


class Guard:
    """Lets requests go only to addresses that may be called, and to no other than was looked at: a name is not asked twice."""

    def __init__(self, exceptions: Sequence[str]) -> None:
        self._fetcher = Fetcher(AllowList.parse(exceptions))

    async def directed(self, request: httpx2.Request, *, is_proxied: bool) -> httpx2.Request:
        """The request, to the address that was looked at. It itself stays as it is: redirects are judged by the name in it.
        Where a proxy looks the name up, to the name. Raises ConnectError."""
        host, url = request.url.host, URL(str(request.url))
        try:
            if is_proxied:
                self._fetcher.check_name(url)
                return request
            [address, *_] = await self._fetcher.check(url)
        except FetchFailed as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        return httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,  # the host among them
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},  # what the certificate must be for
        )


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, failed: Callable[[], None] | None, guard: Guard | None, routes: Routes) -> None:
        self._inner: dict[Proxy | None, httpx2.AsyncHTTPTransport] = {}  # by the way that requests take
        self._failed = failed
        self._guard = guard
        self._routes = routes

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        proxy = self._routes.proxies.to(Origin(url.scheme == "https", url.host, port))
        if self._guard is not None:
            request = await self._guard.directed(request, is_proxied=proxy is not None)
        if (inner := self._inner.get(proxy)) is None:
            inner = self._inner[proxy] = self._open(proxy)
        return await inner.handle_async_request(request)

    def _open(self, proxy: Proxy | None) -> httpx2.AsyncHTTPTransport:
        verify = self._routes.tls or tls_context()
        through = None
        if proxy is not None:
            auth = (proxy.user, proxy.password) if proxy.authorization is not None else None
            tls = verify if proxy.scheme == "https" else None
            through = httpx2.Proxy(str(proxy.origin), ssl_context=tls, auth=auth)
        return httpx2.AsyncHTTPTransport(verify=verify, retries=0, proxy=through)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":  # no message: the stream of what the server says unasked, or the end of a session
            return _bound_answer(await self._send(request))
        note = delivery.get()
        try:
            answer = await self._send(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol) as error:
            if note is not None:
                note.rounds -= 1  # no server was there to take it
            answer = _refusal(request, f"it cannot be reached: {str(error) or type(error).__name__}")
        except httpx2.TransportError as error:
            answer = _refusal(request, f"the connection failed: {str(error) or type(error).__name__}")
        else:
            if note is not None:
                note.status = answer.status_code
        if answer.status_code >= 400 and self._failed is not None:
            self._failed()
        return _bound_answer(answer)

    async def aclose(self) -> None:
        for inner in self._inner.values():
            await inner.aclose()


def _refusal(request: httpx2.Request, why: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": NOT_ANSWERED, "message": why}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(503, headers=headers, content=msgspec.json.encode(error), request=request)


def _bound_answer(answer: httpx2.Response) -> httpx2.Response:
    assert isinstance(answer.stream, httpx2.AsyncByteStream)
    is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
    answer.stream = _BoundedBody(answer.stream, is_stream=is_stream)
    return answer


class _BoundedBody(httpx2.AsyncByteStream):
    """A body, or each event of a stream, that breaks off where it gets too large or holds too much, before it is read: in
    the one way that the SDK takes for the failure of one request."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, is_stream: bool) -> None:
        self._stream = stream
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        message = bytearray()  # so far
        try:
            async for piece in self._stream:
                start = max(0, len(message) - 3)
                message += piece
                end = max(message.rfind(b"\n\n", start), message.rfind(b"\r\n\r\n", start)) if self._is_stream else -1
                if len(message) > MAX_MESSAGE:
                    raise httpx2.StreamError(f"the answer is larger than {MAX_MESSAGE} bytes")
                if end >= 0:
                    _check(message[:end])
                    del message[: end + 2]
                yield piece
            _check(message)
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the answer broke off: {type(error).__name__}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


def _check(message: bytearray) -> None:
    if is_too_much(bytes(message)):
        raise httpx2.StreamError("the answer holds too much to be read")
