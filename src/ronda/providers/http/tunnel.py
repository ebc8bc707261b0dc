"""A connection to a proxy → a connection through it to an origin: what is said to the proxy first, and what it answers.

CONNECT to HTTP proxies, SOCKS version 5 to others (RFC 9110 §9.3.6, RFC 1928 and 1929). Nothing of the request is sent before the
proxy has agreed. A refusal says what the proxy answered, and never what it was told: that may be a password.
"""

from __future__ import annotations

import asyncio
import re
import socket
from ipaddress import ip_address
from typing import Final, cast

from ronda.providers.http.address import Origin
from ronda.providers.http.proxy import Proxy

_LONGEST_HEAD: Final = 64 * 1024
_STATUS: Final = re.compile(rb"HTTP/1\.[01] +(\d{3})[ \t]*([^\r\n]*)")
_AGAIN: Final = frozenset({408, 429, *range(500, 600)})  # the origin or its name was not there; it may be the next time

_SOCKS_VERSION, _NO_AUTH, _PASSWORD, _NO_METHOD, _CONNECT = 5, 0, 2, 0xFF, 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_SOCKS_ANSWERS: Final = {
    1: "it failed",
    2: "its rules do not allow this",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "the connection was refused",
    6: "it took too long",
    7: "it does not connect for others",
    8: "it does not know this kind of address",
}
_SOCKS_AGAIN: Final = frozenset({1, 3, 4, 5, 6})


class ProxyRefused(Exception):
    """`retryable` says if the proxy may agree the next time."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


def wants_credentials(proxy: Proxy) -> ProxyRefused:
    """What its status 407 means."""
    if proxy.authorization is None:
        way_out = f"{proxy.scheme}://USER:PASSWORD@{proxy.host}:{proxy.port}"
        return ProxyRefused(f"it wants a user and a password: {proxy.source or 'name it as'} = {way_out}")
    return ProxyRefused("it does not take this user and password (407)")


async def open_tunnel(loop: asyncio.AbstractEventLoop, sock: socket.socket, proxy: Proxy, origin: Origin) -> None:
    """From here on `sock`, which does not block, is connected with the origin. Raises ProxyRefused or OSError."""
    if proxy.scheme == "socks5":
        await _open_socks(loop, sock, proxy, origin)
        return
    await loop.sock_sendall(sock, connect_request(proxy, origin))
    answer = ConnectAnswer(proxy)
    while not answer.feed(await loop.sock_recv(sock, _LONGEST_HEAD)):
        pass


# ---- HTTP ------------------------------------------------------------------------------------------------------------


def connect_request(proxy: Proxy, origin: Origin) -> bytes:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    lines = [f"CONNECT {host}:{origin.port} HTTP/1.1", f"Host: {host}:{origin.port}", "User-Agent: ronda"]
    if proxy.authorization is not None:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return "\r\n".join([*lines, "", ""]).encode()


class ConnectAnswer:
    """Fed with what the proxy says until its answer is complete."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._data = b""

    def feed(self, data: bytes) -> bool:
        """Whether the tunnel is open; False where more has to come. Raises ProxyRefused."""
        self._data += data
        _, end, rest = self._data.partition(b"\r\n\r\n")
        if not data:
            raise ProxyRefused("it closed the connection before it answered", retryable=True)
        if not end and len(self._data) > _LONGEST_HEAD:
            raise ProxyRefused("the head of its answer is too long")
        if not self._data.startswith(b"HTTP/1."[: len(self._data)]):
            raise ProxyRefused("what it answers is not HTTP")
        if not end:
            return False
        if (status := _STATUS.match(self._data)) is None:
            raise ProxyRefused("what it answers is not HTTP")
        code = int(status[1])
        if code == 407:
            raise wants_credentials(self._proxy)
        if not 200 <= code < 300:
            text = f"it answered {code} {status[2].decode('latin-1')}".rstrip()
            raise ProxyRefused(text, retryable=code in _AGAIN)
        if rest:  # an origin with TLS says nothing by itself
            raise ProxyRefused("it sent something that was not asked for")
        return True


class TunnelProtocol(asyncio.Protocol):
    """The same over a transport that has TLS itself; `is_open` is done when the tunnel is."""

    def __init__(self, proxy: Proxy, origin: Origin) -> None:
        self._request = connect_request(proxy, origin)
        self._answer = ConnectAnswer(proxy)
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.WriteTransport", transport).write(self._request)  # uvloop's is one, and does not say so

    def data_received(self, data: bytes) -> None:
        if self.is_open.done():
            return
        try:
            if self._answer.feed(data):
                self.is_open.set_result(None)
        except ProxyRefused as refusal:
            self.is_open.set_exception(refusal)

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(error or ConnectionResetError("it closed the connection before it answered"))


# ---- SOCKS -----------------------------------------------------------------------------------------------------------


async def _open_socks(loop: asyncio.AbstractEventLoop, sock: socket.socket, proxy: Proxy, origin: Origin) -> None:
    has_password = proxy.authorization is not None
    methods = [_NO_AUTH, _PASSWORD] if has_password else [_NO_AUTH]
    await loop.sock_sendall(sock, bytes([_SOCKS_VERSION, len(methods), *methods]))
    version, method = await _exactly(loop, sock, 2)
    if version != _SOCKS_VERSION:
        raise ProxyRefused("it does not speak SOCKS 5")
    if method == _NO_METHOD and not has_password:
        raise wants_credentials(proxy)
    if method == _PASSWORD and has_password:
        user, password = proxy.user.encode()[:255], proxy.password.encode()[:255]
        await loop.sock_sendall(sock, bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        if (await _exactly(loop, sock, 2))[1] != 0:
            raise ProxyRefused("it does not take this user and password")
    elif method != _NO_AUTH:
        raise ProxyRefused("it asks who this is in a way that is not known here")
    await loop.sock_sendall(sock, bytes([_SOCKS_VERSION, _CONNECT, 0]) + _socks_address(origin))
    version, answer, _, kind = await _exactly(loop, sock, 4)
    if answer != 0:
        why = _SOCKS_ANSWERS.get(answer, f"it answered {answer}")
        raise ProxyRefused(why, retryable=answer in _SOCKS_AGAIN)
    length = {_IPV4: 4, _IPV6: 16}.get(kind)
    if length is None:
        length = (await _exactly(loop, sock, 1))[0]
    await _exactly(loop, sock, length + 2)  # where it connected from, which is of no use here


def _socks_address(origin: Origin) -> bytes:
    """A name is given as it is: the proxy looks it up."""
    port = origin.port.to_bytes(2, "big")
    try:
        address = ip_address(origin.host)
    except ValueError:
        name = origin.host.encode()
        if len(name) > 255:
            raise ProxyRefused("the host's name is too long for it") from None
        return bytes([_NAME, len(name)]) + name + port
    return bytes([_IPV4 if address.version == 4 else _IPV6]) + address.packed + port


async def _exactly(loop: asyncio.AbstractEventLoop, sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = await loop.sock_recv(sock, count - len(data))
        if not piece:
            raise ProxyRefused("it closed the connection before it answered", retryable=True)
        data += piece
    return data
