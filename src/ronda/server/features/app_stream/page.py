"""What a run that builds a page keeps of what it began with. Light: every run that is opened again is asked for it."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Struct

from ronda.core.events import RunStarted


class Page(Struct, frozen=True, omit_defaults=True):
    """What the project of a variant begins with."""

    key: ClassVar[str] = "page"

    files: dict[str, str] = {}
    main: str = "index.html"
    options: tuple[str, ...] = ()
    siblings: tuple[str, ...] = ()  # runs whose pages are the options, as they stand when they are looked at
    image_generation: bool = True
    asset_extraction: bool = True
    base_url: str = ""


def builds_page(start: RunStarted) -> bool:
    return Page.key in start.about


def page_of(start: RunStarted) -> Page:
    return msgspec.json.decode(start.about[Page.key], type=Page)
