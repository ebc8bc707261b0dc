"""The client's first message → what it asks for. What is wrong with it is said in the words that the front end shows.

The message is the page's whole settings, and so it may carry API keys. They are never decoded here: what is not named below is
dropped with the bytes.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import Raw, Struct

from ronda.errors import BadRequest
from ronda.wire.shared.fields import decode_field, read_fields

Stack: TypeAlias = Literal["html_css", "html_tailwind", "react_tailwind", "bootstrap", "ionic_tailwind", "vue_tailwind"]
InputMode: TypeAlias = Literal["image", "video", "text"]
GenerationType: TypeAlias = Literal["create", "update"]

MAIN: Final = "index.html"

# Many more than the page sends: it has room for a handful of pictures, and a project for some dozen edits.
MAX_MEDIA: Final = 64
MAX_HISTORY: Final = 1_000
MAX_OPTIONS: Final = 64


class Message(Struct, frozen=True):
    """What was said, with pictures and films as data URLs."""

    role: Literal["user", "assistant"] = "user"
    text: str = ""
    images: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()


class PageFile(Struct, frozen=True):
    path: str
    content: str


class Parameters(Struct, frozen=True, kw_only=True):
    stack: Stack
    input_mode: InputMode
    generation_type: GenerationType = "create"
    prompt: Message = Message()
    history: tuple[Message, ...] = ()
    file: PageFile | None = None
    option_codes: tuple[str, ...] = ()
    image_generation: bool = True
    asset_extraction: bool = True
    design_system: str = ""

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.history, self.prompt)

    @property
    def images(self) -> list[str]:
        """All pictures that it brings, each once."""
        return list(dict.fromkeys(url for message in self.messages for url in message.images))


class BadParameters(BadRequest):
    """The front end shows it as it is."""


def read_parameters(body: bytes) -> Parameters:
    try:
        fields = read_fields(body)
    except BadRequest as error:
        raise BadParameters(f"The parameters cannot be read: {error}") from error
    stack = _one_of(fields, "generatedCodeConfig", get_args(Stack), "generated code config")
    mode = _one_of(fields, "inputMode", get_args(InputMode), "input mode")
    kind = _one_of(fields, "generationType", get_args(GenerationType), "generation type", "create")
    prompt = _value(fields, "prompt")
    return Parameters(
        stack=stack,
        input_mode=mode,
        generation_type=kind,
        prompt=_prompt(prompt if isinstance(prompt, dict) else {}),
        history=_history(_value(fields, "history")),
        file=_file(_value(fields, "fileState")),
        option_codes=_options(_value(fields, "optionCodes")),
        image_generation=_value(fields, "isImageGenerationEnabled") is not False,
        asset_extraction=_value(fields, "isAssetExtractionEnabled") is not False,
        design_system=_text(_value(fields, "designSystem")).strip(),
    )


def _one_of(fields: dict[str, Raw], name: str, known: tuple[Any, ...], what: str, default: str | None = None) -> Any:
    value = _value(fields, name)
    if value is None and default is not None:
        return default
    if value not in known:
        raise BadParameters(f"Invalid {what}: {value!s:.100}", param=name)
    return value


def _value(fields: dict[str, Raw], name: str) -> Any:
    raw = fields.get(name)
    return None if raw is None else decode_field(raw, Any, name)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _prompt(value: dict[str, Any]) -> Message:
    """`fullText` is the same with what the user has selected on the page: that is for the model."""
    full = _text(value.get("fullText"))
    text = full if full.strip() else _text(value.get("text"))
    return Message("user", text, _media(value, "images", "image/"), _media(value, "videos", "video/"))


def _history(value: Any) -> tuple[Message, ...]:
    items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    if len(items) > MAX_HISTORY:
        raise BadParameters(f"history has {len(items)} entries; {MAX_HISTORY} are allowed", param="history")
    return tuple(
        [
            Message(
                item["role"],
                _text(item.get("text")),
                _media(item, "images", "image/"),
                _media(item, "videos", "video/"),
            )
            for item in items
            if item.get("role") in ("user", "assistant")
        ]
    )


def _media(value: dict[str, Any], name: str, kind: str) -> tuple[str, ...]:
    """Data URLs. Whatever else it names, this server would have to fetch, and a page has no need for that."""
    urls = value.get(name)
    found = [url for url in urls if isinstance(url, str) and url] if isinstance(urls, list) else []
    if len(found) > MAX_MEDIA:
        raise BadParameters(f"{name} has {len(found)} entries; {MAX_MEDIA} are allowed", param=name)
    for url in found:
        if not url.startswith("data:" + kind):
            raise BadParameters(f"{name} must be data URLs of type {kind}*, not {url[:40]!r}", param=name)
    return tuple(found)


def _file(value: Any) -> PageFile | None:
    if not isinstance(value, dict) or not _text(value.get("content")).strip():
        return None
    return PageFile(_text(value.get("path")).strip()[:200] or MAIN, value["content"])


def _options(value: Any) -> tuple[str, ...]:
    codes = value if isinstance(value, list) else []
    if len(codes) > MAX_OPTIONS:
        raise BadParameters(f"optionCodes has {len(codes)} entries; {MAX_OPTIONS} are allowed", param="optionCodes")
    return tuple(["" if code is None else code if isinstance(code, str) else str(code) for code in codes])
