"""What a tool's function returned → what the model reads of it: text as it is, pictures and files with it, the rest as JSON."""

from __future__ import annotations

import functools
import logging
from typing import Any

import msgspec

from ronda.core.parts import Attachment, Audio, File, Image, Text, Video
from ronda.drive import ToolOutput
from ronda.drive.offload import aside
from ronda.tools.large_results import base64_in_pieces, encode_in_pieces, is_light

log = logging.getLogger("ronda.tools")

_ATTACHMENTS = (Image, Audio, Video, File)


async def output_of(value: Any, tool: str = "") -> ToolOutput:
    """As `to_output`; what takes time to write is written off the event loop."""
    if isinstance(value, (str, ToolOutput)) or is_light(value):
        return to_output(value, tool)
    return await aside(to_output, value, tool)


def to_output(value: Any, tool: str = "") -> ToolOutput:
    """What a function returned, as the model reads it: text as it is, pictures and files with it, the rest as JSON.

    `tool` is its name, for a warning: what has no text of its own tells the model nothing.
    """
    if isinstance(value, str):
        return ToolOutput(value)
    if isinstance(value, ToolOutput):
        return value
    if isinstance(value, _ATTACHMENTS):
        return ToolOutput(_name_of(value), (value,))
    if isinstance(value, (list, tuple)) and any(isinstance(item, (*_ATTACHMENTS, Text)) for item in value):
        texts: list[str] = []
        attachments: list[Attachment] = []
        for item in value:
            if isinstance(item, _ATTACHMENTS):
                attachments.append(item)
                texts.append(_name_of(item))
            else:
                texts.append(item.text if isinstance(item, Text) else to_output(item, tool).content)
        return ToolOutput("\n".join(texts), tuple(attachments))
    if isinstance(value, (bytes, bytearray)):
        data = base64_in_pieces(value)
        return ToolOutput(f"[{len(value)} bytes]", (File(f"data:application/octet-stream;base64,{data}"),))
    if hasattr(value, "model_dump_json"):  # a pydantic model; the library itself is the user's
        return ToolOutput(str(value.model_dump_json()))

    def plain(value: Any) -> Any:
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        return _text_of(value, tool)

    try:
        return ToolOutput(encode_in_pieces(value, functools.partial(msgspec.json.encode, enc_hook=plain)).decode())
    except (TypeError, ValueError):
        return ToolOutput(_text_of(value, tool))


def _text_of(value: Any, tool: str) -> str:
    """What `str` makes of it, which for most classes is their name and an address in memory."""
    kind: Any = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        log.warning(
            "the tool '%s' returned something of type '%s', of which the model reads %s; return text or JSON, or give the "
            "class a __str__",
            tool,
            kind.__qualname__,
            value,
        )
    return str(value)


def _name_of(item: Attachment) -> str:
    kind = type(item).__name__.lower()
    name = item.name if isinstance(item, File) and item.name else ""
    return f"[{kind} {name}]" if name else f"[{kind}]"
