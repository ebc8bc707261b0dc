"""Our HTTP client over TLS: certificates that are good and such that are not, and how such a connection ends."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.providers.raw_upstream import Act
from tests.timeouts import TIMEOUT, soon

from ronda.core.limits import Timeouts
from ronda.errors import UpstreamBroken, UpstreamUnreachable
from ronda.providers.http import Http
from ronda.providers.http.transport import tls_context


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return write_certificate(tmp_path / "certificate.pem", days=1)


def write_certificate(file: Path, days: int) -> Path:
    """For `localhost`, signed by itself, good for so many days from now; key and certificate in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=9))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()) + made.public_bytes(pem)
    )
    return file


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tls_context.cache_clear()
    yield
    tls_context.cache_clear()


@asynccontextmanager
async def serving(certificate: Path, act: Act | None = None, names: list[str] | None = None) -> AsyncIterator[int]:
    """`names` gets what the client says whom it wants to speak to."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for _ in range(2):
                await reader.readuntil(b"{}")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            await reader.read()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if names is not None:
        context.sni_callback = lambda connection, name, context: names.append(name)
    server = await asyncio.start_server(act or answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def ask(url: str, body: bytes = b"{}", **timeouts: float) -> bytes:
    async with Http(url, {}, Timeouts(**timeouts)).post(body) as answer:
        return await answer.read()


@pytest.mark.usefixtures("trusted")
async def test_a_certificate_that_is_good_is_taken_and_the_connection_used_again(certificate: Path) -> None:
    names: list[str] = []
    async with serving(certificate, names=names) as port:
        answers = [await ask(f"https://localhost:{port}/v1"), await ask(f"https://localhost:{port}/v1")]

    assert answers == [b"hello", b"hello"]
    assert names == ["localhost"]


async def test_a_certificate_nobody_vouches_for_is_refused_and_not_tried_again(certificate: Path) -> None:
    async with serving(certificate) as port:
        with pytest.raises(UpstreamUnreachable, match="certificate verify failed") as error:
            await ask(f"https://localhost:{port}/v1")

    assert not error.value.retryable


@pytest.mark.usefixtures("trusted")
async def test_a_certificate_for_another_name_is_refused(certificate: Path) -> None:
    async with serving(certificate) as port:
        with pytest.raises(UpstreamUnreachable, match="IP address mismatch") as error:
            await ask(f"https://127.0.0.1:{port}/v1")

    assert not error.value.retryable


async def test_plain_http_where_tls_is_spoken_is_a_clear_error(certificate: Path) -> None:
    async with serving(certificate) as port:
        with pytest.raises(UpstreamUnreachable, match=f"http://localhost:{port}"):
            await ask(f"http://localhost:{port}/v1")


async def test_a_certificate_that_is_over_is_refused_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = write_certificate(tmp_path / "old.pem", days=-1)
    monkeypatch.setenv("SSL_CERT_FILE", str(old))
    tls_context.cache_clear()
    try:
        async with serving(old) as port:
            with pytest.raises(UpstreamUnreachable, match="certificate has expired") as error:
                await ask(f"https://localhost:{port}/v1")
    finally:
        tls_context.cache_clear()

    assert not error.value.retryable


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_tls_that_is_never_agreed_on_is_bounded_and_hung_up_on(run: Any) -> None:
    async def wait() -> None:
        gone = asyncio.Event()

        async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()  # the client's hello, and then its end
            writer.close()
            gone.set()

        server = await asyncio.start_server(act, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(UpstreamUnreachable) as error:
            await ask(f"https://127.0.0.1:{port}/", connect=0.05)
        assert str(error.value) == f"no answer from https://127.0.0.1:{port}: no connection within 0.05 seconds"
        assert error.value.retryable
        async with soon():
            await gone.wait()
        server.close()

    run(wait())


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_large_request_that_was_refused_before_it_was_out_is_not_in_the_way_of_the_next(
    certificate: Path, run: Any
) -> None:
    async def twice() -> list[bytes]:
        done = asyncio.Event()

        async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                said = b"200 OK" if b"Content-Length: 2\r\n" in head else b"413 Content Too Large"
                writer.write(b"HTTP/1.1 %b\r\nContent-Length: 3\r\n\r\n%b" % (said, said[:3]))
                await done.wait()  # what is left of the request is not read
            except OSError:
                pass
            finally:
                writer.close()

        async with serving(certificate, act) as port, soon():
            url = f"https://localhost:{port}/"
            answers = [await ask(url, b"x" * 30_000_000), await ask(url)]
            done.set()
        return answers

    assert run(twice()) == [b"413", b"200"]


@contextmanager
def ends_after(certificate: Path, answer: bytes, says_so: bool) -> Iterator[int]:
    """A server of one answer that ends its side of the connection, with TLS's word for it or without.

    It is no event loop's: theirs always say the word, and do not let any other client end the socket.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def serve() -> None:
        accepted, _ = listener.accept()
        with context.wrap_socket(accepted, server_side=True) as connection:
            asked = b""
            while not asked.endswith(b"{}"):
                asked += connection.recv(65536)
            connection.sendall(answer)
            if says_so:
                with suppress(OSError):  # the client need not answer the word, and may hang up at once
                    connection.unwrap()
            else:
                connection.shutdown(socket.SHUT_WR)  # of the socket alone: from here on it is a plain one

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(TIMEOUT)
    assert not thread.is_alive()


@pytest.mark.parametrize("says_so", [True, False], ids=["with a word", "without a word"])
def test_a_strict_client_hears_whether_the_word_was_said(certificate: Path, says_so: bool) -> None:
    """So that the test below tests what it says, with every version of Python."""
    context = ssl.create_default_context(cafile=certificate)
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # which some builds of Python set, and others do not
    with (
        ends_after(certificate, b"hello", says_so) as port,
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as plain,
        context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as connection,
    ):
        connection.sendall(b"{}")
        assert connection.recv(5) == b"hello"
        if says_so:
            assert connection.recv(1) == b""
        else:
            with pytest.raises(ssl.SSLError, match=r"(?i)eof"):  # SSLEOFError, where it is not asked for
                connection.recv(1)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("says_so", [True, False], ids=["with a word", "without a word"])
@pytest.mark.parametrize(
    ("head", "broken"),
    [(b"HTTP/1.1 200 OK\r\n", False), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n", True)],
    ids=["at the end", "in the middle"],
)
def test_a_connection_that_ends_with_or_without_the_word_tls_has_for_it(
    certificate: Path, run: Any, says_so: bool, head: bytes, broken: bool
) -> None:
    """Many servers do not say it. What has no length is then as long as it is: JSON and streams know their own end."""

    with ends_after(certificate, head + b"\r\nhello", says_so) as port:
        url = f"https://localhost:{port}/"
        if broken:
            with pytest.raises(UpstreamBroken, match="broke off: the connection was closed") as error:
                run(ask(url))
            assert error.value.retryable
        else:
            assert run(ask(url)) == b"hello"
