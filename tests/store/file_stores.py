"""What every catalog promises of files, containers and skills: what is known of each. See `catalogs` for how to use it."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.store.catalogs import Contract

from ronda.core.containers import StoredContainer
from ronda.core.files import FileSource, StoredFile
from ronda.core.skills import SkillVersion, StoredSkill
from ronda.core.supplies import CodeLimits
from ronda.store import WriteConflict
from ronda.store.catalog import Catalog
from ronda.store.files import FileQuota, QuotaExceeded


def stored(id: str, hash: str = "aa", size: int = 3, session: str = "", expires: float | None = None) -> StoredFile:
    made = FileSource("user_upload")
    return StoredFile(id, f"{id}.txt", size, hash, "text/plain", 10.0, "user_data", made, "txt", True, session, expires)


class FilesContract(Contract):
    async def add(self, catalog: Catalog, owner: str, *files: StoredFile, quota: FileQuota = FileQuota()) -> None:  # noqa: B008 - frozen
        for file in files:
            await catalog.files.add(owner, file, quota, 10.0, lambda: None)

    async def test_a_file_is_found_and_removed_by_its_owner_alone(self) -> None:
        async with self.opened() as catalog:
            files, dropped = catalog.files, list[str]()
            await self.add(catalog, "ann", stored("f1"))
            for owner, file_id in (("bob", "f1"), ("", "f1"), ("ann", "f2")):
                assert await files.find(owner, file_id, 11.0) is None
                assert await files.of(owner, 11.0, "f1") == []
                assert await files.remove(owner, file_id, dropped.append) is False
            assert dropped == []
            assert await files.find("ann", "f1", 11.0) == stored("f1")
            assert await files.remove("ann", "f1", dropped.append) is True
            assert await files.find("ann", "f1", 11.0) is None
            assert dropped == ["aa"]

    async def test_an_id_is_given_once(self) -> None:
        async with self.opened() as catalog:
            await self.add(catalog, "ann", stored("f1"))
            for owner in ("ann", "bob"):
                with pytest.raises(WriteConflict):
                    await self.add(catalog, owner, stored("f1", "bb"))
            assert await catalog.files.find("ann", "f1", 11.0) == stored("f1")

    async def test_bytes_are_dropped_with_the_last_file_that_has_them(self) -> None:
        async with self.opened() as catalog:
            dropped = list[str]()
            await self.add(catalog, "ann", stored("f1"), stored("f2"))
            await self.add(catalog, "bob", stored("f3"))
            for owner, file_id in (("ann", "f2"), ("bob", "f3")):
                await catalog.files.remove(owner, file_id, dropped.append)
                assert dropped == []
            await catalog.files.drop_unknown(["aa", "bb"], dropped.append)
            assert dropped == ["bb"]
            await catalog.files.remove("ann", "f1", dropped.append)
            assert dropped == ["bb", "aa"]

    async def test_what_is_refused_is_not_placed(self) -> None:
        async with self.opened() as catalog:
            placed = list[int]()
            await self.add(catalog, "ann", stored("f1", size=5), stored("f2", size=5))
            for quota in (FileQuota(files=2), FileQuota(size=12)):
                with pytest.raises(QuotaExceeded, match="you keep 2 files of 10 bytes together"):
                    await catalog.files.add("ann", stored("f3"), quota, 10.0, lambda: placed.append(1))
                await catalog.files.add("bob", stored(f"b{quota.files}"), quota, 10.0, lambda: placed.append(2))
            assert placed == [2, 2]
            assert [file.id for file in await catalog.files.of("ann", 10.0)] == ["f1", "f2"]

    async def test_a_file_whose_bytes_cannot_be_placed_is_not_there(self) -> None:
        async with self.opened() as catalog:

            def fail() -> None:
                raise OSError("the disk is full")

            with pytest.raises(OSError, match="the disk is full"):
                await catalog.files.add("ann", stored("f1"), FileQuota(), 10.0, fail)
            assert await catalog.files.of("ann", 10.0) == []

    async def test_what_has_expired_is_not_found_counted_or_listed_and_then_removed(self) -> None:
        async with self.opened() as catalog:
            files, dropped = catalog.files, list[str]()
            await self.add(
                catalog, "ann", stored("f1", expires=20.0), stored("f2", "bb", expires=30.0), stored("f3", "cc")
            )
            assert await files.find("ann", "f1", 19.9) is not None
            assert await files.find("ann", "f1", 20.0) is None
            assert [file.id for file in await files.of("ann", 20.0)] == ["f2", "f3"]
            await files.add("ann", stored("f4", "dd"), FileQuota(files=3), 20.0, lambda: None)
            assert await files.remove_expired(25.0, dropped.append) == 1
            assert dropped == ["aa"]

    async def test_files_of_a_session_stay_and_go_together(self) -> None:
        async with self.opened() as catalog:
            files, dropped = catalog.files, list[str]()
            mine = [stored(f"f{n}", f"{n}", session="s", expires=float(n)) for n in (20, 40)]
            others = [stored("g1", "g", session="t", expires=20.0), stored("g2", "h")]
            await self.add(catalog, "ann", *mine, *others)
            await self.add(catalog, "bob", stored("b1", "b", session="s", expires=20.0))
            await files.prolong("ann", "s", 30.0)
            assert await files.of("ann", 10.0, "s") == [replace(mine[0], expires=30.0), mine[1]]
            assert [file.id for file in await files.of("ann", 25.0)] == ["f20", "f40", "g2"]
            assert await files.find("bob", "b1", 25.0) is None
            assert await files.remove_session("ann", "s", dropped.append) == 2
            assert sorted(dropped) == ["20", "40"]
            assert [file.id for file in await files.of("bob", 10.0)] == ["b1"]


class ContainersContract(Contract):
    async def test_a_container_is_its_owners_alone(self) -> None:
        async with self.opened() as catalog:
            containers = catalog.containers
            assert await containers.find("ann", "s") is None
            assert not await containers.delete("ann", "s")
            first, second = StoredContainer("t", "a", 1.0, 1.0), StoredContainer("s", "b", 2.0, 2.0, 20)
            for one in (first, second):
                await containers.put("ann", one)
            await containers.put("bob", StoredContainer("s", "c", 3.0, 3.0))
            assert await containers.of("ann") == [first, second]
            assert await containers.find("ann", "s") == second
            await containers.put("ann", replace(first, active=9.0))
            assert await containers.of("ann") == [replace(first, active=9.0), second]
            assert await containers.delete("ann", "t")
            assert [one.name for one in await containers.of("ann")] == ["b"]
            assert [one.name for one in await containers.of("bob")] == ["c"]

    async def test_containers_that_expire_are_found_with_their_owners(self) -> None:
        async with self.opened() as catalog:
            containers = catalog.containers
            assert await containers.expiring() == []
            stays, limited = StoredContainer("s", "a", 1.0, 1.0), CodeLimits(1024, is_offline=True)
            goes = StoredContainer("t", "b", 2.0, 2.0, 20, limits=limited)
            await containers.put("ann", stays)
            await containers.put("bob", goes)
            assert await containers.expiring() == [("bob", goes)]


def skill(id: str, created: float = 10.0) -> StoredSkill:
    version = SkillVersion(1, f"{id}_v1", created, "weather", "Tells the weather.", "weather")
    return StoredSkill(id, f"skill {id}", created, created, 1, (version,))


class SkillsContract(Contract):
    async def test_a_skill_is_its_owners_alone(self) -> None:
        async with self.opened() as catalog:
            skills = catalog.skills
            assert (await skills.find("ann", "s1"), await skills.of("ann")) == (None, [])
            await skills.create("ann", skill("s1"))
            for owner, skill_id in (("bob", "s1"), ("", "s1"), ("ann", "s2")):
                assert await skills.find(owner, skill_id) is None
                assert await skills.replace(owner, skill(skill_id)) is False
                assert await skills.delete(owner, skill_id) is False
            assert await skills.of("bob") == []
            assert await skills.find("ann", "s1") == skill("s1")

    async def test_skills_are_listed_in_the_order_they_were_made(self) -> None:
        async with self.opened() as catalog:
            for skill_id, owner, created in (
                ("s3", "ann", 1.0),
                ("s2", "bob", 2.0),
                ("s9", "ann", 3.0),
                ("s1", "ann", 3.0),
            ):
                await catalog.skills.create(owner, skill(skill_id, created))
            assert [one.id for one in await catalog.skills.of("ann")] == ["s3", "s9", "s1"]

    async def test_an_id_of_a_skill_is_given_once(self) -> None:
        async with self.opened() as catalog:
            await catalog.skills.create("ann", skill("s1"))
            for owner in ("ann", "bob"):
                with pytest.raises(WriteConflict):
                    await catalog.skills.create(owner, skill("s1", 20.0))
            assert await catalog.skills.find("ann", "s1") == skill("s1")

    async def test_a_skill_is_changed_by_who_read_it_last(self) -> None:
        async with self.opened() as catalog:
            skills, old = catalog.skills, skill("s1")
            await skills.create("ann", old)
            assert await skills.replace("ann", replace(old, title="new")) is True
            new = replace(old, title="new", revision=1)
            assert await skills.find("ann", "s1") == new
            assert await skills.replace("ann", replace(old, title="too late")) is False
            assert await skills.find("ann", "s1") == new

    async def test_of_many_who_change_a_skill_at_once_one_does(self) -> None:
        async with self.opened() as catalog:
            await catalog.skills.create("ann", skill("s1"))
            changes = [catalog.skills.replace("ann", replace(skill("s1"), title=f"{n}")) for n in range(8)]
            assert sorted(await asyncio.gather(*changes)) == [False] * 7 + [True]

    async def test_a_deleted_skill_is_gone(self) -> None:
        async with self.opened() as catalog:
            await catalog.skills.create("ann", skill("s1"))
            assert await catalog.skills.delete("ann", "s1") is True
            assert await catalog.skills.delete("ann", "s1") is False
            assert (await catalog.skills.find("ann", "s1"), await catalog.skills.of("ann")) == (None, [])
            assert await catalog.skills.replace("ann", skill("s1")) is False
