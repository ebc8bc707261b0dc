"""`retrieve_option`: the code of another variant."""

from __future__ import annotations

from typing import Any, TypeGuard

from ronda.drive import ToolContext
from ronda.tools.page.project import PageProject
from ronda.tools.page.tool import Outcome, PageError, PageTool, shorten
from ronda.tools.parameters import object_schema

_PARAMETERS = object_schema(
    {"option_number": {"type": "integer", "description": "Which option; the first is 1."}}, "option_number"
)


def retrieve_option(project: PageProject) -> PageTool:
    async def work(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        number = arguments.get("option_number")
        if number is None and _is_number(arguments.get("index")):  # as some models call it, from 0 on
            number = arguments["index"] + 1
        if not _is_number(number):
            raise PageError("retrieve_option requires option_number", "Missing option_number")
        options = await project.options()
        if not 1 <= number <= len(options):
            available = {"available": len(options)}
            raise PageError(
                "Option index out of range", result={"option_number": number, **available}, output=available
            )
        code = options[number - 1]
        if not code.strip():
            raise PageError("Option code is empty or unavailable", "Option code unavailable")
        return Outcome(
            {"option_number": number, "code": code},
            {"option_number": number, "contentLength": len(code), "preview": shorten(code, 320)},
        )

    return PageTool(
        project, "retrieve_option", "Read the code of another option (variant) by its number.", _PARAMETERS, work
    )


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
