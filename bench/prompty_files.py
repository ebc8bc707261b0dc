"""What a prompty file costs before a model is called: loaded and prepared, by us and by the `prompty` package.

As a process it is the one under test: orders on stdin, the CPU milliseconds of one load and one prepare on stdout. The
first time is not counted: files are loaded again and again, and what can be kept of them is kept.
"""

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.bars import Side
from bench.processes import ROOT, Child, python
from bench.sections import Bench

FILE = ROOT / "bench" / "typical.prompty"
KEY = "prompty prepare"
SECONDS = 0.3
THREAD = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day. How can I help?"}]
INPUTS = {"conversation": THREAD, "question": "Where is my order?"}
SAID = ["system", "user", "assistant", "user"]


def prompty_missing() -> str:
    """Why there is nothing to compare with, if there is not."""
    if importlib.util.find_spec("prompty") is None:
        return "the `prompty` package is not installed, so ours is measured alone; 'pip install prompty' gets it"
    return ""


def measure_prompty(bench: Bench) -> None:
    sides = bench.ronda if prompty_missing() else bench.sides
    started = {side: start_side(bench, side) for side in sides}
    for turn in range(3 * bench.plan.runs + 1):
        for side, child in started.items():
            child.tell(str(SECONDS))
            cost = float(child.hear())
            if turn:  # the first is to warm up
                bench.note(KEY, side, cost)
    for child in started.values():
        child.end()


def start_side(bench: Bench, side: Side) -> Child:
    command = python("-m", "bench.prompty_files", "floor" if side == "floor" else "ours")
    core = bench.children.cores.tested
    return bench.children.start_talking(f"prompty-{side}", command, core=core, tree=bench.tree(side))


# ---- the process under test -------------------------------------------------------------------------------------------


def work_of(side: str) -> Callable[[Path], list[Any]]:
    if side == "ours":
        from ronda import load, prepare

        return lambda path: prepare(load(path), INPUTS)
    warnings.simplefilter("ignore")
    import prompty

    return lambda path: list(prompty.prepare(prompty.load(path), INPUTS))


def cost(work: Callable[[Path], list[Any]], seconds: float) -> float:
    """CPU milliseconds of one load and one prepare."""
    times = 0
    began = time.process_time()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        messages = work(FILE)
        times += 1
    spent = time.process_time() - began
    if [str(message.role) for message in messages] != SAID:
        raise SystemExit(f"wrong messages: {messages!r}")
    return 1000 * spent / times


def main() -> None:
    work = work_of(sys.argv[1])
    while line := sys.stdin.readline():
        print(cost(work, float(line)), flush=True)


if __name__ == "__main__":
    main()
