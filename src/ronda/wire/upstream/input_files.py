"""Files that a request brought and that a model is told about in words: what its messages say where one was attached.

A `File` with a `size` is such a file (`server.input_files` makes it one): its text, or the beginning of it, is shown once, at
the top of the conversation, and the model can read the rest with a tool. One without a size goes to the model as it is.
"""

from __future__ import annotations

from typing import Final

from ronda.core.parts import File

_TEXTS: Final = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/toml", "application/sql"}
    | {"application/javascript", "application/x-tex", "application/x-sh", "application/x-python"}
)


def is_binary_type(media_type: str) -> bool:
    """What is text is better shown as such: most servers take no files of it."""
    return not is_text_type(media_type)


def takes_any_file(media_type: str) -> bool:
    return True


def is_text_type(media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))


def is_listed(file: File) -> bool:
    return file.size is not None


def file_note(file: File) -> str:
    return f"[the file {file.name or 'input_file'!r} is attached here, id {file.id}]"
