"""Pictures for the page: drawn (`generate_images`), drawn anew (`edit_image`), cut out (`remove_background`), and uploads that it
shows (`save_assets`). Each is kept and served. And pictures of the page as it looks (`screenshot_preview`).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from ronda._extras import install
from ronda.core.parts import Image
from ronda.drive import ToolContext
from ronda.errors import ToolFailed
from ronda.tools.function import in_thread
from ronda.tools.page.browser import DESKTOP, PHONE, Browser, BrowserFailed
from ronda.tools.page.imaging import draw_over, draw_placeholder
from ronda.tools.page.pictures import Picture
from ronda.tools.page.preview import Preview
from ronda.tools.page.project import PageProject
from ronda.tools.page.services import PageServices
from ronda.tools.page.sources import find_picture, marks_of_pictures
from ronda.tools.page.tool import Outcome, PageError, PageFunction, page_spec, read_texts
from ronda.tools.parameters import object_schema

MOST_DRAWN: Final = 20
DRAWN_AT_A_TIME: Final = 4
NO_SERVICE: Final = ("No API key available for image generation.", "Missing image generation API key")
PLACEHOLDERS: Final = (
    "These are drawn placeholders: this server has no image service. Its operator can name one in the table [images]."
)
_GENERATE = object_schema(
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


async def _draw(project: PageProject, services: PageServices, prompt: str, slots: asyncio.Semaphore) -> PictureResult:
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


async def generate_images(
    project: PageProject, services: PageServices, arguments: dict[str, Any], context: ToolContext
) -> Outcome:
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
    if len(prompts) > MOST_DRAWN:
        raise PageError(f"generate_images takes {MOST_DRAWN} prompts at the most", "Too many prompts")
    slots = asyncio.Semaphore(DRAWN_AT_A_TIME)
    drawn = await asyncio.gather(*(_draw(project, services, prompt, slots) for prompt in prompts))
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


GENERATE_IMAGES: Final = PageFunction(
    page_spec(
        "generate_images",
        "Draw pictures that the page needs and that are not there yet. Gives an address for each prompt.",
        _GENERATE,
        repeatable=False,  # pictures cost money
    ),
    generate_images,
)


# ---- drawn anew ---------------------------------------------------------------------------------------------------------------


MOST_EDITED: Final = 10
AS_IT_IS: Final = "match_input_image"
RATIOS: Final = (AS_IT_IS, "1:1", "16:9", "9:16", "4:3", "3:4", "3:2", "2:3")
_EDIT = object_schema(
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


async def _draw_anew(
    project: PageProject, services: PageServices, prompt: str, pictures: Sequence[Picture], ratio: str
) -> PictureResult:
    if services.images is None:
        return await save_picture(await in_thread(partial(draw_over, pictures[0], prompt)), project, services)
    width, _, height = ratio.partition(":")
    drawn = await services.images.edit(prompt, pictures, int(width) / int(height) if height else None)
    if drawn.picture is None:
        return PictureResult(drawn.url, Image(drawn.url))
    return await save_picture(drawn.picture, project, services)


async def edit_image(
    project: PageProject, services: PageServices, arguments: dict[str, Any], context: ToolContext
) -> Outcome:
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
    if len(urls) > MOST_EDITED:
        raise PageError(f"edit_image takes {MOST_EDITED} pictures at the most", "Too many images")
    if services.images is None and not services.can_draw:
        raise PageError(*NO_SERVICE)
    try:
        finding = [find_picture(url, services.assets, services.fetcher, context.marks) for url in urls]
        drawn = await _draw_anew(project, services, prompt.strip(), await asyncio.gather(*finding), ratio)
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


EDIT_IMAGE: Final = PageFunction(
    page_spec(
        "edit_image",
        "Make a new picture of pictures that are there, as the prompt says. Gives its address.",
        _EDIT,
        repeatable=False,  # pictures cost money
    ),
    edit_image,
)


# ---- cut out ------------------------------------------------------------------------------------------------------------------


MOST_CUT: Final = 20
CUT_AT_A_TIME: Final = 2  # each is decoded in memory
_REMOVE = object_schema(
    {"image_urls": {"type": "array", "items": {"type": "string"}, "description": "Addresses of pictures."}},
    "image_urls",
)


async def _cut(
    project: PageProject, services: PageServices, url: str, slots: asyncio.Semaphore, marks: frozenset[str]
) -> PictureResult:
    try:
        async with slots:
            picture = await find_picture(url, services.assets, services.fetcher, marks)
            return await save_picture(await in_thread(partial(services.cutter.cut_out, picture)), project, services)
    except ToolFailed as error:
        return PictureResult(problem=str(error))


async def remove_background(
    project: PageProject, services: PageServices, arguments: dict[str, Any], context: ToolContext
) -> Outcome:
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
    if len(urls) > MOST_CUT:
        raise PageError(f"remove_background takes {MOST_CUT} pictures at the most", "Too many images")
    slots = asyncio.Semaphore(CUT_AT_A_TIME)
    cuts = await asyncio.gather(*(_cut(project, services, url, slots, context.marks) for url in urls))
    method = services.cutter.method
    images = [
        {"image_url": url, "result_url": one.url, "status": "ok" if one.url else "error"}
        | ({"method": method} if one.url else {"error": one.problem})
        for url, one in zip(urls, cuts, strict=True)
    ]
    shown = tuple(one.image for one in cuts if one.image is not None)
    return Outcome({"images": images}, {"images": images}, shown, marks=marks_of_pictures(urls))


REMOVE_BACKGROUND: Final = PageFunction(
    page_spec(
        "remove_background",
        "Cut what stands in front out of pictures: each becomes a PNG with a transparent background. Gives an address for each.",
        _REMOVE,
    ),
    remove_background,
)


# ---- uploads ------------------------------------------------------------------------------------------------------------------


_SAVE = object_schema(
    {
        "asset_ids": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Ids of uploaded pictures, such as tmp_asset_….",
        }
    },
    "asset_ids",
)


async def save_assets(
    project: PageProject, services: PageServices, arguments: dict[str, Any], context: ToolContext
) -> Outcome:
    ids = read_texts(
        arguments,
        "asset_ids",
        ("save_assets requires a non-empty asset_ids list", "Missing asset_ids"),
        ("No valid asset IDs provided", "No valid asset_ids"),
    )
    saved, images = list[dict[str, Any]](), list[Image]()
    for image_id in ids:
        asset = await services.assets.save(image_id)
        if asset is not None and (image := asset.picture.attachment) is not None:
            images.append(image)
        saved.append(
            {
                "asset_id": image_id,
                "public_url": None if asset is None else asset.url(project.base_url),
                "content_type": None if asset is None else asset.picture.content_type,
                "status": "error" if asset is None else "ok",
            }
        )
    return Outcome({"images": saved}, {"images": saved}, tuple(images))


SAVE_ASSETS: Final = PageFunction(
    page_spec(
        "save_assets", "Keep uploaded pictures, so that the page can show them. Gives the address of each.", _SAVE
    ),
    save_assets,
)


_VIEWPORTS: Final = (DESKTOP, PHONE)
_NOTHING = object_schema({})


async def screenshot_preview(
    project: PageProject, services: PageServices, arguments: dict[str, Any], context: ToolContext
) -> Outcome:
    if not project.code.strip():
        raise PageError("No file exists yet. Call create_file first.", "No file to screenshot")
    browser: Browser = services.browser
    preview = Preview(project, services.assets, services.cdn)
    try:
        shots = await browser.pictures(preview.url, _VIEWPORTS, preview.answer)
    except BrowserFailed as error:
        raise PageError(f"Screenshot failed: {error}", "Screenshot failed") from error
    urls = [f"data:image/png;base64,{base64.b64encode(shot.picture).decode()}" for shot in shots]
    facts = [
        {
            "viewport": viewport.name,
            "full_page": True,
            "image_part_index": index,
            "image_display_name": f"preview_{viewport.name}.png",
            "image_bytes": len(shot.picture),
        }
        for index, (viewport, shot) in enumerate(zip(_VIEWPORTS, shots, strict=True))
    ]
    sizes = " and ".join(f"{viewport.name} ({viewport.width}×{viewport.height})" for viewport in _VIEWPORTS)
    # The page is shown the pictures, too. They are not here a second time: the writer takes them from the attachments.
    shown = [{**fact, "status": "ok"} for fact in facts]
    details: dict[str, Any] = {"screenshots": facts}
    if problems := list(dict.fromkeys(problem for shot in shots for problem in shot.problems)):
        details["problems"] = problems
    return Outcome(
        {"content": f"Screenshots of the whole page: {sizes}.", "details": details},
        {"screenshots": shown, "status": "ok"},
        tuple(Image(url) for url in urls),
    )


SCREENSHOT_PREVIEW: Final = PageFunction(
    page_spec(
        "screenshot_preview",
        "Look at the page as it is now: pictures of the whole page on a desktop and on a phone. It has no network: scripts and "
        "styles of well-known CDNs are there, pictures of other sites are not.",
        _NOTHING,
    ),
    screenshot_preview,
)
