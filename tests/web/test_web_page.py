"""The tests of the page, in TypeScript: run from here, so that `make test` runs them; skipped where there is no Node."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BUILT = ROOT / "src/ronda/server/doors/page/build"
BROWSERS = ("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome")
NO_NODE = 77  # as setup/page.py says it


def run(*words: str) -> None:
    """A command of setup/page.py; skipped where there is no Node."""
    done = subprocess.run([sys.executable, "setup/page.py", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == NO_NODE:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


@pytest.mark.timeout(600)
def test_the_page_passes_its_checks_and_its_tests_without_a_browser() -> None:
    run("run", "check", "test")


@pytest.mark.timeout(1500)
def test_the_page_passes_its_tests_in_a_browser() -> None:
    if not any(shutil.which(name) for name in BROWSERS):
        pytest.skip("no Chromium is installed: setup/system-packages python3 page")
    if not (BUILT / "index.html").is_file():
        pytest.skip("the page is not built: make setup")
    run("run", "test-browser")
