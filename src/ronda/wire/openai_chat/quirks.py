"""Who is spoken to: what this one server takes of a dialect that everybody speaks a little differently.

Nobody in particular gets what the caller said as it was said, and judges it. OpenAI itself has rules, and answers 400 for
the whole request where one is broken; what would break them is told to it in another way.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from ronda.wire.openai_chat import API


class Quirks(Struct, frozen=True):
    """`None` for a set or a length is: any."""

    id_length: int | None = None
    plain_names: bool = False  # of tools, also those a caller declared itself
    images: frozenset[str] | None = None  # types of images in data: URLs
    audio: frozenset[str] | None = None
    details: frozenset[str] | None = None
    video: bool = True
    files_are_data: bool = False  # else a file may be an address, and go without a name
    # Members of a message that other servers write and want back, and this one refuses.
    foreign: frozenset[str] = frozenset()
    looks_up_thoughts: bool = False  # Responses: those without encrypted content, by an id it was told not to keep
    takes_allowed_tools: bool = False  # as a tool_choice; else only what is allowed is declared
    keeps_forms: bool = False  # a strict `json_schema` is decoded under, so that nothing else can come


# Types of parts that only Mistral knows in what an assistant said.
MISTRALS: Final = frozenset({"thinking", "reference", "tool_reference"})

ANYONE: Final = Quirks()

# "string too long. Expected a string with maximum length 40" (agno#5382), "unsupported image", input_audio.format "Supported
# values are: 'wav' and 'mp3'", "Missing required parameter: file.filename"; no part is called video_url; unknown members of
# messages are refused ("Unknown parameter").
OPENAI: Final = Quirks(
    id_length=40,
    plain_names=True,
    images=frozenset({"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"}),
    audio=frozenset({"wav", "mp3"}),
    details=frozenset({"low", "high", "auto"}),
    video=False,
    files_are_data=True,
    foreign=frozenset(
        {"extra_content", "thought_signature", "reasoning", "reasoning_content", "reasoning_details"}
        | {"executed_tools", "prefix", "index", "provider_specific_fields"}
    ),
    looks_up_thoughts=True,
    takes_allowed_tools=True,
    keeps_forms=True,
)

_OPENAIS: Final = ("api.openai.com", ".openai.azure.com", ".api.openai.com")


def quirks_at(base_url: str | None) -> Quirks:
    """By its address: a name of a model says nothing of who serves it."""
    host = host_of(base_url)
    return OPENAI if host is None or host.endswith(_OPENAIS) else ANYONE


def host_of(base_url: str | None) -> str | None:
    try:
        return None if base_url is None else (urlsplit(base_url).hostname or "")
    except ValueError:  # no address at all, as whoever calls it will find
        return ""


def native_api(base_url: str | None) -> str:
    """Whose JSON of a turn it is: what one server adds to a message, another may refuse."""
    return f"{API}:{host_of(base_url) or 'api.openai.com'}"
