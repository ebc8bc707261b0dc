"""`make test` runs the quick tests of every folder; which those are is a list that is made from measured times."""

from __future__ import annotations

import re
from pathlib import Path

from tests.speeds import QUICK_SECONDS, choose_slow, function_of, slow_tests

TESTS = Path(__file__).parent


def test_the_longest_are_slow_until_the_rest_fits_and_each_folder_keeps_one() -> None:
    seconds = {f"tests/a/test_a.py::test_{n}": n * QUICK_SECONDS / 10 for n in range(1, 8)} | {
        "tests/b/test_b.py::test_only": QUICK_SECONDS / 2
    }

    slow = choose_slow(seconds)

    assert "tests/b/test_b.py::test_only" not in slow
    assert slow == [f"tests/a/test_a.py::test_{n}" for n in (3, 4, 5, 6, 7)]


def test_the_cases_of_a_test_go_together() -> None:
    assert function_of("tests/a/test_b.py::test_c[1-[x]]") == "tests/a/test_b.py::test_c"


def test_every_test_that_is_called_slow_is_there() -> None:
    """Else it was renamed, and `make test` runs it again: `make test-times` writes the list anew."""
    sources = {file: (TESTS.parent / file).read_text() for file in {name.partition("::")[0] for name in slow_tests()}}
    gone = [
        name
        for name in slow_tests()
        for file, _, inside in [name.partition("::")]
        if not re.search(rf"(def|class) {inside.partition('::')[0]}\b", sources[file])  # a class inherits its tests
    ]
    assert gone == []
