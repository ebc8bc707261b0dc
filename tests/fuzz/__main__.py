"""`make fuzz`: bodies, streams and WebSockets, close to good ones. Ends with 1 where something broke."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from tests.fuzz.run import fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000, help="how many (default: a million)")
    parser.add_argument("--seconds", type=float, default=600.0, help="for how long at most (default: 600)")
    parser.add_argument("--seed", type=int, default=1, help="other cases with another number")
    flags = parser.parse_args()
    logging.disable(logging.CRITICAL)
    fuzzed = asyncio.run(fuzz(flags.cases, flags.seed, flags.seconds))
    lines = [f"{count:>9,}  {name}" for name, count in sorted(fuzzed.cases.items())]
    lines.append(f"{sum(fuzzed.cases.values()):>9,}  in all, {len(fuzzed.problems)} problems (seed {flags.seed})")
    sys.stdout.write("\n".join([*lines, *fuzzed.problems, ""]))
    return 1 if fuzzed.problems else 0


if __name__ == "__main__":
    sys.exit(main())
