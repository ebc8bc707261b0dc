"""`setup/page.py build` where the page cannot be built: nothing fails, and the reason is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NODE = "#!/bin/sh\necho v99.0.0\n"
NPM = """#!/bin/sh
echo "certificates of the system: $NODE_USE_SYSTEM_CA" >&2
case " $* " in *" --silent "*) ;; *) echo "npm error the registry is away" >&2 ;; esac
exit 1
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As much of the repository as is looked at."""
    for name in ("setup/page.py", "web/package.json", "web/package-lock.json", "requirements-node.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def build(clone: Path, programs: dict[str, str], **environ: str) -> subprocess.CompletedProcess[str]:
    folder = clone / "programs"
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    path = {"PATH": f"{folder}:/bin"} if programs else {"PATH": str(folder)}
    command = [sys.executable, "setup/page.py", "build"]
    return subprocess.run(command, cwd=clone, env={**os.environ, **path, **environ}, capture_output=True, text=True)


def test_what_npm_says_is_told_and_it_uses_the_certificates_of_the_system(clone: Path) -> None:
    done = build(clone, {"node": NODE, "npm": NPM})

    assert (done.returncode, done.stderr.splitlines()) == (
        0,
        [
            "certificates of the system: 1",
            "npm error the registry is away",
            "ronda: npm could not fetch what the page is built with: /ui will say so, all else works",
        ],
    )


def test_a_machine_without_node_and_pypi_goes_on_without_the_page(clone: Path) -> None:
    done = build(clone, {}, PIP_NO_INDEX="1", PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull)

    assert done.returncode == 0
    assert "no Node that is new enough is here, and PyPI has none for this machine: /ui will say so" in done.stderr
