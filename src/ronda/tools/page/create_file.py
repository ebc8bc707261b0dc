"""`create_file`: a file of the page, written whole."""

from __future__ import annotations

from typing import Any

from ronda.drive import ToolContext
from ronda.tools.page.project import PageProject, read_path
from ronda.tools.page.tool import Outcome, PageError, PageTool, shorten
from ronda.tools.parameters import object_schema

_PARAMETERS = object_schema(
    {
        "path": {"type": "string", "description": "Path of the file, such as index.html."},
        "content": {"type": "string", "description": "The whole content of the file."},
    },
    "path",
    "content",
)


def create_file(project: PageProject) -> PageTool:
    async def work(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        path = read_path(arguments.get("path"), project.main)
        content = arguments.get("content")
        if not isinstance(content, str) or not content.strip():
            raise PageError("create_file requires non-empty content", "Missing content")
        project.write(path, content)
        facts = {"path": path, "contentLength": len(content)}
        return Outcome(
            {"content": f"Successfully created file at {path}.", "details": facts},
            {**facts, "preview": shorten(content, 320)},
            files={path: content},
        )

    return PageTool(
        project,
        "create_file",
        "Write a file of the page, whole. A file that is there is replaced. The page itself is index.html.",
        _PARAMETERS,
        work,
        preview=("/path", "/content"),
    )
