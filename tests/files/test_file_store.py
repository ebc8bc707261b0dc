"""Files of several owners, in a folder and in memory: what comes in comes out, to whom it belongs, within limits."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ronda.core.files import FileSource
from ronda.errors import BadConfig, NotFound, TooLarge
from ronda.files.blobs import Blobs, FolderBlobs, MemoryBlobs
from ronda.files.file_store import FileFacts, FileLimits, FileStore
from ronda.files.s3_blobs import S3Blobs
from ronda.store import StoreError
from ronda.store.catalog import Catalog
from ronda.store.files import FileQuota, QuotaExceeded
from ronda.store.memory import MemoryCatalog
from ronda.store.sqlite_catalog import SqliteCatalog


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Kept:
    """A store, and what is behind it."""

    def __init__(self, catalog: Catalog, blobs: Blobs) -> None:
        self.catalog = catalog
        self.blobs = blobs
        self.clock = Clock()
        self.limits = FileLimits(size=1_000_000, quota=FileQuota(files=5, size=2_000_000), session_seconds=60.0)
        self.store = FileStore(catalog.files, blobs, self.limits, self.clock)


@pytest.fixture(params=["folder", "bucket", "memory"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    catalog: Catalog
    blobs: Blobs
    match request.param:
        case "folder":
            catalog, blobs = SqliteCatalog(str(tmp_path / "catalog.db")), FolderBlobs(tmp_path / "files")
        case "bucket":
            catalog, blobs = SqliteCatalog(str(tmp_path / "catalog.db")), request.getfixturevalue("bucket")
        case _:
            catalog, blobs = MemoryCatalog(), MemoryBlobs()
    yield Kept(catalog, blobs)
    await catalog.close()


@given(pieces=st.lists(st.binary(max_size=50), max_size=10))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_comes_in_comes_out(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    async def check() -> None:
        store = FileStore(MemoryCatalog().files, FolderBlobs(tmp_path_factory.mktemp("files")))
        async with store.receive("ann") as upload:
            for piece in pieces:
                await upload.write(piece)
            file = await upload.finish(FileFacts("a.bin"))
        whole = b"".join(pieces)
        assert file.size == len(whole)
        assert await store.read(file) == whole
        assert await store.read(file, 3, 4) == whole[3:7]
        assert b"".join([piece async for piece in store.pieces(file)]) == whole

    asyncio.run(check())


async def test_a_file_is_its_owners_alone(kept: Kept) -> None:
    file = await kept.store.add("ann", b"secret", FileFacts("a.txt"))
    assert await kept.store.find("ann", file.id) == file
    for owner in ("bob", ""):
        with pytest.raises(NotFound, match=f"File '{file.id}' not found or expired"):
            await kept.store.find(owner, file.id)
        with pytest.raises(NotFound):
            await kept.store.delete(owner, file.id)
        assert await kept.store.of(owner) == []
    assert await kept.store.read(file) == b"secret"


async def test_what_is_said_of_a_file_and_what_its_name_says(kept: Kept) -> None:
    made = FileSource("mistralrs_execute_python", 1, 2)
    file = await kept.store.add("ann", b"x,y\n", FileFacts("Table.CSV", "agent_output", source=made, id="file_r_r1_0"))
    assert (file.id, file.format, file.mime_type, file.is_text) == ("file_r_r1_0", "csv", "text/csv", True)
    assert (file.purpose, file.source, file.created, file.expires) == ("agent_output", made, 1000.0, None)
    declared = await kept.store.add("ann", b"\xff", FileFacts("a", mime_type="image/png", format="PNG"))
    assert (declared.format, declared.mime_type, declared.is_text) == ("png", "image/png", False)
    unknown = await kept.store.add("ann", b"a\0b", FileFacts(".hidden", mime_type="application/octet-stream"))
    assert (unknown.format, unknown.mime_type, unknown.is_text) == ("", "application/octet-stream", False)


async def test_text_that_is_cut_between_pieces_is_text(kept: Kept) -> None:
    async with kept.store.receive("ann") as upload:
        for byte in "déjà 日本".encode():
            await upload.write(bytes([byte]))
        assert (await upload.finish(FileFacts("a"))).is_text
    assert not (await kept.store.add("ann", "é".encode()[:1], FileFacts("a"))).is_text


async def test_a_file_that_is_too_large_is_refused_while_it_comes_in(kept: Kept) -> None:
    async with kept.store.receive("ann") as upload:
        await upload.write(bytes(1_000_000))
        with pytest.raises(TooLarge, match="more than the 1000000 bytes"):
            await upload.write(b"x")
    assert kept.blobs.hashes() == []


async def test_what_tools_make_takes_the_place_of_what_they_made_in_other_sessions_long_ago(kept: Kept) -> None:
    made = FileFacts("plot.png", "agent_output", session="old", lifetime=10 * 86400.0)
    uploaded = await kept.store.add("ann", b"mine", FileFacts("mine.txt"))
    for number in range(3):
        await kept.store.add("ann", bytes([number]), made)
    kept.clock.now += 2 * 86400.0
    new = [await kept.store.add("ann", bytes([9, number]), replace(made, session="new")) for number in range(4)]
    assert [file.id for file in await kept.store.of("ann")] == [uploaded.id, *[file.id for file in new]]
    assert len(kept.blobs.hashes()) == 5
    with pytest.raises(QuotaExceeded):  # they do not make room for each other
        await kept.store.add("ann", b"more", replace(made, session="new"))
    with pytest.raises(QuotaExceeded):  # they are of today
        await kept.store.add("ann", b"more", replace(made, session="third"))
    with pytest.raises(QuotaExceeded):  # what tools made does not go for a client's
        await kept.store.add("ann", b"more", FileFacts("more.txt"))
    assert len(await kept.store.of("ann")) == 5


async def test_an_owner_keeps_no_more_than_the_quota(kept: Kept) -> None:
    for n in range(5):
        await kept.store.add("ann", bytes([n]), FileFacts("a"))
    with pytest.raises(QuotaExceeded, match=r"you keep 5 files .* delete some"):
        await kept.store.add("ann", b"one more", FileFacts("a"))
    assert len(kept.blobs.hashes()) == 5
    await kept.store.add("bob", b"one more", FileFacts("a"))


async def test_the_same_bytes_are_kept_once_and_until_the_last_file_is_deleted(kept: Kept) -> None:
    mine = await kept.store.add("ann", b"same", FileFacts("a"))
    others = await kept.store.add("bob", b"same", FileFacts("b"))
    assert len(kept.blobs.hashes()) == 1
    await kept.store.delete("ann", mine.id)
    assert await kept.store.read(others) == b"same"
    await kept.store.delete("bob", others.id)
    assert kept.blobs.hashes() == []
    with pytest.raises(NotFound):
        await kept.store.read(others)


async def test_files_expire_and_those_of_a_session_stay_while_it_is_used(kept: Kept) -> None:
    short = await kept.store.add("ann", b"1", FileFacts("a", lifetime=50.0))
    session = await kept.store.add("ann", b"2", FileFacts("b", session="s"))
    for_good = await kept.store.add("ann", b"3", FileFacts("c"))
    kept.clock.now += 50
    with pytest.raises(NotFound):
        await kept.store.find("ann", short.id)
    await kept.store.prolong("ann", "s")
    kept.clock.now += 59
    await kept.store.sweep()
    assert [file.id for file in await kept.store.of("ann")] == [session.id, for_good.id]
    assert len(kept.blobs.hashes()) == 2
    kept.clock.now += 1
    await kept.store.sweep()
    assert kept.blobs.hashes() == [for_good.hash]


async def test_a_session_is_deleted_with_its_files(kept: Kept) -> None:
    await kept.store.add("ann", b"2", FileFacts("b", session="s"))
    stays = await kept.store.add("ann", b"3", FileFacts("b", session="t"))
    await kept.store.delete_session("ann", "s")
    assert await kept.store.of("ann") == [stays]
    assert kept.blobs.hashes() == [stays.hash]


# ---- in a folder -------------------------------------------------------------------------------------------------------


async def test_nobody_else_may_look_into_the_folder(tmp_path: Path) -> None:
    store = FileStore(MemoryCatalog().files, FolderBlobs(tmp_path / "files"))
    await store.add("ann", b"secret", FileFacts("a"))
    modes = [(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (tmp_path / "files").rglob("*")]
    assert set(modes) == {(True, 0o700), (False, 0o600)}


async def test_what_was_not_finished_leaves_nothing(tmp_path: Path) -> None:
    store = FileStore(MemoryCatalog().files, FolderBlobs(tmp_path))
    async with store.receive("ann") as upload:
        await upload.write(bytes(500_000))
        assert len(files_in(tmp_path)) == 1
    assert files_in(tmp_path) == []


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_new_start_removes_what_a_killed_process_left_and_nothing_of_others(tmp_path: Path) -> None:
    catalog, blobs = MemoryCatalog(), FolderBlobs(tmp_path)
    store = FileStore(catalog.files, blobs)
    file = await store.add("ann", b"stays", FileFacts("a"))
    orphan = blobs.begin()
    orphan.write(b"placed, and its row never written")
    digest, _ = orphan.finish()
    orphan.place()
    left = tmp_path / "incoming" / "left"
    left.write_bytes(b"half")
    async with store.receive("bob") as upload:
        await upload.write(b"coming in")
        await FileStore(catalog.files, FolderBlobs(tmp_path)).sweep()
        assert not left.exists()
        assert blobs.hashes() == [file.hash]
        assert digest != file.hash
        other = await upload.finish(FileFacts("b"))
    assert await store.read(other) == b"coming in"
    orphan.discard()


async def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("")
    store = FileStore(MemoryCatalog().files, FolderBlobs(tmp_path / "files"))
    with pytest.raises(StoreError, match="a file cannot be kept in it"):
        await store.add("ann", b"x", FileFacts("a"))


# ---- in a bucket -------------------------------------------------------------------------------------------------------


async def test_a_large_file_in_a_bucket_is_read_from_any_place(bucket: S3Blobs) -> None:
    store = FileStore(MemoryCatalog().files, bucket)
    whole = bytes(range(256)) * 40_000  # in several parts
    file = await store.add("ann", whole, FileFacts("a.bin"))
    assert b"".join([piece async for piece in store.pieces(file)]) == whole
    assert await store.read(file, 5_000_003, 70) == whole[5_000_003:5_000_073]
    assert await store.read(file, len(whole), 70) == b""
    assert bucket.hashes() == [file.hash]
    objects = bucket.client.list_objects(bucket.bucket, recursive=True)
    assert [one.object_name for one in objects] == [f"files/of/ronda/{file.hash[:2]}/{file.hash}"]


async def test_what_was_not_finished_leaves_nothing_in_a_bucket(bucket: S3Blobs) -> None:
    store = FileStore(MemoryCatalog().files, bucket)
    async with store.receive("ann") as upload:
        await upload.write(b"half")
    assert list(bucket.client.list_objects(bucket.bucket, recursive=True)) == []


async def test_a_bucket_that_is_not_there_is_named(bucket: S3Blobs) -> None:
    store = FileStore(MemoryCatalog().files, S3Blobs("s3://nobody-has-this"))
    with pytest.raises(StoreError, match="s3://nobody-has-this"):
        await store.add("ann", b"x", FileFacts("a"))
    with pytest.raises(BadConfig, match="names no bucket"):
        S3Blobs("s3:///prefix")
