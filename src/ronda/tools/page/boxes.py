"""Words for things in pictures → where they are: a model that sees is asked, and what it says is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from ronda.core.arguments import recover
from ronda.core.parts import Image, Text, Usage, UserTurn
from ronda.core.plan import AUTO, Options
from ronda.core.request import ModelRequest
from ronda.drive import Provider
from ronda.errors import ToolFailed

MAX_TOKENS: Final = 8_000
_SCALE: Final = 1000  # what sides are counted in, as Gemini has learned it


class Box(Struct, frozen=True):
    """Where the thing of a description is. `sides` are top, left, bottom, right, in thousandths."""

    number: int
    image: int
    sides: tuple[int, int, int, int]
    label: str = ""

    def pixels(self, width: int, height: int) -> tuple[int, int, int, int]:
        """Left, top, right, bottom, within a picture of this size."""
        top, left, bottom, right = self.sides
        return (
            left * width // _SCALE,
            top * height // _SCALE,
            -(-right * width // _SCALE),
            -(-bottom * height // _SCALE),
        )


async def find_boxes(provider: Provider, urls: Sequence[str], descriptions: Sequence[str]) -> tuple[list[Box], Usage]:
    """One for each description at the most, and what was used for it. Raises ToolFailed; UpstreamError is the provider's."""
    listed = "\n".join(f"{number}. {text}" for number, text in enumerate(descriptions, 1))
    prompt = (
        f"Find these things in the {len(urls)} picture(s) above, which are numbered from 0:\n{listed}\n\n"
        'Answer with a JSON object: {"assets": [{"number": of the description, "image_index": of the picture, '
        '"box_2d": [top, left, bottom, right] of a tight box around it, in thousandths of the picture\'s sides, '
        '"label": what it is}]}. Leave out what is not there.'
    )
    turn = UserTurn((*(Image(url) for url in urls), Text(prompt)))
    # No schema goes along: not every provider takes one, and what comes is checked anyway.
    request = ModelRequest((turn,), (), AUTO, Options(max_tokens=MAX_TOKENS), False, "", 0, 1, scratch={})
    finished = await provider.call(request, lambda previews: True)
    recovered = recover(finished.turn.text)
    if recovered is None:
        raise ToolFailed("the model that looked for them did not answer with JSON")
    return read_boxes(recovered.value, len(urls), len(descriptions)), finished.usage


def read_boxes(answer: dict[str, Any], pictures: int, descriptions: int) -> list[Box]:
    """What makes sense of an answer; the first box of each description."""
    found: dict[int, Box] = {}
    items = answer.get("assets")
    for item in items if isinstance(items, list) else []:
        box = _read_box(item)
        if box is None or not (1 <= box.number <= descriptions and 0 <= box.image < pictures):
            continue
        found.setdefault(box.number, box)
    return [found[number] for number in sorted(found)]


def _read_box(item: Any) -> Box | None:
    if not isinstance(item, dict):
        return None
    number, image, sides = item.get("number"), item.get("image_index", 0), item.get("box_2d")
    if not isinstance(number, int) or not isinstance(image, int) or not isinstance(sides, list) or len(sides) != 4:
        return None
    if not all(isinstance(side, int | float) and not isinstance(side, bool) and -1e6 < side < 1e6 for side in sides):
        return None
    top, left, bottom, right = (max(0, min(_SCALE, round(side))) for side in sides)
    if top >= bottom or left >= right:
        return None
    return Box(number, image, (top, left, bottom, right), str(item.get("label") or "")[:200])
