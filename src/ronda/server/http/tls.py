"""The files of --tls-cert and --tls-key → what encrypts connections; or an error that names the file and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ronda.errors import BadConfig

if TYPE_CHECKING:
    from ssl import SSLContext


def open_tls(cert: str, key: str | None) -> SSLContext:
    import ssl  # 2 MB, and most servers stand behind a proxy

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 and newer
    load_tls(context, cert, key)
    return context


def load_tls(context: SSLContext, cert: str, key: str | None) -> None:
    """Into a context that is in use, too: connections that come from now on get the new certificate."""
    import ssl

    for flag, path in (("--tls-cert", cert), ("--tls-key", key)):
        if path is not None:
            _check_readable(flag, path)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        where = "its private key (--tls-key says where it is)" if key is None else f"the private key {key!r}"
        if reason == "KEY_VALUES_MISMATCH":
            raise BadConfig(f"--tls-cert: {cert!r} does not belong to {where}") from error
        raise BadConfig(f"--tls-cert: {cert!r} must be a certificate in PEM form, with {where}: {reason}") from error


def _check_readable(flag: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise BadConfig(f"{flag}: cannot read {path!r}: {error.strerror}") from error


def _no_password() -> str:
    """Without this OpenSSL would ask at the terminal, for ever where there is none."""
    raise ValueError("the private key has a password; write it without one (openssl pkey -in KEY -out FILE)")
