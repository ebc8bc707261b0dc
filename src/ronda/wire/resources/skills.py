"""Skills as clients of OpenAI and Anthropic know them: objects and pages out, in the shape of either API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

from ronda.core.skills import SkillVersion, StoredSkill
from ronda.wire.codec.json import encode
from ronda.wire.resources.files import when
from ronda.wire.resources.pages import PAGE_TOKEN, Query, in_order, last_value, openai_list, page_after, read_limit

# "anthropic" is the API of the version below and later, "anthropic-beta" what was before it.
SkillShape: TypeAlias = Literal["openai", "anthropic", "anthropic-beta"]

_NEWER: Final = "2026-10-21"

T = TypeVar("T", SkillVersion, StoredSkill)


def shape_of(headers: Mapping[str, str], query: Query) -> SkillShape:
    if "anthropic-version" in headers:
        return "anthropic" if headers["anthropic-version"] >= _NEWER else "anthropic-beta"
    return "anthropic-beta" if "anthropic-beta" in headers or "source" in query else "openai"


def skill_object(skill: StoredSkill, shape: SkillShape) -> dict[str, Any]:
    if shape == "openai":
        current = skill.current
        return {
            "id": skill.id,
            "object": "skill",
            "created_at": int(skill.created),
            "name": current.name,
            "description": current.description,
            "default_version": str(skill.default),
            "latest_version": str(skill.latest.number),
        }
    return {
        "id": skill.id,
        "type": "skill",
        "display_name": skill.title,
        "display_title": skill.title,
        "latest_version": str(skill.latest.number),
        "latest_version_id": skill.latest.id,
        "source": {"type": "custom"} if shape == "anthropic" else "custom",
        "created_at": when(skill.created),
        "updated_at": when(skill.updated),
    }


def version_object(skill: str, version: SkillVersion, shape: SkillShape) -> dict[str, Any]:
    written = {
        "id": version.id,
        "skill_id": skill,
        "name": version.name,
        "description": version.description,
        "version": str(version.number),
    }
    if shape == "openai":
        return {**written, "object": "skill.version", "created_at": int(version.created)}
    return {
        **written,
        "type": "skill_version",
        "directory": version.directory,
        "created_at": when(version.created),
    }


def write_skill(skill: StoredSkill, shape: SkillShape) -> bytes:
    return encode(skill_object(skill, shape))


def write_version(skill: str, version: SkillVersion, shape: SkillShape) -> bytes:
    return encode(version_object(skill, version, shape))


def write_deleted(skill_id: str, shape: SkillShape) -> bytes:
    if shape == "openai":
        return encode({"id": skill_id, "object": "skill.deleted", "deleted": True})
    return encode({"id": skill_id, "type": "skill_deleted"})


def write_version_deleted(version: SkillVersion, shape: SkillShape) -> bytes:
    if shape == "openai":
        number = str(version.number)
        return encode({"id": version.id, "object": "skill.version.deleted", "deleted": True, "version": number})
    return encode({"id": version.id, "type": "skill_version_deleted"})


def write_skills(skills: Sequence[StoredSkill], query: Query, shape: SkillShape) -> bytes:
    if shape != "openai" and last_value(query, "source", "custom") != "custom":
        skills = []  # skills of other sources are not kept here
    page, has_more = _page(skills, query, shape)
    return encode(_list([skill_object(skill, shape) for skill in page], has_more, shape))


def write_versions(skill: StoredSkill, query: Query, shape: SkillShape) -> bytes:
    page, has_more = _page(skill.versions, query, shape)
    return encode(_list([version_object(skill.id, version, shape) for version in page], has_more, shape))


def _list(data: list[dict[str, Any]], has_more: bool, shape: SkillShape) -> dict[str, Any]:
    if shape == "openai":
        return openai_list(data, has_more=has_more)
    return {"data": data, "has_more": has_more, "next_page": f"{PAGE_TOKEN}{data[-1]['id']}" if has_more else None}


def _page(listed: Sequence[T], query: Query, shape: SkillShape) -> tuple[list[T], bool]:
    param = "after" if shape == "openai" else "page"
    after = last_value(query, param, "")
    if shape != "openai":
        after = after.removeprefix(PAGE_TOKEN)
    return page_after(in_order(listed, query), after, read_limit(query, 20, 1000), param, "a skill")
