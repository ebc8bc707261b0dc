"""Rows of text, printed in columns."""

from __future__ import annotations

import time
from collections.abc import Sequence


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """The last column is as wide as its cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join([*[cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)], row[-1]]))


def local_time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
