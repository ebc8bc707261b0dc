"""Which of the page's tools a model is offered: those that can work for this project, on this server."""

from __future__ import annotations

from ronda.drive import Provider, Tool
from ronda.tools.page.extract_assets import extract_assets
from ronda.tools.page.file_tools import CREATE_FILE, EDIT_FILE, RETRIEVE_OPTION
from ronda.tools.page.picture_tools import (
    EDIT_IMAGE,
    GENERATE_IMAGES,
    REMOVE_BACKGROUND,
    SAVE_ASSETS,
    SCREENSHOT_PREVIEW,
)
from ronda.tools.page.project import PageProject
from ronda.tools.page.services import PageServices
from ronda.tools.page.tool import PageTool


def page_tools(project: PageProject, services: PageServices, vision: Provider | None = None) -> list[Tool]:
    """Those that a model is offered for this project. `vision` is a model that sees, to find things in pictures."""
    functions = [CREATE_FILE, EDIT_FILE]
    if project.image_generation:
        functions.append(GENERATE_IMAGES)
    functions.append(REMOVE_BACKGROUND)
    if services.images is not None or services.can_draw:
        functions.append(EDIT_IMAGE)
    if vision is not None and project.asset_extraction and project.images:
        functions.append(extract_assets(vision))
    if services.browser.may_work:
        functions.append(SCREENSHOT_PREVIEW)
    return [PageTool(project, services, one) for one in [*functions, SAVE_ASSETS, RETRIEVE_OPTION]]
