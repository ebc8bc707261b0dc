"""Walking through and removing folders that hostile code has arranged: links, closed folders, and trees deeper than any path.

Nothing is followed, no descriptor is held for each level, and nothing recurses.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator

from msgspec import Struct

_OPENAT2, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 437, 0x02, 0x04, 0x08
DEEPEST = 128  # folders in folders; no work has more …
_LONGEST = 3800  # … and paths end at 4096 bytes: with the name of a file in the folder
_LIFTED = "too-deep-"


class TooDeep(OSError):
    """Folders in folders, beyond what a program needs."""


class Entry(Struct, frozen=True):
    """Something in a folder. `at` is the open folder, until the next one is asked for."""

    at: int
    name: str
    path: str  # from the root of the walk
    status: os.stat_result


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def open_beneath(root: int, path: str, flags: int) -> int:
    """`openat2` that follows no link and leaves no folder; without it (an old kernel, a container's filter), part by part."""
    libc = ctypes.CDLL(None, use_errno=True)
    how = _How(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    text = ctypes.c_char_p(os.fsencode(path))
    opened = int(libc.syscall(_OPENAT2, root, text, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))))
    if opened >= 0:
        return opened
    if (number := ctypes.get_errno()) not in (errno.ENOSYS, errno.EPERM):
        raise OSError(number, os.strerror(number))
    return open_part_by_part(root, path, flags)


def open_part_by_part(root: int, path: str, flags: int) -> int:
    *folders, last = path.split("/")
    at = os.dup(root)
    try:
        for folder in folders:
            below = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_root(folder: str | os.PathLike[str]) -> int:
    """A folder that the code in it has closed for its owner, who we are, is opened up."""
    try:
        return os.open(folder, _FOLDER)
    except PermissionError:
        open_up(folder)
        return os.open(folder, _FOLDER)


def open_up(folder: str | os.PathLike[str], at: int | None = None) -> None:
    """Makes a folder its owner's to enter again, and nothing that a link there names."""
    closed = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        os.chmod(f"/proc/self/fd/{closed}", 0o700)
    finally:
        os.close(closed)


def walk(folder: str | os.PathLike[str]) -> Iterator[Entry]:
    """Everything below a folder, a folder before what is in it. A folder that its owner has closed is opened up."""
    root = open_root(folder)
    try:
        waiting = [""]
        while waiting:
            inside = waiting.pop()
            if _is_too_deep(inside):
                raise TooDeep(errno.ENAMETOOLONG, f"folders in folders, more than {DEEPEST}")
            try:
                at = os.dup(root) if not inside else _open_folder(root, inside)
            except FileNotFoundError:
                continue  # it is gone meanwhile
            try:
                with os.scandir(at) as entries:
                    for entry in entries:
                        path = f"{inside}/{entry.name}" if inside else entry.name
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        yield Entry(at, entry.name, path, status)
                        if stat.S_ISDIR(status.st_mode):
                            waiting.append(path)
            finally:
                os.close(at)
    finally:
        os.close(root)


def _is_too_deep(path: str) -> bool:
    return path.count("/") >= DEEPEST or len(os.fsencode(path)) > _LONGEST


def lift_deep_folders(folder: str | os.PathLike[str]) -> None:
    """Moves folders that are too deep to the top, as `too-deep-1` and so on, with all that is in them: `walk` finds it there."""
    root = open_root(folder)
    try:
        waiting, lifted = [""], 0
        while waiting:
            inside = waiting.pop()
            try:
                if _is_too_deep(inside):
                    lifted = _lift(root, inside, lifted)
                    inside = f"{_LIFTED}{lifted}"
                at = os.dup(root) if not inside else _open_folder(root, inside)
            except FileNotFoundError:
                continue
            try:
                with os.scandir(at) as entries:
                    names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            finally:
                os.close(at)
            waiting += [f"{inside}/{name}" if inside else name for name in names]
    finally:
        os.close(root)


def _lift(root: int, path: str, lifted: int) -> int:
    """The number that the folder has at the top."""
    parent, _, name = path.rpartition("/")
    at = _open_folder(root, parent)
    try:
        open_up(name, at)
        return _move_up(name, at, root, lifted, _LIFTED)
    finally:
        os.close(at)


def _open_folder(root: int, path: str) -> int:
    try:
        return open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        closed = open_beneath(root, path, os.O_PATH | os.O_DIRECTORY)
        try:
            os.chmod(f"/proc/self/fd/{closed}", 0o700)
        finally:
            os.close(closed)
        return open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):  # something else is there meanwhile
            raise FileNotFoundError(errno.ENOENT, path) from error
        raise


def remove_tree(folder: str | os.PathLike[str]) -> None:
    """Removes a folder with all that is in it, when no process uses it any more. What is gone already is fine.

    Each folder inside is emptied by moving its own folders up to the top, so that no tree is too deep.
    """
    try:
        top = open_root(folder)
    except FileNotFoundError:
        return
    try:
        moved = 0
        while names := os.listdir(top):
            for name in names:
                if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
                    os.unlink(name, dir_fd=top)
                    continue
                open_up(name, top)
                at = os.open(name, _FOLDER, dir_fd=top)
                try:
                    for inside in os.listdir(at):
                        if stat.S_ISDIR(os.stat(inside, dir_fd=at, follow_symlinks=False).st_mode):
                            open_up(inside, at)
                            moved = _move_up(inside, at, top, moved)
                        else:
                            os.unlink(inside, dir_fd=at)
                finally:
                    os.close(at)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(folder)


def _move_up(name: str, at: int, top: int, moved: int, prefix: str = ".removed-") -> int:
    while True:
        moved += 1
        try:
            os.rename(name, f"{prefix}{moved}", src_dir_fd=at, dst_dir_fd=top)
            return moved
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
