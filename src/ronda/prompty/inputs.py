"""What a caller gives and what a file declares → the inputs that its template gets.

As the specification has it: a missing input gets its default, a required one without a default is an error, `example`
never counts, nothing is checked for its type, and what the file doesn't declare goes through.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from ronda.errors import BadRequest
from ronda.prompty.model import Prompty, Property
from ronda.prompty.segments import RICH_KINDS


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


def kept_inputs(prompty: Prompty, inputs: Mapping[str, Any]) -> dict[str, Raw]:
    """What is kept of the inputs. Conversations, images and files are in the run's turns already."""
    rich = {one.name for one in prompty.inputs if one.kind in RICH_KINDS}
    encoded_inputs: dict[str, Raw] = {}
    for name, value in inputs.items():
        if name not in rich:
            try:
                encoded_inputs[name] = Raw(msgspec.json.encode(value))
            except (TypeError, ValueError, RecursionError):  # an object of the caller's, which nothing could bring back
                continue
    return encoded_inputs
