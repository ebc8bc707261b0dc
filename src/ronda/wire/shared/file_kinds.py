"""What the name of a file and its bytes say of its kind: format, media type, and whether it is text."""

from __future__ import annotations

import codecs
import mimetypes
from typing import Final

OCTETS: Final = "application/octet-stream"

# Formats whose type the system's table may lack, or has otherwise from machine to machine.
_TYPES: Final[dict[str, str]] = {
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "md": "text/markdown",
    "markdown": "text/markdown",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "toml": "application/toml",
    "tex": "application/x-tex",
    "latex": "application/x-tex",
    "py": "text/x-python",
    "python": "text/x-python",
    "rs": "text/x-rust",
    "rust": "text/x-rust",
    "sql": "application/sql",
    "log": "text/plain",
    "text": "text/plain",
    "vega": "application/json",
    "vega-lite": "application/json",
    "geojson": "application/json",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def format_of(name: str, declared: str = "") -> str:
    """What is declared, or else the end of the name, in small letters; "" where neither says anything."""
    stem, dot, end = name.rpartition(".")
    return (declared or (end if dot and stem else "")).lower()


def mime_type_of(file_format: str) -> str:
    return _TYPES.get(file_format) or mimetypes.guess_type(f"a.{file_format}", strict=False)[0] or OCTETS


class Utf8Check:
    """Whether bytes that come piece by piece are text. A zero byte is valid UTF-8, and in no text."""

    __slots__ = ("_decoder", "_is_text")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_text = True

    @property
    def is_text(self) -> bool:
        """As far as it has been fed."""
        return self._is_text

    def feed(self, data: bytes, final: bool = False) -> None:
        if self._is_text:
            try:
                self._decoder.decode(data, final)
                self._is_text = b"\0" not in data
            except UnicodeDecodeError:
                self._is_text = False

    def finish(self) -> bool:
        self.feed(b"", final=True)
        return self._is_text
