"""Evaluations for tests: a file in a folder, run with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ronda.evals import EvalReport, evaluate, load_suite
from ronda.journal import Journal
from ronda.journal.memory import MemoryJournal

AGENT = """\
---
name: weather
inputs:
  city:
    kind: string
    required: true
tools:
  - name: look_up
    kind: function
    description: The weather in a city
    parameters:
      - name: city
        kind: string
        required: true
---
system:
You tell the weather.

user:
How is {{city}}?
"""


def write_suite(folder: Path, text: str, name: str = "weather.eval.yaml") -> Path:
    (folder / "weather.prompty").write_text(AGENT)
    file = folder / name
    file.write_text(text)
    return file


def suite_of(folder: Path, cases: list[dict[str, Any]], **top: Any) -> Path:
    """As JSON, which is YAML, too."""
    text = json.dumps({"agent": "weather.prompty", "models": ["script"], **top, "cases": cases})
    return write_suite(folder, text)


def calls_tool(**arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": "look_up", "arguments": arguments}]}


def case(name: str = "paris", answer: str = "22 degrees", **more: Any) -> dict[str, Any]:
    """The model calls the tool once, and answers."""
    script = [calls_tool(city="Paris"), answer]
    return {"name": name, "inputs": {"city": "Paris"}, "mocks": {"look_up": "22"}, "script": script, **more}


async def run(file: Path, journal: Journal | None = None, **options: Any) -> EvalReport:
    return await evaluate(load_suite(file), journal=journal or MemoryJournal(), **options)
