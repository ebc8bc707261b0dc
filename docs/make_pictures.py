"""Pictures of the page for the docs: web/pictures, which the tests in a browser take, → docs/images, small.

    .venv/bin/python setup/page.py run test-browser    # or only tests/browser/gallery.test.ts
    .venv/bin/python docs/make_pictures.py

What is drawn by a browser has few colours: with a palette of its own, a picture is a quarter of its size and looks the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PIL import Image

TAKEN: Final = Path(__file__).parent.parent / "web/pictures"
IMAGES: Final = Path(__file__).parent / "images"
FREQUENT, RARE = 112, 144  # colours of a palette: those of surfaces and words exactly, and some of everything else
WIDTH: Final = 1600  # px of a picture of a desk; a page of the docs is about half as wide
PHONE_WIDTH: Final = 640
NAMES: Final = {
    "chat-light": "page",
    "chat-dark": "page-dark",
    "settings-light": "page-settings",
    "picker-light": "page-picker",
    "run-light": "page-run",
    "runs-light": "page-runs",
    "compare-light": "page-compare",
    "build-light": "page-build",
    "operate-light": "page-operate",
    "phone-approval-light": "page-phone",
}


def _palette(picture: Image.Image) -> Image.Image:
    counted = sorted(picture.getcolors(1 << 24) or [], key=lambda one: -one[0])
    frequent = [part for _, colour in counted[:FREQUENT] if isinstance(colour, tuple) for part in colour]
    rare = picture.quantize(RARE, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*frequent, *rare[: RARE * 3]])
    return palette


def main() -> None:
    for taken, name in NAMES.items():
        picture = Image.open(TAKEN / f"{taken}.png").convert("RGB")
        width = PHONE_WIDTH if taken.startswith("phone") else WIDTH
        small = picture.resize((width, picture.height * width // picture.width), Image.Resampling.LANCZOS)
        few = small.quantize(palette=_palette(small), dither=Image.Dither.NONE)
        few.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
