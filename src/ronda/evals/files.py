"""The files that a suite names: found from its folder, read within bounds."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, Final

import msgspec

from ronda.prompty.report import At, Report
from ronda.prompty.yaml_tree import BadYaml, Place, Tree, parse_yaml

MAX_FILE: Final = 16_000_000  # bytes: of a file of cases; others are far smaller
MAX_CASES: Final = 10_000  # rows of a file
FILE: Final = "file://"


class Unreadable(Exception):
    """A file that is not there, or is no text. Said to the person at the place that names the file."""


class SuiteFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reports: list[Report] = []  # of files besides the suite's own, in the order they were read

    def find(self, path: str) -> Path:
        return self.folder / path.removeprefix(FILE)

    def text(self, path: str) -> str:
        found = self.find(path)
        try:
            if found.stat().st_size > MAX_FILE:
                raise Unreadable(f"{found} is larger than {MAX_FILE} bytes")
            return found.read_text("utf-8-sig")
        except OSError as error:
            raise Unreadable(f"cannot read {found}: {error.strerror}") from error
        except UnicodeError as error:
            raise Unreadable(f"{found} is not UTF-8 text") from error

    def resolve(self, at: At) -> At:
        """A value that is `file://…` → what the file has: JSON and YAML as values, all else as text."""
        if not isinstance(at.value, str) or not at.value.startswith(FILE):
            return at
        try:
            return At(_value(self.text(at.value), at.value), at.place, at.report)
        except (Unreadable, BadYaml, msgspec.DecodeError) as error:
            at.problem(f"{at.value}: {error}")
            return At("", at.place, at.report)

    def rows(self, at: At) -> list[At]:
        """A file of cases: `.jsonl`, `.csv`, `.json` or `.yaml`. Each row knows its line in that file."""
        name = str(at.value)
        path = self.find(name)
        report = Report(str(path))
        try:
            tree = _rows(self.text(name), path.suffix.lower(), path)
        except (Unreadable, BadYaml, msgspec.DecodeError, csv.Error) as error:
            at.problem(f"{name}: {error}")
            return []
        if tree is None:
            at.problem(f"'{name}' is no file of cases; it ends in .jsonl, .csv, .json or .yaml")
            return []
        report.tree = tree
        self.reports.append(report)
        if not isinstance(tree.value, list):
            at.problem(f"{name}: a list of cases is needed")
            return []
        if len(tree.value) > MAX_CASES:
            at.problem(f"{name} has more than {MAX_CASES} cases")
            return []
        return list(At(tree.value, (), report).items())


def _value(text: str, name: str) -> Any:
    if name.endswith(".json"):
        return msgspec.json.decode(text)
    if name.endswith((".yaml", ".yml")):
        return parse_yaml(text).value
    return text


def _rows(text: str, suffix: str, path: Path) -> Tree | None:
    lines: dict[Place, int] = {(): 1}
    match suffix:
        case ".jsonl" | ".ndjson":
            rows: list[Any] = []
            for number, line in enumerate(text.split("\n"), 1):
                if line.strip():
                    lines[(len(rows),)] = number
                    try:
                        rows.append(msgspec.json.decode(line))
                    except msgspec.DecodeError as error:
                        raise Unreadable(f"line {number} of {path} is not JSON: {error}") from error
            return Tree(rows, lines, [])
        case ".csv":
            reader = csv.DictReader(io.StringIO(text))
            found: list[Any] = []
            for row in reader:
                lines[(len(found),)] = reader.line_num
                found.append(_csv_case(row, path, reader.line_num))
            return Tree(found, lines, [])
        case ".json":
            return Tree(msgspec.json.decode(text), lines, [])
        case ".yaml" | ".yml":
            return parse_yaml(text)
        case _:
            return None


_CSV_NAME: Final = ("__description", "__name")


def _csv_case(row: dict[str | None, Any], path: Path, line: int) -> dict[str, Any]:
    """promptfoo's columns: `__expected` and `__expected1` … are checks, `contains: Paris`; all others are inputs."""
    case: dict[str, Any] = {"vars": {}, "assert": []}
    for name, cell in row.items():
        if name is None:
            raise Unreadable(f"line {line} of {path} has more cells than there are columns")
        if name in _CSV_NAME:
            case["description"] = cell
        elif name.startswith("__expected"):
            if cell:
                case["assert"].append(_csv_check(cell))
        elif name.startswith("__"):
            raise Unreadable(f"the column '{name}' of {path} is not supported; give the cases as JSONL")
        else:
            case["vars"][name] = cell or ""
    return case


def _csv_check(cell: str) -> dict[str, Any]:
    """`contains-all: a, b`; `levenshtein(3): text`; a text alone must be the answer."""
    kind, colon, value = cell.partition(":")
    name, bracket, limit = kind.strip().partition("(")
    if colon and " " not in name and name not in ("http", "https"):
        check: dict[str, Any] = {"type": name, "value": value.strip() or None}
        if bracket:
            check["threshold"] = float(limit.rstrip(") ")) if _is_number(limit.rstrip(") ")) else limit
        if name.removeprefix("not-").endswith(("-all", "-any")):
            check["value"] = [one.strip() for one in next(csv.reader([value], skipinitialspace=True))]
        return check
    if cell.strip() in ("is-json", "contains-json"):
        return {"type": cell.strip()}
    return {"type": "equals", "value": cell}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
