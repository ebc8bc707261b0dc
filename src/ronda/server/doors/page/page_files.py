"""The built page: a folder of files → answers, each compressed once.

`make setup` makes the folder from `web/`, and a wheel carries it. Where it is missing, everything else works.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Final

from msgspec import Struct

FOLDER: Final = Path(__file__).parent / "build"
INDEX: Final = "index.html"

_TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".ico": b"image/x-icon",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
    ".woff2": b"font/woff2",
}
_PACKED: Final = frozenset({".woff2"})  # is compressed as it is


class PageFile(Struct, frozen=True):
    content_type: bytes
    body: bytes
    packed: bytes | None  # with gzip, where that is shorter
    tag: bytes


class Build:
    """The files by their names. Read again when there is another build."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._made: int | None = None
        self._files: dict[str, PageFile] = {}

    def read(self) -> dict[str, PageFile]:
        """All of them; none where nothing is built."""
        try:
            made = (self._folder / INDEX).stat().st_mtime_ns
        except OSError:
            return {}
        if made != self._made:
            paths = [path for path in self._folder.rglob("*") if path.suffix in _TYPES and path.is_file()]
            self._files = {path.relative_to(self._folder).as_posix(): _page_file(path) for path in paths}
            self._made = made
        return self._files


def _page_file(path: Path) -> PageFile:
    body = path.read_bytes()
    packed = None if path.suffix in _PACKED else gzip.compress(body, 9, mtime=0)
    tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'.encode()
    shorter = packed if packed is not None and len(packed) < len(body) else None
    return PageFile(_TYPES[path.suffix], body, shorter, tag)
