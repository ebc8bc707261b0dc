"""The tasks of the Berkeley Function Calling Leaderboard: is the right tool among the first five that are found, of four hundred?

What is searched for is what the user wrote: a model would search with better words.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw
from tests.conformance.report import PartResult, absent

from ronda.core.plan import ToolSpec
from ronda.tools.tool_search import FOUND, ToolIndex

TOOLS = 400
WANTED = 0.9


def run(data: Path) -> PartResult:
    records = [
        json.loads(line) for path in sorted((data / "bfcl").glob("*.jsonl")) for line in path.open(encoding="utf-8")
    ]
    tools = {spec.name: spec for record in records for spec in map(_spec, record.get("tools") or [])}
    classes = data / "bfcl" / "multi_turn_functions.json"
    if not tools or not classes.is_file():
        return absent("a tool of bfcl/")
    for one in json.loads(classes.read_text("utf-8")).values():
        for spec in map(_spec, one["tools"]):
            tools.setdefault(spec.name, spec)
    index = ToolIndex(list(tools.values())[:TOOLS])
    tasks = [(text, names) for text, names in _tasks(records) if names <= tools.keys()]
    # A task that needs several tools is one per tool, although a model would look for each with words of its own.
    found, wanted = [0, 0], [0, 0]
    for text, names in tasks:
        half = _half(text)
        found[half] += len(names & {spec.name for spec in index.search(text)})
        wanted[half] += len(names)
    note = (
        f"{sum(found)} of {sum(wanted)} right tools are among the first {FOUND} of {min(TOOLS, len(tools))}, in "
        f"{len(tasks)} tasks: {found[0]} of {wanted[0]} in the half that the ranking was tuned on, "
        f"{found[1]} of {wanted[1]} in the other"
    )
    is_good = all(one >= WANTED * all_of_it for one, all_of_it in zip(found, wanted, strict=True))
    return PartResult(passed=1, notes=(note,)) if is_good else PartResult(failed=1, notes=(note,))


def _half(text: str) -> int:
    return hashlib.sha256(text.encode()).digest()[0] & 1


def _spec(said: Any) -> ToolSpec:
    tool = said["function"]
    parameters = Raw(msgspec.json.encode(tool.get("parameters") or {"type": "object"}))
    return ToolSpec(tool["name"], tool.get("description", ""), parameters)


def _tasks(records: list[Any]) -> Iterator[tuple[str, set[str]]]:
    """What a user wants in one turn, and the tools that do it."""
    for record in records:
        if "involved_classes" in record or not record.get("ground_truth"):
            continue
        text = "\n".join([message["content"] for message in record["question"][0] if message["role"] == "user"])
        yield text, {name.replace(".", "_") for call in record["ground_truth"] for name in call}
