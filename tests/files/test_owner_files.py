"""The files of one owner, deleted together: bytes that another owner shares stay, in a folder and in a bucket."""

from __future__ import annotations

from pathlib import Path

from ronda.files.blobs import Blobs, FolderBlobs
from ronda.files.file_store import FileFacts, FileStore
from ronda.files.s3_blobs import S3Blobs
from ronda.store.memory import MemoryCatalog


async def _deleted(blobs: Blobs) -> None:
    catalog = MemoryCatalog()
    store = FileStore(catalog.files, blobs)
    await store.add("ann", b"canary of ann", FileFacts("a.txt"))
    await store.add("ann", b"gone by now", FileFacts("b.txt", lifetime=-1.0))
    await store.add("ann", b"shared", FileFacts("c.txt"))
    kept = await store.add("bob", b"shared", FileFacts("d.txt"))

    assert await store.delete_owner("ann") == 3

    assert await store.of("ann") == []
    assert blobs.hashes() == [kept.hash]
    assert await store.read(kept) == b"shared"
    await catalog.close()


async def test_an_owners_files_go_from_a_folder(tmp_path: Path) -> None:
    await _deleted(FolderBlobs(tmp_path))


async def test_an_owners_files_go_from_a_bucket(bucket: S3Blobs) -> None:
    await _deleted(bucket)
