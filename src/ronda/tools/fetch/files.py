"""A file that a request names by its address (`file_url`, `document_url`) → the file itself, as a data: URL."""

from __future__ import annotations

import base64
import mimetypes
from pathlib import PurePosixPath
from typing import Final

import yarl

from ronda.core.parts import File
from ronda.core.taint import UNTRUSTED
from ronda.tools.fetch.fetcher import FetchedPage, Fetcher

_UNKNOWN: Final = "application/octet-stream"


async def fetch_file(fetcher: Fetcher, address: str, name: str | None = None) -> File:
    """`name` is what the request calls it; else the address's last part does. Raises FetchFailed."""
    found = await fetcher.fetch(address)
    name = name or _name_of(found)
    kind = found.content_type
    if kind in ("", _UNKNOWN):
        kind = mimetypes.guess_type(name)[0] or _UNKNOWN
    data = f"data:{kind};base64,{base64.b64encode(found.data).decode()}"
    return File(data, name, marks=(UNTRUSTED,))


def _name_of(found: FetchedPage) -> str:
    name = PurePosixPath(yarl.URL(found.url).path).name
    if name:
        return name[-200:]
    return f"file{mimetypes.guess_extension(found.content_type) or ''}"
