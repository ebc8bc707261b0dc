"""/v1/skills: folders that teach a model something, kept with their versions, in the shapes of OpenAI and Anthropic."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp

from ronda.core.skills import SkillVersion
from ronda.errors import BadRequest, TooLarge
from ronda.files.archives import DEFAULT_LIMITS, folder_of, is_zip, unpack_zip
from ronda.files.skill_store import SkillStore, find_version
from ronda.server.doors.shapes import with_shape
from ronda.server.http.forms import Take, read_parts
from ronda.server.http.incoming import Incoming, Json, Whole
from ronda.wire.resources.skills import (
    SkillShape,
    shape_of,
    write_deleted,
    write_skill,
    write_skills,
    write_version,
    write_version_deleted,
    write_versions,
)

_FIELDS: Final = ("files", "files[]", "file")
_AROUND: Final = 1024 * 1024  # bytes of a form besides its files
_LONGEST_TITLE: Final = 255


async def _read_folder(incoming: Incoming) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files of a form, unpacked where they came as one zip, and its fields."""
    sent: list[tuple[str, bytearray]] = []
    size = 0

    async def begin(field: str, name: str, content_type: str) -> Take:
        if field not in _FIELDS:
            raise BadRequest(f"`{field[:100]}` is no field for files; use `files`", param=field)
        content = bytearray()
        sent.append((name, content))
        return lambda data: take(content, data)

    async def take(content: bytearray, data: bytes) -> None:
        nonlocal size
        content += data
        size += len(data)
        if size > DEFAULT_LIMITS.size:
            raise TooLarge(f"the files have more than the {DEFAULT_LIMITS.size} bytes that a skill may have")

    fields = await read_parts(incoming, DEFAULT_LIMITS.size + _AROUND, begin)
    files = [(name, bytes(content)) for name, content in sent]
    if len(files) == 1 and is_zip(*files[0]):
        return await asyncio.to_thread(unpack_zip, files[0][1]), fields
    return folder_of(files), fields


class SkillsDoor:
    def __init__(self, skills: SkillStore, max_body: int) -> None:
        self._skills = skills
        self._max_body = max_body

    @with_shape(shape_of)
    async def create(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        files, fields = await _read_folder(incoming)
        title = (fields.get("display_name") or fields.get("display_title") or "").strip()
        if len(title) > _LONGEST_TITLE or not title.isprintable():
            raise BadRequest(f"the title must be one line of at most {_LONGEST_TITLE} characters", param="display_name")
        return Json(write_skill(await self._skills.create(incoming.owner, files, title), shape))

    @with_shape(shape_of)
    async def list_skills(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        return Json(write_skills(await self._skills.of(incoming.owner), incoming.query, shape))

    @with_shape(shape_of)
    async def get(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        return Json(write_skill(await self._skills.find(incoming.owner, incoming.places["id"]), shape))

    @with_shape(shape_of)
    async def update(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        wish = await incoming.read(self._max_body, _read_update)
        skill = await self._skills.set_default(incoming.owner, incoming.places["id"], wish.default_version)
        return Json(write_skill(skill, shape))

    @with_shape(shape_of)
    async def delete(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        await self._skills.delete(incoming.owner, incoming.places["id"])
        return Json(write_deleted(incoming.places["id"], shape))

    @with_shape(shape_of)
    async def content(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        skill = await self._skills.find(incoming.owner, incoming.places["id"])
        return await self._zip(incoming, skill.current)

    @with_shape(shape_of)
    async def create_version(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        await self._skills.find(incoming.owner, incoming.places["id"])  # before its folder is read
        files, fields = await _read_folder(incoming)
        skill_id, is_default = incoming.places["id"], fields.get("default", "").strip().lower() == "true"
        version = await self._skills.add_version(incoming.owner, skill_id, files, is_default)
        return Json(write_version(skill_id, version, shape))

    @with_shape(shape_of)
    async def list_versions(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        return Json(
            write_versions(await self._skills.find(incoming.owner, incoming.places["id"]), incoming.query, shape)
        )

    @with_shape(shape_of)
    async def get_version(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        return Json(write_version(incoming.places["id"], await self._version(incoming), shape))

    @with_shape(shape_of)
    async def delete_version(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        places = incoming.places
        gone = await self._skills.delete_version(incoming.owner, places["id"], places["version"])
        return Json(write_version_deleted(gone, shape))

    @with_shape(shape_of)
    async def version_content(self, incoming: Incoming, shape: SkillShape) -> ASGIApp:
        return await self._zip(incoming, await self._version(incoming))

    async def _version(self, incoming: Incoming) -> SkillVersion:
        return find_version(await self._skills.find(incoming.owner, incoming.places["id"]), incoming.places["version"])

    async def _zip(self, incoming: Incoming, version: SkillVersion) -> ASGIApp:
        packed = await self._skills.content(incoming.owner, version)
        name = f'attachment; filename="{version.directory}.zip"'
        return Whole(
            packed, headers=[(b"content-type", b"application/zip"), (b"content-disposition", name.encode("latin-1"))]
        )


class _Update(Struct, frozen=True):
    default_version: str


def _read_update(body: bytes) -> _Update:
    try:
        return msgspec.json.decode(body, type=_Update)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadRequest(
            f'the body must be {{"default_version": "NUMBER"}}: {error}', param="default_version"
        ) from error
