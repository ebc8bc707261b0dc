"""The JSON Schema of evaluation files, for editors: `ronda schema eval`. Made from the same tables that files are read with."""

from __future__ import annotations

from typing import Any

from ronda.evals.check_kinds import KINDS
from ronda.evals.promptfoo import CHECKS


def schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An evaluation of Ronda",
        "type": "object",
        "properties": {
            "$schema": {"type": "string"},
            "description": {"type": "string"},
            "name": {"type": "string"},
            "agent": {"type": "string", "description": "A .prompty file, from this file's folder"},
            "prompts": {"type": ["array", "string"], "description": "Prompty files, or templates of a user message"},
            "models": {"type": ["array", "string"], "description": "Models to ask; 'script' plays each case's script"},
            "providers": {"type": ["array", "string"], "description": "promptfoo's word for models"},
            "targets": {"type": ["array", "string"], "description": "promptfoo's word for models"},
            "tools": {"type": ["array", "string"], "description": "Python files with tools"},
            "mocks": _MOCKS,
            "judge": {"type": ["string", "object"], "description": "A .prompty file, or {file, model}"},
            "defaults": {**_case(), "description": "What holds for every case"},
            "defaultTest": {**_case(), "description": "promptfoo's word for defaults"},
            "cases": _CASES,
            "tests": {**_CASES, "description": "promptfoo's word for cases"},
            "repeat": {"type": "integer", "minimum": 1, "maximum": 1000},
            "concurrency": {"type": "integer", "minimum": 1},
            "max_cost": {"type": "number", "description": "US dollars"},
            "max_iterations": {"type": "integer", "minimum": 1},
            "max_seconds": {"type": "number"},
            "max_tokens": {"type": "integer", "minimum": 1, "description": "Of each answer of a model"},
            "prices": {
                "type": "object",
                "description": "US dollars for a million tokens, by the model's name",
                "additionalProperties": {
                    "type": "object",
                    "properties": {"input": {"type": "number"}, "output": {"type": "number"}},
                    "additionalProperties": False,
                },
            },
            "evaluateOptions": {"type": "object"},
        },
        "anyOf": [{"required": ["cases"]}, {"required": ["tests"]}],
        "$defs": {"case": _case(), "check": _check(), "expect": _expect()},
    }


_MOCKS: dict[str, Any] = {"type": "object", "description": "Tools that are not called: what each of them gives"}
_CASES: dict[str, Any] = {
    "description": "The cases, or the name of a .jsonl, .csv, .json or .yaml file of them",
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/case"}]}},
    ],
}


def _case() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "description": {"type": "string"},
            "input": {"type": "string", "description": "The user's message, as the input named 'input'"},
            "inputs": {"type": "object"},
            "vars": {
                "type": "object",
                "description": "promptfoo's word for inputs; a list is a case for each of its values",
            },
            "messages": {"type": "array", "items": {"type": "object", "required": ["role"]}},
            "expect": {"$ref": "#/$defs/expect"},
            "assert": {"type": "array", "items": {"$ref": "#/$defs/check"}},
            "mocks": _MOCKS,
            "script": {"type": "array", "description": "The turns that the model 'script' plays"},
            "repeat": {"type": "integer", "minimum": 1},
            "threshold": {"type": "number", "description": "The weighted score from which the case passes"},
            "approve": {"type": ["boolean", "object"], "description": "What is answered when a tool needs an approval"},
            "cassette": {"type": "string", "description": "A recorded run to score"},
            "run": {"type": "string", "description": "The id of a run to score, with --from-journal"},
            "models": {"type": ["array", "string"]},
            "providers": {"type": ["array", "string"]},
            "options": {"type": "object"},
            "metadata": {"type": "object"},
            "tags": {},
        },
        "additionalProperties": False,
    }


def _check() -> dict[str, Any]:
    names = [*KINDS, *CHECKS]
    return {
        "type": "object",
        "properties": {
            "type": {"enum": [*names, *[f"not-{name}" for name in names]]},
            "value": {},
            "threshold": {"type": "number"},
            "weight": {"type": "number"},
            "provider": {"type": ["string", "object"]},
            "metric": {"type": "string"},
        },
        "required": ["type"],
        "additionalProperties": False,
    }


def _expect() -> dict[str, Any]:
    rows = {name: {"description": kind.help} for name, kind in KINDS.items()}
    rows |= {f"not-{name}": {"description": f"not: {kind.help}"} for name, kind in KINDS.items()}
    tools = {
        name: {"description": KINDS[f"tool-{name}"].help} for name in ("used", "never", "order", "count", "arguments")
    }
    return {
        "anyOf": [
            {"type": "string", "description": "The answer has this text in it"},
            {
                "type": "object",
                "properties": {**rows, "tools": {"type": "object", "properties": tools, "additionalProperties": False}},
                "patternProperties": {"^(not-)?(llm-rubric|model-graded|trajectory:|finish-reason|agent-rubric)": {}},
                "additionalProperties": False,
            },
        ]
    }
