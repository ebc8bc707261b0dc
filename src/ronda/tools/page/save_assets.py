"""`save_assets`: uploads that the page uses, kept and served."""

from __future__ import annotations

from typing import Any

from ronda.core.parts import Image
from ronda.drive import ToolContext
from ronda.tools.page.assets import PageAssets
from ronda.tools.page.project import PageProject
from ronda.tools.page.tool import Outcome, PageTool, read_texts
from ronda.tools.parameters import object_schema

_PARAMETERS = object_schema(
    {
        "asset_ids": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Ids of uploaded pictures, such as tmp_asset_….",
        }
    },
    "asset_ids",
)


def save_assets(project: PageProject, assets: PageAssets) -> PageTool:
    async def work(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        ids = read_texts(
            arguments,
            "asset_ids",
            ("save_assets requires a non-empty asset_ids list", "Missing asset_ids"),
            ("No valid asset IDs provided", "No valid asset_ids"),
        )
        saved, images = list[dict[str, Any]](), list[Image]()
        for id in ids:
            asset = await assets.save(id)
            if asset is not None and (image := asset.picture.attachment) is not None:
                images.append(image)
            saved.append(
                {
                    "asset_id": id,
                    "public_url": None if asset is None else asset.url(project.base_url),
                    "content_type": None if asset is None else asset.picture.content_type,
                    "status": "error" if asset is None else "ok",
                }
            )
        return Outcome({"images": saved}, {"images": saved}, tuple(images))

    return PageTool(
        project,
        "save_assets",
        "Keep uploaded pictures, so that the page can show them. Gives the address of each.",
        _PARAMETERS,
        work,
    )
