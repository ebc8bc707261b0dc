"""A prompty file → everything that is wrong with it, with lines.

A file has an error here if and only if `load` raises. Beyond that there are warnings: keys without effect, bindings to
inputs that are not there, files that a tool will look for in vain. `validate` looks further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ronda._suggest import closest
from ronda.prompty.errors import BadPrompty
from ronda.prompty.files import Disk
from ronda.prompty.load import AnyPath, examine, read_text
from ronda.prompty.model import OpenApiTool, Prompty, PromptyTool
from ronda.prompty.references import Roots
from ronda.prompty.report import Problem, Report
from ronda.prompty.yaml_tree import Place
from ronda.providers import PROVIDERS, opener_of
from ronda.providers.services import SERVICES

__all__ = ["Problem", "check", "look", "place_of"]


def check(
    path: AnyPath, *, allowed_file_roots: Sequence[AnyPath] = (), env: Mapping[str, str] | None = None
) -> list[Problem]:
    """Every problem of a file, in the order of its lines; none for a file in order. Raises nothing."""
    try:
        _, report = look(path, allowed_file_roots, env)
    except BadPrompty as error:
        return [Problem(error.line, "", str(error))]
    return report.problems()


def look(
    path: AnyPath, allowed_file_roots: Sequence[AnyPath], env: Mapping[str, str] | None
) -> tuple[Prompty | None, Report]:
    """A file as far as it can be read, and what there is to say about it. Raises `BadPrompty` where there is no text."""
    files = Disk()
    found, text = read_text(path, files)
    roots = Roots(found.parent, allowed_file_roots, files)
    prompty, report = examine(text, Report(str(found)), roots, env)
    if prompty is not None and not report.errors:
        _check_model(prompty, report)
        _check_files(prompty, report, roots)
    return prompty, report


def _check_model(prompty: Prompty, report: Report) -> None:
    """A misspelt provider: without one the whole name is that of a model of OpenAI's, as the reference has it."""
    model = prompty.model
    if model is None or model.provider or model.connection is not None:
        return
    prefix, colon, name = model.id.partition(":")
    if not colon or opener_of(prefix) is not None:
        return
    if (meant := closest(prefix, (*PROVIDERS, *SERVICES))) is not None:
        report.warn(("model",), f"'{model.id}' is taken for a model of OpenAI; did you mean '{meant}:{name}'?")


def _check_files(prompty: Prompty, report: Report, roots: Roots) -> None:
    """Files that are opened only when a tool is called."""
    for tool in prompty.tools:
        match tool:
            case PromptyTool():
                key, path = "path", tool.path
            case OpenApiTool(specification=str(path)) if "://" not in path:
                key = "specification"
            case _:
                continue
        try:
            roots.find(path)
        except BadPrompty as error:
            report.warn((*place_of(tool.name, report), key), str(error))


def place_of(tool: str, report: Report) -> Place:
    """Where the file declares a tool."""
    tools = report.tree.value.get("tools") if report.tree is not None else None
    if isinstance(tools, dict):
        return ("tools", tool)
    value = [one.get("name") if isinstance(one, dict) else None for one in tools or ()]
    return ("tools", value.index(tool)) if tool in value else ("tools",)
