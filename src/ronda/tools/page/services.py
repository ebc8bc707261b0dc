"""What the page's tools share on one server. Cheap to make: nothing is started or imported before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ronda.tools.page.assets import PageAssets


class PageServices:
    def __init__(self, assets: PageAssets) -> None:
        self.assets = assets


def open_page_services(data_dir: Path | None, tables: Mapping[str, Any] | None = None) -> PageServices:
    """`data_dir` is the server's data folder, None where nothing is kept."""
    return PageServices(PageAssets(None if data_dir is None else data_dir / "page-assets"))
