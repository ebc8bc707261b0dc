"""A `.prompty` file is an agent: load it, fill in its inputs, render it, parse it into messages.

    load            a file → `Prompty`, every shorthand written out, references resolved; `check` lists all its problems
    validate_inputs defaults filled in, what is required is there
    schema          the front matter as a JSON Schema, for editors

What it turns into at run time is decided further up; nothing here calls a model.
"""

from __future__ import annotations

from ronda.prompty.check import check
from ronda.prompty.connections import clear_connections, get_connection, register_connection, resolve_connection
from ronda.prompty.discovery import ModelInfo, enrich, map_model, map_models, read_capabilities
from ronda.prompty.errors import BadPrompty, InvokerError, PromptyNotFound
from ronda.prompty.inputs import read_input, validate_inputs
from ronda.prompty.json_schema import schema
from ronda.prompty.load import load, load_async, loads
from ronda.prompty.model import Prompty, to_dict
from ronda.prompty.report import Problem
from ronda.prompty.results import ModelRefused, StructuredResult, cast

__all__ = [
    "BadPrompty",
    "InvokerError",
    "ModelInfo",
    "ModelRefused",
    "Problem",
    "Prompty",
    "PromptyNotFound",
    "StructuredResult",
    "cast",
    "check",
    "clear_connections",
    "enrich",
    "get_connection",
    "load",
    "load_async",
    "loads",
    "map_model",
    "map_models",
    "read_capabilities",
    "read_input",
    "register_connection",
    "resolve_connection",
    "schema",
    "to_dict",
    "validate_inputs",
]
