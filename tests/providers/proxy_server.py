"""A small proxy: it forwards requests by their whole address, opens tunnels, speaks SOCKS 5, asks for a password, and writes down
what it was asked for. In threads, so that nothing of it is part of the event loop under test."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tests.timeouts import TIMEOUT

Handler = Callable[[socket.socket, BinaryIO], None]


@contextmanager
def listening(handler: Handler, certificate: Path | None = None) -> Iterator[int]:
    """A server on a port of this machine: `handler` gets each connection, and a file to read it from. All end with the block."""
    threads: list[threading.Thread] = []
    opened: list[socket.socket] = []

    def serve(found: socket.socket) -> None:
        with suppress(OSError, EOFError), ExitStack() as stack:
            stack.enter_context(found)
            found.settimeout(TIMEOUT)
            if certificate is not None:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(certificate)
                found = stack.enter_context(context.wrap_socket(found, server_side=True))
                opened.append(found)
            handler(found, stack.enter_context(found.makefile("rb")))

    def accept() -> None:
        with suppress(OSError):
            while True:
                found, _ = listener.accept()
                opened.append(found)
                threads.append(threading.Thread(target=serve, args=[found]))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads.append(threading.Thread(target=accept))
        threads[0].start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            threads[0].join(TIMEOUT)
            for found in opened:
                with suppress(OSError):  # closed already
                    found.shutdown(socket.SHUT_RDWR)
            for thread in threads[1:]:
                thread.join(TIMEOUT)


def exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise EOFError
    return data


def read_head(file: BinaryIO) -> list[str]:
    """The lines of a head, up to the empty one."""
    lines: list[str] = []
    while (line := file.readline()) not in (b"\r\n", b""):
        lines.append(line.decode().rstrip("\r\n"))
    if not line:
        raise EOFError
    return lines


def headers_of(lines: list[str]) -> dict[str, str]:
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}


class ProxyServer:
    """`hosts` are names that only it can resolve: name → port on this machine. With `user`, no other user is let through."""

    def __init__(
        self,
        hosts: Mapping[str, int] | None = None,
        *,
        user: str = "",
        certificate: Path | None = None,
        refuses: bytes = b"",
    ) -> None:
        self._hosts = dict(hosts or {})
        self._user = user
        self._certificate = certificate
        self._refuses = refuses  # what every request is answered with
        self.asked: list[str] = []  # the first line of each request, or the address that SOCKS was asked for
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ProxyServer]:
        with listening(self._serve, self._certificate) as self.port:
            yield self

    def _serve(self, client: socket.socket, file: BinaryIO) -> None:
        if file.peek(1)[:1] == b"\x05":  # type: ignore[attr-defined]  # a socket's file has it
            self._socks(client, file)
        else:
            while self._http(client, file):
                pass

    def _http(self, client: socket.socket, file: BinaryIO) -> bool:
        """Whether the connection can be used again."""
        lines = read_head(file)
        headers = headers_of(lines)
        self.asked.append(lines[0])
        expected = "Basic " + base64.b64encode(self._user.encode()).decode()
        if self._refuses:
            client.sendall(self._refuses)
            return False
        if self._user and headers.get("proxy-authorization") != expected:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return False
        method, target, _ = lines[0].split(" ")
        if method == "CONNECT":
            try:
                upstream = self._connect(target)
            except OSError:
                client.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                return False
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            join(client, upstream)
            return False
        host, _, path = target.removeprefix("http://").partition("/")
        body = exactly(file, int(headers.get("content-length", "0")))
        kept = [line for line in lines[1:] if not line.lower().startswith("proxy-")]
        head = "\r\n".join([f"{method} /{path} HTTP/1.1", *kept, "Connection: close", "", ""])
        with self._connect(host if ":" in host else f"{host}:80") as upstream:
            upstream.sendall(head.encode() + body)
            while data := upstream.recv(65536):
                client.sendall(data)
        return False

    def _socks(self, client: socket.socket, file: BinaryIO) -> None:
        methods = exactly(file, exactly(file, 2)[1])
        method = 2 if self._user else 0
        client.sendall(bytes([5, method if method in methods else 0xFF]))
        if method not in methods:
            return
        if self._user:
            user = exactly(file, exactly(file, 2)[1]).decode()
            password = exactly(file, exactly(file, 1)[0]).decode()
            is_right = f"{user}:{password}" == self._user
            client.sendall(bytes([1, 0 if is_right else 1]))
            if not is_right:
                return
        kind = exactly(file, 4)[3]
        assert kind in (1, 3)
        name = exactly(file, exactly(file, 1)[0] if kind == 3 else 4)
        host = name.decode() if kind == 3 else socket.inet_ntoa(name)
        target = f"{host}:{int.from_bytes(exactly(file, 2), 'big')}"
        self.asked.append(target)
        try:
            upstream = self._connect(target)
        except OSError:
            client.sendall(bytes([5, 4, 0, 1, *bytes(6)]))
            return
        client.sendall(bytes([5, 0, 0, 1, *bytes(6)]))
        join(client, upstream)

    def _connect(self, target: str) -> socket.socket:
        host, _, port = target.rpartition(":")
        known = self._hosts.get(host)
        if known is None and host != "127.0.0.1":
            raise OSError("no such host")
        return socket.create_connection(("127.0.0.1", known or int(port)), TIMEOUT)


def join(one: socket.socket, other: socket.socket) -> None:
    """What comes from one goes to the other, until either ends."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    with other:
        back = threading.Thread(target=copy, args=[other, one])
        back.start()
        copy(one, other)
        back.join(TIMEOUT)
