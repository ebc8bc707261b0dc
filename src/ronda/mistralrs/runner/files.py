"""Files and skills of a `Runner`: what goes along with a request, and what comes back with an answer.

InputFile.from_path("sales.csv")            a file that the model may read, and code finds in its folder
RequestedFile("report.md")                  a file that code should make
ShellSkillMount("auditor", "…", folder)     a folder of instructions, for a model with a shell
answer.files[0].save("out/report.md")       a file that was made
"""

from __future__ import annotations

import base64
import builtins
import mimetypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import Struct

from ronda.core.supplies import RequestedFile
from ronda.errors import BadRequest
from ronda.files.archives import DEFAULT_LIMITS, folder_of, pack_zip

__all__ = ["File", "FileOrigin", "InputFile", "RequestedFile", "ShellSkillMount"]


class FileOrigin(Struct, frozen=True):
    tool: str = ""
    round: int = 0
    turn: int = 0


class File(Struct, frozen=True):
    """A file that tools made, or were to make. A content that was too large to come along is had with `Runner.find_file`."""

    id: str
    name: str
    bytes: int = 0
    format: str | None = None
    mime_type: str | None = None
    created_at: int = 0
    purpose: str = ""
    source: FileOrigin = FileOrigin()
    text: str | None = None
    data_base64: str | None = None
    preview: str | None = None
    code: str | None = None  # what went wrong, if there is no file …
    message: str | None = None  # … and why

    def is_text(self) -> bool:
        return self.text is not None or self.preview is not None

    def is_binary(self) -> bool:
        return not self.is_text() and not self.is_error()

    def is_image(self) -> bool:
        return (self.mime_type or "").startswith("image/")

    def is_video(self) -> bool:
        return (self.mime_type or "").startswith("video/")

    def is_error(self) -> bool:
        return self.code is not None

    def is_truncated(self) -> bool:
        """Whether its content did not come along."""
        return not self.is_error() and self.bytes > 0 and self.text is None and self.data_base64 is None

    def content(self) -> builtins.bytes:
        if self.is_error():
            raise BadRequest(f"there is no file '{self.name}': {self.message}")
        if self.is_truncated():
            raise BadRequest(f"the content of '{self.name}' did not come along; Runner.find_file({self.id!r}) has it")
        return (self.text or "").encode() if self.text is not None else base64.b64decode(self.data_base64 or "")

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_bytes(self.content())


@dataclass(frozen=True)
class InputFile:
    """A file that goes along with a request."""

    name: str
    data: bytes
    mime_type: str | None = None

    @classmethod
    def from_text(cls, name: str, text: str, mime_type: str = "text/plain") -> InputFile:
        return cls(name, text.encode(), mime_type)

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], mime_type: str | None = None, name: str | None = None
    ) -> InputFile:
        return cls(name or os.path.basename(path), Path(path).read_bytes(), mime_type)

    @property
    def id(self) -> str:
        """By which the model names it."""
        return f"file-{blake2b(self.data, digest_size=16).hexdigest()}"

    @property
    def bytes(self) -> int:
        return len(self.data)

    @property
    def part(self) -> dict[str, Any]:
        kind = self.mime_type or mimetypes.guess_type(self.name)[0] or "application/octet-stream"
        data = f"data:{kind};base64,{base64.b64encode(self.data).decode()}"
        return {"type": "file", "file": {"filename": self.name, "file_data": data}}


@dataclass(frozen=True)
class ShellSkillMount:
    """A folder of this machine, for `skills/NAME/` of the shell. It is read when the request is sent."""

    name: str
    description: str
    source_path: str | os.PathLike[str]

    @property
    def wish(self) -> dict[str, Any]:
        packed = base64.b64encode(pack_zip(self._files())).decode()
        source = {"type": "base64", "media_type": "application/zip", "data": packed}
        return {"type": "inline", "name": self.name, "description": self.description, "source": source}

    def _files(self) -> dict[str, bytes]:
        root = Path(self.source_path)
        if not root.is_dir():
            raise BadRequest(f"the skill '{self.name}' should be in {str(root)!r}, and there is no such folder")
        found: list[tuple[str, bytes]] = []
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                if path.is_symlink() or not path.is_file():
                    raise BadRequest(f"the skill '{self.name}' has {str(path)!r}, which is no file of its own")
                if len(found) > DEFAULT_LIMITS.files:
                    break
                found.append((path.relative_to(root).as_posix(), path.read_bytes()))
        return folder_of(found)


def with_inputs(messages: str | Sequence[Mapping[str, Any]], files: Sequence[InputFile]) -> list[Mapping[str, Any]]:
    """The messages with files in the last one of the user's."""
    history: list[Mapping[str, Any]] = (
        [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
    )
    at = next((at for at in reversed(range(len(history))) if history[at].get("role") == "user"), None)
    if at is None:
        raise BadRequest("input_files go along with a message of the user's, and there is none", param="input_files")
    content = history[at].get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    history[at] = {**history[at], "content": [*[file.part for file in files], *parts]}
    return history


def write_requested_files(files: Sequence[RequestedFile | Mapping[str, Any] | str]) -> list[Any]:
    return [
        {"name": file.name, "format": file.format or None, "description": file.description or None}
        if isinstance(file, RequestedFile)
        else file
        for file in files
    ]
