"""`screenshot_preview`: the page as it looks, on a desktop and on a phone."""

from __future__ import annotations

import base64
from typing import Any

from ronda.core.parts import Image
from ronda.drive import ToolContext
from ronda.tools.page.browser import DESKTOP, PHONE, Browser, BrowserFailed
from ronda.tools.page.preview import Preview
from ronda.tools.page.project import PageProject
from ronda.tools.page.services import PageServices
from ronda.tools.page.tool import Outcome, PageError, PageTool
from ronda.tools.parameters import object_schema

_VIEWPORTS = (DESKTOP, PHONE)


def screenshot_preview(project: PageProject, services: PageServices) -> PageTool:
    async def work(arguments: dict[str, Any], context: ToolContext) -> Outcome:
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

    return PageTool(
        project,
        "screenshot_preview",
        "Look at the page as it is now: pictures of the whole page on a desktop and on a phone. It has no network: scripts and "
        "styles of well-known CDNs are there, pictures of other sites are not.",
        object_schema({}),
        work,
    )
