"""Whose processes sandboxed ones are: a server that is root gives each sandbox a uid of its own; another shares its own.

A uid needs no account. Those here are in a range that Debian, Ubuntu and systemd leave unused, and that a container has.
Who holds one is told by a lock on a file, so that it is free again however its holder ended.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ronda.errors import BadConfig
from ronda.sandbox.folders import walk

UIDS = range(60706, 61184)  # "unused" in systemd's table of uids; a container's map of 65536 has them
CLAIMS = Path("/run/ronda-sandbox")
_LONGEST_PATH = 4096


class User(Struct, frozen=True):
    """Whose processes are started; `own` when no other processes have this uid."""

    uid: int
    gid: int
    own: bool


def server_user() -> User:
    return User(os.getuid(), os.getgid(), own=False)


class Claim:
    """A uid that this sandbox holds until `release`, or until this process ends."""

    def __init__(self, user: User, lock: int | None) -> None:
        self.user = user
        self._lock = lock

    def note(self, workspace: str) -> None:
        """For which folder it is."""
        if self._lock is not None:
            _note(self._lock, workspace)

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def claim_user(
    preferred: int | None = None, folder: Path = CLAIMS, uids: Iterable[int] = UIDS, *, workspace: str = ""
) -> Claim:
    """The uid for a new sandbox. Who is not root keeps the one it has; root takes a free one, `preferred` if that is free.

    Sandboxes of one `workspace` share theirs: another process of this server may have one for the same session.
    """
    if os.getuid() != 0:
        return Claim(server_user(), None)
    _check_map()
    _check_capabilities()
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0:
        raise BadConfig(f"{folder} is not a folder of root's; remove it, and the sandbox makes it anew")
    candidates = list(uids)
    if preferred in candidates:
        candidates.insert(0, preferred)
    for uid in candidates:
        lock = os.open(folder / str(uid), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if _take(lock, workspace if uid == preferred else ""):
            _note(lock, workspace)
            return Claim(User(uid, uid, own=True), lock)
        os.close(lock)
    raise BadConfig(f"all {len(candidates)} uids for sandboxes are in use; close some sessions")


def _take(lock: int, workspace: str) -> bool:
    """A process that is alone takes it, and leaves it to be shared with those of the same workspace."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not workspace or os.pread(lock, _LONGEST_PATH, 0) != os.fsencode(workspace):
            return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # another process took it in between
        return False
    return True


def _note(lock: int, workspace: str) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, os.fsencode(workspace), 0)


def _check_map() -> None:
    """A root of a small user namespace has no other uid to go to."""
    needed = UIDS.stop - 1
    with open("/proc/self/uid_map", encoding="ascii") as file:
        for line in file:
            inside, _, count = (int(word) for word in line.split())
            if inside <= UIDS.start and needed < inside + count:
                return
    raise BadConfig(
        "the server is root where no other user can be had (a user namespace without a range of uids), "
        "so sandboxed code would be root, too; start the server as an ordinary user"
    )


def _check_capabilities() -> None:
    """A root from whom these were taken cannot start a process of another user's, nor give it a folder."""
    chown, setgid, setuid = 1 << 0, 1 << 6, 1 << 7
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        effective = next((int(line.split()[1], 16) for line in file if line.startswith("CapEff:")), 0)
    if effective & (chown | setgid | setuid) != chown | setgid | setuid:
        raise BadConfig(
            "the server is root without the capabilities CHOWN, SETUID and SETGID, so sandboxed code would be root, too; "
            "add them (docker run --cap-add …), or start the server as an ordinary user"
        )


def closed_folder(path: str | os.PathLike[str], user: User) -> Path | None:
    """The first folder (or the file itself) on the way to `path` that this user may not enter or read; None if it may."""
    where = Path(os.path.realpath(path))
    for part in (*reversed(where.parents), where):
        try:
            found = part.stat()
        except OSError:
            return part
        needed = 0o5 if part == where and stat.S_ISDIR(found.st_mode) else 0o4 if part == where else 0o1
        if not _may(found, user, needed):
            return part
    return None


def _may(found: os.stat_result, user: User, needed: int) -> bool:
    if user.uid == 0:
        return True
    if found.st_uid == user.uid:
        granted = found.st_mode >> 6
    elif found.st_gid == user.gid or (not user.own and found.st_gid in os.getgroups()):
        granted = found.st_mode >> 3
    else:
        granted = found.st_mode
    return granted & needed == needed


def hand_over(folder: str | os.PathLike[str], user: User) -> None:
    """Makes a tree this user's own, without following a link. Nothing to do for one whose folder is already."""
    if os.getuid() != 0 or not user.own or os.lstat(folder).st_uid == user.uid:
        return
    for entry in walk(folder):  # and the folder itself last: what was left half done is done again
        if (
            stat.S_ISDIR(entry.status.st_mode) or entry.status.st_nlink == 1
        ):  # a second name may be of another user's file
            os.chown(entry.name, user.uid, user.gid, dir_fd=entry.at, follow_symlinks=False)
    os.chown(folder, user.uid, user.gid, follow_symlinks=False)
