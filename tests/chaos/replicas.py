"""Two servers and a worker on one PostgreSQL: one is killed, one frozen, one cut off, and the database restarted."""

from __future__ import annotations

import signal
import time

from tests.chaos.cut import Cut
from tests.chaos.load import Load, Model, Process, Summary
from tests.postgres import PostgresServer


def trouble(load: Load, model: Model, database: PostgresServer, url: str, runs: int, scale: float = 1.0) -> Summary:
    """`scale`: of all that takes time: the tool, the pauses between one trouble and the next, the lease of a process."""

    def rest(seconds: float) -> None:
        time.sleep(seconds * scale)

    pause = 0.8 * scale
    with Cut(url).open() as cut:
        lease = ["--lease-seconds", str(5 * scale)]
        killed = Process(load.folder, model, "--database", url, *lease, pause=pause)
        cut_off = Process(load.folder, model, "--database", cut.url, *lease, pause=pause)
        frozen = Process(load.folder, model, "--database", url, *lease, command="worker", pause=pause)
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
            cut.cut()
            killed.start()
            rest(7)
            frozen.send(signal.SIGCONT)
            cut.mend()
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
