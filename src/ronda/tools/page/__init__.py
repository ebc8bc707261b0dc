"""The tools with which a model builds a web page, and the files that they build.

project      the files of one variant, from which every tool works
tool         what the tools have in common; file_tools, picture_tools and extract_assets have the tools
pictures     what bytes are a picture; imaging unpacks and draws them, cutout takes their background away
assets       pictures that are kept and served; sources finds what a model calls a picture
browser      Chromium in its box, over devtools; preview answers what a page asks for, with packages of cdn
export       a page and its pictures as a zip; capture takes a picture of any page
offer        which tools there are for a project
services     what all of it needs, one for each server
"""

from ronda._extras import MissingPackages, install

try:
    from ronda.tools.page.assets import PageAssets
    from ronda.tools.page.capture import capture as capture
    from ronda.tools.page.export import export_zip
    from ronda.tools.page.offer import page_tools
    from ronda.tools.page.project import PageProject
    from ronda.tools.page.services import PageServices, open_page_services
except ModuleNotFoundError as error:
    if error.name not in ("aiohttp", "yarl"):  # what a server has; pictures need more, and say so when they are drawn
        raise
    raise MissingPackages(f"ronda.tools.page needs packages that are not installed: {install('page')}") from error

__all__ = ["PageAssets", "PageProject", "PageServices", "capture", "export_zip", "open_page_services", "page_tools"]
