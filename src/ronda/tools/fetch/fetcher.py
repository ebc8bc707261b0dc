"""An address from outside → what is there: one fetcher for pages, files, documents and servers.

    resolve the name → check every address → connect to one of those → follow at most three redirects, each checked again

A name is resolved once for each hop, and the connection goes to what was checked: a name server that answers differently the
next time changes nothing. No cookies, no key that follows a redirect to another host. Where the operator has named a proxy, it
resolves the name and connects, so that only addresses without a name can be checked here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct

from ronda.errors import ToolFailed
from ronda.providers.http.session import read_within, through, why_not_reached
from ronda.providers.http.transport import DIRECT, Routes, tls_context
from ronda.tools.fetch.addresses import NOWHERE, Address, AllowList, parse_address, why_refused
from ronda.tools.function import in_thread

SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0
MAX_BYTES: Final = 5 * 1024 * 1024  # after decompression
MAX_REDIRECTS: Final = 3
MAX_LENGTH: Final = 8_000  # of an address: what servers commonly take
MAX_ADDRESSES: Final = 16  # of one name
AGENT: Final = "ronda"  # robots.txt knows it by this name

# As the Messages API calls them, the only dialect that has names for these.
Code: TypeAlias = Literal[
    "invalid_tool_input",
    "url_too_long",
    "url_not_allowed",
    "url_not_accessible",
    "unsupported_content_type",
    "content_too_large",
]

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
BeforeHop: TypeAlias = Callable[[yarl.URL], Awaitable[None]]


class FetchFailed(ToolFailed):
    """Nothing was fetched. The text says why and repeats no query or password of the address; `status` is the HTTP status."""

    def __init__(self, message: str, code: Code, *, status: int | None = None) -> None:
        super().__init__(message)
        self.code: Code = code
        self.status = status


class FetchedPage(Struct, frozen=True):
    """`url` is where it was found, after all redirects. `content_type` has no parameters, and is empty where none was sent."""

    url: str
    data: bytes
    content_type: str = ""
    charset: str | None = None


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, by the system's resolver: in a thread of its own, for it cannot be stopped."""
    found = await in_thread(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(sockaddr[0]) for _, _, _, _, sockaddr in found))


class Fetcher:
    """`allow` is what may be reached besides public addresses, `routes` the way there; `resolve` is for tests."""

    def __init__(
        self,
        allow: AllowList = NOWHERE,
        *,
        seconds: float = SECONDS,
        max_bytes: int = MAX_BYTES,
        resolve: Resolve = resolve,
        routes: Routes = DIRECT,
    ) -> None:
        self.allow = allow
        self._routes = routes
        self.seconds = seconds
        self.max_bytes = max_bytes
        self._resolve = resolve

    async def fetch(
        self,
        address: str,
        *,
        types: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        same_origin: bool = False,
        before_hop: BeforeHop | None = None,
    ) -> FetchedPage:
        """Get what is at an address. Raises FetchFailed.

        Args:
            types: The content types that are of use, such as `text/*`; none means all.
            headers: Sent to this address and not to another host that it redirects to.
            same_origin: Redirects to another host are refused.
            before_hop: Awaited before each request with its address; it may refuse by raising FetchFailed.
        """
        url = parse_url(address)
        origin, sent = url.origin(), dict(headers or {})
        try:
            async with asyncio.timeout(self.seconds):
                for _ in range(MAX_REDIRECTS + 1):
                    if before_hop is not None:
                        await before_hop(url)
                    found = await self._get(url, types, sent)
                    if isinstance(found, FetchedPage):
                        return found
                    if found.origin() != origin:
                        if same_origin:
                            raise FetchFailed(
                                f"{display_url(url)} redirects to another host, which is not followed",
                                "url_not_allowed",
                            )
                        sent = {}
                    url = found
        except TimeoutError as error:
            raise FetchFailed(
                f"{display_url(url)} did not answer within {self.seconds:g} seconds", "url_not_accessible"
            ) from error
        raise FetchFailed(f"{display_url(url)} redirects more than {MAX_REDIRECTS} times", "url_not_accessible")

    async def post(self, address: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Send something to an address: the status of the answer, of which nothing is read. No redirect is followed. Raises
        FetchFailed."""
        url = parse_url(address)
        way = through(self._routes, str(url))
        try:
            async with asyncio.timeout(self.seconds):
                addresses = await self._where(url, way)
                async with (
                    _session(addresses, is_https=url.scheme == "https") as client,
                    client.post(
                        url, data=body, headers={"User-Agent": AGENT, **headers}, allow_redirects=False, **way
                    ) as answer,
                ):
                    return answer.status
        except TimeoutError as error:
            raise FetchFailed(
                f"{display_url(url)} did not answer within {self.seconds:g} seconds", "url_not_accessible"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FetchFailed(
                f"{display_url(url)} cannot be reached: {why_not_reached(error)}", "url_not_accessible"
            ) from error

    async def check(self, url: yarl.URL) -> list[str]:
        """The addresses behind a name, all of which may be called. Raises FetchFailed.

        For callers that connect by themselves: they have to connect to one of these, not to the name.
        """
        host = url.host or ""
        try:
            found = (await self._resolve(host, url.port or 0))[:MAX_ADDRESSES]
            addresses = [parse_address(text) for text in found]
        except (OSError, UnicodeError, ValueError) as error:
            raise FetchFailed(
                f"{display_url(url)} cannot be fetched: there is no host {host!r}", "url_not_accessible"
            ) from error
        self._check_addresses(url, addresses)
        if not addresses:
            raise FetchFailed(f"{display_url(url)} cannot be fetched: there is no host {host!r}", "url_not_accessible")
        return list(found)

    def check_name(self, url: yarl.URL) -> None:
        """The same for an address that a proxy looks up: there is nothing to check but one that is written in numbers, or means
        this machine. Raises FetchFailed."""
        host = (url.host or "").rstrip(".").lower()
        written = "127.0.0.1" if host == "localhost" or host.endswith(".localhost") else _written_address(host)
        if written is not None:
            self._check_addresses(url, [parse_address(written)])

    def _check_addresses(self, url: yarl.URL, addresses: Sequence[Address]) -> None:
        host, port = url.host or "", url.port or 0
        for address in addresses:
            kind = why_refused(address)
            if kind is not None and not self.allow.allows(host, address, port):
                # The address itself is not repeated: it would tell a stranger of the network that this machine is in.
                raise FetchFailed(
                    f"{display_url(url)} is not fetched: {host} leads to {kind}, which the operator of this server "
                    "has not allowed",
                    "url_not_allowed",
                )

    async def _where(self, url: yarl.URL, way: Mapping[str, Any]) -> list[str] | None:
        """The addresses to connect to; None where a proxy finds them."""
        if "proxy" not in way:
            return await self.check(url)
        self.check_name(url)
        return None

    async def _get(self, url: yarl.URL, types: Sequence[str], headers: Mapping[str, str]) -> FetchedPage | yarl.URL:
        sent = {"User-Agent": AGENT, "Accept": ", ".join(types) or "*/*", "Accept-Encoding": "gzip, deflate", **headers}
        way = through(self._routes, str(url))
        addresses = await self._where(url, way)
        try:
            async with (
                _session(addresses, is_https=url.scheme == "https") as client,
                client.get(url, headers=sent, allow_redirects=False, **way) as answer,
            ):
                if (to := _redirect(answer, url)) is not None:
                    return to
                if answer.status != 200:
                    raise FetchFailed(
                        f"{display_url(url)} cannot be fetched: HTTP {answer.status}",
                        "url_not_accessible",
                        status=answer.status,
                    )
                kind = answer.content_type.lower() if "Content-Type" in answer.headers else ""
                if types and not is_among(kind, types):
                    raise FetchFailed(
                        f"{display_url(url)} is {kind or 'of an unknown type'}, which cannot be read here",
                        "unsupported_content_type",
                    )
                data = await read_within(answer, self.max_bytes)
                if data is None:
                    raise FetchFailed(f"{display_url(url)} is larger than {self.max_bytes} bytes", "content_too_large")
                return FetchedPage(str(url), data, kind, answer.charset)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            why = why_not_reached(error)
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                why = "its certificate is not to be trusted"
            raise FetchFailed(f"{display_url(url)} cannot be fetched: {why}", "url_not_accessible") from error


def parse_url(address: str) -> yarl.URL:
    """An http or https address with a host. Raises FetchFailed."""
    if len(address) > MAX_LENGTH:
        raise FetchFailed(f"the address is longer than {MAX_LENGTH} characters", "url_too_long")
    try:
        url = yarl.URL(address.strip())
        if url.scheme not in ("http", "https") or not url.host or not url.port:
            raise FetchFailed(f"{address[:200]!r} is not an http or https address", "invalid_tool_input")
        return url.with_fragment(None)
    except ValueError as error:
        raise FetchFailed(f"{address[:200]!r} is not an address: {error}", "invalid_tool_input") from error


def display_url(url: yarl.URL) -> str:
    """What others may read of an address: its query and its user may be secrets."""
    return str(url.with_user(None).with_query(None))


def is_among(content_type: str, types: Sequence[str]) -> bool:
    return any(
        content_type == wanted or (wanted.endswith("/*") and content_type.startswith(wanted[:-1])) for wanted in types
    )


def _redirect(answer: aiohttp.ClientResponse, url: yarl.URL) -> yarl.URL | None:
    location = answer.headers.get("Location")
    if answer.status not in (301, 302, 303, 307, 308) or not location:
        return None
    try:
        return parse_url(str(url.join(yarl.URL(location))))
    except ValueError as error:
        raise FetchFailed(f"{display_url(url)} redirects to what is not an address", "url_not_accessible") from error


def _written_address(host: str) -> str | None:
    """The address that stands there in numbers, in any of the ways that systems read: `127.1` is one, too."""
    try:
        [(_, _, _, _, address), *_] = socket.getaddrinfo(
            host, None, flags=socket.AI_NUMERICHOST, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        return None
    return str(address[0])


def _session(addresses: Sequence[str] | None, *, is_https: bool) -> aiohttp.ClientSession:
    """A session whose connections go to these addresses, whatever the name: for one request, so that nothing is shared. None: to
    wherever the name leads, which is that of a proxy.

    The certificate has to be the name's anyway.
    """
    tls = tls_context() if is_https else True  # which takes a while to make
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            resolver=None if addresses is None else _PinnedResolver(addresses),
            use_dns_cache=False,
            force_close=True,
            ssl=tls,
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
    )


class _PinnedResolver(AbstractResolver):
    """Knows one answer: the addresses that were checked."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        return
