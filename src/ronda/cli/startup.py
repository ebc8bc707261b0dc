"""What `ronda serve` prints once it is up: where it is, what it has, where conversations go, and how to ask a first question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ronda._version import __version__
from ronda.server.config import ServerConfig
from ronda.server.http.browser_guard import is_loopback


class Started(Struct, frozen=True):
    """What there is to say of a server: its settings, the names of its tools, and the lines of its features."""

    config: ServerConfig
    tools: Sequence[str]
    feature_lines: Sequence[str]
    folder: Path | None  # where runs and conversations are kept, if they are
    has_keys: bool


def startup_lines(started: Started, host: str, port: int) -> list[str]:
    config, folder, has_keys = started.config, started.folder, started.has_keys
    scheme = "http" if config.tls_cert is None else "https"
    lines = [f"ronda {__version__} on {scheme}://{_bracket_host(host)}:{port}  model {config.model}{_tools(started)}"]
    lines += started.feature_lines
    if config.database is not None:
        where = "in memory" if folder is None else f"in {_home_as_tilde(folder)}, which all servers should share"
        lines.append(f"conversations are kept in the database for {config.journal_max_days:g} days, files {where}")
    elif folder is None:
        lines.append("conversations are kept in memory, until the server ends (--data-dir DIR keeps them in a folder)")
    else:
        lines.append(
            f"conversations are kept in {_home_as_tilde(folder)} for {config.journal_max_days:g} days (--data-dir)"
        )
    if not has_keys and not is_loopback(host):
        lines.append("everybody who can reach this machine may use the server: there are no API keys (--insecure)")
    # A server that listens everywhere is also here.
    near = _bracket_host({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host))
    # A question that the small default model answers well; of capitals it writes nonsense.
    question = '{"messages": [{"role": "user", "content": "Why is the sky blue?"}]}'
    if not config.no_ui:
        lines.append(f"open {scheme}://{near}:{port}/ui in a browser")
    lines.append("ask it something from another terminal:")
    key = " -H 'Authorization: Bearer KEY'" if has_keys else ""
    lines.append(
        f"  curl {scheme}://{near}:{port}/v1/chat/completions -H 'Content-Type: application/json'{key} -d '{question}'"
    )
    return lines


def worker_line(started: Started) -> str:
    return f"ronda {__version__} drives background runs of the database  model {started.config.model}{_tools(started)}"


def _tools(started: Started) -> str:
    """Those that every request has; a server without any need not speak of them."""
    names = ", ".join(started.tools)
    return f"  tools {names}" if names else ""


def _bracket_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _home_as_tilde(folder: Path) -> str:
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)
