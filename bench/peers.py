"""What the same loop costs in other libraries.

    make bench-peers                    # or: python -m bench.peers [NAME …]

Each library gets a virtual environment of its own in `build/peers`, from the package index; none of them is in our lock files.
All of them, Ronda and the floor ask the same scripted model, with the same tool and question, in turns. What is printed is CPU
time for a round, and its ratio to the floor of the same run: a loop by hand with aiohttp and `json` (`floors.py`).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.peer_loops import ROUNDS
from bench.processes import ROOT, Children, pick_cores
from bench.sections import start_upstream

CHUNKS = 20
EXPECT = "".join(f"tok{i} " for i in range(CHUNKS))
TURNS, SECONDS = 3, 1.5
MOST_SECONDS = 120.0  # of a turn: whole runs are counted, and 32 slow ones at once take a while
MODES = [(streamed, at_once) for streamed in (False, True) for at_once in (1, 32)]
PACKAGES = {
    "agno": ("agno", "openai"),
    "langchain": ("langchain", "langchain-openai"),
    "openai-agents": ("openai-agents",),
    "pydantic-ai": ("pydantic-ai-slim[openai]",),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="NAME", help=f"of {', '.join(PACKAGES)} (default: all)")
    names = parser.parse_args().peers or list(PACKAGES)
    pythons = {"floor": sys.executable, "ours": sys.executable, **{name: installed(name) for name in names}}
    rows: dict[str, list[float]] = {name: [] for name in pythons}
    with TemporaryDirectory() as folder, Children(Path(folder), pick_cores()) as children:
        url = start_upstream(children)
        for streamed, at_once in MODES:
            for name, cost in measure(children, pythons, url, streamed, at_once).items():
                rows[name].append(cost)
                print(f"{name}, {'streamed' if streamed else 'plain'}, {at_once} at once: {cost:.3f}", file=sys.stderr)
    heads = [f"{'streamed' if streamed else 'plain'}, {at_once} at once" for streamed, at_once in MODES]
    print("CPU ms for a round, and its ratio to the floor (ten tool rounds and an answer)\n")
    print("".join(cell.rjust(24) for cell in ["", *heads]))
    for name, row in rows.items():
        cells = [f"{cost:.3f} ({cost / floor:.2f})" for cost, floor in zip(row, rows["floor"], strict=True)]
        print("".join(cell.rjust(24) for cell in [title(name, pythons[name]), *cells]))


def installed(name: str) -> str:
    """The Python of the environment that has the library, made where it is not there yet."""
    folder = ROOT / "build" / "peers" / name
    python = str(folder / "bin" / "python")
    if not (folder / ".ready").exists():
        print(f"installing {name} into {folder.relative_to(ROOT)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES[name]], check=True)
        (folder / ".ready").touch()
    return python


def title(name: str, python: str) -> str:
    if name not in PACKAGES:
        return {"ours": "Ronda", "floor": "floor (aiohttp)"}[name]
    package = PACKAGES[name][0].partition("[")[0]
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return f"{name} {subprocess.run([python, '-c', code], capture_output=True, text=True, check=True).stdout.strip()}"


def measure(children: Children, pythons: dict[str, str], url: str, streamed: bool, at_once: int) -> dict[str, float]:
    """They take turns, so that a machine that slows down for a while slows all of them down."""
    started = {}
    for name, python in pythons.items():
        command = [python, "-m", "bench.library", name, "--url", url, "--model", f"fake-r{ROUNDS}-n{CHUNKS}"]
        command += ["--rounds", str(ROUNDS), "--expect", EXPECT, *(["--stream"] if streamed else [])]
        started[name] = children.start_talking(name, command, core=children.cores.tested)
    costs: dict[str, list[float]] = {name: [] for name in pythons}
    for turn in range(TURNS + 1):
        for name, child in started.items():
            child.tell(f"cost {at_once} {SECONDS}")
            cost = float(child.hear(MOST_SECONDS))
            if turn:  # the first warms up
                costs[name].append(cost)
    for child in started.values():
        child.end()
    return {name: statistics.median(row) for name, row in costs.items()}


if __name__ == "__main__":
    main()
