"""Pictures that are decoded: with Pillow, which the extra `ronda[page]` brings, imported with the first of them. For threads.

Only pictures that `read_picture` has measured come here, and only its four kinds are read, whatever else Pillow knows.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import math
import textwrap
from functools import cache
from typing import TYPE_CHECKING

from ronda.errors import ToolFailed
from ronda.tools.page.pictures import MAX_PIXELS, Picture, read_picture

if TYPE_CHECKING:
    import PIL.Image

KINDS = ("PNG", "JPEG", "GIF", "WEBP")
LARGEST = 16_000_000  # pixels that are worked on: four bytes each, several times over


@cache
def has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def decode_picture(picture: Picture) -> PIL.Image.Image:
    """With its colours and transparency. Raises ToolFailed."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(picture.data), formats=KINDS) as image:
            if image.width * image.height > MAX_PIXELS:  # than its first bytes have said
                raise ToolFailed("the picture is too large")
            if image.width * image.height > LARGEST:
                scale = math.sqrt(LARGEST / (image.width * image.height))
                image.thumbnail((int(image.width * scale), int(image.height * scale)))
            return ImageOps.exif_transpose(image).convert("RGBA")
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise ToolFailed("the picture is broken") from error


def encode_png(image: PIL.Image.Image) -> Picture:
    written = io.BytesIO()
    image.save(written, "PNG")
    picture = read_picture(written.getvalue())
    if picture is None:
        raise ToolFailed("the picture is too large to be kept")
    return picture


def draw_placeholder(prompt: str, width: int = 1024, height: int = 768) -> Picture:
    """A box in a colour of its own, crossed out, that says what it stands for."""
    from PIL import Image, ImageDraw, ImageFont

    hue = hashlib.sha256(prompt.encode()).digest()[0]
    image = Image.new("HSV", (width, height), (hue, 40, 225)).convert("RGB")
    draw = ImageDraw.Draw(image)
    for line in ((0, 0, width, height), (0, height, width, 0)):
        draw.line(line, fill="#fff", width=3)
    size = max(14, width // 32)
    words = "\n".join(textwrap.wrap(prompt[:300], max(8, int(width * 0.8 / (size * 0.55)))))
    font = ImageFont.load_default(size)
    middle = (width / 2, height / 2)
    draw.multiline_text(middle, f"placeholder\n\n{words}", "#444", font, anchor="mm", align="center")
    return encode_png(image)


def draw_over(picture: Picture, prompt: str) -> Picture:
    """The picture, with a band that says which edit of it this stands for."""
    from PIL import ImageDraw, ImageFont

    image = decode_picture(picture).convert("RGB")
    size = max(12, image.width // 40)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, image.width, size * 2), fill="#444")
    draw.text((size / 2, size / 2), f"placeholder: {prompt[:80]}", "#fff", ImageFont.load_default(size))
    return encode_png(image)
