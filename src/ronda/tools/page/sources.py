"""What a model calls a picture → the picture: an address, a data: URL, an asset of ours, or the id of an upload."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from ronda.core.taint import CLEAN, UNTRUSTED, may_not_send
from ronda.errors import ToolFailed
from ronda.tools.fetch.fetcher import Fetcher
from ronda.tools.page.assets import ADDRESS, PageAssets
from ronda.tools.page.pictures import Picture, read_data_url, read_picture

_TYPES = ("image/*", "application/octet-stream", "binary/octet-stream")


async def find_picture(url: str, assets: PageAssets, fetcher: Fetcher, marks: frozenset[str] = CLEAN) -> Picture:
    """Raises ToolFailed. Addresses of others are fetched only where they are public, and not for a run that has read, as
    `marks` say, what must not leave on a stranger's word: an address can carry it."""
    if is_foreign(url) and may_not_send(marks):
        raise ToolFailed(
            "it is not fetched: after a picture of another site, this project takes pictures of its own only"
        )
    found: Picture | None
    if url.startswith("data:"):
        found = await asyncio.to_thread(read_data_url, url)
    elif (name := _asset_name(url)) is not None:
        found = await assets.open(name)
        if found is None:
            raise ToolFailed("there is no such asset")
    elif url.startswith("tmp_asset_"):
        found = await assets.open(url)
        if found is None:
            raise ToolFailed("there is no such upload")
    else:
        fetched = await fetcher.fetch(url, types=_TYPES)
        found = read_picture(fetched.data)
    if found is None:
        raise ToolFailed("it is no GIF, JPEG, PNG or WebP picture, or it is too large")
    return found


def is_foreign(url: str) -> bool:
    """Whether it is a stranger's, and would have to be fetched."""
    return not url.startswith(("data:", "tmp_asset_")) and _asset_name(url) is None


def marks_of_pictures(urls: Iterable[str]) -> tuple[str, ...]:
    """What a model has read by results that show these pictures."""
    return (UNTRUSTED,) if any(map(is_foreign, urls)) else ()


def _asset_name(url: str) -> str | None:
    """Of one of ours, on whatever host: this server may have several names."""
    try:
        path = unquote(urlsplit(url).path)
    except ValueError:  # no address at all
        return None
    return path.removeprefix(ADDRESS) if path.startswith(ADDRESS) else None
