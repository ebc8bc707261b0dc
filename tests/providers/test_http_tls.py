"""Our HTTP client over TLS: a certificate that is good, one that nobody vouches for, one for another name."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ronda.core.limits import Timeouts
from ronda.errors import UpstreamUnreachable
from ronda.providers.http import Http
from ronda.providers.http.pool import _tls


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """For `localhost`, signed by itself; key and certificate in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    file = tmp_path / "certificate.pem"
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()) + made.public_bytes(pem)
    )
    return file


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    _tls.cache_clear()
    yield
    _tls.cache_clear()


@asynccontextmanager
async def serving(certificate: Path) -> AsyncIterator[int]:
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
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def ask(url: str) -> bytes:
    async with Http(url, {}, Timeouts()).post(b"{}") as answer:
        return await answer.read()


@pytest.mark.usefixtures("trusted")
async def test_a_certificate_that_is_good_is_taken_and_the_connection_used_again(certificate: Path) -> None:
    async with serving(certificate) as port:
        answers = [await ask(f"https://localhost:{port}/v1"), await ask(f"https://localhost:{port}/v1")]

    assert answers == [b"hello", b"hello"]


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
