"""Cases one after another, over all targets in turn, until there are enough or the time is over."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import NamedTuple

from tests.fuzz.targets import ServerUnderTest, make_targets


class Fuzzed(NamedTuple):
    cases: Counter[str]  # by target
    problems: list[str]


async def fuzz(cases: int, seed: int, seconds: float | None = None, most_problems: int = 20) -> Fuzzed:
    """With the same seed, case number N is always the same."""
    under_test = ServerUnderTest()
    done: Counter[str] = Counter()
    problems: list[str] = []
    ends = None if seconds is None else time.monotonic() + seconds
    try:
        targets = await make_targets(under_test)
        for number in range(cases):
            target = targets[number % len(targets)]
            problem = await target.try_one(random.Random(f"{seed} {number}"))
            done[target.name] += 1
            if problem is not None:
                problems.append(f"case {number}, {target.name}: {problem}")
            if len(problems) >= most_problems or (ends is not None and time.monotonic() >= ends):
                break
    finally:
        await under_test.close()
    return Fuzzed(done, problems)
