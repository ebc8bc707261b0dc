"""Everything that is wrong with a file, as far as it shows without a call to a model: what `ronda validate` prints.

`check` says whether a file loads. This also reads its template, looks for its model, and opens the files that its tools name.
"""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from msgspec.structs import replace

from ronda._extras import MissingPackages, check_extra
from ronda.errors import RondaError
from ronda.prompty.check import look, place_of
from ronda.prompty.children import Children
from ronda.prompty.components import get_parser, get_renderer
from ronda.prompty.errors import BadPrompty, ConnectionMissing, InvokerError
from ronda.prompty.load import AnyPath
from ronda.prompty.model import FunctionTool, Host, OpenApiTool, Prompty, PromptyTool, Tool
from ronda.prompty.registry import Lent
from ronda.prompty.report import Problem, Report, field
from ronda.prompty.segments import TemplateError
from ronda.prompty.tool_specs import spec_of
from ronda.prompty.upstream import upstream_of
from ronda.prompty.yaml_tree import Place


def validate(
    path: AnyPath, *, allowed_file_roots: Sequence[AnyPath] = (), env: Mapping[str, str] | None = None
) -> list[Problem]:
    """Every problem of a file, in the order of its lines. Raises nothing."""
    try:
        prompty, report = look(path, allowed_file_roots, env)
    except BadPrompty as error:
        return [Problem(error.line, "", str(error))]
    found: list[Problem] = []
    if prompty is not None:
        host = Host([os.fspath(root) for root in allowed_file_roots], env)
        found += _Validation(replace(prompty, host=host), report).problems()
    errors = {problem.field for problem in found if problem.field}
    # A file that a tool names and that is not there is only a warning when a file is loaded; here it is an error, and said once.
    found += [one for one in report.problems() if one.severity == "error" or one.field not in errors]
    return sorted(found, key=lambda problem: (problem.line is None, problem.line or 0, problem.severity))


class _Validation:
    def __init__(self, prompty: Prompty, report: Report) -> None:
        self._prompty = prompty
        self._report = report

    def problems(self) -> list[Problem]:
        found = [*self._template(), *self._components(), *self._prompt()]
        value = self._report.tree.value if self._report.tree is not None else None
        if self._prompty.model is None and "model" not in (value or {}):
            found.append(Problem(None, "model", "the file names no model", "warning"))
        if self._report.errors:  # what the rest is about may be what is wrong
            return found
        # In a thread of its own: a program may ask from inside its event loop.
        with ThreadPoolExecutor(1) as thread:
            tools = thread.submit(asyncio.run, self._tools()).result()
        return [*found, *self._model(), *tools]

    def _at(self, place: Place, message: str) -> Problem:
        return Problem(self._report.line(place), field(place), message)

    def _template(self) -> list[Problem]:
        from ronda.prompty import jinja, mustache

        prompty = self._prompty
        try:
            match prompty.template.format.kind:
                case "mustache":
                    mustache.read(prompty.instructions)
                case "jinja2" | "" | "*":
                    faults = jinja.faults(prompty.instructions)
                    found = [self._in_template(line, message) for line, message in faults]
                    return found or self._misspelt(jinja.free_names(prompty.instructions))
                case _:
                    pass  # another package's template
        except TemplateError as error:
            error.locate(prompty.path, prompty.body_line)
            return [Problem(error.line or prompty.body_line or None, "", str(error))]
        return []

    def _misspelt(self, names: Mapping[str, int]) -> list[Problem]:
        """A template may use what the file does not declare; but hardly what is almost the name of something it does."""
        inputs = [one.name for one in self._prompty.inputs]
        problems: list[Problem] = []
        for name, line in names.items():
            if name not in inputs and (close := difflib.get_close_matches(name, inputs, 1, 0.75)):
                message = f"the template uses '{name}', which is no input; did you mean '{close[0]}'?"
                problems.append(replace(self._in_template(line, message), severity="warning"))
        return problems

    def _in_template(self, line: int, message: str) -> Problem:
        begins = self._prompty.body_line
        return Problem(begins + line - 1, "", message) if begins else Problem(None, "", f"{message} (line {line})")

    def _prompt(self) -> list[Problem]:
        prompty = self._prompty
        if prompty.body_line == 1:
            text = "the file has no front matter, which stands between two lines of ---"
            return [Problem(1, "", text, "warning")]
        if not prompty.instructions.strip():
            return [Problem(prompty.body_line or None, "", "there is no prompt below the front matter", "warning")]
        return []

    def _components(self) -> list[Problem]:
        template = self._prompty.template
        problems: list[Problem] = []
        for key, kind, ours, get in (
            ("format", template.format.kind, ("jinja2", "mustache"), get_renderer),
            ("parser", template.parser.kind, ("prompty",), get_parser),
        ):
            try:
                if kind not in (*ours, "", "*"):
                    get(kind)
            except RondaError as error:
                problems.append(self._at(("template", key), str(error)))
        return problems

    def _model(self) -> list[Problem]:
        """A file without a model may be given one; a connection that is not registered here may be elsewhere."""
        if self._prompty.model is None:
            return []
        try:
            upstream_of(self._prompty)
        except InvokerError as error:
            return [self._at(("model", "provider"), str(error))]
        except BadPrompty as error:
            place = tuple((error.field or "model").split("."))
            return [replace(self._at(place, str(error)), severity=_severity(error))]
        except RondaError as error:
            return [self._at(("model",), str(error))]
        return []

    async def _tools(self) -> list[Problem]:
        problems: list[Problem] = []
        children = Children(self._prompty.host or Host(), Lent())
        for tool in self._prompty.tools:
            place = place_of(tool.name, self._report)
            try:
                await self._open(tool, children)
            except MissingPackages as error:
                problems.append(replace(self._at(place, str(error)), severity="warning"))  # the file may be right
            except BadPrompty as error:
                key = {PromptyTool: "path", OpenApiTool: "specification"}.get(type(tool))
                elsewhere = error.path is not None and error.path != self._prompty.path
                text = f"{error.where}: {error}" if elsewhere else str(error)
                problem = self._at(place if key is None else (*place, key), text)
                problems.append(replace(problem, severity=_severity(error)))
        return problems

    async def _open(self, tool: Tool, children: Children) -> None:
        match tool:
            case FunctionTool():
                spec_of(tool)
            case PromptyTool():
                await children.tool(tool, self._prompty)
            case OpenApiTool(specification=str(path)) if "://" in path:
                pass  # no call is made
            case OpenApiTool():
                check_extra("web", f"the tool '{tool.name}' of kind 'openapi'")
                from ronda.prompty.openapi import operations_of  # with aiohttp behind it: for such a tool only

                await operations_of(tool, self._prompty, set())
            case _:
                pass


def _severity(error: BadPrompty) -> Literal["error", "warning"]:
    """A connection that is not registered here may be where the file is run."""
    return "warning" if isinstance(error, ConnectionMissing) else "error"
