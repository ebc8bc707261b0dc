"""Folders that clients send: what is in them comes out, and hostile ones are refused before they cost anything."""

from __future__ import annotations

import io
import stat
import zipfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.errors import BadRequest, TooLarge
from ronda.files.archives import ArchiveLimits, folder_of, is_zip, pack_zip, unpack_zip
from ronda.files.skill_folders import read_skill

NAMES = st.text(alphabet="abcXYZ-_é ", min_size=1, max_size=8)
FOLDERS = st.dictionaries(st.lists(NAMES, min_size=1, max_size=1).map("/".join), st.binary(max_size=50), max_size=5)
SKILL = b"---\nname: Invoice auditor\ndescription: >\n  Checks\n  invoices.\nlicense: MIT\n---\n# How\n"


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return packed.getvalue()


@given(folder=FOLDERS)
def test_what_is_packed_is_unpacked(folder: dict[str, bytes]) -> None:
    packed = pack_zip({f"top/{path}": data for path, data in folder.items()})
    assert unpack_zip(packed) == {f"top/{path}": data for path, data in folder.items()}
    assert pack_zip({f"top/{path}": data for path, data in reversed(folder.items())}) == packed


@given(data=st.binary(max_size=300) | st.binary(max_size=200).map(lambda data: b"PK\x03\x04" + data))
def test_no_bytes_break_it(data: bytes) -> None:
    with pytest.raises(BadRequest):
        unpack_zip(data)


@given(at=st.integers(0, 200), byte=st.integers(0, 255))
def test_a_damaged_zip_is_refused_or_read(at: int, byte: int) -> None:
    data = bytearray(zipped(("a/SKILL.md", SKILL), ("a/b", b"x")))
    data[at % len(data)] = byte
    with suppress(BadRequest):
        unpack_zip(bytes(data))


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "a/../../x",
        "a//b",
        "./a",
        "a\\b",
        "C:/x",
        "a/\0b",
        "a/\nb",
        "x" * 600,
        "/".join("a" * 11),
        "",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(BadRequest, match="unsafe path"):
        folder_of([(path, b"x")])


def test_links_and_devices_are_refused() -> None:
    for kind in (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO):
        entry = zipfile.ZipInfo("a/link")
        entry.external_attr = (kind | 0o777) << 16
        with pytest.raises(BadRequest, match="symlinks"):
            unpack_zip(zipped((entry, b"/etc/passwd")))


def test_a_bomb_is_refused_whatever_it_says_of_its_size() -> None:
    bomb = zipped(("a/zeros", bytes(30_000_000)))
    assert len(bomb) < 50_000
    with pytest.raises(TooLarge, match="unpacks to more than is allowed"):
        unpack_zip(bomb)
    with pytest.raises(TooLarge):
        unpack_zip(zipped(("a", bytes(600)), ("b", bytes(600))), ArchiveLimits(size=1000))


def test_too_many_files_and_one_twice_are_refused() -> None:
    with pytest.raises(TooLarge, match="3 files; 2 are allowed"):
        unpack_zip(zipped(*[(f"a/{n}", b"") for n in range(3)]), ArchiveLimits(files=2))
    with pytest.raises(TooLarge):
        folder_of([(f"a/{n}", b"") for n in range(3)], ArchiveLimits(files=2))
    with pytest.raises(BadRequest, match="there twice"):
        folder_of([("a", b"1"), ("a", b"2")])
    with pytest.raises(BadRequest, match="leads through a file"):
        folder_of([("a", b"1"), ("a/b", b"2")])


def test_what_a_mac_adds_is_left_out_and_folders_too() -> None:
    assert unpack_zip(zipped(("a/", b""), ("a/x", b"1"), ("__MACOSX/a/._x", b"2"), ("a/.DS_Store", b"3"))) == {
        "a/x": b"1"
    }


def test_a_zip_is_known_by_its_name_or_its_beginning() -> None:
    assert is_zip("A.ZIP", b"")
    assert is_zip("a", zipped(("a", b"")))
    assert not is_zip("SKILL.md", SKILL)


# ---- skills ------------------------------------------------------------------------------------------------------------


def test_a_skill_is_at_the_top_or_in_the_only_folder() -> None:
    for files in ({"SKILL.md": SKILL, "a/b": b"x"}, {"auditor/SKILL.md": SKILL, "auditor/a/b": b"x"}):
        skill = read_skill(files)
        assert (skill.name, skill.description, skill.directory) == (
            "Invoice auditor", "Checks invoices.", "Invoice_auditor",
        )  # fmt: skip
        assert skill.files == {"SKILL.md": SKILL, "a/b": b"x"}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "requires multipart file field `files`"),
        ({"a/x": b"", "b/SKILL.md": SKILL}, "exactly one top-level folder"),
        ({"a/SKILL.md": SKILL, "x": b""}, "exactly one top-level folder"),
        ({"a/skill.md": SKILL}, "must contain SKILL.md"),
        ({"SKILL.md": b"# no front matter"}, "must begin with front matter"),
        ({"SKILL.md": b"---\nname: x\n"}, "must begin with front matter"),
        ({"SKILL.md": b"---\nname: [\n---\n"}, "is no YAML"),
        ({"SKILL.md": b"---\n- name\n---\n"}, "must be a mapping"),
        ({"SKILL.md": b"---\nname: x\n---\n"}, "must have `description`"),
        ({"SKILL.md": b"---\nname: 3\ndescription: y\n---\n"}, "must have `name`"),
        ({"SKILL.md": b"---\nname: " + b"x" * 256 + b"\ndescription: y\n---\n"}, "has 256 characters; 255 are allowed"),
        ({"SKILL.md": b"---\na: &a [x]\nb: [*a, *a]\nname: x\ndescription: y\n---\n"}, "anchors and aliases"),
        ({"SKILL.md": b"---\nname: " + b"[" * 20_000 + b"\n---\n"}, "no YAML|front matter"),
    ],
)
def test_what_is_wrong_with_a_skill_is_said(files: dict[str, bytes], problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        read_skill(files)
