"""`extract_assets`: pieces of the pictures that the request brought, cut out for the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ronda._extras import install
from ronda.core.parts import Image
from ronda.drive import Provider, ToolContext
from ronda.errors import RondaError, ToolFailed
from ronda.tools.function import in_thread
from ronda.tools.page.boxes import Box, find_boxes
from ronda.tools.page.imaging import decode_picture, encode_png
from ronda.tools.page.picture_tools import PictureResult, save_picture
from ronda.tools.page.pictures import Picture, read_data_url
from ronda.tools.page.project import PageProject
from ronda.tools.page.services import PageServices
from ronda.tools.page.tool import Outcome, PageError, PageFunction, page_spec, read_texts
from ronda.tools.parameters import object_schema

MOST: Final = 30
_PARAMETERS = object_schema(
    {
        "asset_descriptions": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What to cut out of the given pictures, each in a few words.",
        }
    },
    "asset_descriptions",
)


async def _extract(
    vision: Provider,
    project: PageProject,
    services: PageServices,
    arguments: dict[str, Any],
    context: ToolContext,
) -> Outcome:
    descriptions = _read_descriptions(arguments)
    pictures = await in_thread(partial(_read_pictures, project.images))
    if not pictures:
        raise PageError("No input images are available for asset extraction.", "No input images")
    if not services.can_draw:
        raise PageError(
            f"Asset extraction is not installed on this server: it needs {install('page')}.", "Not installed"
        )
    try:
        boxes, usage = await find_boxes(vision, [picture.url for picture in pictures], descriptions)
    except RondaError as error:  # a provider's, or what it said was of no use
        raise PageError(f"Asset extraction failed: {error}", "Asset extraction failed") from error
    assets, images = list[dict[str, Any]](), list[Image]()
    for box in boxes:
        try:
            crop = await in_thread(partial(_crop, pictures[box.image], box))
            saved = await save_picture(crop, project, services)
        except ToolFailed:
            continue
        assets.append(_asset(box, descriptions[box.number - 1], crop, saved, len(images)))
        images.append(Image(crop.url))
    if not assets:
        raise PageError("No assets could be extracted from the input images.", "No assets extracted")
    found = {asset["description"] for asset in assets}
    unresolved = [description for description in descriptions if description not in found]
    result: dict[str, Any] = {"assets": assets} | ({"unresolved_assets": unresolved} if unresolved else {})
    return Outcome(result, result, tuple(images), usage=usage)


def _read_descriptions(arguments: dict[str, Any]) -> list[str]:
    if "asset_descriptions" not in arguments and "descriptions" in arguments:  # as some models call it
        arguments = {"asset_descriptions": arguments["descriptions"]}
    descriptions = read_texts(
        arguments,
        "asset_descriptions",
        ("extract_assets requires a non-empty asset_descriptions list", "Missing asset_descriptions"),
        ("No valid asset descriptions provided", "No valid asset_descriptions"),
    )
    if len(descriptions) > MOST:
        raise PageError(f"extract_assets takes {MOST} descriptions at the most", "Too many asset_descriptions")
    return descriptions


def _asset(box: Box, description: str, crop: Picture, saved: PictureResult, index: int) -> dict[str, Any]:
    """What the model is told about a piece. `index` is its place among the pictures that are sent along."""
    return {
        "description": description,
        "public_url": saved.url,
        "content_type": crop.content_type,
        "status": "ok",
        "image_part_index": index,
        "image_display_name": f"asset_{index + 1}.png",
        "box_2d": list(box.sides),
        "image_index": box.image,
        "label": box.label,
    }


_SPEC: Final = page_spec(
    "extract_assets",
    "Cut logos, icons and photos out of the pictures that the user gave, to use them on the page. Gives an address for each.",
    _PARAMETERS,
)


def extract_assets(vision: Provider) -> PageFunction:
    return PageFunction(_SPEC, partial(_extract, vision))


def _read_pictures(urls: Sequence[str]) -> list[Picture]:
    return [picture for url in urls if (picture := read_data_url(url)) is not None]


def _crop(picture: Picture, box: Box) -> Picture:
    image = decode_picture(picture)
    return encode_png(image.crop(box.pixels(*image.size)))
