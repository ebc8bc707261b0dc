"""Every evaluation in the docs can be read, and those with a script pass; so do the examples."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ronda.evals import evaluate, load_suite
from ronda.journal.memory import MemoryJournal

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "docs/evaluate.md", ROOT / "docs/tutorials/agent.md"]
BLOCKS = [text for page in PAGES for text in BLOCK.findall(page.read_text()) if "cases:" in text or "tests:" in text]
EXAMPLES = sorted((ROOT / "examples").rglob("*.eval.yaml"))


@pytest.mark.parametrize("text", BLOCKS)
async def test_the_evaluation_passes(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    shutil.copy(ROOT / "examples/prompty/weather.prompty", tmp_path)
    (tmp_path / "verdict.json").write_text('["{\\"score\\": 1, \\"reason\\": \\"it is\\"}"]')
    file = tmp_path / "docs.eval.yaml"
    file.write_text(text)

    suite = load_suite(file)

    if "[script]" in text:
        report = await evaluate(suite, journal=MemoryJournal())
        assert [(one.status, one.reasons) for one in report.attempts] == [("passed", [])] * len(suite.cases)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
async def test_the_example_passes(file: Path) -> None:
    report = await evaluate(load_suite(file), journal=MemoryJournal())

    assert {one.status for one in report.attempts} == {"passed"}


def test_there_are_some() -> None:
    assert len(BLOCKS) > 5
    assert EXAMPLES
