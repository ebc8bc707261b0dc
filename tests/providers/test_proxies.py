"""Calls of models through a proxy: by what the environment or a program says, over each kind of proxy, and what is said where it
does not work."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import pytest
import uvloop
from tests.providers.proxy_server import ProxyServer, exactly, headers_of, listening, read_head
from tests.providers.test_http_tls import write_certificate
from tests.timeouts import TIMEOUT, soon

from ronda import Transport
from ronda.core.limits import Timeouts
from ronda.errors import BadConfig, UpstreamUnreachable
from ronda.providers.http import Http
from ronda.providers.http.address import Address
from ronda.providers.http.transport import Routes, tls_context

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture
def certificate(tmp_path: Path) -> Iterator[Path]:
    tls_context.cache_clear()
    yield write_certificate(tmp_path / "certificate.pem", days=1)
    tls_context.cache_clear()


@pytest.fixture(params=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as made:
        yield made


@asynccontextmanager
async def upstream(certificate: Path | None = None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A model's server on this machine: its port, and the heads of what it was asked."""
    asked: list[bytes] = []

    def serve(client: socket.socket, file: BinaryIO) -> None:
        head: list[str] = []
        while "Connection: close" not in head:
            head = read_head(file)
            exactly(file, int(headers_of(head)["content-length"]))
            asked.append("\r\n".join(head).encode())
            client.sendall(ANSWER)

    with listening(serve, certificate) as port:
        yield port, asked


def routes(
    certificate: Path | None = None, environ: Mapping[str, str] | None = None, proxy: str | None = None
) -> Routes:
    return Transport(proxy=proxy, ca_file=None if certificate is None else str(certificate)).routes(environ or {})


async def ask(url: str, way: Routes, times: int = 1) -> list[bytes]:
    http = Http(url, {"Authorization": "Bearer s3cret-key"}, Timeouts(connect=TIMEOUT, first_byte=TIMEOUT), way)
    answers = []
    async with soon():
        for _ in range(times):
            async with http.post(b"{}") as answer:
                answers.append(await answer.read())
    return answers


# ---- each kind of proxy ----------------------------------------------------------------------------------------------


def test_an_http_server_is_asked_for_by_its_whole_address(runner: asyncio.Runner) -> None:
    async def run() -> None:
        async with upstream() as (port, asked), ProxyServer({"model.example": port}).running() as proxy:
            way = routes(environ={"HTTP_PROXY": f"http://127.0.0.1:{proxy.port}"})
            assert await ask("http://model.example/v1/chat?a=1", way) == [b"hello"]
        assert proxy.asked == ["POST http://model.example/v1/chat?a=1 HTTP/1.1"]
        assert asked[0].startswith(b"POST /v1/chat?a=1 HTTP/1.1\r\nHost: model.example\r\n")

    runner.run(run())


@pytest.mark.parametrize("scheme", ["http", "https", "socks5", "socks5h"])
def test_an_https_server_is_reached_through_a_tunnel(runner: asyncio.Runner, certificate: Path, scheme: str) -> None:
    """Which is kept: the second request goes over the same."""

    async def run() -> None:
        tls = certificate if scheme == "https" else None
        async with (
            upstream(certificate) as (port, asked),
            ProxyServer({"localhost": port}, certificate=tls).running() as proxy,
        ):
            host = "localhost" if tls else "127.0.0.1"
            way = routes(certificate, {"HTTPS_PROXY": f"{scheme}://{host}:{proxy.port}"})
            assert await ask("https://localhost:443/v1/chat", way, times=2) == [b"hello"] * 2
        assert proxy.asked == ["localhost:443" if "socks" in scheme else "CONNECT localhost:443 HTTP/1.1"]
        assert b"Proxy" not in asked[0]
        assert asked[0].startswith(b"POST /v1/chat HTTP/1.1\r\nHost: localhost\r\n")

    runner.run(run())


@pytest.mark.parametrize("scheme", ["https", "socks5"])
def test_an_http_server_is_reached_through_other_proxies(
    runner: asyncio.Runner, certificate: Path, scheme: str
) -> None:
    async def run() -> None:
        tls = certificate if scheme == "https" else None
        async with upstream() as (port, _), ProxyServer({"model.example": port}, certificate=tls).running() as proxy:
            host = "localhost" if tls else "127.0.0.1"
            way = routes(certificate, {"ALL_PROXY": f"{scheme}://{host}:{proxy.port}"})
            assert await ask("http://model.example/v1", way) == [b"hello"]
        assert proxy.asked == ["POST http://model.example/v1 HTTP/1.1" if tls else "model.example:80"]

    runner.run(run())


@pytest.mark.parametrize("target", ["http", "https"])
@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_proxy_is_told_who_asks(runner: asyncio.Runner, certificate: Path, scheme: str, target: str) -> None:
    async def run() -> None:
        tls = certificate if target == "https" else None
        async with upstream(tls) as (port, asked):
            proxy = ProxyServer({"localhost": port}, user="me:p@ss word")
            async with proxy.running():
                way = routes(certificate, {"all_proxy": f"{scheme}://me:p%40ss%20word@127.0.0.1:{proxy.port}"})
                assert await ask(f"{target}://localhost/v1", way) == [b"hello"]
        assert b"roxy" not in asked[0]

    runner.run(run())


def test_a_program_may_bring_the_proxy_the_certificates_or_the_connection(
    runner: asyncio.Runner, certificate: Path
) -> None:
    async def run() -> None:
        async with upstream(certificate) as (port, asked), ProxyServer({"localhost": port}).running() as proxy:
            await ask("https://localhost/", routes(certificate, {}, f"127.0.0.1:{proxy.port}"))
            context = ssl.create_default_context(cafile=str(certificate))

            async def connect(host: str, number: int) -> socket.socket:
                assert (host, number) == ("localhost", 443)
                return socket.create_connection(("127.0.0.1", port))

            environ = {"HTTPS_PROXY": "http://127.0.0.1:1"}  # for others
            await ask("https://localhost/", Transport(tls=context, connect=connect).routes(environ))
            await ask(f"https://localhost:{port}/", Transport(tls=context, proxy="").routes(environ))
            await ask(f"https://localhost:{port}/", Transport(tls=context, env_proxy=False).routes(environ))
        assert len(asked) == 4
        assert len(proxy.asked) == 1

    runner.run(run())


def test_connections_of_different_ways_are_kept_apart(runner: asyncio.Runner) -> None:
    async def run() -> None:
        async with upstream() as (port, _), ProxyServer().running() as one, ProxyServer().running() as other:
            url = f"http://127.0.0.1:{port}/v1"
            for way in (None, one, other, None, one, other):
                await ask(url, routes(proxy="" if way is None else f"127.0.0.1:{way.port}"))
        assert [len(one.asked), len(other.asked)] == [2, 2]

    runner.run(run())


# ---- which proxy -----------------------------------------------------------------------------------------------------

P, Q, R = "http://p.example:1", "http://q.example:2", "http://r.example:3"
VARIABLES: dict[str, tuple[dict[str, str], str, str | None]] = {
    "one for https": ({"HTTPS_PROXY": P, "HTTP_PROXY": Q}, "https://a.example", P),
    "one for http": ({"HTTPS_PROXY": P, "HTTP_PROXY": Q}, "http://a.example", Q),
    "small letters": ({"https_proxy": P, "HTTPS_PROXY": Q}, "https://a.example", P),
    "none, in small letters": ({"https_proxy": "", "HTTPS_PROXY": Q}, "https://a.example", None),
    "none": ({"HTTPS_PROXY": " "}, "https://a.example", None),
    "one for all": ({"ALL_PROXY": R}, "http://a.example", R),
    "one for all others": ({"ALL_PROXY": R, "HTTPS_PROXY": P}, "https://a.example", P),
    "one for all, in small letters": ({"all_proxy": R}, "https://a.example", R),
    "another scheme's": ({"HTTP_PROXY": Q}, "https://a.example", None),
    "without a scheme": ({"HTTP_PROXY": "q.example:2"}, "http://a.example", Q),
    "a header of CGI": ({"HTTP_PROXY": Q, "REQUEST_METHOD": "GET"}, "http://a.example", None),
    "no header of CGI": ({"http_proxy": Q, "REQUEST_METHOD": "GET"}, "http://a.example", Q),
    "this machine": ({"HTTP_PROXY": Q}, "http://127.0.0.1:8000", Q),
}


@pytest.mark.parametrize(("environ", "url", "expected"), VARIABLES.values(), ids=VARIABLES.keys())
def test_variables_name_the_proxy_as_other_clients_read_them(
    environ: dict[str, str], url: str, expected: str | None
) -> None:
    proxy = Transport().routes(environ).to(Address(url).origin).proxy
    assert (None if proxy is None else f"{proxy.scheme}://{proxy.host}:{proxy.port}") == expected
    assert Transport(env_proxy=False).routes(environ).to(Address(url).origin).proxy is None


EXCEPTIONS: dict[str, tuple[str, list[str], list[str]]] = {
    "nothing": ("", [], ["http://a.example"]),
    "everything": ("b.example, *", ["http://a.example", "https://10.0.0.1"], []),
    "a name": (
        "a.example",
        ["http://a.example", "http://b.a.example", "http://A.EXAMPLE:8080", "http://a.example."],
        ["http://na.example", "http://example", "http://a.example.org"],
    ),
    "names below one": (".a.example", ["http://b.a.example", "http://a.example"], ["http://na.example"]),
    "the same with a star": ("*.a.example", ["http://b.a.example"], ["http://na.example"]),
    "a port": ("a.example:8080", ["http://a.example:8080"], ["http://a.example", "https://a.example"]),
    "the usual port": ("a.example:443", ["https://a.example"], ["http://a.example"]),
    "several": ("a.example,b.example c.example", ["http://a.example", "http://b.example", "http://c.example"], []),
    "an address": ("10.0.0.1", ["http://10.0.0.1", "http://10.0.0.1:8080"], ["http://10.0.0.2", "http://a.example"]),
    "an address and a port": ("127.0.0.1:8000", ["http://127.0.0.1:8000"], ["http://127.0.0.1:8001"]),
    "a network": (
        "10.0.0.0/8,fd00::/8",
        ["http://10.9.8.7", "http://[fd00::1]"],
        ["http://11.0.0.1", "http://[fe80::1]"],
    ),
    "a network from its middle": ("10.0.0.1/8", ["http://10.9.8.7"], ["http://11.0.0.1"]),
    "IPv6": ("::1", ["http://[::1]:8080"], ["http://[::2]"]),
    "IPv6 in brackets": ("[::1]", ["http://[::1]"], ["http://[::2]"]),
    "IPv6 and a port": ("[::1]:80", ["http://[::1]"], ["http://[::1]:81"]),
    "localhost": ("localhost", ["http://localhost:1234", "http://a.localhost"], ["http://127.0.0.1"]),
    "an umlaut": ("bücher.example", ["http://xn--bcher-kva.example", "http://bücher.example"], []),
    "what makes no sense": ("a.example:port,://,:80,[", [], ["http://a.example"]),
}


@pytest.mark.parametrize(("text", "direct", "proxied"), EXCEPTIONS.values(), ids=EXCEPTIONS.keys())
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy", "no variable"])
def test_exceptions_go_without_the_proxy(text: str, direct: list[str], proxied: list[str], variable: str) -> None:
    environ = {"ALL_PROXY": P, variable: text}
    way = Transport(no_proxy=text if variable == "no variable" else None).routes(environ)
    found = [url for url in (*direct, *proxied) if way.to(Address(url).origin).proxy is None]
    assert found == direct


WRONG = {
    "ftp://me:s3cret@p.example": "HTTPS_PROXY is 'ftp://p.example'; the address of a proxy begins with http://, https:// or socks5://",
    "http://me:s3cret@": "HTTPS_PROXY is 'http://'; the address of a proxy is http://HOST:PORT",
    "http://me:s3cret@p.example:0": "HTTPS_PROXY is 'http://p.example:0'; the address of a proxy is http://HOST:PORT",
    "http://me:s3cret@p.example:port": "HTTPS_PROXY is 'http://p.example:port', which is not the address of a proxy",
    "socks4://p.example": "HTTPS_PROXY is 'socks4://p.example'; the address of a proxy begins with http://, https:// or socks5://",
}


@pytest.mark.parametrize(("address", "said"), WRONG.items())
def test_an_address_that_is_none_is_refused_at_once(address: str, said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        Transport().routes({"HTTPS_PROXY": address})
    assert str(caught.value) == said


def test_a_file_of_certificates_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(BadConfig, match=r"^the CA file '.*/nowhere.pem' cannot be read: No such file or directory$"):
        Transport(ca_file=str(tmp_path / "nowhere.pem")).routes({})
    with pytest.raises(BadConfig, match=r"^the CA file '.*/empty.pem' cannot be read: "):
        Transport(ca_file=str(tmp_path / "empty.pem")).routes({})


# ---- what goes wrong -------------------------------------------------------------------------------------------------

CLOSES = b"\r\n\r\n"
REFUSALS: dict[str, tuple[bytes, str, bool]] = {
    "it forbids it": (b"HTTP/1.1 403 Forbidden\r\n\r\nno", "it answered 403 Forbidden", False),
    "it cannot find it": (b"HTTP/1.0 503 Service Unavailable\r\n\r\n", "it answered 503 Service Unavailable", True),
    "it says no more than a number": (b"HTTP/1.1 502\r\n\r\n", "it answered 502", True),
    "it wants a password": (
        b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "it does not take this user and password (407)", False,
    ),
    "it speaks something else": (b"SSH-2.0-OpenSSH_9.2\r\n", "what it answers is not HTTP", False),
    "it says nothing": (CLOSES, "what it answers is not HTTP", False),
    "it says too much": (b"HTTP/1.1 200 OK\r\n\r\nwelcome", "it sent something that was not asked for", False),
    "its head has no end": (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000, "the head of its answer is too long", False),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "why", "retryable"), REFUSALS.values(), ids=REFUSALS.keys())
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_refusal_names_the_proxy_and_not_its_password(
    runner: asyncio.Runner, certificate: Path, answer: bytes, why: str, retryable: bool, scheme: str
) -> None:
    async def run() -> None:
        tls = certificate if scheme == "https" else None
        async with ProxyServer(refuses=answer, certificate=tls).running() as proxy:
            host = "localhost" if tls else "127.0.0.1"
            way = routes(certificate, {"HTTPS_PROXY": f"{scheme}://me:s3cret-s3cret@{host}:{proxy.port}"})
            with pytest.raises(UpstreamUnreachable) as caught:
                await ask("https://api.example/v1", way)
        place = f"https://api.example through the proxy {scheme}://{host}:{proxy.port} (HTTPS_PROXY)"
        assert str(caught.value) == f"cannot reach the model's server at {place}: {why}"
        assert caught.value.retryable is retryable

    runner.run(run())


@pytest.mark.parametrize("target", ["http", "https"])
@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("user", ["", "me:wrong-s3cret@"])
async def test_a_proxy_that_wants_a_password_is_told_apart(scheme: str, target: str, user: str) -> None:
    async with ProxyServer(user="me:right").running() as proxy:
        way = routes(environ={"ALL_PROXY": f"{scheme}://{user}127.0.0.1:{proxy.port}"})
        with pytest.raises(UpstreamUnreachable) as caught:
            await ask(f"{target}://api.example/v1", way)
    said = str(caught.value)
    assert f"through the proxy {scheme}://127.0.0.1:{proxy.port} (ALL_PROXY): " in said
    assert not caught.value.retryable
    assert "s3cret" not in said
    if user:
        assert "it does not take this user and password" in said
    else:
        assert f"it wants a user and a password: ALL_PROXY = {scheme}://USER:PASSWORD@127.0.0.1:{proxy.port}" in said


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_a_proxy_that_is_not_there_is_named(scheme: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        port = taken.getsockname()[1]
        with pytest.raises(UpstreamUnreachable) as caught:
            await ask("https://api.example/v1", routes(environ={"HTTPS_PROXY": f"{scheme}://127.0.0.1:{port}"}))
    said = f"cannot reach the model's server at https://api.example through the proxy {scheme}://127.0.0.1:{port} (HTTPS_PROXY): "
    assert str(caught.value).startswith(said)
    assert "refused" in str(caught.value)
    assert caught.value.retryable


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_host_that_the_proxy_cannot_find_may_be_there_the_next_time(scheme: str) -> None:
    async with ProxyServer().running() as proxy:
        with pytest.raises(UpstreamUnreachable) as caught:
            await ask("https://nowhere.example/", routes(environ={"HTTPS_PROXY": f"{scheme}://127.0.0.1:{proxy.port}"}))
    assert caught.value.retryable


async def test_a_proxy_that_says_nothing_is_not_waited_for_without_end() -> None:
    def wait(client: socket.socket, file: BinaryIO) -> None:
        exactly(file, 10_000)

    with listening(wait) as port:
        way = routes(environ={"HTTPS_PROXY": f"http://127.0.0.1:{port}"})
        http = Http("https://api.example/v1", {}, Timeouts(connect=0.05), way)
        why = rf"through the proxy .*:{port} .*: no connection within 0.05 seconds"
        with pytest.raises(UpstreamUnreachable, match=why):
            async with soon(), http.post(b"{}"):
                pass


def test_a_server_whose_certificate_is_not_trusted_is_refused_through_a_proxy(
    runner: asyncio.Runner, certificate: Path
) -> None:
    async def run() -> None:
        async with upstream(certificate) as (port, asked), ProxyServer({"localhost": port}).running() as proxy:
            with pytest.raises(UpstreamUnreachable, match="certificate verify failed"):
                await ask("https://localhost/", routes(environ={"HTTPS_PROXY": f"127.0.0.1:{proxy.port}"}))
        assert asked == []

    runner.run(run())
