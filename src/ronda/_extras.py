"""Extras: what Ronda does with packages that `pip install ronda` does not bring → one sentence where they are missing.

`pyproject.toml` says which versions an extra brings; the names here are those that are imported. A check imports nothing.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final, Literal, TypeAlias

from ronda.errors import BadConfig

Extra: TypeAlias = Literal[
    "cli",
    "dbos",
    "files",
    "local",
    "mcp",
    "metrics",
    "oidc",
    "otel",
    "page",
    "postgres",
    "prices",
    "redact",
    "s3",
    "schedules",
    "server",
    "web",
]


class MissingPackages(BadConfig):
    """What is asked for needs an extra that is not installed."""

    extra: Extra | None = None


MODULES: Final[dict[Extra, tuple[str, ...]]] = {
    "cli": ("prompt_toolkit",),
    "dbos": ("dbos", "psycopg", "sqlalchemy"),
    "files": ("openpyxl", "pypdf"),
    "local": ("xllamacpp",),
    "mcp": ("aiohttp", "mcp"),
    "metrics": ("prometheus_client",),
    "oidc": ("cryptography", "jwt"),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "page": ("aiohttp", "PIL", "onnxruntime"),
    "postgres": ("psycopg",),
    "prices": ("genai_prices",),
    "redact": ("re2",),
    "s3": ("minio",),
    "schedules": ("croniter",),
    "server": ("aiohttp", "starlette", "uvicorn", "websockets", *(() if sys.platform == "win32" else ("uvloop",))),
    "web": ("aiohttp", "pypdf", "trafilatura"),
}


def install(extra: Extra) -> str:
    """The command that installs an extra."""
    return f"pip install 'ronda[{extra}]'"


def has_extra(extra: Extra) -> bool:
    return all(map(_is_there, MODULES[extra]))


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a package inside of one that is not there
        return False


def check_extra(extra: Extra, user: str) -> None:
    """Raises MissingPackages where a package of the extra is missing. `user` is what needs it, such as `web_search()`."""
    if not has_extra(extra):
        missing = MissingPackages(f"{user} needs packages that are not installed: {install(extra)}")
        missing.extra = extra
        raise missing
