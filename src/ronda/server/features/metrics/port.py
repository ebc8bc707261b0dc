"""The port that has only figures: of this machine, and for names of this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import make_wsgi_app

from ronda.errors import BadConfig
from ronda.server.http.browser_guard import is_loopback, name_of

HOST: Final = "127.0.0.1"


class _Port(ThreadingMixIn, WSGIServer):
    daemon_threads = True  # a scrape under way keeps no server from ending


class _SharedPort(_Port):
    allow_reuse_port = True  # the workers of a server listen on it together, and each has the figures of all


class _Silent(WSGIRequestHandler):
    timeout = 10  # seconds for a client that connects and says nothing

    def log_message(self, template: str, *arguments: object) -> None:
        """Scrapes are not logged."""


class MetricsPort:
    def __init__(self, port: int, registry: CollectorRegistry, *, is_shared: bool) -> None:
        """Raises BadConfig where it cannot listen."""
        kind: type[WSGIServer] = _SharedPort if is_shared else _Port
        try:
            self._server = make_server(HOST, port, _guarded(make_wsgi_app(registry)), kind, handler_class=_Silent)
        except OSError as error:
            raise BadConfig(
                f"cannot listen on {HOST}:{port}: {error.strerror}; choose another port with --metrics-port"
            ) from error
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="ronda-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _guarded(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """A page whose name was pointed at this machine asks under that name: it gets nothing."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if not is_loopback(name_of(environ.get("HTTP_HOST", "").encode("latin-1"))):
            start("403 Forbidden", [("content-type", "text/plain")])
            return [b"ask for this port as localhost\n"]
        if environ.get("PATH_INFO") != "/metrics":
            start("404 Not Found", [("content-type", "text/plain")])
            return [b"on this port there is /metrics only\n"]
        return app(environ, start)

    return answer
