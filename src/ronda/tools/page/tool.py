"""What the page's tools have in common: one call → JSON for the model, a summary for the page, pictures, changed files.

`details` of each call are {"output": the summary, "ok": …, "path": the page's path} and, where files have changed, "files" with
what is in them and "code", the whole page, once there is one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NO_USAGE, Image, Usage
from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import ToolFailed

if TYPE_CHECKING:
    from ronda.tools.page.project import PageProject
    from ronda.tools.page.services import PageServices

EXCLUSIVE: Final = "page"  # a variant has a session of its own, so this is per variant
TIMEOUT: Final = 300.0

# What a tool does with the arguments of a call, for one project.
Work: TypeAlias = "Callable[[PageProject, PageServices, dict[str, Any], ToolContext], Awaitable[Outcome]]"


class PageError(ToolFailed):
    """A call that came to nothing. The model and the people at the page read different words.

    `result` is what the model is told besides `error`, `output` what the page is.
    """

    def __init__(
        self,
        error: str,
        shown: str | None = None,
        *,
        result: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(error)
        self.result = {"error": error, **(result or {})}
        self.output = {"error": shown or error, **(output or {})}


class Outcome(Struct, frozen=True):
    """The result of a call: `result` for the model, `output` for the page."""

    result: dict[str, Any]
    output: dict[str, Any]
    images: tuple[Image, ...] = ()
    files: dict[str, str] = {}  # that the call changed, with what is in them now
    ok: bool = True
    usage: Usage = NO_USAGE  # of a model that was asked for it
    marks: tuple[str, ...] = ()  # what the model reads by it (`core.taint`)


class PageFunction(Struct, frozen=True):
    """A function of the arguments, and what a model is told about it: the same for all projects."""

    spec: ToolSpec
    work: Work


def page_spec(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    *,
    repeatable: bool = True,
    preview: tuple[str, ...] = (),
) -> ToolSpec:
    return ToolSpec(
        name,
        description,
        Raw(msgspec.json.encode(parameters)),
        repeatable=repeatable,
        exclusive=EXCLUSIVE,
        timeout=TIMEOUT,
        no_arguments_needed=not parameters.get("required"),
        checks_arguments=True,
        labels=("page",),
        preview=preview,
    )


class PageTool:
    """A function of the page's as a tool of one project. It checks its arguments itself, for the words are part of it."""

    def __init__(self, project: PageProject, services: PageServices, function: PageFunction) -> None:
        self.spec = function.spec
        self._work = function.work
        self._project = project
        self._services = services

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        # A model under a strict schema has to write null for what it leaves out.
        present = {name: value for name, value in arguments.items() if value is not None}
        try:
            outcome = await self._work(self._project, self._services, present, context)
        except PageError as error:
            outcome = Outcome(error.result, error.output, ok=False)
        details: dict[str, Any] = {"output": outcome.output, "ok": outcome.ok, "path": self._project.main}
        if outcome.files:
            details["files"] = outcome.files
            if self._project.code:  # a stylesheet may come before its page
                details["code"] = self._project.code
        text = msgspec.json.encode(outcome.result).decode()
        return ToolOutput(
            text, outcome.images, failed=not outcome.ok, usage=outcome.usage, details=details, marks=outcome.marks
        )


def read_texts(arguments: Mapping[str, Any], name: str, missing: tuple[str, str], empty: tuple[str, str]) -> list[str]:
    """A list of texts: trimmed, without doubles, in order. `missing` and `empty` are what is said without one, each twice."""
    value = arguments.get(name)
    if not isinstance(value, list) or not value:
        raise PageError(*missing)
    texts = list(dict.fromkeys(text.strip() for text in value if isinstance(text, str) and text.strip()))
    if not texts:
        raise PageError(*empty)
    return texts
