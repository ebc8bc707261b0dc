"""What Ronda costs, as ratios to floors measured in the same run: `python bench/run.py` prints the table of the bars.

It ends with 1 when a bar that must be reached is missed. What is measured, and why so, is in bench/README.md.
"""

import argparse
import os
import platform
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec
import uvloop
from bench.against import changes, checkout
from bench.bars import Row, Section, median, rows, table
from bench.durable import measure_durable
from bench.instructions import count_instructions
from bench.previews import measure_previews
from bench.processes import BenchError, Children, pick_cores
from bench.prompty_files import measure_prompty, prompty_missing
from bench.sections import (
    FULL,
    QUICK,
    Bench,
    local_missing,
    measure_doors,
    measure_library,
    measure_local,
    measure_server,
    measure_start,
    measure_wires,
)
from bench.sessions import measure_sessions

# The local model first, while no other child runs: it takes every core.
SECTIONS: tuple[Section, ...] = (
    "local",
    "library",
    "wires",
    "prompty",
    "start",
    "server",
    "doors",
    "sessions",
    "durable",
    "previews",
)


def main() -> int:
    options = read_options()
    signal.signal(signal.SIGTERM, stop)  # so that children are ended on the way out
    cores = pick_cores()
    os.sched_setaffinity(0, {cores.rest})
    wanted: set[Section] = {options.only} if options.only else set(SECTIONS)
    skipped = f"local: skipped, {missing}" if "local" in wanted and (missing := local_missing()) else ""
    if skipped:
        wanted.remove("local")
    alone = f"prompty: {missing}" if "prompty" in wanted and (missing := prompty_missing()) else ""
    plan = QUICK if options.quick else FULL
    began = time.monotonic()
    instructions = ""
    with ExitStack() as open_things:
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="ronda-bench-")))
        before = open_things.enter_context(checkout(options.against, folder / "before")) if options.against else None
        children = open_things.enter_context(Children(folder, cores))
        bench = Bench(plan, children, options.upstream, before)
        timed: set[Section] = set() if options.instructions else wanted
        failures = [failure for section in SECTIONS if section in timed and (failure := measure(bench, section))]
        if before is not None and not options.quick and wanted & {"library", "server"}:
            instructions = count_instructions(bench, wanted)
    if options.instructions:
        print(instructions)
        return 0
    judged = rows(bench.samples, wanted)
    where = f"core {cores.tested} tested, core {cores.rest} asks" if cores.tested != cores.rest else "one core for all"
    print(f"Python {platform.python_version()}, {where}, medians, {time.monotonic() - began:.0f} s\n")
    if judged:
        print(table(judged))
    if options.against:
        print(f"\nAgainst {options.against}, in turns with it:\n\n{changes(judged, bench.samples)}")
    if instructions:
        print(f"\n{instructions}")
    for line in (skipped, alone, *failures):
        if line:
            print(f"\n{line}")
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report(bench, judged))))
    return 1 if not judged or any(row.missed for row in judged) else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Ronda's cost, as ratios to floors measured in the same run.")
    parser.add_argument("--quick", action="store_true", help="one short run: a first look, not a verdict")
    parser.add_argument("--only", choices=SECTIONS, help="measure only this section")
    parser.add_argument(
        "--upstream", metavar="URL", help="a fake model that runs already, such as http://127.0.0.1:9100/v1"
    )
    parser.add_argument(
        "--against", metavar="COMMIT", help="measure this commit too, in turns, and say what has changed"
    )
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="with --against: count instructions and measure no time, for a machine that others use",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    options = parser.parse_args()
    if options.instructions and (options.quick or not options.against):
        parser.error("--instructions compares with another commit, in full: it needs --against, and not --quick")
    return options


def stop(*_: object) -> NoReturn:
    sys.exit(143)


def measure(bench: Bench, section: Section) -> str:
    """Measure a section, and say why if that was not possible: the others are worth seeing anyway."""
    try:
        match section:
            case "local":
                measure_local(bench)
            case "library":
                measure_library(bench)
            case "wires":
                measure_wires(bench)
            case "prompty":
                measure_prompty(bench)
            case "start":
                measure_start(bench)
            case "server":
                uvloop.run(measure_server(bench))
            case "doors":
                uvloop.run(measure_doors(bench))
            case "sessions":
                uvloop.run(measure_sessions(bench))
            case "durable":
                uvloop.run(measure_durable(bench))
            case "previews":
                measure_previews(bench)
    except BenchError as error:
        return f"{section}: not all could be measured. {error}"
    return ""


def report(bench: Bench, judged: list[Row]) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "runs": bench.plan.runs,
        "rows": [
            {
                **msgspec.to_builtins(row.bar),
                "ours": median(row.ours),
                "floor": median(row.floor),
                "result": row.result,
                "verdict": row.verdict,
            }
            for row in judged
        ],
        "samples": bench.samples.values,
    }


if __name__ == "__main__":
    sys.exit(main())
