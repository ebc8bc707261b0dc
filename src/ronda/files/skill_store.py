"""Skills of all owners, with their versions. The folder of each version is kept as a zip, among files that no client can name."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b

from msgspec.structs import replace

from ronda.core.skills import SkillVersion, StoredSkill
from ronda.errors import BadRequest, NotFound
from ronda.files.archives import STORED_LIMITS, pack_zip, unpack_zip
from ronda.files.file_store import FileFacts, FileStore
from ronda.files.skill_folders import SkillFolder, read_skill
from ronda.store import WriteConflict
from ronda.store.skills import Skills

_MOST_SKILLS = 200
_MOST_VERSIONS = 100
_INLINE_SECONDS = 30 * 86400.0


class SkillStore:
    def __init__(self, rows: Skills, files: FileStore, clock: Callable[[], float] = time.time) -> None:
        self._rows = rows
        self._files = files
        self._clock = clock

    async def create(self, owner: str, files: Mapping[str, bytes], title: str = "") -> StoredSkill:
        folder = await asyncio.to_thread(read_skill, files)
        if len(await self._rows.of(owner)) >= _MOST_SKILLS:
            raise BadRequest(f"you keep {_MOST_SKILLS} skills, and no more are allowed; delete some")
        skill_id = f"skill_{secrets.token_hex(16)}"
        version = await self._keep(owner, skill_id, 1, folder)
        skill = StoredSkill(skill_id, title or folder.name, version.created, version.created, 1, (version,))
        await self._rows.create(owner, skill)
        return skill

    async def add_version(
        self, owner: str, skill_id: str, files: Mapping[str, bytes], is_default: bool = False
    ) -> SkillVersion:
        folder = await asyncio.to_thread(read_skill, files)
        skill = await self.find(owner, skill_id)
        if len(skill.versions) >= _MOST_VERSIONS:
            raise BadRequest(f"a skill has at most {_MOST_VERSIONS} versions; delete some")
        number = skill.next_number
        version = await self._keep(owner, skill_id, number, folder)
        default = number if is_default else skill.default
        changed = replace(skill, versions=(*skill.versions, version), next_number=number + 1, default=default)
        await self._change(owner, changed)
        return version

    async def set_default(self, owner: str, skill_id: str, version: str) -> StoredSkill:
        skill = await self.find(owner, skill_id)
        await self._change(owner, replace(skill, default=find_version(skill, version).number))
        return await self.find(owner, skill_id)

    async def find(self, owner: str, skill_id: str) -> StoredSkill:
        skill = await self._rows.find(owner, skill_id)
        if skill is None:
            raise NotFound(f"Skill `{skill_id[:200]}` was not found.")
        return skill

    async def of(self, owner: str) -> list[StoredSkill]:
        return await self._rows.of(owner)

    async def content(self, owner: str, version: SkillVersion) -> bytes:
        """The version's folder, as a zip."""
        keeper = zip_owner(owner)
        return await self._files.read(await self._files.find(keeper, version.id))

    async def keep_inline(self, owner: str, folder: SkillFolder) -> str:
        """Keeps a skill that came with a request for as long as its session may last; by what name `files_of` finds it."""
        packed = await asyncio.to_thread(pack_zip, _below(folder))
        skill_id = f"skill_inline_{blake2b(owner.encode() + b'/' + packed, digest_size=16).hexdigest()}"
        with contextlib.suppress(WriteConflict):  # it came before
            facts = FileFacts(
                f"{folder.directory}.zip", "skill", "application/zip", lifetime=_INLINE_SECONDS, id=skill_id
            )
            await self._files.add(zip_owner(owner), packed, facts)
        return skill_id

    async def files_of(self, owner: str, content: str) -> dict[str, bytes]:
        """The files of a version's folder, by their paths below it."""
        packed = await self._files.read(await self._files.find(zip_owner(owner), content))
        files = await asyncio.to_thread(unpack_zip, packed, STORED_LIMITS)
        return {path.partition("/")[2]: data for path, data in files.items()}

    async def delete(self, owner: str, skill_id: str) -> None:
        skill = await self.find(owner, skill_id)
        await self._rows.delete(owner, skill_id)
        for version in skill.versions:
            await self._files.delete(zip_owner(owner), version.id)

    async def delete_version(self, owner: str, skill_id: str, name: str) -> SkillVersion:
        skill = await self.find(owner, skill_id)
        version = find_version(skill, name)
        left = tuple([one for one in skill.versions if one is not version])
        if not left:
            raise BadRequest("a skill has at least one version; delete the skill itself")
        default = left[-1].number if skill.default == version.number else skill.default
        await self._change(owner, replace(skill, versions=left, default=default))
        await self._files.delete(zip_owner(owner), version.id)
        return version

    async def _keep(self, owner: str, skill_id: str, number: int, folder: SkillFolder) -> SkillVersion:
        packed = await asyncio.to_thread(pack_zip, _below(folder))
        facts = FileFacts(f"{folder.directory}.zip", "skill", "application/zip", id=f"{skill_id}_v{number}")
        file = await self._files.add(zip_owner(owner), packed, facts)
        return SkillVersion(number, file.id, self._clock(), folder.name, folder.description, folder.directory)

    async def _change(self, owner: str, skill: StoredSkill) -> None:
        if not await self._rows.replace(owner, replace(skill, updated=self._clock())):
            raise WriteConflict(f"the skill '{skill.id}' was changed by another request at the same time; try again")


def find_version(skill: StoredSkill, name: str) -> SkillVersion:
    version = skill.version(name)
    if version is None:
        raise NotFound(f"Skill `{skill.id}` version was not found.")
    return version


def _below(folder: SkillFolder) -> dict[str, bytes]:
    return {f"{folder.directory}/{path}": data for path, data in folder.files.items()}


def zip_owner(owner: str) -> str:
    """Whose the zips are: an owner who cannot ask for a file, since no key has an owner with a NUL in its name."""
    return f"\0skills\0{owner}"
