"""Pictures of pages, kept in a folder under the hash of their bytes: uploads for a while, saved ones for good.

    upload → tmp_asset_<24 hex>;   saved → asset_<24 hex>.<gif|jpg|png|webp>, which /local-assets serves

A name is made of the bytes themselves, so names are no secret. Waits for the disk in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import tempfile
import time
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from ronda.sandbox.temporary import temporary_prefix
from ronda.tools.page.pictures import CONTENT_TYPES, Picture, read_data_url, read_picture

ADDRESS: Final = "/local-assets/"
MAX_TOTAL: Final = 2 * 1024 * 1024 * 1024
UPLOAD_SECONDS: Final = 7 * 86400.0  # for which an upload waits to be saved
_SWEEP_SECONDS: Final = 3600.0

_ID: Final = re.compile(r"tmp_asset_([0-9a-f]{24})")
_NAME: Final = re.compile(r"asset_[0-9a-f]{24}\.(gif|jpg|png|webp)")


class Asset(Struct, frozen=True):
    """A saved picture: `name` is the file's in /local-assets."""

    name: str
    picture: Picture

    def url(self, base_url: str = "") -> str:
        return f"{base_url}{ADDRESS}{self.name}"


class PageAssets:
    """Without a folder, pictures are kept in a temporary one, which ends with this object."""

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, max_total: int = MAX_TOTAL) -> None:
        self._chosen_folder = folder
        self._max_total = max_total
        self._swept = 0.0
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @cached_property
    def _folder(self) -> Path:
        if self._chosen_folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix=temporary_prefix(), ignore_cleanup_errors=True)
            return Path(self._temporary.name)
        folder = Path(self._chosen_folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    async def add(self, data_url: str) -> str | None:
        """The id of an upload; None for what is no picture of the kinds and sizes that are kept, or has no room any more."""
        return await asyncio.to_thread(self._add, data_url)

    async def save(self, image_id: str) -> Asset | None:
        """An upload, from now on served; None if there is none of this id."""
        return await asyncio.to_thread(self._save, image_id)

    async def keep(self, picture: Picture) -> Asset | None:
        """A picture that a tool made; None where there is no room."""
        return await asyncio.to_thread(self._keep, picture)

    async def open(self, name: str) -> Picture | None:
        """A saved picture by its file's name, or an upload by its id."""
        return await asyncio.to_thread(self._open, name)

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def _add(self, data_url: str) -> str | None:
        picture = read_data_url(data_url)
        if picture is None:
            return None
        digest = _digest(picture.data)
        is_stored = self._write(f"tmp_asset_{digest}.{picture.ending}", picture.data)
        return f"tmp_asset_{digest}" if is_stored else None

    def _keep(self, picture: Picture) -> Asset | None:
        name = f"asset_{_digest(picture.data)}.{picture.ending}"
        return Asset(name, picture) if self._write(name, picture.data) else None

    def _save(self, image_id: str) -> Asset | None:
        picture = self._open(image_id)
        return None if picture is None or not _ID.fullmatch(image_id) else self._keep(picture)

    def _open(self, name: str) -> Picture | None:
        if _ID.fullmatch(name):
            names = [f"{name}.{ending}" for ending in CONTENT_TYPES]
        else:
            names = [name] if _NAME.fullmatch(name) else []
        for each in names:
            with contextlib.suppress(FileNotFoundError):
                return read_picture((self._folder / each).read_bytes())
        return None

    def _write(self, name: str, data: bytes) -> bool:
        """Whole or not at all, since others may read it at once; nothing to do where it is there already."""
        path = self._folder / name
        if path.exists():
            os.utime(path)  # an upload that comes again is as new
            return True
        if self._sweep() + len(data) > self._max_total:
            return False
        incoming = self._folder / f"incoming-{secrets.token_hex(8)}"
        try:
            incoming.write_bytes(data)
            incoming.replace(path)
        except OSError:
            incoming.unlink(missing_ok=True)
            raise
        return True

    def _sweep(self) -> int:
        """Drops uploads that were not saved in time, and what a crash has left; the bytes of all that stays."""
        now, total = time.time(), 0
        is_due, self._swept = now - self._swept > _SWEEP_SECONDS, max(self._swept, now - _SWEEP_SECONDS)
        for entry in os.scandir(self._folder):
            with contextlib.suppress(FileNotFoundError):
                facts = entry.stat()
                is_old = now - facts.st_mtime > UPLOAD_SECONDS and not entry.name.startswith("asset_")
                if is_due and is_old:
                    os.unlink(entry.path)
                else:
                    total += facts.st_size
        if is_due:
            self._swept = now
        return total


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:24]
