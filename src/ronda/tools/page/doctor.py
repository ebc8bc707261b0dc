"""What `ronda doctor` tells about pages: whether pictures of them can be taken, and what else would help."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ronda._doctor import Line
from ronda._extras import install
from ronda.tools.page.browser import Browser, find_chromium
from ronda.tools.page.cutout import has_onnxruntime
from ronda.tools.page.imaging import has_pillow
from ronda.tools.page.packages import cutout_model, missing_packages, packages_folder

_SETUP = "ronda page setup"
_EXTRA = install("page")


def examine_page(folder: Path | None = None, browser: Browser | None = None) -> list[Line]:
    """Starts a browser, which takes a second."""
    folder = folder or packages_folder()
    return [_screenshots(browser or Browser()), _packages(folder), _pictures(folder)]


def _screenshots(browser: Browser) -> Line:
    problem = asyncio.run(browser.problem())
    if not problem:
        return Line(
            "screenshots", "works", f"{find_chromium()} takes pictures of pages, isolated and without a network"
        )
    if find_chromium() is None:
        return Line(
            "screenshots", "missing", "there is no Chromium", "apt-get install chromium-headless-shell fonts-liberation"
        )
    return Line("screenshots", "missing", f"Chromium does not start: {problem}")


def _packages(folder: Path) -> Line:
    missing = missing_packages(folder)
    if not missing:
        return Line("page", "works", f"what pages load from CDNs is in {folder}")
    text = f"{len(missing)} packages that pages load from CDNs are not here, so that pictures of such pages are bare"
    return Line("page", "partly", text, _SETUP)


def _pictures(folder: Path) -> Line:
    if not has_pillow():
        return Line("pictures", "missing", "pictures cannot be drawn, cropped or cut out", _EXTRA)
    if has_onnxruntime() and cutout_model(folder) is not None:
        return Line("pictures", "works", "they can be drawn, cropped and cut out of any background")
    advice = _SETUP if has_onnxruntime() else f"{_EXTRA}; {_SETUP}"
    return Line("pictures", "partly", "they can be cut out of backgrounds of one colour only", advice)
