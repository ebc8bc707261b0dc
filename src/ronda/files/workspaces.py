"""The folders that sessions work in: one for each owner and session, under one root, until it is unused for long.

    ROOT/<owner and session, hashed>/used      touched by every use
                                    /skills    the skills that its code may read: see `skill_mounts`
                                    /inputs    which of the owner's files were put into the folder, and under what names
                                    /python    there if the session has had an interpreter
                                    /files     the folder itself: all that code inside a sandbox gets to see

A name that a client chose is never part of a path. Code may arrange its folder as it likes: what goes in and what is removed is
done with the functions of `ronda.sandbox`, which follow no link.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ronda.errors import TooLarge
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.processes import has_ended
from ronda.sandbox.user import User, server_user
from ronda.sandbox.workspace import write_input
from ronda.store import StoreError

log = logging.getLogger("ronda.files")

_REMOVED_PREFIX: Final = ".removed-"
_SPARE: Final = ".spare-"  # and the process that it belongs to
SKILLS: Final = "skills"  # the folder next to a session's own that its code may read


class WorkspaceLimits(Struct, frozen=True):
    """`seconds` without use end a workspace; it may be given so many files of a client's, of so many bytes together."""

    seconds: float = 30 * 86400.0
    inputs: int = 256
    input_size: int = 256 * 1024 * 1024


class PlacedInput(Struct, frozen=True):
    """A file of a client's that stands in a workspace under `name`."""

    id: str
    name: str
    size: int


class WorkspaceInput(Struct, frozen=True):
    """A file of a client's that is to stand in a workspace under `name`, which is a clean one."""

    id: str
    name: str
    size: int
    read: Callable[[], Awaitable[bytes]]


class Workspaces:
    def __init__(
        self,
        root: str | os.PathLike[str],
        limits: WorkspaceLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits or WorkspaceLimits()
        self._root = Path(root)
        self._clock = clock

    def folder(self, owner: str, session: str) -> Path:
        """The folder of a session, made if it is not there. From now it is in use."""
        place = self._place(owner, session)
        try:
            # A sandbox that has a uid of its own passes through these two, and may not look around in them.
            for outer in (self._root, place):
                outer.mkdir(mode=0o711, parents=True, exist_ok=True)
            (place / "files").mkdir(mode=0o700, exist_ok=True)
            _make_skills(place)
            now = self._clock()
            (place / "used").touch(mode=0o600)
            os.utime(place / "used", (now, now))
        except OSError as error:
            raise StoreError(str(self._root), f"no folder can be made in it: {error.strerror}") from error
        return place / "files"

    def spare_folder(self) -> Path:
        """A folder for a session that is still to come; `adopt` makes it that session's."""
        place = self._root / f"{_SPARE}{os.getpid()}-{secrets.token_hex(8)}"
        try:
            for outer in (self._root, place):
                outer.mkdir(mode=0o711, parents=True, exist_ok=True)
            (place / "files").mkdir(mode=0o700)
            _make_skills(place)
        except OSError as error:
            raise StoreError(str(self._root), f"no folder can be made in it: {error.strerror}") from error
        return place / "files"

    def adopt(self, spare: str | os.PathLike[str], owner: str, session: str) -> Path | None:
        """The spare folder as that of a session, under its name; None if the session has one."""
        place = self._place(owner, session)
        if place.exists():
            return None
        try:
            os.rename(Path(spare).parent, place)
        except OSError:  # it has one by now
            return None
        return self.folder(owner, session)

    def existing_folder(self, owner: str, session: str) -> Path | None:
        """The folder of a session that has one. When it was last used stays as it was."""
        folder = self._place(owner, session) / "files"
        return folder if folder.is_dir() else None

    async def put(
        self, owner: str, session: str, inputs: Sequence[WorkspaceInput], user: User | None = None
    ) -> list[PlacedInput]:
        """Puts a client's files into the folder, each once: what code has made of one since is not undone.

        Gives all that were put there so far. `user` is whose the files should be inside.
        """
        folder = await asyncio.to_thread(self.folder, owner, session)
        placed = {one.name: one for one in await asyncio.to_thread(_read_inputs, folder.parent)}
        new = [one for one in inputs if one.name not in placed or placed[one.name].id != one.id]
        self._check({**placed, **{one.name: PlacedInput(one.id, one.name, one.size) for one in new}})
        for one in new:
            await asyncio.to_thread(write_input, folder, one.name, await one.read(), user or server_user())
            placed[one.name] = PlacedInput(one.id, one.name, one.size)
            await asyncio.to_thread(_write_inputs, folder.parent, list(placed.values()))
        return list(placed.values())

    def _check(self, placed: Mapping[str, PlacedInput]) -> None:
        count, size = len(placed), sum(one.size for one in placed.values())
        if count > self.limits.inputs or size > self.limits.input_size:
            raise TooLarge(
                f"a session takes at most {self.limits.inputs} files of {self.limits.input_size} bytes together; "
                f"with these it would have {count} of {size}"
            )

    async def delete(self, owner: str, session: str) -> None:
        """Removes a session's folder, if there is one. None of its programs may run any more."""
        await asyncio.to_thread(self._remove, self._place(owner, session))

    async def sweep(self) -> None:
        """Removes the folders that were unused for long, and what is left of removals that were cut off."""
        await asyncio.to_thread(self._sweep)

    def _sweep(self) -> None:
        over = self._clock() - self.limits.seconds
        with contextlib.suppress(FileNotFoundError):
            for place in list(self._root.iterdir()):
                try:
                    if place.name.startswith(_REMOVED_PREFIX) or _is_left_over(place.name):
                        remove_tree(place)
                    elif not place.name.startswith(_SPARE) and _last_use(place) <= over:
                        self._remove(place)
                except OSError as error:  # of one session; the others' are removed anyway
                    log.warning("the folder %s cannot be removed: %s", place, error)

    def _remove(self, place: Path) -> None:
        """Under another name first: a request for the session meanwhile begins with a new folder, not with half of one."""
        removed = self._root / f"{_REMOVED_PREFIX}{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(place, removed)
            remove_tree(removed)

    def _place(self, owner: str, session: str) -> Path:
        text = f"{len(owner)}:{owner}{session}".encode("utf-8", "surrogatepass")
        return self._root / blake2b(text, digest_size=16, person=b"workspace").hexdigest()


def _make_skills(place: Path) -> None:
    """From the beginning, since a sandbox looks for it when a program starts. Whatever the umask, any user may look into it."""
    folder = place / SKILLS
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def _is_left_over(name: str) -> bool:
    """A spare folder of a server that is no more."""
    pid = name.removeprefix(_SPARE).partition("-")[0]
    return name.startswith(_SPARE) and (not pid.isdigit() or has_ended(int(pid)))


def _last_use(place: Path) -> float:
    try:
        return (place / "used").stat().st_mtime
    except FileNotFoundError:
        return place.stat().st_mtime  # it has just been made, or its maker was killed


def _read_inputs(place: Path) -> list[PlacedInput]:
    try:
        return msgspec.json.decode((place / "inputs").read_bytes(), type=list[PlacedInput])
    except (FileNotFoundError, msgspec.DecodeError):
        return []


def _write_inputs(place: Path, placed: Sequence[PlacedInput]) -> None:
    new = place / f"inputs-{secrets.token_hex(8)}"
    new.write_bytes(msgspec.json.encode(placed))
    os.replace(new, place / "inputs")
