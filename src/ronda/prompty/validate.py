"""Everything that is wrong with a file, as far as it can be told without calling anybody: what `ronda validate` prints.

`check` says whether a file loads. This also reads its template, looks for its model, and follows the files that are its tools.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Final

from ronda.errors import RondaError
from ronda.prompty.check import check
from ronda.prompty.children import Children
from ronda.prompty.components import get_parser, get_renderer
from ronda.prompty.errors import BadPrompty
from ronda.prompty.load import AnyPath, load
from ronda.prompty.model import Prompty, PromptyTool
from ronda.prompty.registry import Lent
from ronda.prompty.report import Problem
from ronda.prompty.segments import TemplateError
from ronda.prompty.tool_specs import spec_of
from ronda.prompty.upstream import upstream_of

_LINE: Final = re.compile(r" \(line (\d+)\)$")


def validate(
    path: AnyPath, *, allowed_file_roots: Sequence[AnyPath] = (), env: Mapping[str, str] | None = None
) -> list[Problem]:
    """Every problem of a file, in the order of its lines. Raises nothing."""
    found = check(path, allowed_file_roots=allowed_file_roots, env=env)
    if any(problem.severity == "error" for problem in found):
        return found
    prompty = load(path, allowed_file_roots=allowed_file_roots, env=env)
    found += [*_template(prompty), *_model(prompty), *_tools(prompty), *_children(prompty, allowed_file_roots, env)]
    return sorted(found, key=lambda problem: (problem.line or 0, problem.severity))


def _template(prompty: Prompty) -> list[Problem]:
    format, parser = prompty.template.format.kind, prompty.template.parser.kind
    problems: list[Problem] = []
    try:
        if format == "mustache":
            from ronda.prompty import mustache

            mustache.read(prompty.instructions)
        elif format in ("jinja2", "", "*"):
            from ronda.prompty import jinja

            jinja.read(prompty.instructions)
        else:
            get_renderer(format)
    except TemplateError as error:
        said = _LINE.search(str(error))
        line = prompty.body_line + (int(said[1]) - 1 if said else 0)
        problems.append(Problem(line, "", _LINE.sub("", str(error))))
    except RondaError as error:
        problems.append(Problem(None, "template.format", str(error)))
    if parser not in ("prompty", "", "*"):
        try:
            get_parser(parser)
        except RondaError as error:
            problems.append(Problem(None, "template.parser", str(error)))
    return problems


def _model(prompty: Prompty) -> list[Problem]:
    """A file without a model may be given one; a connection that is not registered here may be elsewhere."""
    if prompty.model is None:
        return [Problem(None, "model", "the file names no model", "warning")]
    try:
        upstream_of(prompty)
    except BadPrompty as error:
        is_elsewhere = "is registered" in str(error)
        return [Problem(None, error.field or "model", str(error), "warning" if is_elsewhere else "error")]
    except RondaError as error:
        return [Problem(None, "model", str(error))]
    return []


def _tools(prompty: Prompty) -> list[Problem]:
    problems: list[Problem] = []
    for tool in prompty.tools:
        if tool.kind == "function":
            try:
                spec_of(tool)  # type: ignore[arg-type]  # its kind was just looked at
            except BadPrompty as error:
                problems.append(Problem(None, f"tools.{tool.name}", str(error)))
    return problems


def _children(prompty: Prompty, roots: Sequence[AnyPath], env: Mapping[str, str] | None) -> list[Problem]:
    tools = [tool for tool in prompty.tools if isinstance(tool, PromptyTool)]
    if not tools:
        return []

    async def look() -> list[Problem]:
        problems: list[Problem] = []
        children = Children(roots, env, Lent())
        for tool in tools:
            try:
                await children.tool(tool, prompty)
            except BadPrompty as error:
                problems.append(Problem(None, error.field or f"tools.{tool.name}", str(error)))
        return problems

    return asyncio.run(look())
