"""The loop behind HTTP: doors that speak other people's dialects, and the runs behind them.

`create_app` is the server as an app for another app.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ronda.server.mounted_app import create_app as create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> Any:
    """Found when it is asked for: a program that wants one module of this folder need not load them all."""
    if name != "create_app":
        raise AttributeError(f"module 'ronda.server' has no attribute {name!r}")
    from ronda._extras import check_extra

    check_extra("server", "create_app()")
    from ronda.server.mounted_app import create_app

    return create_app
