"""The process under test of the library's figures: orders on stdin, the CPU time that a loop took for each on stdout.

The loop is ours or the floor's. Both processes wait side by side, so that short measurements of them can alternate.

A round is one call of the model and the tool call it asks for. A run of R tool rounds has R + 1 of them: the last is
the answer.
"""

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from bench.lookup import stamps


class Loop(Protocol):
    """An agent loop that can be run again and again."""

    async def plain(self) -> str: ...

    async def streamed(self) -> str: ...

    async def close(self) -> None: ...


Run = Callable[[], Awaitable[None]]


def make_loop(side: str, url: str, model: str, rounds: int, wire: str) -> Loop:
    # Each side imports only what it needs: the other's modules would be in its memory and its collector's way.
    if side == "ours":
        from bench.ours import Ours

        return Ours(url, model, rounds, wire)
    if side == "floor":
        from bench.floors import Floor

        return Floor(url, model)
    from bench.peer_loops import LOOPS

    loop: Loop = LOOPS[side](url, model)
    return loop


def checked(loop: Loop, streamed: bool, expect: str) -> Run:
    ask = loop.streamed if streamed else loop.plain

    async def run() -> None:
        text = await ask()
        if text.strip() != expect.strip():
            raise SystemExit(f"wrong answer: {text[:200]!r}, expected {expect[:200]!r}")

    return run


async def round_cost(run: Run, rounds: int, concurrency: int, seconds: float) -> float:
    """CPU milliseconds per round, over whole runs only."""
    runs = 0
    calls = len(stamps)
    start = time.process_time()
    end = time.perf_counter() + seconds

    async def worker() -> None:
        nonlocal runs
        while time.perf_counter() < end:
            await run()
            runs += 1

    await asyncio.gather(*(worker() for _ in range(concurrency)))
    spent = time.process_time() - start
    calls = len(stamps) - calls
    if calls != runs * rounds:
        raise SystemExit(f"{calls} tool calls in {runs} runs of {rounds} rounds")
    return 1000 * spent / (runs * (rounds + 1))


async def repeat(run: Run, times: int) -> int:
    """So many runs one after another, and nothing else: for a tool that counts instructions from outside."""
    for _ in range(times):
        await run()
    return times


async def growth(run: Run, rounds: int) -> float:
    """CPU milliseconds that one of the last ten rounds costs more than one of the rounds 2 to 11."""
    stamps.clear()
    await run()
    if len(stamps) != rounds:
        raise SystemExit(f"{len(stamps)} tool calls in a run of {rounds} rounds")
    costs = [1000 * (after - before) for before, after in itertools.pairwise(stamps)]  # costs[0] is round 2
    return statistics.median(costs[-10:]) - statistics.median(costs[:10])


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", help="ours, floor, or the name of a peer")
    parser.add_argument("--url", required=True)
    parser.add_argument("--wire", default="openai-chat", help="the provider ours calls the model through")
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--expect", required=True, help="the answer's text")
    parser.add_argument("--stream", action="store_true")
    options = parser.parse_args()
    loop = make_loop(options.side, options.url, options.model, options.rounds, options.wire)
    run = checked(loop, options.stream, options.expect)
    try:
        while line := sys.stdin.readline():  # blocks the loop on purpose: between two orders nothing may run
            match line.split():
                case ["cost", concurrency, seconds]:
                    print(await round_cost(run, options.rounds, int(concurrency), float(seconds)), flush=True)
                case ["repeat", times]:
                    print(await repeat(run, int(times)), flush=True)
                case ["growth"]:
                    print(await growth(run, options.rounds), flush=True)
    finally:
        await loop.close()


if __name__ == "__main__":
    asyncio.run(main())
