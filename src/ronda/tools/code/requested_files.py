"""A tool that runs code, for one run: what the request gave is put into the session's folder before each call.

Files that the request wants to get are named in the tool's description, and read back after the first call that has made them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from ronda.core.files import PREVIEW_BYTES, TEXT_FORMATS, preview
from ronda.core.parts import File
from ronda.core.plan import ToolSpec
from ronda.core.supplies import RequestedFile
from ronda.drive import Tool, ToolContext, ToolOutput


class RequestedFiles:
    """The files that one run is to make; those that are there are not asked for again."""

    def __init__(self, files: Sequence[RequestedFile]) -> None:
        self.files = {file.name: file for file in files}
        self._made: set[str] = set()

    @property
    def text(self) -> str:
        """What is added to the description of a tool."""
        if not self.files:
            return ""
        lines = [
            f"- {file.name}"
            + (f" ({file.format})" if file.format else "")
            + (f": {file.description}" if file.description else "")
            for file in self.files.values()
        ]
        return "\nThe user needs these files; write them into the working directory under these names:\n" + "\n".join(
            lines
        )

    def with_outputs(self, arguments: dict[str, Any]) -> dict[str, Any]:
        outputs = list(arguments.get("outputs") or [])
        named = {str(one.get("name", "")) if isinstance(one, dict) else str(one) for one in outputs}
        missing = [{"name": name} for name in self.files if name not in named and name not in self._made]
        return {**arguments, "outputs": [*outputs, *missing]} if missing else arguments

    def take(self, files: tuple[File, ...]) -> tuple[File, ...]:
        """The files that a call made, each in the format that was asked for."""
        self._made |= {file.name for file in files if file.name in self.files}
        return tuple([self._formatted(file) for file in files])

    def _formatted(self, file: File) -> File:
        wanted = self.files.get(file.name or "")
        if wanted is None or wanted.format.lower() in ("", file.format):
            return file
        file_format = wanted.format.lower()
        return replace(file, format=file_format, preview=_preview(file) if file_format in TEXT_FORMATS else "")


def _preview(file: File) -> str:
    try:
        return preview(base64.b64decode((file.data or "").partition(",")[2]), PREVIEW_BYTES)
    except (binascii.Error, ValueError):
        return ""


class PreparedTool:
    def __init__(self, tool: Tool, place: Callable[[ToolContext], Awaitable[None]], requested: RequestedFiles) -> None:
        self._tool = tool
        self._place = place
        self._requested = requested
        text = requested.text
        self.spec: ToolSpec = replace(tool.spec, description=tool.spec.description + text) if text else tool.spec

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        await self._place(context)
        output = await self._tool.run(self._requested.with_outputs(arguments), context)
        return replace(output, files=self._requested.take(output.files)) if output.files else output
