"""Prompty's load vectors: a file is written as the vector says it, and loaded through the public door.

The fixtures' front matter also fits the JSON Schema that we publish.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.prompty_vectors import Json, canonical, expected_of, fits, fits_error, run_vectors
from tests.conformance.report import PartResult, Tally

from ronda.prompty import load, schema, to_dict, validate_inputs
from ronda.prompty.load import split
from ronda.prompty.yaml_tree import parse_yaml
from ronda.schema.validate import Validator

KNOWN = {
    "fixture",
    "frontmatter",
    "frontmatter_raw",
    "body",
    "env",
    "files",
    "agent_subdir",
    "allowed_file_roots",
    "inputs",
}
BODY = "system:\nHello"


def run(data: Path) -> PartResult:
    fixtures = data / "prompty" / "fixtures"
    result = run_vectors(data, {"LoadConformance.load": partial(_check, fixtures)})
    if result.is_absent and not fixtures.is_dir():
        return result
    tally = Tally()
    for file in sorted(fixtures.glob("*.prompty")):
        tally.check("fixtures that fit our schema", file.name, partial(_fits_schema, file))
    fitting = tally.result()
    total = result + fitting
    return PartResult(total.passed, total.failed, total.skipped, (*result.notes, *fitting.notes))


def _fits_schema(file: Path) -> None:
    front_matter = parse_yaml(split(file.read_text("utf-8")).yaml or "").value
    problems = Validator(schema()).problems(front_matter)
    assert problems == [], str(problems[0])


def _check(fixtures: Path, vector: Json) -> None:
    said = vector["input"]
    assert not said.keys() - KNOWN, f"the vector says {sorted(said.keys() - KNOWN)}, which no code reads"
    expected = expected_of(vector)
    with tempfile.TemporaryDirectory() as folder:
        path = _written(Path(folder).resolve(), said) if "fixture" not in said else fixtures / said["fixture"]
        if "error" in expected:
            try:
                ours = _load(path, said)
            except Exception as error:
                fits_error(error, expected)
                return
            raise AssertionError(f"loaded as {canonical(ours)}, expected the error {expected['error']!r}")
        ours = _load(path, said)
    if "validated_inputs" in expected:  # whole: an input too many is what these are about
        assert canonical(ours) == canonical(expected["validated_inputs"]), f"inputs: {ours!r}"
    else:
        fits(ours, expected, "agent")


def _load(path: Path, said: Json) -> Any:
    roots = [path.parent / root for root in said.get("allowed_file_roots") or ()]
    prompty = load(path, allowed_file_roots=roots, env=said.get("env") or {})
    return validate_inputs(prompty, said["inputs"]) if "inputs" in said else to_dict(prompty)


def _written(root: Path, said: Json) -> Path:
    """The agent's folder is some levels down, so that files beside and above it are still within `root`."""
    folder: Path = root / "a" / "b" / "c" / said.get("agent_subdir", "")
    folder.mkdir(parents=True)
    for name, content in (said.get("files") or {}).items():
        file = (folder / name).resolve()
        assert file.is_relative_to(root), f"{name} would be written outside of {root}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False), "utf-8")
    text = said.get("frontmatter_raw")
    if text is None:  # JSON is YAML
        text = f"---\n{json.dumps(said['frontmatter'], ensure_ascii=False)}\n---\n{said.get('body', BODY)}\n"
    path = folder / "agent.prompty"
    path.write_text(text, "utf-8")
    return path
