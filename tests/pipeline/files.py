"""Prompty files for tests: written from a few words, with a scripted model behind them."""

from __future__ import annotations

import itertools
import json
from typing import Any

from ronda.prompty import Prompty, loads, register_connection
from ronda.testing import ScriptedModel

_names = itertools.count()

BODY = "system:\nBe nice.\n\nuser:\n{{q}}"
INPUTS = [{"name": "q", "kind": "string", "default": "How is Paris?"}]
WEATHER = {
    "name": "weather",
    "kind": "function",
    "description": "The weather in a city",
    "parameters": [
        {"name": "city", "kind": "string", "required": True},
        {"name": "unit", "kind": "string"},
    ],
    "bindings": {"unit": "unit"},
}


def text_of(front_matter: dict[str, Any], body: str = BODY) -> str:
    return f"---\n{json.dumps(front_matter, ensure_ascii=False)}\n---\n{body}"


def scripted(model: ScriptedModel, body: str = BODY, options: Any = None, **front_matter: Any) -> Prompty:
    """A file whose model is this one, found under a name that no other file has."""
    name = f"scripted-{next(_names)}"
    register_connection(name, model)
    connection = {"kind": "reference", "name": name}
    said = {"model": {"id": "any", "connection": connection, "options": options or {}}, "inputs": INPUTS}
    return loads(text_of({**said, **front_matter}, body))


def weather(city: str, unit: str = "kelvin") -> str:
    """The weather in a city."""
    return f"sun in {city}, in {unit}"
