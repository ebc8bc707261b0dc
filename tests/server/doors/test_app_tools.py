"""Each tool of a page through /generate-code: once as it should be, and once as it should not."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, soon
from tests.server.app_door import PAGE, PIXEL, PageModel, Parts, app_socket, asking, call, create, generate, results_of
from tests.server.runs_door import get
from tests.tools.page.looks import needs_chromium
from tests.tools.page.studio import open_studio

from ronda.core.events import ModelFinished
from ronda.core.parts import AssistantTurn, Text
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.server.features.app_stream.settings import AppConfig

ASSET = "tmp_asset_e20f951004ccb18e1c665216"  # by the hash of PIXEL


def vase() -> str:
    """A picture with something before a plain background."""
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    image = pillow.new("RGB", (200, 200), "#e8e8f0")
    image.paste("#a03020", (60, 40, 140, 160))
    image.save(written := io.BytesIO(), "PNG")
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"


class Seeing(PageModel):
    """It finds in a picture whatever it is asked to find."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if not request.tools:
            box = {"number": 1, "image_index": 0, "box_2d": [0, 0, 500, 500], "label": "it"}
            return ModelFinished(AssistantTurn((Text(json.dumps({"assets": [box]})),)))
        return await super().call(request, show)


# The tool, what it fails with before there is a page and what the page is told then, what it does once there is one, and
# where in its output that is told.
CASES: list[Any] = [
    (
        "create_file",
        {"path": "a.css", "content": ""},
        "Missing content",
        {"path": "a.css", "content": "p {}"},
        "preview",
    ),
    (
        "edit_file",
        {"old_text": "one", "new_text": "1"},
        "No file to edit",
        {"old_text": "one", "new_text": "1"},
        "diff",
    ),
    ("generate_images", {"prompts": []}, "Missing prompts", {"prompts": ["a tram"]}, "images"),
    ("edit_image", {"image_urls": [PIXEL]}, "Missing prompt", {"prompt": "x", "image_urls": [PIXEL]}, "image"),
    ("remove_background", {"image_urls": [" "]}, "No valid image_urls", {"image_urls": [vase]}, "images"),
    ("extract_assets", {}, "Missing asset_descriptions", {"asset_descriptions": ["a tram"]}, "assets"),
    ("save_assets", {"asset_ids": [""]}, "No valid asset_ids", {"asset_ids": [ASSET]}, "images"),
    ("retrieve_option", {"option_number": 9}, "Option index out of range", {"option_number": 1}, "contentLength"),
    pytest.param("screenshot_preview", {}, "No file to screenshot", {}, "screenshots", marks=needs_chromium),
]


@pytest.mark.parametrize(("name", "wrong", "error", "right", "member"), CASES)
async def test_a_tool_fails_and_works(door: Door, name: str, wrong: Json, error: str, right: Json, member: str) -> None:
    right = {
        key: [one() if callable(one) else one for one in v] if isinstance(v, list) else v for key, v in right.items()
    }
    turns: list[Parts] = [
        [call(name, **wrong)],
        [create(id="c2")],
        [call(name, id="c3", **right)],
        [Text("Done.")],
    ]
    model = Seeing(*turns)
    async with (
        open_studio() as studio,
        door.serving(model, images=studio.settings, app=AppConfig(variants=1)) as served,
    ):
        picture = {"text": "A board.", "images": [PIXEL], "videos": []}
        heard = await generate(served, inputMode="image", prompt=picture, optionCodes=[PAGE])

    heard.check()
    results = [(one["data"]["name"], one["data"]["ok"]) for one in heard.of(0, "toolResult")]
    assert results == [(name, False), ("create_file", True), (name, True)]
    failed, _, worked = [one["data"]["output"] for one in heard.of(0, "toolResult")]
    assert failed["error"] == error
    assert worked[member]
    for one in worked[member] if isinstance(worked[member], list) else []:
        assert one["status"] == "ok"
    assert heard.of(0)[-1]["type"] == "variantComplete"
    assert "error" in results_of(model.requests[1])[0]
    assert "error" not in results_of(model.requests[3])[0]


async def test_closing_the_socket_ends_a_tool_that_is_under_way(door: Door) -> None:
    model = PageModel([call("generate_images", prompts=["never"])])
    async with (
        open_studio() as studio,
        door.serving(model, images=studio.settings, app=AppConfig(variants=1)) as served,
    ):
        async with app_socket(served) as socket:
            await socket.raw.send_str(json.dumps(asking()))
            [run] = (await socket.until("variantModels"))["data"]["runs"]
            await studio.began.wait()
            await socket.raw.close(code=4333)
            await studio.left.wait()
        async with soon():
            while (found := (await get(served, f"/runs/{run}"))[1])["state"] == "running":
                pass

    assert found["state"] == "cancelled"
    assert len(model.requests) == 1  # and no turn was begun after that
