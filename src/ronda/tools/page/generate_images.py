"""`generate_images`: a picture for each prompt, kept and served."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from msgspec import Struct

from ronda.core.parts import Image
from ronda.drive import ToolContext
from ronda.errors import ToolFailed
from ronda.tools.function import in_thread
from ronda.tools.page.imaging import draw_placeholder
from ronda.tools.page.pictures import Picture
from ronda.tools.page.project import PageProject
from ronda.tools.page.services import PageServices
from ronda.tools.page.tool import Outcome, PageError, PageTool, read_texts
from ronda.tools.parameters import object_schema

MOST: Final = 20
AT_A_TIME: Final = 4
NO_SERVICE: Final = ("No API key available for image generation.", "Missing image generation API key")
PLACEHOLDERS: Final = (
    "These are drawn placeholders: this server has no image service. Its operator can name one in the table [images]."
)
_PARAMETERS = object_schema(
    {"prompts": {"type": "array", "items": {"type": "string"}, "description": "What each picture shows."}}, "prompts"
)


class PictureResult(Struct, frozen=True):
    """What became of one picture; `url` is None where there is none, and then `problem` says why."""

    url: str | None = None
    image: Image | None = None
    problem: str = ""


async def save_picture(picture: Picture, project: PageProject, services: PageServices) -> PictureResult:
    asset = await services.assets.keep(picture)
    if asset is None:
        raise ToolFailed("there is no room for more pictures on this server")
    return PictureResult(asset.url(project.base_url), picture.attachment)


def generate_images(project: PageProject, services: PageServices) -> PageTool:
    async def draw(prompt: str, slots: asyncio.Semaphore) -> PictureResult:
        try:
            async with slots:
                if services.images is None:
                    return await save_picture(await in_thread(partial(draw_placeholder, prompt)), project, services)
                drawn = await services.images.generate(prompt)
                if drawn.picture is None:
                    return PictureResult(drawn.url, Image(drawn.url))
                return await save_picture(drawn.picture, project, services)
        except ToolFailed as error:
            return PictureResult(problem=str(error))

    async def work(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        if not project.image_generation:
            raise PageError("Image generation is disabled.", "Image generation disabled")
        prompts = read_texts(
            arguments,
            "prompts",
            ("generate_images requires a non-empty prompts list", "Missing prompts"),
            ("No valid prompts provided", "No valid prompts"),
        )
        if services.images is None and not services.can_draw:
            raise PageError(*NO_SERVICE)
        if len(prompts) > MOST:
            raise PageError(f"generate_images takes {MOST} prompts at the most", "Too many prompts")
        slots = asyncio.Semaphore(AT_A_TIME)
        drawn = await asyncio.gather(*(draw(prompt, slots) for prompt in prompts))
        mark: dict[str, Any] = {} if services.images else {"placeholder": True}
        shown = [
            {"prompt": prompt, "url": one.url, "status": "ok" if one.url else "error", **(mark if one.url else {})}
            for prompt, one in zip(prompts, drawn, strict=True)
        ]
        result: dict[str, Any] = {"images": {prompt: one.url for prompt, one in zip(prompts, drawn, strict=True)}}
        problems = [one.problem for one in drawn if one.problem]
        if mark:
            result["note"] = PLACEHOLDERS
        if problems:  # of single pictures: the call has done what it could
            result["error"] = problems[0]
        return Outcome(result, {"images": shown}, tuple(one.image for one in drawn if one.image is not None))

    return PageTool(
        project,
        "generate_images",
        "Draw pictures that the page needs and nobody has. Gives an address for each prompt.",
        _PARAMETERS,
        work,
        repeatable=False,  # pictures cost money
    )
