"""Files out of a workspace and into it, whatever the code inside has put in the way."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.errors import BadRequest, TooLarge
from ronda.sandbox.folders import TooDeep, open_part_by_part, open_root, remove_tree, walk
from ronda.sandbox.names import clean_name, clean_names
from ronda.sandbox.user import server_user
from ronda.sandbox.workspace import FoundFile, list_files, read_output, write_input

SECRET = "a secret of the host"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "file").write_text(SECRET)
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_a_file_is_read_from_a_folder(work: Path) -> None:
    (work / "a").mkdir()
    (work / "a" / "plot.png").write_bytes(b"\0png")

    assert read_output(work, "a/plot.png", 100) == b"\0png"


def test_a_file_of_just_the_size_is_read_and_a_larger_one_is_not(work: Path) -> None:
    (work / "just").write_bytes(b"x" * 100)
    (work / "over").write_bytes(b"x" * 101)

    assert len(read_output(work, "just", 100)) == 100
    with pytest.raises(TooLarge, match=r"'over' exceeds max output size \(101 bytes, and 100 are allowed\)"):
        read_output(work, "over", 100)


def link(work: Path) -> None:
    (work / "out").symlink_to("../secret")


def linked_folder(work: Path) -> None:
    (work / "out").symlink_to("../secrets")


def hard_link(work: Path) -> None:
    os.link(work.parent / "secret", work / "out")


def pipe(work: Path) -> None:
    os.mkfifo(work / "out")


def folder(work: Path) -> None:
    (work / "out").mkdir()


def link_to_a_device(work: Path) -> None:
    (work / "out").symlink_to("/dev/zero")


def link_to_itself(work: Path) -> None:
    (work / "out").symlink_to("out")


def huge(work: Path) -> None:
    with (work / "out").open("wb") as file:
        file.truncate(1 << 40)


def nothing(work: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("trap", "name", "problem"),
    [
        (link, "out", "symbolic link"),
        (linked_folder, "out/file", "symbolic link"),
        (hard_link, "out", "hard link"),
        (pipe, "out", "not a regular file"),
        (folder, "out", "not a regular file"),
        (link_to_a_device, "out", "symbolic link"),
        (link_to_itself, "out", "symbolic link"),
        (huge, "out", "exceeds max output size"),
        (nothing, "out", "not produced"),
        (nothing, "../secret", "must be relative"),
        (nothing, "a/../../secret", "must be relative"),
        (nothing, "/etc/hostname", "must be relative"),
        (nothing, "", "must be relative"),
        (nothing, "a\0b", "must be relative"),
        (nothing, "a//b", "must be relative"),
        (nothing, "x" * 300, "too long"),
        (nothing, "/".join(["x"] * 200), "too long"),
    ],
)
def test_traps_give_an_error_and_no_secret(work: Path, trap: Callable[[Path], None], name: str, problem: str) -> None:
    trap(work)

    with pytest.raises(BadRequest, match=problem):
        read_output(work, name, 1 << 20)


def test_without_openat2_links_are_refused_too(work: Path) -> None:
    (work / "a").mkdir()
    (work / "a" / "file").write_text("here")
    (work / "link").symlink_to("../secret")
    (work / "folder").symlink_to("../secrets")
    root = open_root(work)
    try:
        with os.fdopen(open_part_by_part(root, "a/file", os.O_RDONLY)) as file:
            assert file.read() == "here"
        for name in ("link", "folder/file"):
            with pytest.raises(OSError, match=r"symbolic|directory"):
                open_part_by_part(root, name, os.O_RDONLY)
    finally:
        os.close(root)


def test_an_input_is_written_with_its_folders(work: Path) -> None:
    write_input(work, "skills/one/run.sh", b"echo", server_user(), mode=0o700)

    assert (work / "skills/one/run.sh").read_bytes() == b"echo"
    assert stat.S_IMODE((work / "skills/one/run.sh").stat().st_mode) == 0o700


def test_an_input_takes_the_place_of_a_link_and_never_writes_through_it(work: Path) -> None:
    (work / "data.csv").symlink_to("../secret")
    os.link(work.parent / "secret", work / "linked.csv")

    for name in ("data.csv", "linked.csv"):
        write_input(work, name, b"1,2", server_user())

    assert (work.parent / "secret").read_text() == SECRET
    assert [(work / name).read_bytes() for name in ("data.csv", "linked.csv")] == [b"1,2", b"1,2"]
    assert not (work / "data.csv").is_symlink()


@pytest.mark.parametrize("name", ["linked/file", "../file", "/tmp/file", "pipe/file", "folder"])
def test_an_input_does_not_leave_the_workspace(work: Path, name: str) -> None:
    (work / "linked").symlink_to("../secrets")
    os.mkfifo(work / "pipe")
    (work / "folder").mkdir()

    with pytest.raises(BadRequest):
        write_input(work, name, b"x", server_user())

    assert (work.parent / "secrets" / "file").read_text() == SECRET
    assert sorted(os.listdir(work)) == ["folder", "linked", "pipe"]


def test_only_regular_files_with_one_name_are_listed(work: Path) -> None:
    (work / "a").mkdir()
    (work / "a" / "1.csv").write_text("1")
    (work / "2.csv").write_text("22")
    (work / ".cache").mkdir()
    (work / ".cache" / "x").write_text("x")
    link(work)
    os.mkfifo(work / "pipe")
    os.link(work.parent / "secret", work / "linked")

    found = list_files(work, skip=lambda part: part.startswith("."))

    changed = {file.name: (work / file.name).stat().st_mtime_ns for file in found}
    assert found == [FoundFile("2.csv", 2, changed["2.csv"]), FoundFile("a/1.csv", 1, changed["a/1.csv"])]


def deep(work: Path, levels: int) -> None:
    at = os.open(work, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT, dir_fd=at))
    os.close(at)


def test_a_tree_deeper_than_any_path_is_refused_and_can_be_removed(work: Path) -> None:
    deep(work, 1200)  # more than Python can recurse

    with pytest.raises(TooDeep):
        list(walk(work))
    assert list_files(work) == []
    remove_tree(work)
    assert not work.exists()


def test_a_workspace_that_its_code_has_closed_is_read_and_removed(work: Path) -> None:
    """Root may always: the test says something where it does not run as root."""
    (work / "a.txt").write_text("here")
    work.chmod(0o000)

    assert [file.name for file in list_files(work)] == ["a.txt"]
    work.chmod(0o000)
    remove_tree(work)
    assert not work.exists()
    work.mkdir()


def test_closed_folders_can_be_removed_and_links_are_not_followed(work: Path) -> None:
    (work / "closed" / "in").mkdir(parents=True)
    (work / "closed" / "in" / "file").write_text("x")
    (work / "linked").symlink_to("../secrets")
    (work / "closed" / "linked").symlink_to("../../secrets")
    (work / "closed" / "in").chmod(0)
    (work / "closed").chmod(0)

    remove_tree(work)
    remove_tree(work)  # what is gone is gone

    assert not work.exists()
    assert (work.parent / "secrets" / "file").read_text() == SECRET


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("data.csv", "data.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\my data.xlsx", "my_data.xlsx"),
        ("/abs/", "abs"),
        (".bashrc", "bashrc"),
        ("..", "file"),
        ("", "file"),
        ("-rf", "rf"),
        ("naïve – plot.png", "na_ve___plot.png"),
        ("a\0b\n.txt", "a_b_.txt"),
        ("x" * 300 + ".csv", "x" * 196 + ".csv"),
    ],
)
def test_names_of_clients_are_cleaned(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned


def test_names_that_would_be_the_same_are_told_apart() -> None:
    names = ["a.csv", "x/a.csv", "A.csv", "a-2.csv", "b", "b"]

    assert clean_names(names) == ["a.csv", "a-2.csv", "A-3.csv", "a-2-2.csv", "b", "b-2"]


@given(st.lists(st.text(max_size=12), max_size=4))
def test_any_names_become_different_plain_ones(names: list[str]) -> None:
    cleaned = clean_names(names)

    assert len({name.lower() for name in cleaned}) == len(names)
    assert all(name and not name.startswith((".", "-")) and "/" not in name and len(name) <= 220 for name in cleaned)
