"""The wheel: built here, unpacked next to the packages that an install without extras brings, and used."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.bare_install import install, needed, python

ROOT = Path(__file__).parent.parent
MOST_ON_DISK = 30_000_000  # bytes without bytecode: what `setup/wheel.py` measures in a venv


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [built] = folder.glob("ronda-*.whl")
    return built


def test_it_asks_for_the_library_alone_and_names_its_pythons(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    required = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]

    assert {one.name for one in required if one.marker is None} == needed() - {"markupsafe"}  # which jinja2 brings
    assert metadata["Version"] == "0.1.0"
    assert "AI agents" in metadata["Summary"]
    assert str(metadata.get_payload()).startswith("# Ronda\n")  # what a package index shows
    pythons = [f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)]
    assert [line for line in metadata.get_all("Classifier", []) if ":: 3." in line] == pythons


def test_it_runs_an_agent_from_where_it_was_unpacked_and_is_small(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site)
    (site / "ronda").unlink()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        ours = sum(entry.file_size for entry in archive.infolist())
    (tmp_path / "script.json").write_text('["hello"]')

    done = python(site, "-m", "ronda", "run", "--model", "script:script.json", "hi", cwd=tmp_path)

    assert (done.returncode, done.stdout.strip()) == (0, "hello"), done.stderr
    files = [Path(str(file.locate())) for package in needed() for file in distribution(package).files or []]
    theirs = sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc")
    assert ours + theirs < MOST_ON_DISK
