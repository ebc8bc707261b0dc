"""What a model writes and reads: files of the page, whole (`create_file`) or in pieces (`edit_file`), and the code of another
variant (`retrieve_option`)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, TypeGuard

from ronda.drive import ToolContext
from ronda.tools.function import in_thread
from ronda.tools.page.edits import Edit, EditResult, apply_edits, read_edits, unified_diff
from ronda.tools.page.project import PageProject, read_path
from ronda.tools.page.services import PageServices
from ronda.tools.page.tool import Outcome, PageError, PageFunction, page_spec
from ronda.tools.parameters import object_schema
from ronda.wire.app_stream.summaries import shorten

_CREATE = object_schema(
    {
        "path": {"type": "string", "description": "Path of the file, such as index.html."},
        "content": {"type": "string", "description": "The whole content of the file."},
    },
    "path",
    "content",
)


async def create_file(
    project: PageProject, services: PageServices, arguments: dict[str, Any], context: ToolContext
) -> Outcome:
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


CREATE_FILE: Final = PageFunction(
    page_spec(
        "create_file",
        "Write a file of the page, whole. A file that is there is replaced. The page itself is index.html.",
        _CREATE,
        preview=("/path", "/content"),
    ),
    create_file,
)


_COUNT = {"type": "integer", "description": "How many occurrences, from the first on [1]; -1 replaces all."}
_OLD = {"type": "string", "description": "The text that is there, exactly as it is written."}
_NEW = {"type": "string", "description": "What takes its place; empty to delete it."}
_EDIT = object_schema(
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


async def edit_file(
    project: PageProject, services: PageServices, arguments: dict[str, Any], context: ToolContext
) -> Outcome:
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


EDIT_FILE: Final = PageFunction(
    page_spec(
        "edit_file",
        "Replace pieces of a file by other text. Each old_text must be in the file exactly as written.",
        _EDIT,
        preview=("/path", "/old_text", "/new_text", "/edits"),
    ),
    edit_file,
)


def _edit(path: str, before: str, edits: list[Edit]) -> tuple[EditResult, str, int | None]:
    edited = apply_edits(before, edits)
    return edited, *unified_diff(path, before, edited.text)


_RETRIEVE = object_schema(
    {"option_number": {"type": "integer", "description": "Which option; the first is 1."}}, "option_number"
)


async def retrieve_option(
    project: PageProject, services: PageServices, arguments: dict[str, Any], context: ToolContext
) -> Outcome:
    number = arguments.get("option_number")
    if number is None and _is_number(arguments.get("index")):  # as some models call it, from 0 on
        number = arguments["index"] + 1
    if not _is_number(number):
        raise PageError("retrieve_option requires option_number", "Missing option_number")
    options = await project.options()
    if not 1 <= number <= len(options):
        available = {"available": len(options)}
        raise PageError("Option index out of range", result={"option_number": number, **available}, output=available)
    code = options[number - 1]
    if not code.strip():
        raise PageError("Option code is empty or unavailable", "Option code unavailable")
    return Outcome(
        {"option_number": number, "code": code},
        {"option_number": number, "contentLength": len(code), "preview": shorten(code, 320)},
    )


RETRIEVE_OPTION: Final = PageFunction(
    page_spec("retrieve_option", "Read the code of another option (variant) by its number.", _RETRIEVE),
    retrieve_option,
)


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
