"""A prompty file → a `Prompty`: read, split, resolve references, write out shorthands.

    load(path)      a file                          load_async(path)  the same, off the event loop
    loads(text)     its text, with or without a folder that `${file:…}` may read from

The first problem is raised as a `BadPrompty`, whose text is the specification's and whose attributes say where; `check` has
all of them. An environment is only ever looked into for names that the file asks for, and a host that wants to hide
something passes its own. `.env` files are not read here: that is the host's business (`dotenv.read_dotenv`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct

from ronda.prompty.errors import BadPrompty, PromptyNotFound
from ronda.prompty.files import Disk, Files
from ronda.prompty.model import Prompty, with_host
from ronda.prompty.read import read_prompty
from ronda.prompty.references import Resolver, Roots, decode_text
from ronda.prompty.report import At, Report
from ronda.prompty.yaml_tree import BadYaml, Tree, parse_yaml
from ronda.trace.spans import OpenSpan, current_span, span

SIGNATURE: Final = "ronda.load"
MAX_SIZE: Final = 1_000_000  # bytes of a prompty file
MAX_KEPT: Final = 32_000  # characters of front matter that are remembered
_MODEL: Final = re.compile(r"[a-z][a-z-]+:[^/\\]")  # PROVIDER:NAME, in the place of a file

AnyPath: TypeAlias = str | os.PathLike[str]


def load(
    path: AnyPath,
    *,
    allowed_file_roots: Sequence[AnyPath] = (),
    env: Mapping[str, str] | None = None,
    files: Files | None = None,
) -> Prompty:
    """Load a prompty file.

    `allowed_file_roots` are folders that `${file:…}` may read from besides the file's own; `env` stands in for the
    process's environment, `files` for the disk.
    """
    with span("load", signature=SIGNATURE, inputs={"path": str(path)}) as emit:
        prompty = read_file(path, allowed_file_roots=allowed_file_roots, env=env, files=files)
        emit("result", prompty)
        return prompty


def tell_load(path: AnyPath, prompty: Prompty, began: float, ended: float) -> None:
    """The span of a file that was read before it was known which span that belongs into."""
    load_span = OpenSpan("load", current_span(), began)
    load_span.emit("signature", SIGNATURE)
    load_span.emit("inputs", {"path": str(path)})
    load_span.emit("result", prompty)
    load_span.close(ended)


def read_file(
    path: AnyPath,
    *,
    allowed_file_roots: Sequence[AnyPath] = (),
    env: Mapping[str, str] | None = None,
    files: Files | None = None,
) -> Prompty:
    """`load`, untraced."""
    files = Disk() if files is None else files
    found, text = read_text(path, files)
    read = examine(text, Report(str(found), quiet=True), Roots(found.parent, allowed_file_roots, files), env)
    return with_host(_or_raise(*read), _resolve_roots(allowed_file_roots), env, files)


async def load_async(
    path: AnyPath, *, allowed_file_roots: Sequence[AnyPath] = (), env: Mapping[str, str] | None = None
) -> Prompty:
    import asyncio  # 30 ms; callers of this have it already

    return await asyncio.to_thread(load, path, allowed_file_roots=allowed_file_roots, env=env)


def loads(
    text: str,
    *,
    folder: AnyPath | None = None,
    allowed_file_roots: Sequence[AnyPath] = (),
    env: Mapping[str, str] | None = None,
) -> Prompty:
    """Load the text of a prompty file. Paths in it start at `folder`; without one, it can bring in no files."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    roots = Roots(Path(folder) if folder is not None else None, allowed_file_roots)
    read = examine(text, Report(None, quiet=True), roots, env)
    return with_host(_or_raise(*read), _resolve_roots(allowed_file_roots), env, roots.files)


def _resolve_roots(roots: Sequence[AnyPath]) -> list[str]:
    return [str(Path(root).resolve()) for root in roots]


def read_text(path: AnyPath, files: Files) -> tuple[Path, str]:
    """Where a prompty file really is, and its text."""
    file = Path(path)
    try:
        found = files.find(file)
        there = files.exists(found)
    except (OSError, RuntimeError, ValueError) as error:
        raise BadPrompty(f"{file} is not a path: {error}") from error
    if not there:
        raise PromptyNotFound(f"Prompty file not found: {found}{_hint(str(path))}", path=str(found))
    try:
        return found, decode_text(files.read(found, MAX_SIZE, str(found)), str(found))
    except BadPrompty as error:
        error.path = str(found)
        raise


def _hint(path: str) -> str:
    """Of something that is no file: a model is written in another way."""
    if not _MODEL.match(path):
        from ronda.providers.misspelt import with_provider  # for mistakes only

        if (model := with_provider(path)) is None:
            return ""
        path = model
    return f"; for a model write Agent({path!r})"


def examine(text: str, report: Report, roots: Roots, env: Mapping[str, str] | None) -> tuple[Prompty | None, Report]:
    """Everything there is to say about a file. Besides errors, the `Prompty` is what could be read of it, if anything."""
    try:
        parts = split(text, report.path)
        report.tree = _front_matter(parts, report)
        resolver = Resolver(report, roots, env)
        top = At(resolver.resolve(report.tree.value or {}), (), report)
        body = _body(parts, resolver, report.tree)
    except BadPrompty as error:
        report.errors.append(error)
        return None, report
    if not isinstance(body, str):
        report.add(("body",), "the body is text, and its reference brings in something else")
        body = ""
    prompty = read_prompty(top, body, report.path, parts.body_line if body is parts.body else 0)
    return prompty, report


def _front_matter(parts: Split, report: Report) -> Tree:
    if parts.yaml is None:
        return Tree({}, {(): 1}, [])
    try:
        tree = _parse_yaml(parts.yaml, parts.yaml_line)
    except BadYaml as error:
        raise BadPrompty(f"Invalid frontmatter YAML: {error}", path=report.path, line=error.line) from error
    report.tree = tree
    for fault in tree.faults:
        report.add(fault.place, f"Invalid frontmatter YAML: {fault.message}")
        report.errors[-1].line = fault.line
    if tree.value is not None and not isinstance(tree.value, dict):
        raise BadPrompty("Frontmatter must be a YAML mapping", path=report.path, line=tree.line(()))
    return tree


def _parse_yaml(yaml: str, line: int) -> Tree:
    """What was read before is not read again: most of the cost of loading a file that has not changed."""
    if len(yaml) > MAX_KEPT:
        return parse_yaml(yaml, line)
    tree = _keep(yaml, line)
    return Tree(tree.value, dict(tree.lines), tree.faults)


_keep = lru_cache(maxsize=256)(parse_yaml)  # by the text itself, so there is nothing to go stale


def _body(parts: Split, resolver: Resolver, tree: Tree) -> Any:
    """The specification resolves the body with the rest: one that is a reference and nothing else is replaced."""
    tree.lines[("body",)] = parts.body_line
    text = parts.body.strip()
    resolved = resolver.resolve(text, ("body",))
    if resolved is text:
        return parts.body
    return "" if resolved is None else resolved


def _or_raise(prompty: Prompty | None, report: Report) -> Prompty:
    if report.errors:
        error, *more = report.errors
        if more:
            error.add_note(f"and {len(more)} more; `ronda validate` lists them all")
        raise error
    assert prompty is not None, "a file that cannot be read has an error"
    return prompty


# The text of a prompty file → its front matter and its body.
#
# Front matter stands between two marker lines, `---` or `+++`. The specification's expression ends it at the first marker
# anywhere, so that `description: a --- b` would cut it in two and a table in a file without a closing marker would close it;
# here a marker has a line to itself. Files that follow the specification's examples are split the same way.

_OPENING = re.compile(r"\s*?(?P<indent>[ \t]*)(?P<marker>---|\+\+\+)[ \t]*(?:\n|$)")
_CLOSING = re.compile(r"^(?P<indent>[ \t]*)(?:---|\+\+\+)[ \t]*$", re.MULTILINE)
_STARTS = re.compile(r"\s*(?:---|\+\+\+)")


class Split(Struct, frozen=True):
    """`yaml` is None for a file that has no front matter. Lines count from 1."""

    yaml: str | None
    yaml_line: int
    body: str
    body_line: int


def split(text: str, path: str | None = None) -> Split:
    """Raises `BadPrompty` where front matter begins and does not end."""
    if not _STARTS.match(text):
        return Split(None, 1, text, 1)
    opening = _OPENING.match(text)
    if opening is None:
        line = text[: len(text) - len(text.lstrip())].count("\n") + 1
        raise BadPrompty(
            f"{_malformed_message(path)}: the opening marker must have a line to itself", path=path, line=line
        )
    start = opening.end()
    yaml_line = text.count("\n", 0, start) + 1
    for closing in _CLOSING.finditer(text, start):
        if len(closing["indent"]) <= len(opening["indent"]):  # one that is deeper is text inside the YAML
            rest = text[closing.end() :]
            body = rest.lstrip()
            skipped = text.count("\n", 0, len(text) - len(body))
            return Split(text[start : closing.start()], yaml_line, body.rstrip("\n"), skipped + 1)
    raise BadPrompty(
        f"{_malformed_message(path)}: no line with a closing {opening['marker']}", path=path, line=max(yaml_line - 1, 1)
    )


def _malformed_message(path: str | None) -> str:
    return f"Malformed frontmatter in {path}" if path else "Malformed frontmatter"
