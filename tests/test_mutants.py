"""The script that puts mistakes into the source: each is one, and the tests that find it are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mutants import ROOT, SOURCE, apply, choose, main, mutants_of

MODULE = '''"""A module."""

from typing import Final

LIMIT: Final = 3


def is_over(count: int) -> bool:
    """Whether it is too many."""
    return count > LIMIT


def never(count: int) -> int:
    if count:
        raise ValueError(f"{count + 1} is not here")
    return count + 1
'''

TESTS = """from ronda.limits import LIMIT, is_over


def test_more_than_the_limit_is_over():
    assert is_over(LIMIT + 1)


def test_the_limit_itself_is_not():
    assert not is_over(LIMIT)
"""


def test_a_mutant_is_one_mistake_in_code_that_runs() -> None:
    found = {(one.line, one.instead) for one in mutants_of("limits.py", MODULE)}

    assert found == {
        (5, "4"),
        (10, "(count >= LIMIT)"),
        (10, "None"),
        (14, "(not count)"),
        (16, "(count - 1)"),
        (16, "2"),
        (16, "None"),
    }


def test_what_a_mistake_is_made_of_keeps_its_parentheses() -> None:
    found = {one.instead for one in mutants_of("limits.py", "at = at + (not ends) * (first - 1)\n")}

    assert {"(at - (not ends) * (first - 1))", "((not ends) + (first - 1))"} <= found


def test_every_mutant_of_ours_is_python_and_another_program() -> None:
    chosen = choose(ROOT / SOURCE, seed=7, count=300)

    texts = {one: (ROOT / SOURCE / one.path).read_text() for one in chosen}
    assert len(texts) == 300
    for mutant, text in texts.items():
        changed = apply(mutant, text)
        compile(changed, mutant.path, "exec")
        assert changed != text


def test_the_same_seed_chooses_the_same(tmp_path: Path) -> None:
    (tmp_path / "limits.py").write_text(MODULE)

    assert choose(tmp_path, 1, 3) == choose(tmp_path, 1, 3)
    assert {one.line for one in choose(tmp_path, 1, 4)} == {5, 10, 14, 16}


def test_mutants_are_tried_once_with_the_tests_that_run_their_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / SOURCE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "limits.py").write_text(MODULE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_limits.py").write_text(TESTS)
    root = ["--root", str(tmp_path)]

    main([*root, "lines"])
    main([*root, "try", "--count", "4", "--limit", "1"])
    first = capfd.readouterr().out
    main([*root, "try", "--count", "4"])
    rest = capfd.readouterr().out
    main([*root, "lists", "--count", "4"])
    assert "1 of 4 mutants were tried." in first
    assert "3 of 3" in rest
    listed = capfd.readouterr().out
    assert "4 of 4 mutants were tried." in listed
    assert "No test runs the line in its own process:\n    limits.py:14" in listed
    assert "limits.py:10" in listed.partition("No test notices:")[0]
