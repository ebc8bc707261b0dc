"""generate_images, edit_image, remove_background and extract_assets, as a model calls them in a run."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.tools.page.looks import opened
from tests.tools.page.play import call, data_url, play, png
from tests.tools.page.studio import FAR, PICTURE, Studio, open_studio

from ronda.core.parts import Image, UserTurn
from ronda.drive import Tool
from ronda.errors import BadConfig
from ronda.providers.script import ScriptedModel, fails, says
from ronda.tools.page import PageAssets, PageProject, PageServices, open_page_services, page_tools
from ronda.tools.page.boxes import read_boxes
from ronda.tools.page.packages import cutout_model, packages_folder
from ronda.tools.page.picture_tools import GENERATE_IMAGES
from ronda.tools.page.services import PageSettings
from ronda.tools.page.tool import PageTool

PIL = pytest.importorskip("PIL", reason="Pillow is not installed")


@asynccontextmanager
async def studio(folder: Path) -> AsyncIterator[tuple[Studio, PageServices]]:
    async with open_studio() as made:
        services = open_page_services(folder, images=made.settings)
        try:
            yield made, services
        finally:
            await services.close()


def tools(folder: Path, project: PageProject | None = None, **more: Any) -> list[Tool]:
    """Without a service that draws."""
    return page_tools(project or PageProject(), PageServices(PageAssets(folder), **more))


async def test_pictures_are_drawn_by_the_service_and_served_by_us(tmp_path: Path) -> None:
    project = PageProject(base_url="http://127.0.0.1:1234")
    async with studio(tmp_path) as (service, services):
        made = page_tools(project, services)
        played = await call(made, "generate_images", prompts=["a tram", " a tram ", "here", "elsewhere"])
        ours = played.result["images"]["a tram"]
        assert ours.startswith("http://127.0.0.1:1234/local-assets/asset_")
        assert played.result == {"images": {"a tram": ours, "here": ours, "elsewhere": FAR}}
        assert played.output == {
            "images": [
                {"prompt": "a tram", "url": ours, "status": "ok"},
                {"prompt": "here", "url": ours, "status": "ok"},
                {"prompt": "elsewhere", "url": FAR, "status": "ok"},
            ]
        }
        assert played.attachments == (Image(data_url(PICTURE)), Image(data_url(PICTURE)), Image(FAR))
        kept = await services.assets.open(ours.rpartition("/")[2])
        assert kept is not None
        assert kept.data == PICTURE
    asked = {one["prompt"]: one for one in service.asked}
    assert asked["a tram"] == {"key": "Bearer sk-s3cret", "model": "painter", "prompt": "a tram", "n": 1}


async def test_a_prompt_that_the_service_refuses_is_told_without_the_key(tmp_path: Path) -> None:
    async with studio(tmp_path) as (_, services):
        made = page_tools(PageProject(), services)
        some, none = await play(
            made,
            [("generate_images", {"prompts": ["a tram", "forbidden"]})],
            [("generate_images", {"prompts": ["forbidden", "broken"]})],
        )
    assert (some.failed, none.failed) == (False, False)  # what became of each picture is told beside it
    assert some.result["images"]["forbidden"] is None
    assert some.result["error"] == "the image service answers HTTP 400: not with the key …"
    assert [image["status"] for image in some.output["images"]] == ["ok", "error"]
    assert none.output["images"] == [
        {"prompt": prompt, "url": None, "status": "error"} for prompt in ("forbidden", "broken")
    ]


async def test_without_a_service_pictures_are_placeholders_that_say_so(tmp_path: Path) -> None:
    played = await call(tools(tmp_path), "generate_images", prompts=["a tram"])
    [shown] = played.output["images"]
    assert (shown["status"], shown["placeholder"]) == ("ok", True)
    assert "placeholders" in played.result["note"]
    assert opened(played.attachments[0]).size == (1024, 768)


async def test_without_a_service_and_without_pillow_no_picture_is_drawn(tmp_path: Path) -> None:
    drawn, cut = await play(
        tools(tmp_path, can_draw=False),
        [("generate_images", {"prompts": ["a tram"]}), ("remove_background", {"image_urls": [data_url(PICTURE)]})],
    )
    assert drawn.result == {"error": "No API key available for image generation."}
    assert drawn.output == {"error": "Missing image generation API key"}
    assert cut.output == {"error": "Background removal is not installed"}


@pytest.mark.parametrize(
    ("name", "arguments", "error", "shown"),
    [
        ("generate_images", {}, "generate_images requires a non-empty prompts list", "Missing prompts"),
        ("generate_images", {"prompts": [" ", 3]}, "No valid prompts provided", "No valid prompts"),
        ("edit_image", {"image_urls": [FAR]}, "edit_image requires a non-empty prompt", "Missing prompt"),
        ("edit_image", {"prompt": "x"}, "edit_image requires a non-empty image_urls list", "Missing image_urls"),
        ("edit_image", {"prompt": "x", "images": [""]}, "No valid image URLs provided", "No valid image_urls"),
        ("remove_background", {}, "remove_background requires a non-empty image_urls list", "Missing image_urls"),
        ("remove_background", {"image_urls": [None]}, "No valid image URLs provided", "No valid image_urls"),
    ],
)
async def test_a_call_without_what_it_needs_is_refused(
    name: str, arguments: dict[str, Any], error: str, shown: str, tmp_path: Path
) -> None:
    played = await call(tools(tmp_path), name, **arguments)
    assert (played.failed, played.result, played.output) == (True, {"error": error}, {"error": shown})


async def test_images_that_are_switched_off_are_not_offered_and_not_drawn(tmp_path: Path) -> None:
    project = PageProject(image_generation=False)
    assert "generate_images" not in {tool.spec.name for tool in tools(tmp_path, project)}
    tool = PageTool(project, PageServices(PageAssets(tmp_path)), GENERATE_IMAGES)
    played = await call([tool], "generate_images", prompts=["x"])
    assert (played.result, played.output) == (
        {"error": "Image generation is disabled."},
        {"error": "Image generation disabled"},
    )


async def test_a_picture_is_edited_by_the_service(tmp_path: Path) -> None:
    async with studio(tmp_path) as (service, services):
        call_id = await services.assets.add(data_url(PICTURE))
        made = page_tools(PageProject(), services)
        played = await call(
            made, "edit_image", prompt="at night", image_urls=[call_id, data_url(png())], aspect_ratio="16:9"
        )
    image = played.result["image"]
    assert played.output == {"image": image}
    assert image == {
        "prompt": "at night",
        "image_urls": [call_id, data_url(png())],
        "result_url": image["result_url"],
        "status": "ok",
        "aspect_ratio": "16:9",
    }
    assert played.attachments == (Image(data_url(png(8, 8))),)
    assert service.asked == [
        {"model": "painter", "prompt": "at night", "size": "1536x1024", "images": [PICTURE, png()]}
    ]


async def test_an_edit_of_a_picture_that_cannot_be_had_fails(tmp_path: Path) -> None:
    for url in (
        "http://127.0.0.1:9/x.png",
        "tmp_asset_" + "0" * 24,
        "/local-assets/asset_x.png",
        "data:image/png;base64,AAAA",
        "file:///etc/passwd",
    ):
        played = await call(tools(tmp_path), "edit_image", prompt="x", image_urls=[url], aspect_ratio=None)
        assert (played.output["image"]["status"], played.output["image"]["result_url"]) == ("error", None)
        assert played.result["error"]
        assert played.output["image"]["aspect_ratio"] == "match_input_image"


async def test_without_a_service_an_edit_is_the_picture_with_a_note_on_it(tmp_path: Path) -> None:
    played = await call(tools(tmp_path), "edit_image", prompt="at night", image_urls=[data_url(PICTURE)])
    assert (played.output["image"]["status"], played.output["image"]["placeholder"]) == ("ok", True)
    assert opened(played.attachments[0]).size == (40, 20)


# ---- backgrounds -----------------------------------------------------------------------------------------------------


def drawn(background: Any = "#e8e8f0", size: int = 400) -> tuple[bytes, Any]:
    """A vase before a background, and where it is."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    image, truth = Pillow.new("RGB", (size, size), background), Pillow.new("L", (size, size), 0)
    for canvas, body, neck in ((image, "#a03020", "#702015"), (truth, 255, 255)):
        draw = ImageDraw.Draw(canvas)
        draw.ellipse((size * 0.3, size * 0.4, size * 0.7, size * 0.85), fill=body)
        draw.rectangle((size * 0.43, size * 0.2, size * 0.57, size * 0.5), fill=neck)
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue(), truth


def overlap(cut: Any, truth: Any) -> float:
    """Intersection over union of what is visible and what should be."""
    from PIL import ImageChops

    def area(mask: Any) -> int:
        return int(mask.point(lambda value: 255 if value > 127 else 0).histogram()[255])

    visible = cut.getchannel("A")
    return area(ImageChops.darker(visible, truth)) / area(ImageChops.lighter(visible, truth))


async def cut_out(made: list[Tool], url: str) -> tuple[dict[str, Any], Any]:
    from PIL import Image as Pillow

    played = await call(made, "remove_background", image_urls=[url])
    [image] = played.output["images"]
    if image["status"] == "error":
        return image, None
    assert played.result == {"images": [image]}
    [attachment] = played.attachments
    assert isinstance(attachment, Image)
    return image, Pillow.open(io.BytesIO(base64.b64decode(attachment.url.partition(",")[2])))


@pytest.mark.skipif(cutout_model(packages_folder()) is None, reason="'ronda page setup' has not brought the model")
async def test_the_network_finds_what_stands_in_front(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    picture, truth = drawn()
    image, cut = await cut_out(tools(tmp_path), data_url(picture))
    assert (image["status"], image["method"]) == ("ok", "u2netp")
    assert overlap(cut, truth) > 0.9


async def test_a_background_of_one_colour_is_taken_away_without_the_network(tmp_path: Path) -> None:
    made = tools(tmp_path, settings=PageSettings(folder=str(tmp_path / "nothing")))
    picture, truth = drawn()
    image, cut = await cut_out(made, data_url(picture))
    assert (image["status"], image["method"]) == ("ok", "colour key")
    assert overlap(cut, truth) > 0.98


async def test_a_background_of_many_colours_is_refused_without_the_network(tmp_path: Path) -> None:
    from PIL import Image as Pillow

    made = tools(tmp_path, settings=PageSettings(folder=str(tmp_path / "nothing")))
    written = io.BytesIO()
    Pillow.linear_gradient("L").convert("RGB").save(written, "PNG")
    for data in (written.getvalue(), png(50, 50)):  # many colours; nothing but one
        image, cut = await cut_out(made, data_url(data))
        assert (image["status"], image["result_url"], cut) == ("error", None, None)
        assert "background" in image["error"]


async def test_a_huge_picture_is_worked_on_in_a_smaller_size(tmp_path: Path) -> None:
    from PIL import Image as Pillow

    written = io.BytesIO()
    image = Pillow.new("RGB", (6000, 6000), "#fff")
    image.paste("#a03020", (2000, 2000, 4000, 4000))
    image.save(written, "PNG", compress_level=1)
    made = tools(tmp_path, settings=PageSettings(folder=str(tmp_path / "nothing")))
    _, cut = await cut_out(made, data_url(written.getvalue()))
    assert cut.size == (4000, 4000)


async def test_a_broken_picture_is_told_of(tmp_path: Path) -> None:
    broken = PICTURE[:45] + bytes(20) + PICTURE[65:]
    image, _ = await cut_out(tools(tmp_path), data_url(broken))
    assert image["error"] == "the picture is broken"


# ---- pieces of the given pictures ------------------------------------------------------------------------------------


def seen(*assets: Any) -> str:
    return f"```json\n{json.dumps({'assets': assets})}\n```"


async def test_pieces_are_cut_out_where_a_model_sees_them(tmp_path: Path) -> None:
    picture = png(100, 50)
    box = {"number": 2, "image_index": 0, "box_2d": [100, 200, 500, 1200], "label": "sign"}
    vision = ScriptedModel(says(seen(box, {"number": 9, "image_index": 0, "box_2d": [0, 0, 1, 1]}, "x")))
    project = PageProject(images=[data_url(picture)])
    made = page_tools(project, PageServices(PageAssets(tmp_path)), vision)
    played = await call(made, "extract_assets", asset_descriptions=None, descriptions=["the tram", "the sign"])
    [asset] = played.result["assets"]
    assert asset == {
        "description": "the sign",
        "public_url": asset["public_url"],
        "content_type": "image/png",
        "status": "ok",
        "image_part_index": 0,
        "image_display_name": "asset_1.png",
        "box_2d": [100, 200, 500, 1000],
        "image_index": 0,
        "label": "sign",
    }
    assert played.result == played.output == {"assets": [asset], "unresolved_assets": ["the tram"]}
    assert opened(played.attachments[0]).size == (80, 20)
    [turn] = vision.heard[0]
    assert isinstance(turn, UserTurn)
    assert turn.parts[0] == Image(data_url(picture))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (says("I see nothing."), "Asset extraction failed: "),
        (says(seen()), "No assets could be extracted from the input images."),
        (fails("down"), "Asset extraction failed: "),
    ],
)
async def test_a_model_that_sees_nothing_is_told_of(answer: Any, error: str, tmp_path: Path) -> None:
    project = PageProject(images=[data_url(PICTURE)])
    made = page_tools(project, PageServices(PageAssets(tmp_path)), ScriptedModel(answer))
    played = await call(made, "extract_assets", asset_descriptions=["the tram"])
    assert played.failed
    assert played.result["error"].startswith(error)


async def test_pieces_are_offered_only_where_there_are_pictures_and_somebody_who_sees(tmp_path: Path) -> None:
    shared, vision = PageServices(PageAssets(tmp_path)), ScriptedModel()
    offered = [
        "extract_assets" in {tool.spec.name for tool in page_tools(project, shared, sees)}
        for project, sees in (
            (PageProject(images=[data_url(PICTURE)]), vision),
            (PageProject(images=[data_url(PICTURE)]), None),
            (PageProject(images=[data_url(PICTURE)], asset_extraction=False), vision),
            (PageProject(), vision),
        )
    ]
    assert offered == [True, False, False, False]


@pytest.mark.parametrize(
    "box", [None, [], [1, 2, 3], ["a", 0, 1, 1], [5, 5, 5, 9], [9, 0, 1, 1], [True, 0, 1, 1], [1e300, 0, 1, 1]]
)
def test_a_box_that_is_none_is_left_out(box: Any) -> None:
    assert read_boxes({"assets": [{"number": 1, "image_index": 0, "box_2d": box}]}, 1, 1) == []


@pytest.mark.parametrize(
    "table", [{"base_url": "x", "model": "y"}, {"model": "y"}, {"base_url": "http://x", "model": "y", "nope": 1}]
)
def test_settings_that_make_no_sense_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(BadConfig, match=r"\[images\]"):
        open_page_services(None, images=table)
    with pytest.raises(BadConfig, match=r"\[page\]"):
        open_page_services(None, page={"nope": 1})
