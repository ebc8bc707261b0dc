"""What it costs to run code in a sandbox: a new session's first call, warm calls, first calls from the pool, 32 sessions at once.

The last rows of `make bench`. Each time stands beside a plain `python -c pass` of the same Python in the same run: a ratio says
more than milliseconds of an unknown machine. The bars are 150 ms for a cold start, 1 ms for a warm call, 10 ms from the pool.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ronda.drive import ToolContext
from ronda.errors import BadConfig
from ronda.files.workspaces import Workspaces
from ronda.sandbox.layers import choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.sandbox.processes import exact_memory, tree
from ronda.tools.code.python import PythonTool
from ronda.tools.code.workbench import Workbench

TRIES = 9
WARM_CALLS = 200
CROWD = 32


class Bench:
    def __init__(self, root: Path) -> None:
        workspaces = Workspaces(root / "work")
        self._count = 0
        self.workbench = Workbench(
            Policy(),
            lambda context: workspaces.folder(context.owner, context.session),
            outside=os.environ,
            python=sys.executable,
            layers=find_layers(),
            spares=workspaces,
            pool=1,
        )
        self._tool = PythonTool(self.workbench)

    def new_session(self) -> str:
        self._count += 1
        return f"s{self._count}"

    async def call(self, session: str) -> float:
        """Milliseconds of a call, as a run makes it: with a look at the files before and after."""
        context = ToolContext("run", session, 0, "call")
        begun = time.perf_counter()
        output = await self._tool.run({"code": "1 + 1"}, context)
        taken = (time.perf_counter() - begun) * 1000
        assert '"result":"2"' in output.content, output.content
        return taken

    async def execute(self, session: str) -> float:
        """Milliseconds of the exchange with a session's Python alone."""
        async with self.workbench.use(ToolContext("run", session, 0, "call")) as opened:
            begun = time.perf_counter()
            await opened.execute("1 + 1", timeout=60.0, show=lambda text, stream: None)
            return (time.perf_counter() - begun) * 1000

    async def memory(self, session: str) -> float | None:
        """Megabytes of an idle session."""
        async with self.workbench.use(ToolContext("run", session, 0, "call")) as opened:
            [process] = opened.sandbox._running
            found = exact_memory(tree(process.pid))
        return None if found is None else found / (1 << 20)


def plain_python(executable: str) -> float:
    begun = time.perf_counter()
    subprocess.run([executable, "-c", "pass"], check=True)
    return (time.perf_counter() - begun) * 1000


async def median(measure: Callable[[], Awaitable[float]], tries: int = TRIES) -> float:
    return statistics.median([await measure() for _ in range(tries)])


async def measure(root: Path) -> bool:
    bench = Bench(root)
    await bench.call("first")  # what is found out once: the interpreter, the worker's text
    async with bench.workbench.use(ToolContext("run", "first", 0, "call")) as opened:
        inside, layer = opened.sandbox.interpreter.executable, opened.sandbox.layer
    floor = statistics.median([plain_python(inside) for _ in range(TRIES)])
    cold = await median(lambda: bench.call(bench.new_session()))
    call = await median(lambda: bench.call("first"), WARM_CALLS)
    warm = await median(lambda: bench.execute("first"), WARM_CALLS)

    async def pooled() -> float:
        await bench.workbench.fill_pool()
        return await bench.call(bench.new_session())

    from_pool = await median(pooled)
    memory = await bench.memory("first")
    await bench.workbench.close_idle(0)
    names = [bench.new_session() for _ in range(CROWD)]
    begun = time.perf_counter()
    await asyncio.gather(*[bench.call(name) for name in names])
    crowd_cold = (time.perf_counter() - begun) * 1000
    begun = time.perf_counter()
    await asyncio.gather(*[bench.call(name) for name in names])
    crowd_warm = (time.perf_counter() - begun) * 1000
    await bench.workbench.close()
    print(f"\ncode in a sandbox ({layer}; python -c pass takes {floor:.1f} ms)")
    rows = [
        ("first call of a new session", cold, 150.0),
        ("warm call: the exchange with Python", warm, 1.0),
        ("warm call, with a look at the files", call, None),
        ("first call from the pool", from_pool, 10.0),
        (f"{CROWD} new sessions at once, each", crowd_cold / CROWD, None),
        (f"{CROWD} warm calls at once, each", crowd_warm / CROWD, None),
    ]
    for name, value, bar in rows:
        verdict = "" if bar is None else f"  bar {bar:g} ms: {'reached' if value <= bar else 'MISSED'}"
        print(f"  {name:<40} {value:8.2f} ms  {value / floor:7.3f} × python -c{verdict}")
    if memory is not None:
        print(f"  {'memory of an idle session':<40} {memory:8.1f} MB")
    return all(bar is None or value <= bar for _, value, bar in rows)


def main() -> int:
    try:
        choose_layer(Policy(), find_layers())
    except BadConfig as error:
        print(f"code in a sandbox: not measured: {error}")
        return 0
    root = Path(tempfile.mkdtemp(prefix="ronda-bench-"))
    root.chmod(0o755)
    try:
        return 0 if asyncio.run(measure(root)) else 1
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
