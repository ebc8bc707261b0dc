"""Who is spoken to: what this one server takes of a dialect that every server speaks a little differently.

OpenAI itself has rules, and answers 400 for the whole request where one is broken; what would break them is told to it in another
way. Behind an address that is not known here OpenAI may stand as well, so the rules that any server can live with hold there,
too: ids are short, and messages have no members that another server added. A server is known to want more by its address, or by
its own answers: what a server says itself, it takes back.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.parts import NULL
from ronda.wire.codec.json import decode_or
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
    foreign_parts: frozenset[str] = frozenset()  # the same for types of parts in what an assistant said
    checks_own: bool = False  # such members are left out of its own messages, too, as its journaled ones were before
    looks_up_thoughts: bool = False  # Responses: those without encrypted content, by an id it was told not to keep
    takes_allowed_tools: bool = False  # as a tool_choice; else only what is allowed is declared
    keeps_forms: bool = False  # a strict `json_schema` is decoded under, so that nothing else can come


# Types of parts that only Mistral knows in what an assistant said.
MISTRALS: Final = frozenset({"thinking", "reference", "tool_reference"})

_THOUGHTS: Final = frozenset({"reasoning", "reasoning_content", "reasoning_details"})
_FOREIGN: Final = _THOUGHTS | {
    "extra_content",
    "thought_signature",
    "executed_tools",
    "prefix",
    "index",
    "provider_specific_fields",
}
_ID_LENGTH: Final = 40

ANYONE: Final = Quirks()  # who is known to take more, and no rules of whom are known
GATEWAY: Final = Quirks(id_length=_ID_LENGTH, foreign=_FOREIGN, foreign_parts=MISTRALS)

# "string too long. Expected a string with maximum length 40" (agno#5382), "unsupported image", input_audio.format "Supported
# values are: 'wav' and 'mp3'", "Missing required parameter: file.filename"; no part is called video_url; unknown members of
# messages are refused ("Unknown parameter").
OPENAI: Final = Quirks(
    id_length=_ID_LENGTH,
    plain_names=True,
    images=frozenset({"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"}),
    audio=frozenset({"wav", "mp3"}),
    details=frozenset({"low", "high", "auto"}),
    video=False,
    files_are_data=True,
    foreign=_FOREIGN,
    foreign_parts=MISTRALS,
    checks_own=True,
    looks_up_thoughts=True,
    takes_allowed_tools=True,
    keeps_forms=True,
)

_OPENAIS: Final = ("api.openai.com", ".openai.azure.com", ".api.openai.com")

# Services whose documents say that thoughts, or signatures of them, are to come back in messages (or that they take them).
_OPEN: Final = (
    "api.cerebras.ai", "api.deepseek.com", "api.fireworks.ai", "api.groq.com", "api.mistral.ai", "api.perplexity.ai",
    "api.together.ai", "api.together.xyz", "api.x.ai", "api.z.ai", "integrate.api.nvidia.com", "open.bigmodel.cn",
    "openrouter.ai", "router.huggingface.co", ".aliyuncs.com", ".googleapis.com", ".minimax.io", ".minimaxi.com",
    ".moonshot.ai", ".moonshot.cn", ".siliconflow.cn", ".siliconflow.com",
)  # fmt: skip


def quirks_at(base_url: str | None) -> Quirks:
    """By its address: a name of a model says nothing of who serves it."""
    host = host_of(base_url)
    if host is None or host.endswith(_OPENAIS):
        return OPENAI
    return ANYONE if host.endswith(_OPEN) else GATEWAY


class _Call(Struct, frozen=True):
    id: str | None = None
    extra_content: Raw = NULL


class _Part(Struct, frozen=True):
    type: str = ""


class _Message(Struct, frozen=True):
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None


def learn(quirks: Quirks, payload: Raw) -> Quirks:
    """With what a server's own message shows that it takes."""
    if not quirks.foreign or quirks.checks_own:
        return quirks
    message = decode_or(_Message(), _Message, payload)
    calls = message.tool_calls or ()
    seen = quirks.foreign & decode_or({}, dict[str, Raw], payload).keys()
    if any(call.extra_content != NULL for call in calls):
        seen |= {"extra_content"}
    if seen & _THOUGHTS:  # clients call them by another of these names than the server does
        seen |= _THOUGHTS
    is_long = any(call.id is not None and len(call.id) > _ID_LENGTH for call in calls)
    parts = {part.type for part in message.content} & MISTRALS if isinstance(message.content, list) else None
    if not seen and not is_long and not parts:
        return quirks
    return replace(
        quirks,
        id_length=None if is_long else quirks.id_length,
        foreign=quirks.foreign - seen,
        foreign_parts=frozenset() if parts else quirks.foreign_parts,
    )


def host_of(base_url: str | None) -> str | None:
    try:
        return None if base_url is None else (urlsplit(base_url).hostname or "")
    except ValueError:  # no address at all: the first call reports it
        return ""


def native_api(base_url: str | None) -> str:
    """Whose JSON of a turn it is: what one server adds to a message, another may refuse."""
    return f"{API}:{host_of(base_url) or 'api.openai.com'}"
