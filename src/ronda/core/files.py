"""A file that is kept: what is known of it besides its bytes. No disk and no dialect here."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class FileSource(Struct, frozen=True, omit_defaults=True):
    """Who brought a file: `user_upload`, `input_file`, or the tool that made it, with its place in the session."""

    tool: str
    round: int = 0
    turn: int = 0


class StoredFile(Struct, frozen=True, omit_defaults=True):
    """`hash` names its bytes. `session` is the one it ends with; "" for one that its owner keeps."""

    id: str
    name: str
    size: int
    hash: str
    mime_type: str
    created: float
    purpose: str
    source: FileSource
    format: str = ""
    is_text: bool = False
    session: str = ""
    expires: float | None = None


# What of the files that code makes is shown as text.
TEXT_FORMATS: Final = frozenset(
    {
        "csv", "tsv", "json", "geojson", "xml", "yaml", "yml", "toml", "md", "markdown", "html", "htm", "svg", "latex", "tex",
        "sql", "python", "py", "rust", "rs", "txt", "text", "log", "vega", "vega-lite",
    }
)  # fmt: skip
PREVIEW_BYTES: Final = 1024


def preview(data: bytes, limit: int) -> str:
    """The beginning of a text, in at most so many bytes, cut between characters."""
    return data[:limit].decode("utf-8", "ignore")
