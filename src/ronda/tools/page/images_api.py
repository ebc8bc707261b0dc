"""A service that draws pictures, of the shape of OpenAI's images API: a prompt, and perhaps pictures → a picture.

    [images]
    base_url = "https://api.openai.com/v1"
    model = "gpt-image-1"
    api_key = "${env:OPENAI_API_KEY}"

The address is the operator's own, and may be on this machine. Where the service gives an address instead of a picture, the
picture is fetched, because such addresses end within the hour.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any, Final

import aiohttp
import msgspec
import yarl
from msgspec import Struct

from ronda.errors import BadConfig, ToolFailed
from ronda.providers.http.session import read_within, session, why_not_reached
from ronda.tools.fetch.addresses import AllowList
from ronda.tools.fetch.fetcher import Fetcher, FetchFailed
from ronda.tools.page.pictures import MAX_BYTES, Picture, read_picture
from ronda.wire.codec.json import UNREADABLE

SECONDS: Final = 180.0  # drawing takes up to two minutes
_MAX_ANSWER: Final = MAX_BYTES * 4 // 3 + 64 * 1024
_SIZES: Final = {"wide": "1536x1024", "tall": "1024x1536", "square": "1024x1024"}  # those that OpenAI's models draw


class ImagesSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The operator's table `[images]`."""

    base_url: str
    model: str
    api_key: str | None = None
    size: str | None = None  # of generated pictures, such as 1024x1024; without, the service decides

    def __repr__(self) -> str:
        """Without the key."""
        return f"ImagesSettings(model={self.model!r}, …)"


class Drawing(Struct, frozen=True):
    """A picture, or where the service has put it, if that cannot be fetched from here."""

    picture: Picture | None = None
    url: str = ""


class _Item(Struct):
    b64_json: str | None = None
    url: str | None = None


class _Answer(Struct):
    data: list[_Item] = []


class _Error(Struct):
    message: str = ""


class _Failure(Struct):
    error: _Error | str = ""


class ImagesApi:
    def __init__(self, settings: ImagesSettings, allow: Sequence[str] = ()) -> None:
        self._settings = settings
        url = yarl.URL(settings.base_url)
        if url.scheme not in ("http", "https") or not url.host:
            raise BadConfig(f"[images] cannot be used: base_url {settings.base_url!r} is not an http or https address")
        host = f"[{url.host}]" if ":" in url.host else url.host
        self._fetcher = Fetcher(AllowList.parse([*allow, f"{host}:{url.port}"]), seconds=60.0, max_bytes=MAX_BYTES)

    async def generate(self, prompt: str) -> Drawing:
        """Raises ToolFailed."""
        settings = self._settings
        body: dict[str, Any] = {"model": settings.model, "prompt": prompt, "n": 1}
        if settings.size:
            body["size"] = settings.size
        return await self._ask("images/generations", json=body)

    async def edit(self, prompt: str, pictures: Sequence[Picture], ratio: float | None) -> Drawing:
        """`ratio` is width through height; None: as the picture is."""
        form = aiohttp.FormData()
        form.add_field("model", self._settings.model)
        form.add_field("prompt", prompt)
        if ratio is not None:
            form.add_field("size", _SIZES["wide" if ratio > 1.2 else "tall" if ratio < 0.84 else "square"])
        name = "image" if len(pictures) == 1 else "image[]"
        for index, picture in enumerate(pictures):
            form.add_field(name, picture.data, filename=f"{index}.{picture.ending}", content_type=picture.content_type)
        return await self._ask("images/edits", data=form)

    async def _ask(self, path: str, **body: Any) -> Drawing:
        settings = self._settings
        headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        address = f"{settings.base_url.rstrip('/')}/{path}"
        client = await session()
        try:
            async with (
                asyncio.timeout(SECONDS),
                client.post(address, headers=headers, allow_redirects=False, **body) as answer,
            ):
                data = await read_within(answer, _MAX_ANSWER)
                status = answer.status
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ToolFailed(f"the image service cannot be asked: {why_not_reached(error)}") from error
        if not 200 <= status < 300:
            raise ToolFailed(f"the image service answers HTTP {status}{self._reason(data)}")
        return await self._read(data)

    def _reason(self, data: bytes | None) -> str:
        try:
            error = msgspec.json.decode(data or b"", type=_Failure).error
        except UNREADABLE:
            return ""
        text = (error if isinstance(error, str) else error.message)[:300]
        if self._settings.api_key:
            text = text.replace(self._settings.api_key, "…")
        return f": {text}" if text else ""

    async def _read(self, data: bytes | None) -> Drawing:
        try:
            item = (await asyncio.to_thread(msgspec.json.decode, data or b"", type=_Answer)).data[0]
            found = await asyncio.to_thread(base64.b64decode, item.b64_json or "")
        except (*UNREADABLE, IndexError, ValueError) as error:
            raise ToolFailed("the image service gave no picture") from error
        if not item.b64_json and item.url:
            try:
                found = (await self._fetcher.fetch(item.url)).data
            except FetchFailed:
                return Drawing(url=item.url)
        picture = read_picture(found)
        if picture is None:
            raise ToolFailed("the image service gave something that is no picture, or one that is too large")
        return Drawing(picture)
