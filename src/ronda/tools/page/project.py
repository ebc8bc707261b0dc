"""The files of one variant of a page: what tools of one run change, and what its result is.

A run's finished calls tell everything: each says which files it changed and what is in them now. So a project is a fold of them
(`restored`), and nothing is lost with a process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from ronda.core.events import Event, ToolFinished
from ronda.core.parts import NULL
from ronda.tools.page.tool import PageError

MAIN: Final = "index.html"
_HELPERS: Final = (".css", ".js", ".mjs", ".json", ".svg", ".txt", ".md")  # what a page loads, and is none
MAX_FILE: Final = 2_000_000  # characters: a page that a model writes has some ten thousand
MAX_FILES: Final = 100
MAX_PATH: Final = 200

ReadOptions: TypeAlias = Callable[[], Awaitable[Sequence[str]]]


class PageProject:
    """`options` are the codes of the other variants, or what reads them; `images` are data URLs that the request brought.

    `base_url` is where this server is reached, for the addresses of assets: "http://host:port"; "" leaves the host out.
    """

    def __init__(
        self,
        files: Mapping[str, str] | None = None,
        main: str = MAIN,
        *,
        options: Sequence[str] | ReadOptions = (),
        images: Sequence[str] = (),
        image_generation: bool = True,
        asset_extraction: bool = True,
        base_url: str = "",
    ) -> None:
        self.files = dict(files or {})
        self.images = tuple(images)
        self.image_generation = image_generation
        self.asset_extraction = asset_extraction
        self.base_url = base_url.rstrip("/")
        self._first = main
        self._options = options

    @property
    def main(self) -> str:
        """The path of the page itself: the one it was begun with; where there is none, the first that is no page's helper."""
        if self._first in self.files:
            return self._first
        return next((path for path in self.files if not path.lower().endswith(_HELPERS)), self._first)

    @property
    def code(self) -> str:
        """The page itself, "" while there is none."""
        return self.files.get(self.main, "")

    async def options(self) -> Sequence[str]:
        return await self._options() if callable(self._options) else self._options

    def write(self, path: str, content: str) -> None:
        check_size(len(content))
        if path not in self.files and len(self.files) >= MAX_FILES:
            raise PageError(f"the project has {MAX_FILES} files already, and may have no more", "Too many files")
        self.files[path] = content

    def restored(self, events: Iterable[Event]) -> PageProject:
        """This project, after what the finished calls of a run have made of it: for a run that goes on elsewhere."""
        for event in events:
            if isinstance(event, ToolFinished) and event.details != NULL:
                self.files |= changed_files(event.details)
        return self


class _Change(msgspec.Struct):
    files: dict[str, str] = {}


_decode = msgspec.json.Decoder(_Change).decode


def changed_files(details: msgspec.Raw) -> dict[str, str]:
    """What the details of a finished call say of files that it changed."""
    try:
        return _decode(details).files
    except msgspec.DecodeError:  # of a tool of another kind
        return {}


def check_size(characters: int) -> None:
    if characters > MAX_FILE:
        raise PageError(f"the file would have {characters} characters; {MAX_FILE} are allowed", "File too large")


def read_path(value: Any, otherwise: str) -> str:
    """The path that a call names, as it is kept: relative, with "/" between its parts."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return otherwise
    if not isinstance(value, str):
        raise PageError("path must be a text", "Invalid path")
    parts = [part for part in value.strip().replace("\\", "/").split("/") if part not in ("", ".")]
    path = "/".join(parts)
    if not parts or ".." in parts or len(path) > MAX_PATH or not path.isprintable():
        raise PageError(f"path {value[:MAX_PATH]!r} is not a path of a file in this project", "Invalid path")
    return path
