"""`edit_image`: another picture made of pictures and words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ronda.core.parts import Image
from ronda.drive import ToolContext
from ronda.errors import ToolFailed
from ronda.tools.function import in_thread
from ronda.tools.page.generate_images import NO_SERVICE, PLACEHOLDERS, PictureResult, save_picture
from ronda.tools.page.imaging import draw_over
from ronda.tools.page.pictures import Picture
from ronda.tools.page.project import PageProject
from ronda.tools.page.services import PageServices
from ronda.tools.page.sources import find_picture, marks_of_pictures
from ronda.tools.page.tool import Outcome, PageError, PageTool, read_texts
from ronda.tools.parameters import object_schema

MOST: Final = 10
AS_IT_IS: Final = "match_input_image"
RATIOS: Final = (AS_IT_IS, "1:1", "16:9", "9:16", "4:3", "3:4", "3:2", "2:3")
_PARAMETERS = object_schema(
    {
        "prompt": {"type": "string", "description": "What is to change."},
        "image_urls": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Addresses of the pictures to work from.",
        },
        "aspect_ratio": {"type": "string", "enum": list(RATIOS), "description": f"Of the new picture [{AS_IT_IS}]."},
    },
    "prompt",
    "image_urls",
)


def edit_image(project: PageProject, services: PageServices) -> PageTool:
    async def draw(prompt: str, pictures: Sequence[Picture], ratio: str) -> PictureResult:
        if services.images is None:
            return await save_picture(await in_thread(partial(draw_over, pictures[0], prompt)), project, services)
        width, _, height = ratio.partition(":")
        drawn = await services.images.edit(prompt, pictures, int(width) / int(height) if height else None)
        if drawn.picture is None:
            return PictureResult(drawn.url, Image(drawn.url))
        return await save_picture(drawn.picture, project, services)

    async def work(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        prompt = arguments.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise PageError("edit_image requires a non-empty prompt", "Missing prompt")
        if "image_urls" not in arguments and "images" in arguments:  # as some models call it
            arguments = {**arguments, "image_urls": arguments["images"]}
        urls = read_texts(
            arguments,
            "image_urls",
            ("edit_image requires a non-empty image_urls list", "Missing image_urls"),
            ("No valid image URLs provided", "No valid image_urls"),
        )
        ratio = arguments.get("aspect_ratio", AS_IT_IS)
        if ratio not in RATIOS:
            raise PageError(f"aspect_ratio must be one of {', '.join(RATIOS)}", "Invalid aspect_ratio")
        if len(urls) > MOST:
            raise PageError(f"edit_image takes {MOST} pictures at the most", "Too many images")
        if services.images is None and not services.can_draw:
            raise PageError(*NO_SERVICE)
        try:
            finding = [find_picture(url, services.assets, services.fetcher, context.marks) for url in urls]
            drawn = await draw(prompt.strip(), await asyncio.gather(*finding), ratio)
        except ToolFailed as error:
            drawn = PictureResult(problem=str(error))
        image: dict[str, Any] = {
            "prompt": prompt.strip(),
            "image_urls": urls,
            "result_url": drawn.url,
            "status": "ok" if drawn.url else "error",
            "aspect_ratio": ratio,
        }
        result: dict[str, Any] = {"image": image}
        if drawn.problem:  # told as the picture's state: the page shows it so
            result["error"] = drawn.problem
        elif services.images is None:
            image["placeholder"] = True
            result["note"] = PLACEHOLDERS
        shown = () if drawn.image is None else (drawn.image,)
        return Outcome(result, {"image": image}, shown, marks=marks_of_pictures(urls))

    return PageTool(
        project,
        "edit_image",
        "Make a new picture of pictures that are there, as the prompt says. Gives its address.",
        _PARAMETERS,
        work,
        repeatable=False,  # pictures cost money
    )
