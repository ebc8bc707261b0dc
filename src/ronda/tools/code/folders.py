"""Folders that code works in: one of all sessions that the operator chose, and one that goes with the process."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ronda.errors import BadConfig
from ronda.sandbox.temporary import temporary_prefix
from ronda.sandbox.user import UIDS


def check_shared_folder(folder: Path, setting: str, *, takes_over: bool) -> None:
    """Raises BadConfig for a folder that code cannot work in. `setting` is what it was given as; `takes_over`: code has a uid
    of its own, and what is in the folder becomes that user's."""
    if not folder.is_dir():
        raise BadConfig(f"{setting} is {str(folder)!r}, and there is no such folder")
    if takes_over and folder.stat().st_uid not in UIDS and any(folder.iterdir()):
        raise BadConfig(
            f"{setting} is {str(folder)!r}, which is not empty: if root runs code, the code has a user of its own, who would "
            "become the owner of these files; name an empty folder, or start the program as an ordinary user"
        )


def temporary_root() -> Path:
    """Named as a sandbox's own, so that the next process removes what one that was killed leaves."""
    root = Path(tempfile.mkdtemp(prefix=temporary_prefix()))
    root.chmod(0o711)
    return root
