"""A picture → the same without its background: by U²-Netp, a small network that finds what stands out; else by its colour.

The network runs on `onnxruntime` where that and the model's file are there. Without it only pictures are done whose background
is of one colour, which is found at their border; others are refused rather than spoilt. For threads.
"""

from __future__ import annotations

import importlib.util
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ronda.errors import ToolFailed
from ronda.tools.page.imaging import decode_picture, encode_png
from ronda.tools.page.pictures import Picture

if TYPE_CHECKING:
    import PIL.Image

Method = Literal["u2netp", "colour key"]

_SIDE: Final = 320  # of what the network looks at
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the pictures that it has learned from
_TOLERANCE: Final = 24  # of 255, in each colour
_LEAST_BORDER: Final = 0.9  # of the border's pixels that must have the background's colour
_SMALL: Final = 256  # side of the picture on which the background is followed from the border inwards


class Cutter:
    """`model` is the network's file, None where it is not there."""

    def __init__(self, model: Path | None) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._session: Any = None

    @property
    def method(self) -> Method:
        return "u2netp" if self._model is not None and has_onnxruntime() else "colour key"

    def cut_out(self, picture: Picture) -> Picture:
        """A PNG with a transparent background. Raises ToolFailed."""
        image = decode_picture(picture)
        mask = self._by_network(image) if self.method == "u2netp" else _by_colour(image)
        from PIL import ImageChops

        image.putalpha(ImageChops.multiply(image.getchannel("A"), mask))
        return encode_png(image)

    def _by_network(self, image: PIL.Image.Image) -> PIL.Image.Image:
        import numpy as np
        from PIL import Image

        small = np.asarray(image.convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.LANCZOS), dtype=np.float32)
        scaled = small / max(float(small.max()), 1e-6)
        fed = ((scaled - np.array(_MEAN)) / np.array(_DEVIATION)).transpose(2, 0, 1)[None].astype(np.float32)
        session = self._network()
        [found] = session.run([session.get_outputs()[0].name], {session.get_inputs()[0].name: fed})
        mask = found[0, 0]
        low, high = float(mask.min()), float(mask.max())
        if high - low < 0.05:  # it sees nothing, or nothing else
            raise ToolFailed("there is nothing in the picture that stands out from a background")
        mask = Image.fromarray(((mask - low) / (high - low) * 255).astype(np.uint8), "L")
        return mask.resize(image.size, Image.Resampling.LANCZOS)

    def _network(self) -> Any:
        with self._lock:
            if self._session is None:
                import onnxruntime

                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = 2
                options.log_severity_level = 3
                self._session = onnxruntime.InferenceSession(
                    str(self._model), options, providers=["CPUExecutionProvider"]
                )
            return self._session


@cache
def has_onnxruntime() -> bool:
    return importlib.util.find_spec("onnxruntime") is not None


def _by_colour(image: PIL.Image.Image) -> PIL.Image.Image:
    """What the border's colour does not reach from outside: a hole of that colour inside stays."""
    from PIL import Image, ImageChops, ImageDraw

    flat = image.convert("RGB")
    border = _border(flat)
    background = tuple(sorted(channel)[len(channel) // 2] for channel in zip(*border, strict=True))
    alike = sum(all(abs(a - b) <= _TOLERANCE for a, b in zip(colour, background, strict=True)) for colour in border)
    if alike < _LEAST_BORDER * len(border):
        raise ToolFailed("its background is not of one colour; 'ronda page setup' brings what cuts out others, too")
    difference = ImageChops.difference(flat, Image.new("RGB", flat.size, background))
    bands = [band.point([255 if value <= _TOLERANCE else 0 for value in range(256)]) for band in difference.split()]
    same = ImageChops.darker(ImageChops.darker(bands[0], bands[1]), bands[2])  # white where it has that colour
    small = same.copy()
    small.thumbnail((_SMALL, _SMALL), Image.Resampling.NEAREST)
    framed = Image.new(
        "L", (small.width + 2, small.height + 2), 255
    )  # a way round, so that one start reaches all sides
    framed.paste(small, (1, 1))
    ImageDraw.floodfill(framed, (0, 0), 128)
    reached = framed.crop((1, 1, small.width + 1, small.height + 1)).point(
        [255 if value == 128 else 0 for value in range(256)]
    )
    outside = ImageChops.darker(same, reached.resize(flat.size, Image.Resampling.NEAREST))
    mask = ImageChops.invert(outside)
    share = mask.histogram()[255] / (flat.width * flat.height)
    if not 0.002 < share < 0.995:
        raise ToolFailed("there is nothing in the picture that stands out from its background")
    return mask


def _border(image: PIL.Image.Image) -> list[tuple[int, int, int]]:
    """The colours along the four sides, some hundred of each."""
    width, height = image.size
    columns, rows = range(0, width, max(1, width // 200)), range(0, height, max(1, height // 200))
    places = [(x, y) for x in columns for y in (0, height - 1)] + [(x, y) for y in rows for x in (0, width - 1)]
    found: list[Any] = [image.getpixel(place) for place in places]
    return found
