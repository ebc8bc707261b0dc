"""`${env:NAME:default}` and `${file:path}` in a tree of values → what they stand for.

A whole string is a reference or it is text: nothing is replaced inside of it, and an unknown protocol leaves it as it
is. Every string of the tree counts, in lists too, and those of a JSON or YAML file that was brought in; what an environment
variable says, or a file of plain text, is never read as a reference again.

A file may be read only from inside the allowed folders: that of the prompty file, and those the host names. Where a path
leads is known once every link and `..` in it is followed; what a file says about itself can widen nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from ronda.prompty.errors import BadPrompty, PromptyNotFound
from ronda.prompty.files import Disk, Files
from ronda.prompty.report import Report, field
from ronda.prompty.yaml_tree import MAX_DEPTH, BadYaml, Place, parse_yaml

MAX_FILE: Final = 8_000_000  # bytes of one referenced file: an OpenAPI document may be large
MAX_ALL: Final = 32_000_000  # of all of them
MAX_NESTED: Final = 8  # files that bring in files
MAX_FILES: Final = 100  # of all references together
MAX_VALUES: Final = 300_000  # of all files together

_REFERENCE: Final = re.compile(r"\$\{([^:{}]+):(.*)\}", re.DOTALL)


class Roots:
    """The folders that files may be read from, and what they are read with. `folder` is where relative paths start; without it
    there are none."""

    def __init__(
        self, folder: Path | None, allowed: Sequence[str | os.PathLike[str]] = (), files: Files | None = None
    ) -> None:
        self.files = Disk() if files is None else files
        self.folder = self.files.find(folder) if folder is not None else None
        own = [self.folder] if self.folder is not None else []
        self.allowed = [*own, *(self.files.find(Path(root)) for root in allowed)]

    def find(self, path: str) -> Path:
        """Where a path really leads. Raises `BadPrompty` outside the roots, `PromptyNotFound` where there is no file."""
        if not self.allowed:
            raise BadPrompty(f"{path} resolves outside allowed roots: text without a file of its own may read none")
        try:
            found = self.files.find((self.folder or self.allowed[0]) / path)
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a zero byte
            raise BadPrompty(f"{path!r} is not a path: {error}") from error
        if not any(found.is_relative_to(root) for root in self.allowed):
            raise BadPrompty(f"{path} resolves outside allowed roots")
        try:
            there = self.files.exists(found)
        except OSError as error:  # a name that is too long
            raise BadPrompty(f"{path[:200]!r} is not a path: {error.strerror}") from error
        if not there:
            raise PromptyNotFound(f"Referenced file not found: {path}")
        return found


def decode_text(data: bytes, label: str) -> str:
    """UTF-8, with or without a byte order mark; every line ends with a newline character only."""
    if b"\0" in data:
        raise BadPrompty(f"{label} is binary: a zero byte in line {data.count(10, 0, data.index(0)) + 1}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadPrompty(f"{label} is not UTF-8 text: byte 0x{data[error.start]:02x} in line {line}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


class TooMuch(BadPrompty):
    """Nothing more is read: going on would only take longer."""


class Resolver:
    """Replaces the references of one file's values. Values that came from one are remembered by their place."""

    def __init__(self, report: Report, roots: Roots, env: Mapping[str, str] | None = None) -> None:
        self._report = report
        self._roots = roots
        self._env: Mapping[str, str] = os.environ if env is None else env
        self._open: list[Path] = []  # files being brought in, outermost first
        self._files = 0
        self._bytes = 0
        self._values = 0

    def resolve(self, value: Any, place: Place = ()) -> Any:
        """A new tree; the old one is left alone. What cannot be resolved is reported, and is None."""
        self._values += 1
        if self._values > MAX_VALUES:
            self._stop(place, f"more than {MAX_VALUES} values are brought in")
        if len(place) > 2 * MAX_DEPTH:
            self._stop(place, f"what is brought in is nested more than {MAX_DEPTH} deep")
        if isinstance(value, str):
            return self._string(value, place) if value.startswith("${") else value
        if isinstance(value, dict):
            return {key: self.resolve(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, (*place, index)) for index, item in enumerate(value)]
        return value

    def _string(self, text: str, place: Place) -> Any:
        found = _REFERENCE.fullmatch(text)
        if found is None:
            return text
        protocol, content = found[1].lower(), found[2]
        if protocol not in ("env", "file"):
            return text
        self._report.referred.add(place)
        try:
            return self._variable(content) if protocol == "env" else self._file(content, place)
        except TooMuch:
            raise
        except BadPrompty as error:
            self._report.add(place, str(error), type(error))
            self._report.leads_nowhere(place)
            return None

    def _variable(self, content: str) -> str:
        name, _, default = content.partition(":")
        if not name or "=" in name or "\0" in name:
            raise BadPrompty(f"{name!r} is not the name of an environment variable")
        value = self._env.get(name)
        if value is None:
            if not default:
                raise BadPrompty(f"Environment variable '{name}' not set")
            return default
        return value

    def _file(self, reference: str, place: Place) -> Any:
        path = self._roots.find(reference)
        if path in self._open:
            chain = " → ".join(file.name for file in (*self._open, path))
            raise BadPrompty(f"{reference} brings in itself: {chain}")
        if len(self._open) >= MAX_NESTED:
            raise BadPrompty(f"{reference} is brought in by more than {MAX_NESTED} files, one from another")
        self._files += 1
        if self._files > MAX_FILES:
            self._stop(place, f"more than {MAX_FILES} files are brought in")
        data = self._roots.files.read(path, min(MAX_FILE, MAX_ALL - self._bytes), reference)
        self._bytes += len(data)
        text = decode_text(data, reference)
        match path.suffix.lower():
            case ".json":
                value = _json(text, reference)
            case ".yaml" | ".yml":
                value = _yaml(text, reference)
            case _:
                return text
        self._open.append(path)
        try:
            return self.resolve(value, place)
        finally:
            self._open.pop()

    def _stop(self, place: Place, message: str) -> NoReturn:
        place = place[:8]
        raise TooMuch(message, path=self._report.path, line=self._report.line(place), field=field(place))


def _json(text: str, label: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadPrompty(f"{label} is not JSON: {error}") from error


def _yaml(text: str, label: str) -> Any:
    try:
        tree = parse_yaml(text)
    except BadYaml as error:
        raise BadPrompty(f"{label} is not YAML that can be read: {error} (line {error.line})") from error
    if tree.faults:
        fault = tree.faults[0]
        raise BadPrompty(f"{label} is not YAML that can be read: {fault.message} (line {fault.line})")
    return tree.value
