"""`ronda backup` while a server runs, and `ronda restore` into another folder: what was kept is there."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest
from tests.cli.commands import script, shown
from tests.cli.serving import Started

from ronda._version import __version__


def test_what_a_running_server_kept_is_there_in_another_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], start: Started
) -> None:
    data, copy, file = tmp_path / "data", tmp_path / "copy", tmp_path / "backup.tar.gz"
    model = script(tmp_path, "Hello.")
    with start.serving("--model", model, "--data-dir", str(data)) as server:
        answer = server.client.responses.create(model="default", input="Hi")
        (data / "files").mkdir(exist_ok=True)
        (data / "files" / "link").symlink_to("/etc/passwd")

        code, out, err = shown(capsys, "backup", str(file), "--data-dir", str(data))

    assert (code, out) == (0, "")
    assert "1 links and special files were left out" in err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert shown(capsys, "restore", str(file), "--data-dir", str(copy))[0] == 0
    assert not [path.name for path in copy.rglob("*") if path.name.endswith(("-wal", "-shm")) or "-open-" in path.name]
    with start.serving("--model", model, "--data-dir", str(copy)) as server:
        assert server.client.responses.retrieve(answer.id).output_text == "Hello."


@pytest.fixture
def backup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Of a folder with a key in it."""
    folder, file = tmp_path / "data", tmp_path / "backup.tar.gz"
    folder.mkdir()
    assert shown(capsys, "keys", "create", "--owner", "team", "--data-dir", str(folder))[0] == 0
    assert shown(capsys, "backup", str(file), "--data-dir", str(folder))[0] == 0
    return file


def test_nothing_is_overwritten(backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = shown(capsys, "restore", str(backup), "--data-dir", str(tmp_path / "data"))
    assert (code, "is not empty; restore into a new folder" in err) == (2, True)

    code, _, err = shown(capsys, "backup", str(backup), "--data-dir", str(tmp_path / "data"))
    assert (code, err) == (2, f"ronda: {backup} is there already; choose another name\n")


def test_there_must_be_something_to_back_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = shown(capsys, "backup", str(tmp_path / "b.tar.gz"), "--data-dir", str(tmp_path))
    assert (code, "there is nothing to back up" in err) == (2, True)
    assert not (tmp_path / "b.tar.gz").exists()


def _rewritten(source: Path, change: str) -> None:
    """The backup, with one thing wrong."""
    with tarfile.open(source) as archive:
        entries = [(entry, (archive.extractfile(entry) or io.BytesIO()).read()) for entry in archive]
    with tarfile.open(source, "w:gz") as archive:
        for entry, data in entries:
            if change == "cut" and entry.name == "ronda-backup.json":
                continue
            if change == "changed" and entry.name.endswith("catalog.db"):
                data = data[:-1] + bytes([data[-1] ^ 1])
            if change == "newer" and entry.name == "ronda-backup.json":
                data = data.replace(b'"format":1', b'"format":9')
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        if change == "escapes":
            entry = tarfile.TarInfo("data/../../escaped")
            entry.size = 1
            archive.addfile(entry, io.BytesIO(b"x"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("cut", "it has no ronda-backup.json"),
        ("changed", "'catalog.db' is not as it was written"),
        ("newer", f"this is {__version__}, which cannot read it"),
        ("escapes", "it has a file 'data/../../escaped'"),
    ],
)
def test_a_backup_that_is_wrong_leaves_nothing_behind(
    change: str, problem: str, backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _rewritten(backup, change)
    before = sorted(os.listdir(tmp_path))

    code, _, err = shown(capsys, "restore", str(backup), "--data-dir", str(tmp_path / "copy"))

    assert code == 2
    assert problem in err
    assert sorted(os.listdir(tmp_path)) == before


def test_what_is_no_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "b.tar.gz").write_text("hello")
    code, _, err = shown(capsys, "restore", str(tmp_path / "b.tar.gz"), "--data-dir", str(tmp_path / "copy"))
    assert (code, "is no backup, or is damaged" in err) == (2, True)


def test_a_database_has_tools_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = shown(capsys, "backup", str(tmp_path / "b.tar.gz"), "--database", "postgresql://localhost/ronda")
    assert (code, "pg_dump" in err) == (2, True)
