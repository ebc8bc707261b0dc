"""Two speeds of tests: those that are quick, by what was measured, and all of them.

    pytest --speed quick        the tests that `slow_tests.txt` does not name: what `make test` runs
    pytest --speed slow         only those that it names: the rest
    pytest --note-times FILE    run, and write how many seconds each test function took, all of its cases together

`python -m tests.speeds FILE` reads such a file and writes `slow_tests.txt` anew: functions go there, the longest first, until
the others fit into `QUICK_SECONDS`. A function that no list names yet is quick.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest

SLOW_TESTS: Final = Path(__file__).parent / "slow_tests.txt"
# Of one core. With two cores, and the start of pytest, less than three minutes even if other work takes half of each.
QUICK_SECONDS: Final = 150.0
# Each folder keeps so many of its quickest functions, however long they take.
KEPT_PER_FOLDER: Final = 1
# Always quick: whichever await of a store fails is tried with every change, since what breaks is not where the change is.
ALWAYS_QUICK: Final = ("tests/server/services/test_failing_stores.py",)
# They need what only `make test-all` and `make test-slow` install: as quick tests they would be skipped everywhere.
NEED_MORE: Final = ("tests/docs/test_site.py",)


def function_of(node: str) -> str:
    """`tests/a/test_b.py::test_c[1-2]` → `tests/a/test_b.py::test_c`."""
    return node.partition("[")[0]


def slow_tests() -> frozenset[str]:
    return frozenset(SLOW_TESTS.read_text().split())


class Speeds:
    """A plugin of pytest."""

    def __init__(self, speed: str, note: str | None) -> None:
        self._speed = speed
        self._note = note
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self._speed == "all":
            return
        slow = slow_tests()
        chosen = [item for item in items if (function_of(item.nodeid) in slow) == (self._speed == "slow")]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[function_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._note is not None and not hasattr(
            session.config, "workerinput"
        ):  # workers of xdist report to the first
            Path(self._note).write_text(json.dumps(dict(sorted(self._seconds.items())), indent=1))


def choose_slow(seconds: Mapping[str, float]) -> list[str]:
    """The functions that are left to `make test-all`."""
    quickest: defaultdict[str, list[str]] = defaultdict(list)
    need_more = [name for name in seconds if name.partition("::")[0] in NEED_MORE]
    seconds = {name: took for name, took in seconds.items() if name not in need_more}
    for name in sorted(seconds, key=lambda one: seconds[one]):
        quickest[_folder(name)].append(name)
    kept = {name for names in quickest.values() for name in names[:KEPT_PER_FOLDER]}
    kept |= {name for name in seconds if name.partition("::")[0] in ALWAYS_QUICK}
    left = sum(seconds.values())
    slow = need_more
    for name in sorted(seconds, key=lambda one: -seconds[one]):
        if left <= QUICK_SECONDS:
            break
        if name not in kept:
            slow.append(name)
            left -= seconds[name]
    return sorted(slow)


def _folder(name: str) -> str:
    return str(Path(name.partition("::")[0]).parent)


def main(arguments: Iterable[str]) -> None:
    (file,) = arguments
    seconds: dict[str, float] = json.loads(Path(file).read_text())
    slow = choose_slow(seconds)
    SLOW_TESTS.write_text("\n".join(slow) + "\n")
    quick = sum(seconds.values()) - sum(seconds[name] for name in slow)
    sys.stdout.write(
        f"{len(slow)} of {len(seconds)} test functions are slow; the others take {quick:.0f} s on one core\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
