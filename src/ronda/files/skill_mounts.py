"""Skills in a session's folder: their files stand next to it, where its code can read them and nothing else; a link leads there.

PLACE/skills/<directory>/SKILL.md …     the server's; the folder itself stays, since programs under way look into it
PLACE/skills.json                       what is in it
PLACE/files/skills → PLACE/skills       made anew if code has removed it
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ronda.errors import ToolFailed
from ronda.files.workspaces import SKILLS
from ronda.sandbox.folders import open_root, remove_tree

_MOST_LISTED: Final = 80  # entries of a skill's tree that a model is shown …
_DEEPEST_LISTED: Final = 4  # … and folders in folders


def is_mounted(workspace: Path, wanted: Sequence[str]) -> bool:
    """Whether these very skills (by the names of their zips) are there. With none, nothing is to be done either."""
    try:
        return bool(
            msgspec.json.decode(workspace.with_name("skills.json").read_bytes(), type=list[str]) == list(wanted)
        )
    except (FileNotFoundError, msgspec.DecodeError):
        return not wanted


def mount(workspace: Path, wanted: Sequence[str], folders: Mapping[str, Mapping[str, bytes]]) -> None:
    """Puts skills, by the names of their directories, in the place of those that were there. Blocks."""
    inside = workspace.with_name(SKILLS)
    noted = workspace.with_name("skills.json")
    noted.unlink(missing_ok=True)  # until all is there, nothing is said to be
    for name in os.listdir(inside):
        remove_tree(inside / name)
    for directory, files in folders.items():
        for path, data in files.items():
            target = inside / directory / path
            for folder in reversed([target.parent, *target.parent.parents]):
                if folder.is_relative_to(inside) and folder != inside and not folder.exists():
                    folder.mkdir()
                    folder.chmod(0o755)
            target.write_bytes(data)
            # The skill's author may have meant a script to be run by its name.
            target.chmod(0o755 if data.startswith(b"#!") else 0o644)
    noted.write_bytes(msgspec.json.encode(list(wanted)))


def link(workspace: Path, target: str) -> None:
    """`skills` in the workspace leads to the skills, which its code sees at `target`. What code itself has put there is not taken
    away. Blocks."""
    root = open_root(workspace)
    try:
        found = os.lstat(SKILLS, dir_fd=root)
        if not stat.S_ISLNK(found.st_mode):
            raise ToolFailed("'skills' in the working directory is in the way of the skills; give it another name")
        if os.readlink(SKILLS, dir_fd=root) == target:
            return
        os.unlink(SKILLS, dir_fd=root)
        os.symlink(target, SKILLS, dir_fd=root)
    except FileNotFoundError:
        os.symlink(target, SKILLS, dir_fd=root)
    finally:
        os.close(root)


def distinct(names: Sequence[str]) -> list[str]:
    """Names of directories, where none may be there twice: the second is called -2."""
    found: list[str] = []
    for name in names:
        candidate, count = name, 2
        while candidate.lower() in (one.lower() for one in found):
            candidate, count = f"{name}-{count}", count + 1
        found.append(candidate)
    return found


def tree(paths: Sequence[str]) -> list[str]:
    """What a model is shown of a skill's files: folders and files, as far as there is room for them."""
    lines: list[str] = []
    seen: set[str] = set()
    for path in sorted(paths):
        parts = path.split("/")
        for depth, part in enumerate(parts):
            place = "/".join(parts[: depth + 1])
            if place in seen or depth >= _DEEPEST_LISTED:
                continue
            seen.add(place)
            lines.append("  " * depth + part + ("/" if depth < len(parts) - 1 else ""))
    return [*lines[:_MOST_LISTED], *(["…"] if len(lines) > _MOST_LISTED else [])]
