"""A folder for each session: its own, with a client's files in it, until no client has used it for long."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.core.files import StoredFile
from ronda.errors import BadRequest, TooLarge
from ronda.files.blobs import MemoryBlobs
from ronda.files.file_store import FileFacts, FileStore
from ronda.files.workspaces import PlacedInput, WorkspaceInput, WorkspaceLimits, Workspaces
from ronda.store import StoreError
from ronda.store.memory import MemoryCatalog


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def workspaces(tmp_path: Path, clock: Clock) -> Workspaces:
    return Workspaces(tmp_path / "work", WorkspaceLimits(seconds=100.0, inputs=4, input_size=50), clock)


@pytest.fixture
def store() -> FileStore:
    return FileStore(MemoryCatalog().files, MemoryBlobs())


def inputs(store: FileStore, files: Sequence[StoredFile]) -> list[WorkspaceInput]:
    return [WorkspaceInput(file.id, file.name, file.size, partial(store.read, file)) for file in files]


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_folder_is_of_one_owner_and_one_session(workspaces: Workspaces) -> None:
    mine = workspaces.folder("ann", "s")
    assert workspaces.folder("ann", "s") == mine
    others = {workspaces.folder(*key) for key in (("bob", "s"), ("ann", "t"), ("", "anns"), ("an", "ns"), ("", ""))}
    assert len(others | {mine}) == 6
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700


@given(
    owner=st.text(), session=st.text() | st.sampled_from(["..", "../../x", "/etc", "a/b", "\0", "x" * 5000, "\ud800"])
)
def test_no_name_leads_out_of_the_root(tmp_path_factory: pytest.TempPathFactory, owner: str, session: str) -> None:
    root = tmp_path_factory.getbasetemp() / "any"
    folder = Workspaces(root).folder(owner, session)
    assert folder.resolve().parent.parent == root.resolve()


async def test_a_file_is_put_in_once_and_what_code_made_of_it_stays(workspaces: Workspaces, store: FileStore) -> None:
    first = await store.add("ann", b"1", FileFacts("a"))
    await workspaces.put("ann", "s", inputs(store, [first, first]))
    folder = workspaces.folder("ann", "s")
    (folder / "a").write_bytes(b"changed")
    second = await store.add("ann", b"2", FileFacts("b"))
    placed = await workspaces.put("ann", "s", inputs(store, [first, second]))
    assert placed == [PlacedInput(first.id, "a", 1), PlacedInput(second.id, "b", 1)]
    assert (folder / "a").read_bytes() == b"changed"
    assert (folder / "b").read_bytes() == b"2"


async def test_another_file_takes_the_place_of_one_of_its_name(workspaces: Workspaces, store: FileStore) -> None:
    files = [await store.add("ann", data, FileFacts("a")) for data in (b"1", b"2")]
    for file in files:
        placed = await workspaces.put("ann", "s", inputs(store, [file]))
    assert placed == [PlacedInput(files[1].id, "a", 1)]
    assert (workspaces.folder("ann", "s") / "a").read_bytes() == b"2"


async def test_a_link_that_code_left_is_replaced_and_not_followed(
    workspaces: Workspaces, store: FileStore, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"mine")
    folder = workspaces.folder("ann", "s")
    (folder / "a").symlink_to(secret)
    (folder / "b").mkdir()
    await workspaces.put("ann", "s", inputs(store, [await store.add("ann", b"new", FileFacts("a"))]))
    assert secret.read_bytes() == b"mine"
    assert (folder / "a").read_bytes() == b"new"
    with pytest.raises(BadRequest, match="'b' cannot be put into the working directory"):
        await workspaces.put("ann", "s", inputs(store, [await store.add("ann", b"new", FileFacts("b"))]))


async def test_a_session_takes_so_many_files_of_so_many_bytes(workspaces: Workspaces, store: FileStore) -> None:
    small = [await store.add("ann", bytes([n]), FileFacts(f"{n}")) for n in range(5)]
    large = await store.add("ann", bytes(50), FileFacts("large"))
    with pytest.raises(TooLarge, match="at most 4 files of 50 bytes together; with these it would have 5 of 5"):
        await workspaces.put("ann", "s", inputs(store, small))
    await workspaces.put("ann", "s", inputs(store, small[:1]))
    with pytest.raises(TooLarge):
        await workspaces.put("ann", "s", inputs(store, [large]))
    assert names(workspaces.folder("ann", "s")) == ["0"]


async def test_a_folder_that_nobody_used_for_long_is_removed(
    workspaces: Workspaces, clock: Clock, tmp_path: Path
) -> None:
    old, used = workspaces.folder("ann", "old"), workspaces.folder("ann", "used")
    (old / "deep").mkdir()
    (old / "deep" / "file").write_bytes(b"x")
    clock.now += 60
    workspaces.folder("ann", "used")
    clock.now += 40
    await workspaces.sweep()
    assert not old.exists()
    assert used.exists()
    assert len(names(tmp_path / "work")) == 1


async def test_a_session_is_deleted_with_its_folder(workspaces: Workspaces, tmp_path: Path) -> None:
    folder = workspaces.folder("ann", "s")
    (folder / "outside").symlink_to(tmp_path)
    await workspaces.delete("bob", "s")
    assert folder.exists()
    await workspaces.delete("ann", "s")
    await workspaces.delete("ann", "s")
    assert names(tmp_path / "work") == []
    assert names(tmp_path) == ["work"]


async def test_a_removal_that_was_cut_off_is_finished(workspaces: Workspaces, tmp_path: Path) -> None:
    (tmp_path / "work" / ".removed-1" / "files").mkdir(parents=True)
    await workspaces.sweep()
    assert names(tmp_path / "work") == []


def test_a_root_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("")
    with pytest.raises(StoreError, match="no folder can be made in it"):
        Workspaces(tmp_path / "work").folder("ann", "s")
