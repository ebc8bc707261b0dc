"""`ronda serve`: flags and a TOML file → ServerConfig → a server."""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ronda._extras import check_extra
from ronda.cli.settings import read_config
from ronda.cli.workers import NOT_STARTED, Worker, Workers, count_workers
from ronda.errors import BadConfig
from ronda.server.config import ServerConfig
from ronda.server.features.table import wanted
from ronda.store import StoreError
from ronda.store.catalog import Catalog

if TYPE_CHECKING:
    from ssl import SSLContext

    import uvicorn

    from ronda.cli.process import Signals
    from ronda.cli.startup import Started
    from ronda.journal import Journal
    from ronda.server.app import App, Server
    from ronda.server.features.contract import Feature
    from ronda.server.http.body_memory import BodyMemory
    from ronda.server.storage import SharedDatabase

_UNSENT = 128 * 1024  # bytes that wait in the system to be sent to one client
_PORT_ERRORS = (errno.EADDRINUSE, errno.EACCES)


def serve(arguments: argparse.Namespace) -> int:
    check_extra("server", "'ronda serve'")
    config = read_config(arguments)
    worker = Worker.of_environment()
    with ExitStack() as open_sockets:
        if worker is None:
            ports = [config.port] if config.mcp_port is None else [config.port, config.mcp_port]
            listeners = [open_sockets.enter_context(_listen(config.host, port)) for port in ports]
            if (count := count_workers(config)) > 1:
                died = open_sockets.enter_context(_figures_of_workers(config))
                return Workers(count, listeners, died).run()
        else:
            listeners = [open_sockets.enter_context(listener) for listener in worker.listeners]
        runner = open_sockets.enter_context(asyncio.Runner(loop_factory=_loop))
        return runner.run(_serve(config, listeners, worker, partial(read_config, arguments)))


@contextmanager
def _figures_of_workers(config: ServerConfig) -> Iterator[Callable[[int], None]]:
    """Where workers keep their figures, and what takes away those of now of one that has ended."""
    from ronda.server.features.metrics.settings import MetricsOptions, MetricsSettings

    if config.part(MetricsSettings).metrics == MetricsOptions():
        yield lambda pid: None
        return
    check_extra("metrics", "--metrics")
    from prometheus_client import multiprocess

    mark_dead: Callable[[int, str], None] = multiprocess.mark_process_dead
    with TemporaryDirectory(prefix="ronda-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # read by prometheus-client when a worker imports it
        yield lambda pid: mark_dead(pid, folder)


def worker(arguments: argparse.Namespace) -> int:
    """`ronda worker`: a server that listens on no port, and drives what others queue or leave."""
    check_extra("server", "'ronda worker'")
    config = read_config(arguments)
    if config.database is None:
        raise BadConfig(
            "a worker shares a database with servers: say which with --database; on one machine, --workers will do"
        )
    with asyncio.Runner(loop_factory=_loop) as runner:
        return runner.run(_serve(config, [], None, partial(read_config, arguments)))


def _loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


async def _serve(
    config: ServerConfig, listeners: Sequence[socket.socket], worker: Worker | None, read: Callable[[], ServerConfig]
) -> int:
    from ronda.cli.process import EndedBeforeStart, NotStarted, Signals, end_all
    from ronda.server.storage import open_shared

    signals = Signals(config.shutdown_seconds)
    shared: SharedDatabase | None = None
    with signals.handled(), suppress(EndedBeforeStart):
        if worker is not None:
            worker.end_with_parent(asyncio.get_running_loop())
        shared = await asyncio.to_thread(open_shared, config)
        try:
            await _start(config, listeners, signals, worker, shared, read)
        except NotStarted as error:
            print(f"ronda: {error}", file=sys.stderr, flush=True)
            return NOT_STARTED
    await end_all(signals.exit_code, leaves_threads=shared is not None and shared.database.waits.is_over)
    return signals.exit_code


async def _start(
    config: ServerConfig,
    listeners: Sequence[socket.socket],
    signals: Signals,
    worker: Worker | None,
    shared: SharedDatabase | None,
    read: Callable[[], ServerConfig],
) -> None:
    """`read` reads the settings again. `listeners`: for all doors, and the one for MCP only where there is one."""
    from ronda.cli.process import Process
    from ronda.cli.reload import Reloader
    from ronda.journal.sqlite import SqliteJournal
    from ronda.server.app import create_app
    from ronda.server.services.peers import Peers
    from ronda.server.storage import join_replicas, open_catalog, open_journal

    folder, classes = data_folder(config), wanted(config)
    catalog = await asyncio.to_thread(open_catalog, folder, shared, config.queue, classes)  # DBOS takes a second
    has_keys = await _has_keys(config, catalog)
    journal = open_journal(folder, config, shared)
    server = await _make_server(config, classes, catalog, journal)
    join_replicas(server, shared)
    app = create_app(server)
    mcp_port = listeners[1].getsockname()[1] if listeners[1:] else None
    settings = http_settings(app, config, server.body_memory, mcp_port)
    signals.check()
    for line in await signals.loaded(server.models.load()):
        print(line, file=sys.stderr, flush=True)
    _collect_less_often()
    is_quiet = worker is not None and worker.number != 0  # the first worker speaks for all
    signals.process = Process(
        settings,
        up=partial(_is_up, server, listeners, signals, is_quiet=is_quiet, has_keys=has_keys),
        before_end=partial(server.stop, config.shutdown_seconds),
    )
    signals.reload = Reloader(server, app, signals.process, read, is_quiet=is_quiet).ask
    signals.check()
    if worker is None or folder is None or not isinstance(journal, SqliteJournal):
        await signals.process.serve(list(listeners))
        return
    peers = server.others.peers = Peers(folder / "journal.db", journal)
    try:
        await signals.process.serve([*listeners, peers.listen()])
    finally:
        peers.close()


async def _make_server(
    config: ServerConfig, classes: Sequence[type[Feature]], catalog: Catalog, journal: Journal
) -> Server:
    from ronda.server.app import Server
    from ronda.server.features.contract import Folders
    from ronda.server.features.running import prepare_features
    from ronda.server.storage import open_blobs

    folder = data_folder(config)
    given = await asyncio.to_thread(prepare_features, classes, config, Folders(folder, state_folder()), {})
    return Server(
        config,
        journal,
        catalog=catalog,
        blobs=open_blobs(folder, config.file_store),
        features=classes,
        given=given,
        data_folder=folder,
    )


def _collect_less_often() -> None:
    gc.collect()
    gc.freeze()  # what is loaded now stays: no need to look at it in every collection
    # Requests leave no cycles: looking for some every 700 objects took a quarter of their time.
    gc.set_threshold(20_000, 20, 20)


def http_settings(
    app: App, config: ServerConfig, body_memory: BodyMemory, mcp_port: int | None = None
) -> uvicorn.Config:
    import uvicorn

    from ronda.cli.process import CONNECTION_SECONDS
    from ronda.server.doors.mcp.route import McpPort
    from ronda.server.http.protocol import BoundedProtocol

    return uvicorn.Config(
        app if mcp_port is None else McpPort(app, mcp_port),
        http=partial(  # type: ignore[arg-type]  # called as its class is
            BoundedProtocol,
            error_writer=app.error_writer,
            header_seconds=config.header_seconds,
            body_seconds=config.body_seconds,
            body_rate=config.body_rate,
            max_body_seconds=config.max_body_seconds,
            stall_seconds=config.stall_seconds,
        ),
        ssl_certfile=config.tls_cert,
        ssl_keyfile=config.tls_key,
        ssl_context_factory=None if config.tls_cert is None else _encrypts(config.tls_cert, config.tls_key),
        log_level="warning",
        access_log=False,  # `features/request_log` writes one: uvicorn's has the query string, and no run
        # Longer than clients keep an idle connection (httpx and most SDKs: 5 seconds): no request should meet its end.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=CONNECTION_SECONDS,
        server_header=False,
        date_header=False,
        ws=partial(  # type: ignore[arg-type]  # as above
            _open_socket, stall_seconds=config.stall_seconds, memory=body_memory
        ),
        ws_max_size=config.max_body,
        ws_per_message_deflate=False,  # a few bytes could unpack to all that is allowed, in one go
        proxy_headers=False,
    )


def _encrypts(cert: str, key: str | None) -> Callable[..., SSLContext]:
    from ronda.server.http.tls import open_tls

    return lambda *_: open_tls(cert, key)


def _open_socket(*arguments: Any, **options: Any) -> asyncio.Protocol:
    from ronda.server.http.sockets import BoundedSockets  # 2 MB, needed when one is opened

    return BoundedSockets(*arguments, **options)


async def _has_keys(config: ServerConfig, catalog: Catalog) -> bool:
    """Whether only those with a key are let in. Where everybody would be, that must be said, or they must be on this machine."""
    from ronda.server.features.trusted_proxy.settings import TrustedProxySettings
    from ronda.server.http.browser_guard import is_loopback

    try:
        has_keys = bool(await catalog.keys.all())
    except StoreError as error:
        raise BadConfig(f"{error} ({'--data-dir' if config.database is None else '--database'} says where)") from error
    trusts_proxy = bool(config.part(TrustedProxySettings).trust_user_header)  # then no unknown user is let in
    if has_keys or config.insecure or trusts_proxy or is_loopback(config.host):
        return has_keys or trusts_proxy
    if config.database is not None:
        way_out = "make one with 'ronda keys create --owner NAME --database URL'"
    elif data_folder(config) is None:
        way_out = "keep keys in a folder with --data-dir and make one"
    else:
        place = "" if config.data_dir is None else f" --data-dir {config.data_dir}"
        way_out = f"make one with 'ronda keys create --owner NAME{place}'"
    raise BadConfig(
        f"others than this machine can reach {config.host}, and there are no API keys: {way_out}, "
        "or let everybody in with --insecure"
    )


def _is_up(
    server: Server, listeners: Sequence[socket.socket], signals: Signals, *, is_quiet: bool, has_keys: bool
) -> None:
    if not is_quiet:
        from ronda.cli.startup import Started

        config, lines = server.config, server.features.startup_lines()
        _say_up(Started(config, server.toolbox.names, lines, data_folder(config), has_keys), listeners)
    signals.is_up()


def _say_up(started: Started, listeners: Sequence[socket.socket]) -> None:
    from ronda.cli.startup import startup_lines, worker_line

    if not listeners:
        print(worker_line(started), file=sys.stderr, flush=True)
        return
    host, port = listeners[0].getsockname()[:2]
    lines = startup_lines(started, host, port)
    for one in listeners[1:]:
        lines.insert(0, f"an MCP server, and nothing else, is on port {one.getsockname()[1]} (/mcp)")
    print(*lines, sep="\n", file=sys.stderr, flush=True)


def _listen(host: str, port: int) -> socket.socket:
    """Bound before anything else is opened: a port that is taken is the commonest thing to go wrong."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # else the system takes megabytes for a client that reads nothing
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
        listener.listen(2048)  # from here on no client is refused: one that comes before the server is up waits
    except OSError as error:
        if listener is not None:
            listener.close()
        way_out = (
            "another port with " + _port_option(port) if error.errno in _PORT_ERRORS else "another address with --host"
        )
        raise BadConfig(f"cannot listen on {host}:{port}: {error.strerror}; choose {way_out}") from error
    listener.set_inheritable(True)
    return listener


def _port_option(port: int) -> str:
    """A person who typed `make serve` has never seen our flags; the Makefile says that it was make."""
    return f"'make serve PORT={port + 1}'" if os.environ.get("RONDA_STARTED_BY") == "make" else "--port"


def data_folder(config: ServerConfig) -> Path | None:
    """Where runs and conversations are kept, if they are."""
    if config.data_dir == ":memory:":
        return None
    return Path(config.data_dir) if config.data_dir is not None else state_folder()


def state_folder() -> Path:
    """Where programs keep what should survive a restart: never the working directory."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "ronda"
