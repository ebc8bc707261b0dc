"""How many instructions a round or a request takes, counted by callgrind: a figure that no neighbour on the machine changes.

A process does the same thing a few times, to warm up; then its counts are set to zero, it does it many times, and they are
written down. Its memory is laid out anew in each process, so two counts of the same code agree to a few in a hundred, not to the
last one.
"""

import compileall
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvloop
from bench.bars import Section, Side, aligned
from bench.client import Expect, ask_once, fault
from bench.processes import ROOT, BenchError, Child, Command, free_port
from bench.sections import CHAT, ROUNDS, Bench, fake, loop_command, say, serve_command, start_server

FEW, MANY = 10, 40
SECONDS = 300.0  # callgrind makes a program some fifty times slower


def count_instructions(bench: Bench, wanted: set[Section]) -> str:
    """A table of this commit beside the other one, or why there is none."""
    if shutil.which("valgrind") is None:
        return "Instructions were not counted: valgrind is not installed."
    for side in bench.ronda:  # a first start would count the compiler's instructions, too
        compileall.compile_dir(bench.tree(side) / "src", quiet=2)
    figures: dict[str, tuple[Callable[[Side], int], int]] = {}
    if "library" in wanted:
        for mode in ("plain", "stream"):
            figures[f"library, {mode}: per round"] = partial(count_library, bench, mode), ROUNDS + 1
    if "server" in wanted:
        figures["server, plain: per request"] = partial(count_server, bench, 0, False), 1
        figures["server, streamed: per request"] = partial(count_server, bench, 0, True), 1
        figures["server, 10-round loop: per request"] = partial(count_server, bench, ROUNDS, False), 1
    lines = []
    for figure, (count, units) in figures.items():
        now, before = (count(side) / MANY / units / 1000 for side in ("ours", "before"))
        say(f"  {figure}: {now:.0f} and {before:.0f} thousand instructions")
        lines.append([figure, f"{now:.0f}", f"{before:.0f}", f"{now / before:.3f}×"])
    return "Instructions, in thousands:\n\n" + aligned(["figure", "now", "before", "ratio"], lines)


def count_library(bench: Bench, mode: str, side: Side) -> int:
    name = f"counted-library-{mode}-{side}"
    command, counts = counted(bench, name, loop_command(bench, side, ROUNDS, mode))
    core = bench.children.cores.tested
    child = bench.children.start_talking(name, command, core=core, tree=bench.tree(side))

    def repeat(times: int) -> None:
        child.tell(f"repeat {times}")
        child.hear(SECONDS)

    return count(child, counts, repeat)


def count_server(bench: Bench, rounds: int, stream: bool, side: Side) -> int:
    name = f"counted-server-{rounds}-{stream}-{side}"
    port = free_port()
    tools = ("--tools", ROOT / "bench" / "tools.py") if rounds else ()
    command, counts = counted(bench, name, serve_command(bench, name, fake(rounds), port, *tools))
    server = start_server(bench, name, command, port, bench.tree(side), SECONDS)

    async def ask(times: int) -> None:
        expect = Expect(await bench.said(fake(0), stream=stream), streamed=stream, records=rounds)
        for _ in range(times):
            answer = await ask_once(server.target(CHAT, fake(rounds), stream))
            if wrong := fault(answer, expect):
                raise BenchError(f"{name}: {wrong}")

    return count(server.child, counts, lambda times: uvloop.run(ask(times)))


def counted(bench: Bench, name: str, command: Command) -> tuple[list[str | Path], Path]:
    counts = bench.children.folder / f"{name}.counts"
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", *command], counts


def count(child: Child, counts: Path, repeat: Callable[[int], None]) -> int:
    repeat(FEW)
    control(child, "--zero")
    repeat(MANY)
    control(child, "--dump")
    child.end()
    dump = counts.with_name(counts.name + ".1")
    found = re.search(r"^(?:summary|totals): (\d+)", dump.read_text(), re.MULTILINE) if dump.exists() else None
    if found is None:
        raise BenchError(f"callgrind counted nothing of {child.name}: {child.last_words()}")
    return int(found[1])


def control(child: Child, order: str) -> None:
    done = subprocess.run(
        ["callgrind_control", order, str(child.process.pid)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode:
        raise BenchError(f"callgrind_control {order} of {child.name}: {done.stderr.strip()}")
