"""Recorded follow-ups, in any dialect: how they are counted, and how many of them may be excepted."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.conformance.report import PartResult, Tally

EXCEPTIONS_IN_100: Final = 3


def result_of(tally: Tally, followups: int, others: Counter[str]) -> PartResult:
    """`others` says why requests that might have been follow-ups are none."""
    for why, count in others.items():
        tally.note(f"not follow-ups: {count} {why}")
    skipped = tally.result().skipped
    allowed = -(-followups * EXCEPTIONS_IN_100 // 100)
    if skipped > allowed:
        tally.failed("exceptions", f"{skipped} of {followups}", f"at most {allowed} are allowed")
    return tally.result()
