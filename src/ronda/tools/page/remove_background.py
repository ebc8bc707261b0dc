"""`remove_background`: pictures with what stands in front alone. The result says how it was found."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from ronda._extras import install
from ronda.drive import ToolContext
from ronda.errors import ToolFailed
from ronda.tools.function import in_thread
from ronda.tools.page.generate_images import PictureResult, save_picture
from ronda.tools.page.project import PageProject
from ronda.tools.page.services import PageServices
from ronda.tools.page.sources import find_picture, marks_of_pictures
from ronda.tools.page.tool import Outcome, PageError, PageTool, read_texts
from ronda.tools.parameters import object_schema

MOST: Final = 20
AT_A_TIME: Final = 2  # each is decoded in memory
_PARAMETERS = object_schema(
    {"image_urls": {"type": "array", "items": {"type": "string"}, "description": "Addresses of pictures."}},
    "image_urls",
)


def remove_background(project: PageProject, services: PageServices) -> PageTool:
    async def cut(url: str, slots: asyncio.Semaphore, marks: frozenset[str]) -> PictureResult:
        try:
            async with slots:
                picture = await find_picture(url, services.assets, services.fetcher, marks)
                return await save_picture(await in_thread(partial(services.cutter.cut_out, picture)), project, services)
        except ToolFailed as error:
            return PictureResult(problem=str(error))

    async def work(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        urls = read_texts(
            arguments,
            "image_urls",
            ("remove_background requires a non-empty image_urls list", "Missing image_urls"),
            ("No valid image URLs provided", "No valid image_urls"),
        )
        if not services.can_draw:
            raise PageError(
                f"Background removal is not installed on this server: it needs {install('page')}.",
                "Background removal is not installed",
            )
        if len(urls) > MOST:
            raise PageError(f"remove_background takes {MOST} pictures at the most", "Too many images")
        slots = asyncio.Semaphore(AT_A_TIME)
        cuts = await asyncio.gather(*(cut(url, slots, context.marks) for url in urls))
        method = services.cutter.method
        images = [
            {"image_url": url, "result_url": one.url, "status": "ok" if one.url else "error"}
            | ({"method": method} if one.url else {"error": one.problem})
            for url, one in zip(urls, cuts, strict=True)
        ]
        shown = tuple(one.image for one in cuts if one.image is not None)
        return Outcome({"images": images}, {"images": images}, shown, marks=marks_of_pictures(urls))

    return PageTool(
        project,
        "remove_background",
        "Cut what stands in front out of pictures: each becomes a PNG with a transparent background. Gives an address for each.",
        _PARAMETERS,
        work,
    )
