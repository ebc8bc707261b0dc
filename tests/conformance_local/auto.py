"""Under `auto`: does the model call a tool where one is needed, and answer where none is?

Where one is needed: a hundred tasks of BFCL, chosen by the hash of their ids; those that are left were for tuning. Where none is:
our own questions, and BFCL's few whose tools are beside the point, which are told but not judged: they are made to mislead.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from openai import APIError, OpenAI
from tests.conformance_local.questions import without_tools

from ronda.schema.validate import Validator

TASKS = 100
MAX_TOKENS = 400  # enough for a call of any of the tools
TEXT_WITHOUT_CALL = 200  # characters
LEAST_CALLS, MOST_CALLS = 0.5, 0.1  # of the tasks, and of the questions
FILES = (
    *("live_multiple", "live_parallel", "live_parallel_multiple", "live_relevance", "live_simple"),
    *("multiple", "parallel", "parallel_multiple", "simple_python"),
)

Row = dict[str, Any]


def tasks(folder: Path) -> list[Row]:
    rows = [row for name in FILES for row in _rows(folder / f"{name}.jsonl")]
    return sorted(rows, key=lambda row: hashlib.sha256(row["id"].encode()).hexdigest())[:TASKS]


def _rows(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def calls_of(client: OpenAI, messages: list[Any], tools: list[Any]) -> list[tuple[str, str]]:
    """The calls of one answer. One that has become a text of some lines is not waited for."""
    asked: dict[str, Any] = {
        "model": "default",
        "messages": messages,
        "tools": tools,
        "max_tokens": MAX_TOKENS,
        "seed": 1,
    }
    found: dict[int, list[str]] = {}
    size = 0
    with client.chat.completions.create(**asked, stream=True) as stream:
        for choice in (choice for chunk in stream for choice in chunk.choices):
            size += len(choice.delta.content or "")
            for piece in choice.delta.tool_calls or []:
                name_and_arguments = found.setdefault(piece.index, ["", ""])
                name_and_arguments[0] += piece.function.name or ""
                name_and_arguments[1] += piece.function.arguments or ""
            if size > TEXT_WITHOUT_CALL and not found:
                break
    return [(one[0], one[1]) for one in found.values()]


def auto(client: OpenAI, pool: ThreadPoolExecutor, data: Path) -> tuple[int, int]:
    needing, misleading = tasks(data / "bfcl"), _rows(data / "bfcl" / "irrelevance.jsonl")
    if not needing:
        print(f"auto: skipped, {data / 'bfcl'} is not there")
        return 0, 0

    broken: list[str] = []

    def ask(messages: list[Any], tools: list[Any]) -> list[tuple[str, str]]:
        try:
            return calls_of(client, messages, tools)
        except APIError as error:
            broken.append(f"{tools[0]['function']['name']}: {error.message[:160]}")
            return []

    def by_row(row: Row) -> list[tuple[str, str]]:
        return ask(row["question"][0], row["tools"])

    def by_question(pair: tuple[str, list[Any]]) -> list[tuple[str, str]]:
        return ask([{"role": "user", "content": pair[0]}], pair[1])

    called = list(pool.map(by_row, needing))
    made = [(row, calls) for row, calls in zip(needing, called, strict=True) if calls]
    sure = [(row, calls) for row, calls in made if "ground_truth" in row]
    valid = sum(_is_valid(row, calls) for row, calls in made)
    right = sum(calls[0][0] in _wanted(row) for row, calls in sure)
    print(f"auto: {len(made)} of {len(needing)} tasks that need a tool bring a call (at least {LEAST_CALLS:.0%})")
    print(
        f"    {valid} of {len(made)} calls follow their schema, {right} of {len(sure)} are of the right tool",
        flush=True,
    )
    kept = _share("questions that need none", list(pool.map(by_question, without_tools())))
    _share("questions that no offered tool answers", list(pool.map(by_row, misleading)))
    print("".join([f"    no answer: {why}\n" for why in broken]), end="", flush=True)
    passed = (len(made) >= LEAST_CALLS * len(needing)) + (kept <= MOST_CALLS)
    return passed, 2 - passed + len(broken)


def _share(title: str, called: list[list[tuple[str, str]]]) -> float:
    found = sum(bool(calls) for calls in called)
    print(f"auto: {found} of {len(called)} {title} bring a call", flush=True)
    return found / max(1, len(called))


def _is_valid(row: Row, calls: list[tuple[str, str]]) -> bool:
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in row["tools"]}
    return all(name in schemas and not Validator(schemas[name]).problems(json.loads(text)) for name, text in calls)


def _wanted(row: Row) -> set[str]:
    return {name.replace(".", "_") for call in row["ground_truth"] for name in call}
