"""Skills with their versions: each its owner's, kept in a file or in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ronda.errors import BadRequest, NotFound
from ronda.files.archives import unpack_zip
from ronda.files.blobs import Blobs, FolderBlobs, MemoryBlobs
from ronda.files.file_store import FileStore
from ronda.files.skill_store import SkillStore, find_version
from ronda.store.catalog import Catalog
from ronda.store.memory import MemoryCatalog
from ronda.store.sqlite_catalog import SqliteCatalog


class Kept:
    def __init__(self, catalog: Catalog, blobs: Blobs) -> None:
        self.catalog, self.blobs = catalog, blobs
        self.files = FileStore(catalog.files, blobs)
        self.skills = SkillStore(catalog.skills, self.files)


@pytest.fixture(params=["folder", "memory"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    in_folder = request.param == "folder"
    catalog: Catalog = SqliteCatalog(str(tmp_path / "catalog.db")) if in_folder else MemoryCatalog()
    yield Kept(catalog, FolderBlobs(tmp_path / "files") if in_folder else MemoryBlobs())
    await catalog.close()


def folder(name: str = "auditor", text: str = "how") -> dict[str, bytes]:
    return {"x/SKILL.md": f"---\nname: {name}\ndescription: about {name}\n---\n{text}".encode(), "x/a/b.py": b"1"}


async def test_a_skill_is_made_found_and_deleted_by_its_owner_alone(kept: Kept) -> None:
    skill = await kept.skills.create("ann", folder())
    assert (skill.title, skill.default, len(skill.id)) == ("auditor", 1, 38)
    assert (skill.latest.id, skill.latest.description) == (f"{skill.id}_v1", "about auditor")
    assert await kept.skills.find("ann", skill.id) == skill
    for attempt in (kept.skills.find, kept.skills.delete):
        with pytest.raises(NotFound, match=f"Skill `{skill.id}` was not found."):
            await attempt("bob", skill.id)
    assert await kept.skills.of("bob") == []
    packed = await kept.skills.content("ann", skill.latest)
    assert unpack_zip(packed) == {path.replace("x/", "auditor/"): data for path, data in folder().items()}
    assert await kept.files.of("ann") == []
    await kept.skills.delete("ann", skill.id)
    assert await kept.skills.of("ann") == []
    assert kept.blobs.hashes() == []


async def test_versions_are_numbered_once_and_each_keeps_its_own_words(kept: Kept) -> None:
    skill = await kept.skills.create("ann", folder("one"), title="Mine")
    second = await kept.skills.add_version("ann", skill.id, folder("two"))
    third = await kept.skills.add_version("ann", skill.id, folder("three"), is_default=True)
    found = await kept.skills.find("ann", skill.id)
    assert [(one.number, one.name) for one in found.versions] == [(1, "one"), (2, "two"), (3, "three")]
    assert (found.title, found.default, found.current) == ("Mine", 3, third)
    assert [find_version(found, name) for name in ("2", second.id, "latest")] == [second, second, third]
    for name in ("4", "0", "", "x"):
        with pytest.raises(NotFound, match="version was not found"):
            find_version(found, name)
    await kept.skills.delete_version("ann", skill.id, "3")
    fourth = await kept.skills.add_version("ann", skill.id, folder("four"))
    found = await kept.skills.find("ann", skill.id)
    assert (fourth.number, found.default, found.latest) == (4, 2, fourth)
    assert (await kept.skills.set_default("ann", skill.id, "1")).current.name == "one"


async def test_the_last_version_stays(kept: Kept) -> None:
    skill = await kept.skills.create("ann", folder())
    with pytest.raises(BadRequest, match="at least one version"):
        await kept.skills.delete_version("ann", skill.id, "latest")


async def test_a_change_to_what_was_changed_meanwhile_is_refused(kept: Kept) -> None:
    skill = await kept.skills.create("ann", folder())
    assert await kept.catalog.skills.replace("ann", replace(skill, title="first"))
    assert not await kept.catalog.skills.replace("ann", replace(skill, title="second"))
    assert not await kept.catalog.skills.replace("bob", skill)
    assert (await kept.skills.find("ann", skill.id)).title == "first"


async def test_a_folder_that_is_no_skill_leaves_nothing(kept: Kept) -> None:
    with pytest.raises(BadRequest):
        await kept.skills.create("ann", {"a/x": b""})
    assert kept.blobs.hashes() == []
