"""Settings of `ronda serve` for pages, and `ronda page setup`."""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from tests.cli.commands import shown

from ronda.cli.settings import read_config
from ronda.errors import BadConfig
from ronda.server.features.app_stream.settings import AppSettings
from ronda.tools.page.packages import Package, fetch_packages, missing_packages, page_packages


def test_the_image_service_has_its_key_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAINTER_KEY", "s3cret")
    file = tmp_path / "ronda.toml"
    file.write_text('[images]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "painter"\napi_key = "${env:PAINTER_KEY}"\n')
    config = read_config(argparse.Namespace(config=str(file)))
    assert config.part(AppSettings).images == {
        "base_url": "http://127.0.0.1:9/v1",
        "model": "painter",
        "api_key": "s3cret",
    }
    assert "s3cret" not in f"{config!r} {config.parts!r}"


@pytest.mark.parametrize("table", ['[images]\nmodel = "painter"', "[page]\nnope = 1"])
def test_settings_for_pages_that_make_no_sense_stop_the_server(table: str, tmp_path: Path) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text(table)
    with pytest.raises(BadConfig, match="cannot be used"):
        read_config(argparse.Namespace(config=str(file)))


NPM = """#!/bin/sh
# Brings what it was told to, as npm packs it.
while [ $# -gt 1 ]; do shift; done
cp "$FAKE_ARCHIVE" "$1/package.tgz"
"""


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in npm's place, since there is no network here; the archive that it brings."""
    place = tmp_path / "bin" / "npm"
    place.parent.mkdir()
    place.write_text(NPM)
    place.chmod(0o755)
    archive = tmp_path / "other.tgz"
    with tarfile.open(archive, "w:gz") as made:
        for name in ("package/dist/a.js", "package/../../escape.js", "package/secret.txt"):
            member = tarfile.TarInfo(name)
            member.size = 1
            made.addfile(member, io.BytesIO(b"x"))
    monkeypatch.setenv("PATH", f"{place.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_ARCHIVE", str(archive))
    return archive


def test_a_package_that_is_not_what_it_was_is_not_kept(
    npm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = shown(capsys, "page", "setup", "--folder", str(tmp_path / "page"))
    assert code == 2
    assert "its hash is another" in err
    assert not (tmp_path / "page").exists()


def test_a_package_is_kept_as_far_as_it_is_of_use(npm: Path, tmp_path: Path) -> None:
    digest = base64.b64encode(hashlib.sha512(npm.read_bytes()).digest()).decode()
    package = Package("@scope/thing", "1.0.0", f"sha512-{digest}", ("dist/*.js", "*.js"))
    told: list[str] = []
    for _ in range(2):
        fetch_packages(tmp_path / "page", told.append, [package])
    assert told == ["@scope/thing 1.0.0"]
    kept = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.js"))
    assert kept == ["page/@scope/thing/dist/a.js"]
    assert missing_packages(tmp_path / "page", [package]) == []


def test_what_is_there_is_not_fetched_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for package in page_packages():
        place = tmp_path / package.name
        place.mkdir(parents=True)
        (place / ".version").write_text(package.integrity)
    code, out, _ = shown(capsys, "page", "setup", "--folder", str(tmp_path))
    assert (code, out.startswith("all there")) == (0, True)
