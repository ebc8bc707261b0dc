"""`ronda serve --tls-cert`: HTTPS without a proxy, and mistakes that are named before the server starts."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import Any, NamedTuple

import openai
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID
from tests.cli.serving import USER, Started
from tests.timeouts import TIMEOUT


class Pair(NamedTuple):
    cert: Path
    key: Path


def make_pair(folder: Path, name: str = "127.0.0.1", password: bytes | None = None) -> Pair:
    """A certificate that signed itself, for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    cert = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=365 * 80))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, SHA256())
    )
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    pair.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    hidden = serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password)
    pair.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden))
    return pair


def ask(url: str, pair: Pair) -> str:
    """The official SDK, which trusts this certificate and no other; streamed."""
    trusting = ssl.create_default_context(cafile=str(pair.cert))
    with openai.OpenAI(
        base_url=f"{url}/v1",
        api_key="any",
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=trusting, timeout=TIMEOUT),
    ) as client:
        create: Any = client.chat.completions.create
        chunks = create(model="default", messages=[USER], stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_official_client_is_answered_over_https(start: Started, tmp_path: Path, workers: str) -> None:
    pair = make_pair(tmp_path)
    start.script.write_text('["Hello."]')
    flags = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key), "--workers", workers)

    with start.serving(*start.model, *flags) as served:
        assert served.url.startswith("https://127.0.0.1:")
        assert all("http://" not in line for line in served.startup)
        answers = {ask(served.url, pair) for _ in range(4)}
        code, err = served.end()

    assert (answers, code, err) == ({"Hello."}, 0, "")


def test_a_certificate_and_its_key_may_be_one_file(start: Started, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    pair.cert.write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
    start.script.write_text('["Hello."]')

    with start.serving(*start.model, "--tls-cert", str(pair.cert)) as served:
        assert ask(served.url, pair) == "Hello."


def test_mistakes_are_named(start: Started, tmp_path: Path) -> None:
    one, other = make_pair(tmp_path, "one"), make_pair(tmp_path, "other")
    hidden = make_pair(tmp_path, "hidden", b"secret")
    empty = tmp_path / "empty.pem"
    empty.write_text("")

    def said(*flags: str) -> str:
        code, err = start.fails(*start.model, *flags)
        assert code == 2
        return err.strip().splitlines()[-1].removeprefix("ronda: ")

    assert said("--tls-key", str(one.key)) == (
        "--tls-key is of no use without --tls-cert, the certificate that it belongs to"
    )
    assert said("--tls-cert", "no.pem") == "--tls-cert: cannot read 'no.pem': No such file or directory"
    assert said("--tls-cert", str(one.cert), "--tls-key", str(other.key)) == (
        f"--tls-cert: '{one.cert}' does not belong to the private key '{other.key}'"
    )
    assert said("--tls-cert", str(empty), "--tls-key", str(one.key)).startswith(
        f"--tls-cert: '{empty}' must be a certificate in PEM form, with the private key '{one.key}': "
    )
    assert "(--tls-key says where it is)" in said("--tls-cert", str(one.cert))
    assert "the private key has a password" in said("--tls-cert", str(hidden.cert), "--tls-key", str(hidden.key))
