"""Which of the page's tools a model is offered: those that can work for this project, on this server."""

from __future__ import annotations

from ronda.drive import Provider, Tool
from ronda.tools.page.extract_assets import extract_assets
from ronda.tools.page.file_tools import create_file, edit_file, retrieve_option
from ronda.tools.page.picture_tools import (
    edit_image,
    generate_images,
    remove_background,
    save_assets,
    screenshot_preview,
)
from ronda.tools.page.project import PageProject
from ronda.tools.page.services import PageServices


def page_tools(project: PageProject, services: PageServices, vision: Provider | None = None) -> list[Tool]:
    """Those that a model is offered for this project. `vision` is a model that sees, to find things in pictures."""
    tools: list[Tool] = [create_file(project), edit_file(project)]
    if project.image_generation:
        tools.append(generate_images(project, services))
    tools.append(remove_background(project, services))
    if services.images is not None or services.can_draw:
        tools.append(edit_image(project, services))
    if vision is not None and project.asset_extraction and project.images:
        tools.append(extract_assets(project, services, vision))
    if services.browser.may_work:
        tools.append(screenshot_preview(project, services))
    return [*tools, save_assets(project, services.assets), retrieve_option(project)]
