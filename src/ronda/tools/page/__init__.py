"""The tools with which a model builds a web page, and the files that they build.

project      the files of one variant
tool         what these tools have in common
assets       pictures, kept and served
"""

from ronda.drive import Tool
from ronda.tools.page.assets import PageAssets
from ronda.tools.page.create_file import create_file
from ronda.tools.page.edit_file import edit_file
from ronda.tools.page.project import PageProject
from ronda.tools.page.retrieve_option import retrieve_option
from ronda.tools.page.save_assets import save_assets
from ronda.tools.page.screenshot_preview import screenshot_preview
from ronda.tools.page.services import PageServices, open_page_services

__all__ = ["PageAssets", "PageProject", "PageServices", "open_page_services", "page_tools"]


def page_tools(project: PageProject, services: PageServices) -> list[Tool]:
    """Those that a model is offered for this project."""
    tools: list[Tool] = [create_file(project), edit_file(project)]
    if services.browser.may_work:
        tools.append(screenshot_preview(project, services))
    return [*tools, save_assets(project, services.assets), retrieve_option(project)]
