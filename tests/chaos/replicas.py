"""Two servers and a worker on one PostgreSQL: one is killed, one frozen, one cut off, and the database restarted."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from tests.chaos.cut import Cut
from tests.chaos.load import Load, Model, Process, Summary
from tests.chaos.namespace import Namespace, NoNamespace, open_namespace
from tests.postgres import PostgresServer

_SCHEMA: Final = "replicas"


def trouble(
    load: Load, model: Model, database: PostgresServer, runs: int, queue: Sequence[str] = (), scale: float = 1.0
) -> tuple[Summary, str]:
    """What came of it, and in which way one was cut off. The database is started, and stopped again. `scale`: of all that takes
    time: the tool, the pauses between one trouble and the next, the lease of a process."""
    with ExitStack() as stack:
        namespace: Namespace | None = None
        how = "in a network namespace of its own"
        try:
            namespace = stack.enter_context(open_namespace())
        except NoNamespace as error:
            how = f"by a proxy, since network namespaces are not to be had here: {error}"
        else:
            database.listen(namespace.database.here)
        database.start()
        stack.callback(database.stop)
        database.make_schema(_SCHEMA)
        url = f"{database.url}?options=-csearch_path%3D{_SCHEMA}"
        flags = [*queue, "--lease-seconds", str(5 * scale), "--database"]
        pause = 0.8 * scale
        killed = Process(load.folder, model.flags, *flags, url, pause=pause)
        frozen = Process(load.folder, model.flags, *flags, url, command="worker", pause=pause)
        cable: Cut | Namespace
        if namespace is None:
            cable = stack.enter_context(Cut(url).open())
            cut_off = Process(load.folder, model.flags, *flags, cable.url, pause=pause)
        else:
            cable, address = namespace, namespace.others.there
            cut_off = Process(
                load.folder,
                model.flags_at(namespace.others.here),
                *flags,
                url,
                *("--host", address, "--insecure"),
                pause=pause,
                within=namespace.command,
                address=address,
            )
        return _trouble(load, database, cable, killed, frozen, cut_off, runs, scale), how


def _trouble(
    load: Load,
    database: PostgresServer,
    cable: Cut | Namespace,
    killed: Process,
    frozen: Process,
    cut_off: Process,
    runs: int,
    scale: float,
) -> Summary:
    def rest(seconds: float) -> None:
        time.sleep(seconds * scale)

    everybody = (killed, cut_off, frozen)
    try:
        for one in everybody:
            one.start()
        for number in range(runs):
            assert load.begin((killed, cut_off)[number // 2 % 2])
        rest(0.5)
        killed.kill()
        rest(1)
        frozen.send(signal.SIGSTOP)
        rest(1)
        cable.cut()
        killed.start()
        rest(7)
        frozen.send(signal.SIGCONT)
        cable.mend()
        rest(2)
        database.stop("immediate")
        rest(3)
        database.start()
        left = load.await_all(killed)
        summary = load.summary(killed)
        summary.wrong += [f"{run} is wedged" for run in left]
        for server in (killed, cut_off):  # nothing is wedged: who was in trouble serves as before
            assert load.begin(server)
            assert load.begin(server)
        summary.wrong += [f"{run}, which came afterwards, is wedged" for run in load.await_all(cut_off)]
    finally:
        for one in everybody:
            one.send(signal.SIGCONT)
            one.kill()
    return summary


def outage(
    load: Load, model: Model, database: PostgresServer, queue: Sequence[str], runs: int, seconds: float
) -> Summary:
    """The database is away while two servers have runs under way. Nothing dies, so no outcome may be unknown."""
    database.listen("127.0.0.1")
    database.start()
    flags = [*queue, "--database", f"{database.url}?options=-csearch_path%3Doutage"]
    servers = [Process(load.folder, model.flags, *flags, pause=2.0) for _ in range(2)]
    try:
        database.make_schema("outage")
        for one in servers:
            one.start()
        for number in range(runs):
            assert load.begin(servers[number // 2 % 2])
        database.stop("immediate")
        time.sleep(seconds)
        database.start()
        left = load.await_all(servers[0])
        summary = load.summary(servers[0])
        summary.wrong += [f"{run} is wedged" for run in left]
        if (summary.unknown, summary.states["finished"]) != (0, runs):
            summary.wrong.append(f"{summary.unknown} outcomes are unknown, and {summary.states} are the ends")
    finally:
        for one in servers:
            one.kill()
        database.stop()
    return summary
