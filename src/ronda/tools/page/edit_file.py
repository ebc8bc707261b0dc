"""`edit_file`: pieces of a file replaced, all of them or none."""

from __future__ import annotations

from functools import partial
from typing import Any

from ronda.drive import ToolContext
from ronda.tools.function import in_thread
from ronda.tools.page.edits import Edit, EditResult, apply_edits, read_edits, unified_diff
from ronda.tools.page.project import PageProject, read_path
from ronda.tools.page.tool import Outcome, PageError, PageTool, shorten
from ronda.tools.parameters import object_schema

_COUNT = {"type": "integer", "description": "How many occurrences, from the first on [1]; -1 replaces all."}
_OLD = {"type": "string", "description": "The text that is there, exactly as it is written."}
_NEW = {"type": "string", "description": "What takes its place; empty to delete it."}
_PARAMETERS = object_schema(
    {
        "path": {"type": "string", "description": "The file [the page]."},
        "old_text": _OLD,
        "new_text": _NEW,
        "count": _COUNT,
        "edits": {
            "type": "array",
            "description": "Several edits, instead of old_text and new_text: done in order, all of them or none.",
            "items": object_schema({"old_text": _OLD, "new_text": _NEW, "count": _COUNT}, "old_text", "new_text"),
        },
    }
)


def edit_file(project: PageProject) -> PageTool:
    async def work(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        if not project.files:
            raise PageError("No file exists yet. Call create_file first.", "No file to edit")
        path = read_path(arguments.get("path"), project.main)
        if path not in project.files:
            there = ", ".join(project.files)
            raise PageError(f"No file exists at {path}. There is: {there}.", f"No file at {path}")
        edits = read_edits(arguments)
        before = project.files[path]
        # In a thread: finding what is nearest, and what is different, takes a while in a long file.
        edited, diff, line = await in_thread(partial(_edit, path, before, edits))
        project.write(path, edited.text)
        shown = [
            {"old_text": shorten(edit.old, 140), "new_text": shorten(edit.new, 140), "replaced": count}
            for edit, count in zip(edits, edited.replaced, strict=True)
        ]
        facts = {"diff": diff, "firstChangedLine": line}
        return Outcome(
            {"content": f"Successfully edited file at {path}.", "details": facts},
            {"path": path, "edits": shown, "contentLength": len(edited.text), **facts},
            files={path: edited.text},
        )

    return PageTool(
        project,
        "edit_file",
        "Replace pieces of a file by other text. Each old_text must be in the file exactly as written.",
        _PARAMETERS,
        work,
        preview=("/path", "/old_text", "/new_text", "/edits"),
    )


def _edit(path: str, before: str, edits: list[Edit]) -> tuple[EditResult, str, int | None]:
    edited = apply_edits(before, edits)
    return edited, *unified_diff(path, before, edited.text)
