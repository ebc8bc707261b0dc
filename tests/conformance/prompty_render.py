"""Every vector of Renderer.render and Renderer.renderSegments, through `render` and `render_segments`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.prompty_vectors import Json, expected_of, fits, fits_error, run_vectors
from tests.conformance.report import PartResult

from ronda.prompty.template import TemplateError, render, render_segments


def run(data: Path) -> PartResult:
    return run_vectors(
        data,
        {
            "Renderer.render": partial(_check, _rendered),
            "Renderer.renderSegments": partial(_check, _segments),
        },
    )


def _check(work: Callable[[Json], Json], vector: Json) -> None:
    expected = expected_of(vector)
    try:
        ours = work(vector["input"])
    except TemplateError as error:
        if "error" not in expected:
            raise
        fits_error(error, expected)
        return
    assert "error" not in expected, f"no error was raised; expected {expected!r}"
    fits(_matched(ours, expected), expected, "")


def _rendered(said: Json) -> Json:
    return {"rendered": str(render(said["template"], **_arguments(said)))}


def _segments(said: Json) -> Json:
    segments = render_segments(said["template"], **_arguments(said))
    return {
        "segments": [
            {"kind": segment.kind, "text": segment.text, "source": segment.source, "strict": segment.strict}
            for segment in segments
        ]
    }


def _arguments(said: Json) -> dict[str, Any]:
    """A vector writes a rich input as `{_kind, …}`: the declaration and the value in one."""
    inputs = dict(said.get("inputs") or {})
    kinds = {name: value["_kind"] for name, value in inputs.items() if isinstance(value, dict) and "_kind" in value}
    for name in kinds:
        held = {key: value for key, value in inputs[name].items() if key != "_kind"}
        inputs[name] = next(iter(held.values())) if len(held) == 1 else held
    return {
        "inputs": inputs,
        "kinds": kinds,
        "format": said.get("engine", "jinja2"),
        "strict": said.get("strict_props") or False,
    }


def _matched(ours: Json, expected: Json) -> Json:
    """Text with a random part is expected as `…_pattern`, a regular expression: where ours matches, that is what we have."""
    if isinstance(ours, list) and isinstance(expected, list):
        return [_matched(one, other) for one, other in zip(ours, expected, strict=False)] + ours[len(expected) :]
    if not isinstance(ours, dict) or not isinstance(expected, dict):
        return ours
    matched = {key: _matched(value, expected.get(key)) for key, value in ours.items()}
    for key, pattern in expected.items():
        if key.endswith("_pattern"):
            text = str(ours.get(key.removesuffix("_pattern"), ours.get("rendered", ours.get("text"))))
            matched[key] = pattern if re.search(pattern, text, re.MULTILINE) else text
    return matched
