"""Files between the server and a sandbox: names and bytes in, names and bytes out, however the code inside arranged its folder.

Whatever is in a workspace was put there by code that is not trusted: a link to a secret, a pipe without a writer, a huge file.
So nothing is opened by following a link, nothing but a regular file with one name is read, and never more than was asked for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator

from msgspec import Struct

from ronda.errors import BadRequest, TooLarge
from ronda.sandbox.folders import DEEPEST, TooDeep, open_beneath, open_root, walk
from ronda.sandbox.user import User

_NAME_BYTES = 255  # of most file systems
_MOST_FILES = 100_000
_PIECE = 1 << 20


class FoundFile(Struct, frozen=True):
    """A regular file of a workspace, as it was when the folder was looked through."""

    name: str  # relative, with /
    size: int
    changed_ns: int  # by which one that was written anew, at the same length, is another


def _check_name(name: str) -> str:
    """A relative path that stays below its folder, or BadRequest."""
    parts = name.split("/")
    if not name or name.startswith("/") or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise BadRequest(f"the path {name!r} must be relative to the working directory, without '..'")
    try:
        longest = max(len(os.fsencode(part)) for part in parts)
    except UnicodeEncodeError:
        raise BadRequest(f"the path {name!r} has characters that no file's name can have") from None
    if len(parts) > DEEPEST or longest > _NAME_BYTES:
        raise BadRequest(f"the path {name[:80]!r}… is too long")
    return name


def open_output(workspace: str | os.PathLike[str], name: str, most: int) -> int:
    """A descriptor of a file that code in the sandbox says it made: a regular one of at most so many bytes, with one name.

    It may grow while it is read: the reader counts.
    """
    _check_name(name)
    root = open_root(workspace)
    try:
        file = open_beneath(root, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise BadRequest(f"the output {name!r} cannot be read: {_reason(error)}") from error
    finally:
        os.close(root)
    try:
        _check_regular(os.fstat(file), name, most)
    except BaseException:
        os.close(file)
        raise
    return file


def _check_regular(found: os.stat_result, name: str, most: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BadRequest(f"the output {name!r} cannot be read: it is not a regular file")
    if found.st_nlink != 1:
        raise BadRequest(f"the output {name!r} cannot be read: it has a second name (a hard link)")
    if found.st_size > most:
        raise TooLarge(f"the output {name!r} exceeds max output size ({found.st_size} bytes, and {most} are allowed)")


def output_pieces(file: int, name: str, most: int) -> Iterator[bytes]:
    """What is in it, a megabyte at a time."""
    left = most
    while piece := os.read(file, _PIECE):
        left -= len(piece)
        if left < 0:  # it grew meanwhile
            raise TooLarge(f"the output {name!r} exceeds max output size ({most} bytes)")
        yield piece


def read_output(workspace: str | os.PathLike[str], name: str, most: int) -> bytes:
    """The bytes of such a file. Blocks, but never for long: call it in a thread."""
    file = open_output(workspace, name, most)
    try:
        return b"".join(output_pieces(file, name, most))
    finally:
        os.close(file)


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.ELOOP:
            return "it is a symbolic link, or in a folder that is one"
        case errno.ENOENT:
            return "not produced"
        case errno.EXDEV:
            return "it is not in the working directory"
        case _:
            return error.strerror or str(error)


def write_input(workspace: str | os.PathLike[str], name: str, data: bytes, user: User, *, mode: int = 0o600) -> None:
    """Puts a file into a workspace, in place of one of that name. Code inside sees the old one or the whole new one."""
    _check_name(name)
    *folders, last = name.split("/")
    at = open_root(workspace)
    try:
        for folder in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700, dir_fd=at)
                _give(folder, at, user)
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        _replace(at, last, data, user, mode)
    except OSError as error:
        raise BadRequest(f"the file {name!r} cannot be put into the working directory: {_reason(error)}") from error
    finally:
        os.close(at)


def _replace(at: int, name: str, data: bytes, user: User, mode: int) -> None:
    temporary = f".{secrets.token_hex(16)}"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(data)
            if user.own:
                os.fchown(file, user.uid, user.gid)
        os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=at)
        raise


def _give(name: str, at: int, user: User) -> None:
    if user.own:
        os.chown(name, user.uid, user.gid, dir_fd=at, follow_symlinks=False)


def list_files(workspace: str | os.PathLike[str], skip: Callable[[str], bool] = lambda part: False) -> list[FoundFile]:
    """The regular files of a workspace, by name. `skip` says which names to leave out, of files and of folders."""
    found: list[FoundFile] = []
    with contextlib.suppress(TooDeep):
        for entry in walk(workspace):
            if len(found) >= _MOST_FILES:
                break
            status = entry.status
            if (
                stat.S_ISREG(status.st_mode)
                and status.st_nlink == 1
                and not any(skip(part) for part in entry.path.split("/"))
            ):
                found.append(FoundFile(entry.path, status.st_size, status.st_mtime_ns))
    return sorted(found, key=lambda file: file.name)
