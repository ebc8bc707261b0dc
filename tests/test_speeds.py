"""`make test` runs the quick tests of every folder; which those are is a list that is made from measured times."""

from __future__ import annotations

from pathlib import Path

from tests.speeds import ALWAYS_QUICK, NEED_MORE, QUICK_SECONDS, choose_slow, function_of, slow_tests

TESTS = Path(__file__).parent


def test_the_longest_are_slow_until_the_rest_fits_and_each_folder_keeps_one() -> None:
    seconds = {f"tests/a/test_a.py::test_{n}": n * QUICK_SECONDS / 10 for n in range(1, 8)} | {
        "tests/b/test_b.py::test_only": QUICK_SECONDS / 2
    }

    slow = choose_slow(seconds)

    assert "tests/b/test_b.py::test_only" not in slow
    assert slow == [f"tests/a/test_a.py::test_{n}" for n in (3, 4, 5, 6, 7)]


def test_a_test_that_needs_what_make_test_does_not_install_is_slow_however_short() -> None:
    (site,) = NEED_MORE

    assert choose_slow({f"{site}::test_search": 0.1, "tests/docs/test_other.py::test_it": 1.0}) == [
        f"{site}::test_search"
    ]
    assert {name.partition("::")[0] for name in slow_tests()} >= set(NEED_MORE)


def test_stores_that_fail_are_tried_with_every_change_however_long_that_takes() -> None:
    (stores,) = ALWAYS_QUICK
    seconds = {f"{stores}::test_long": 2 * QUICK_SECONDS, "tests/server/services/test_other.py::test_it": 1.0}
    seconds |= {"tests/server/services/test_other.py::test_more": 2.0}

    assert choose_slow(seconds) == ["tests/server/services/test_other.py::test_more"]
    assert (TESTS.parent / stores).is_file()
    assert [name for name in slow_tests() if name.startswith(stores)] == []


def test_the_cases_of_a_test_go_together() -> None:
    assert function_of("tests/a/test_b.py::test_c[1-[x]]") == "tests/a/test_b.py::test_c"


def test_the_files_of_tests_that_are_called_slow_are_there() -> None:
    """Else they were moved, and `make test` runs all of them: `make test-times` writes the list anew."""
    files = {name.partition("::")[0] for name in slow_tests()}

    assert sorted(file for file in files if not (TESTS.parent / file).is_file()) == []
