"""What a caller gives and what a file declares → the inputs that its template gets.

As the specification has it: a missing input gets its default, a required one without a default is an error, `example`
never counts, nothing is checked for its type, and what the file doesn't declare goes through.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from ronda.errors import BadRequest
from ronda.prompty.model import Prompty, Property


def validate_inputs(prompty: Prompty, inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A new dict; neither the caller's nor the file's values are shared with it where they could be changed."""
    known = dict(inputs or {})
    for declared in prompty.inputs:
        if declared.name in known:
            continue
        if declared.default is not None:
            known[declared.name] = copy.deepcopy(declared.default)
        elif declared.required:
            raise BadRequest(f"Missing required input: {declared.name}", param=declared.name, code="missing_input")
    return known


def read_input(prompty: Prompty, name: str, text: str) -> Any:
    """An input from a command line: JSON where the declared kind is no text, else the text as it is."""
    declared = next((one for one in prompty.inputs if one.name == name), Property())
    if declared.kind in ("string", "image", "file", "audio"):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if declared.kind in ("integer", "float", "boolean", "array", "object", "thread"):
            raise BadRequest(
                f"the input '{name}' is not of kind '{declared.kind}': {text[:60]!r}", param=name
            ) from error
        return text
