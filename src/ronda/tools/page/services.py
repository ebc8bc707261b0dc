"""What the page's tools share on one server. Cheap to make: nothing is started or imported before it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ronda.errors import BadConfig
from ronda.providers.http.transport import DIRECT, Routes
from ronda.tools.fetch.addresses import AllowList
from ronda.tools.fetch.fetcher import Fetcher
from ronda.tools.page.assets import PageAssets
from ronda.tools.page.browser import Browser
from ronda.tools.page.cdn import Cdn
from ronda.tools.page.cutout import Cutter
from ronda.tools.page.images_api import ImagesApi, ImagesSettings
from ronda.tools.page.imaging import has_pillow
from ronda.tools.page.packages import cutout_model, packages_folder
from ronda.tools.page.pictures import MAX_BYTES

FETCH_SECONDS = 20.0


class PageSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The operator's table `[page]`."""

    chromium: str | None = None  # the path of a Chromium; without, the usual places are looked at
    folder: str | None = None  # where `ronda page setup` keeps what it brings


class PageServices:
    """`fetcher` gets pictures that others name; `images` draws new ones, None where no service does."""

    def __init__(
        self,
        assets: PageAssets,
        settings: PageSettings | None = None,
        fetcher: Fetcher | None = None,
        images: ImagesApi | None = None,
        *,
        can_draw: bool | None = None,
    ) -> None:
        settings = settings or PageSettings()
        self.assets = assets
        self.fetcher = fetcher or page_fetcher()
        self.images = images
        self.can_draw = has_pillow() if can_draw is None else can_draw  # for tests that do without
        self.folder = Path(settings.folder).expanduser() if settings.folder else packages_folder()
        self.cdn = Cdn(self.folder)
        self._chromium = settings.chromium

    @cached_property
    def browser(self) -> Browser:
        return Browser(self._chromium)

    @cached_property
    def cutter(self) -> Cutter:
        return Cutter(cutout_model(self.folder))

    async def can_screenshot(self) -> bool:
        return not await self.browser.problem()

    async def close(self) -> None:
        self.assets.close()


def page_fetcher(allow: Sequence[str] = (), routes: Routes = DIRECT) -> Fetcher:
    return Fetcher(AllowList.parse(allow), seconds=FETCH_SECONDS, max_bytes=MAX_BYTES, routes=routes)


def open_page_services(
    data_dir: Path | None,
    *,
    images: Mapping[str, Any] | None = None,
    page: Mapping[str, Any] | None = None,
    fetch_allow: Sequence[str] = (),
    routes: Routes = DIRECT,
) -> PageServices:
    """`data_dir` is the server's data folder, None where nothing is kept; `images` and `page` are the operator's tables of
    these names, `routes` the way to addresses that pages name. Raises BadConfig."""
    settings = _read("page", page or {}, PageSettings)
    service = ImagesApi(_read("images", images, ImagesSettings), fetch_allow) if images else None
    assets = PageAssets(None if data_dir is None else data_dir / "page-assets")
    return PageServices(assets, settings, page_fetcher(fetch_allow, routes), service)


_Settings = TypeVar("_Settings")


def _read(name: str, table: Mapping[str, Any], settings: type[_Settings]) -> _Settings:
    try:
        return msgspec.convert(table, settings)
    except msgspec.ValidationError as error:
        raise BadConfig(f"[{name}] cannot be used: {error}") from error
