"""Containers and their files as OpenAI's clients know them: bodies in, objects and pages out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

from ronda.core.containers import StoredContainer
from ronda.core.files import StoredFile
from ronda.core.parts import NULL
from ronda.core.supplies import CodeLimits
from ronda.errors import BadRequest
from ronda.wire.shared.containers import container_id
from ronda.wire.shared.fields import bad, check_count, decode_field, read_fields
from ronda.wire.shared.supplies import MOST_FILES, MOST_SKILLS, MemoryLimit, SkillWish, read_limits, read_skill

_LONGEST_NAME: Final = 255
_MOST_MINUTES: Final = 30 * 24 * 60  # as long as any session stays
_FOLDER: Final = "/workspace"  # the folder of code, as code sees it


class _Expiry(Struct, frozen=True):
    anchor: Literal["last_active_at"]
    minutes: int


class _Body(Struct, frozen=True):
    name: str
    file_ids: list[str] = []
    memory_limit: MemoryLimit | None = None
    network_policy: Raw = NULL
    expires_after: _Expiry | None = None
    skills: list[Raw] = []


class NewContainer(Struct, frozen=True):
    name: str
    file_ids: tuple[str, ...]
    skills: tuple[SkillWish, ...]
    minutes: int | None
    limits: CodeLimits


def read_new(body: bytes) -> NewContainer:
    fields = read_fields(body)
    if "name" not in fields:
        raise BadRequest("'name' is missing", param="name")
    found: _Body = decode_field(Raw(msgspec.json.encode(fields)), _Body, "")
    if not 0 < len(found.name) <= _LONGEST_NAME or not found.name.isprintable():
        raise bad("name", f"must be 1 to {_LONGEST_NAME} printable characters")
    limits = read_limits(found.memory_limit, found.network_policy, "network_policy")
    check_count(found.file_ids, MOST_FILES, "file_ids")
    check_count(found.skills, MOST_SKILLS, "skills")
    minutes = None if found.expires_after is None else found.expires_after.minutes
    if minutes is not None and not 1 <= minutes <= _MOST_MINUTES:
        raise bad("expires_after.minutes", f"must be from 1 to {_MOST_MINUTES}")
    skills = [read_skill(one, f"skills[{index}]") for index, one in enumerate(found.skills)]
    return NewContainer(found.name, tuple(found.file_ids), tuple(skills), minutes, limits)


class _FileBody(Struct, frozen=True):
    file_id: str


def read_file_id(body: bytes) -> str:
    found: _FileBody = decode_field(Raw(body), _FileBody, "")
    return found.file_id


def container_object(container: StoredContainer, memory_mb: int, hosts: Sequence[str] | None) -> dict[str, Any]:
    """`memory_mb` and `hosts` are what its code has: None where it reaches every host."""
    minutes = container.minutes
    network: dict[str, Any] | None = {"type": "disabled"}
    if hosts is None:
        network = None
    elif hosts:
        network = {"type": "allowlist", "allowed_domains": list(hosts)}
    return {
        "id": container_id(container.session),
        "object": "container",
        "created_at": int(container.created),
        "name": container.name,
        "status": "active",
        "expires_after": None if minutes is None else {"anchor": "last_active_at", "minutes": minutes},
        "last_active_at": int(container.active),
        "memory_limit": f"{memory_mb // 1024}g" if memory_mb % 1024 == 0 else f"{memory_mb}m",
        "network_policy": network,
    }


def file_object(file: StoredFile, container: str) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "container.file",
        "container_id": container,
        "created_at": int(file.created),
        "bytes": file.size,
        "path": f"{_FOLDER}/{file.name}",
        "source": "assistant" if file.purpose == "agent_output" else "user",
    }
