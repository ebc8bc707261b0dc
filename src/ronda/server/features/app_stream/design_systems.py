"""What users keep of their own style, for the pages that they ask for: texts under a name, each its owner's.

One small file each, in the data folder: several processes may write them, and none is read while it is half written. Without a
data folder they are gone with the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import uuid
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.errors import BadRequest, NotFound, TooLarge

MAX_COUNT: Final = 200  # of one owner
MAX_CONTENT: Final = 200_000  # characters: it goes into every prompt
MAX_NAME: Final = 200


class DesignSystem(Struct, frozen=True, rename="camel"):
    id: str
    name: str
    content: str
    created_at: str
    updated_at: str


_decode = msgspec.json.Decoder(DesignSystem).decode


def folder_of(data_folder: Path, owner: str) -> Path:
    return data_folder / "design-systems" / blake2b(owner.encode(), digest_size=12).hexdigest()


class DesignSystems:
    """`folder` is None where nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._memory: dict[str, dict[str, DesignSystem]] = {}

    async def all(self, owner: str) -> list[DesignSystem]:
        """In the order they were made."""
        found = await asyncio.to_thread(self._read_all, owner)
        return sorted(found, key=lambda one: (one.created_at, one.id))

    async def add(self, owner: str, name: str, content: str) -> DesignSystem:
        if len(await self.all(owner)) >= MAX_COUNT:
            raise BadRequest(f"There are {MAX_COUNT} design systems already: delete one first")
        now = _now()
        made = DesignSystem(str(uuid.uuid4()), _checked_name(name), _checked_content(content), now, now)
        await asyncio.to_thread(self._write, owner, made)
        return made

    async def change(self, owner: str, system_id: str, name: str | None, content: str | None) -> DesignSystem:
        found = await self._find(owner, system_id)
        changed = replace(
            found,
            name=found.name if name is None else _checked_name(name),
            content=found.content if content is None else _checked_content(content),
            updated_at=_now(),
        )
        await asyncio.to_thread(self._write, owner, changed)
        return changed

    async def delete(self, owner: str, system_id: str) -> None:
        found = await self._find(owner, system_id)
        await asyncio.to_thread(self._remove, owner, found.id)

    async def _find(self, owner: str, system_id: str) -> DesignSystem:
        for one in await self.all(owner):
            if one.id == system_id:
                return one
        raise NotFound("Design system not found", code="design_system_not_found")

    # ---- the disk, in threads ----------------------------------------------------------------------------------------

    def _place(self, owner: str) -> Path | None:
        return None if self._folder is None else folder_of(self._folder, owner)

    def _read_all(self, owner: str) -> list[DesignSystem]:
        place = self._place(owner)
        if place is None:
            return list(self._memory.get(owner, {}).values())
        found = []
        for path in place.glob("*.json"):
            with contextlib.suppress(OSError, msgspec.DecodeError):  # deleted meanwhile, or not ours
                found.append(_decode(path.read_bytes()))
        return found

    def _write(self, owner: str, one: DesignSystem) -> None:
        place = self._place(owner)
        if place is None:
            self._memory.setdefault(owner, {})[one.id] = one
            return
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        incoming = place / f"incoming-{secrets.token_hex(8)}"
        try:
            incoming.write_bytes(msgspec.json.encode(one))
            os.replace(incoming, place / f"{one.id}.json")
        finally:
            incoming.unlink(missing_ok=True)

    def _remove(self, owner: str, system_id: str) -> None:
        place = self._place(owner)
        if place is None:
            self._memory.get(owner, {}).pop(system_id, None)
        else:
            (place / f"{system_id}.json").unlink(missing_ok=True)


def _checked_name(name: str) -> str:
    if not name.strip():
        raise BadRequest("Design system name is required", param="name")
    return name.strip()[:MAX_NAME]


def _checked_content(content: str) -> str:
    if len(content) > MAX_CONTENT:
        raise TooLarge(f"A design system may have {MAX_CONTENT} characters; this has {len(content)}", param="content")
    return content


def _now() -> str:
    return datetime.now(UTC).isoformat()
