"""What a picture shows, for tests that look at pages."""

from __future__ import annotations

import base64
import io
import shutil
from typing import Any

import pytest

from ronda.core.parts import Attachment, Image
from ronda.tools.page.browser import find_chromium, is_shell
from ronda.tools.page.packages import missing_packages, packages_folder

_chromium = find_chromium()
needs_chromium = pytest.mark.skipif(
    _chromium is None or (shutil.which("bwrap") is None and not is_shell(_chromium)),
    reason="Chromium or bubblewrap is not installed",
)
needs_packages = pytest.mark.skipif(
    bool(missing_packages(packages_folder())), reason="'ronda page setup' has not brought the packages of CDNs"
)


def opened(picture: bytes | Attachment) -> Any:
    """As Pillow has it."""
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    if isinstance(picture, Image):
        picture = base64.b64decode(picture.url.partition(",")[2])
    assert isinstance(picture, bytes)
    return pillow.open(io.BytesIO(picture)).convert("RGB")


def colours(picture: bytes | Attachment) -> dict[tuple[int, int, int], int]:
    """How many pixels have which colour."""
    image = opened(picture)
    return {colour: count for count, colour in image.getcolors(image.width * image.height)}
