"""Another commit beside this one: checked out into a folder of its own, measured in turns with ours, and compared.

Both run with the packages that are installed now, so what is compared is the code alone.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.bars import Row, Samples, aligned, median, number, ratio
from bench.processes import ROOT, BenchError, environment, python, source

NOISE = 0.03  # a machine with other users repeats itself to about this share


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path]:
    """The commit's files in `folder`, for as long as the block lasts."""
    git("worktree", "add", "--detach", str(folder), commit)
    try:
        found = subprocess.run(
            [str(word) for word in python("-c", "import ronda; print(ronda.__file__)")],
            env=environment() | source(folder),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
        if not Path(found).is_relative_to(folder):
            raise BenchError(f"{commit} cannot be imported from its checkout; python finds {found or 'nothing'}")
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))


def git(*words: str) -> None:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"git {words[0]} {words[1]}: {done.stderr.strip()}")


def changes(judged: list[Row], samples: Samples) -> str:
    lines = []
    for row in judged:
        bar = row.bar
        before = samples.of(bar.key, "before")
        times = None if bar.difference else ratio(row.ours, before)
        if times is None:
            verdict = "–"
        else:
            gain = times - 1 if bar.least else 1 - times
            verdict = "better" if gain > NOISE else "WORSE" if gain < -NOISE else "same"
        now, then = (number(median(values), bar.unit) for values in (row.ours, before))
        lines.append([bar.figure, now, then, f"{times:.3f}×" if times is not None else "–", verdict])
    return aligned(["figure", "now", "before", "ratio", ""], lines)
