"""Every vector of Parser.parse, through `parse`."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.conformance.prompty_vectors import Json, expected_of, fits, fits_error, run_vectors
from tests.conformance.report import PartResult

from ronda.prompty.message_parts import Message
from ronda.prompty.roles import parse
from ronda.prompty.template import TemplateError


def run(data: Path) -> PartResult:
    return run_vectors(data, {"Parser.parse": _check})


def _check(vector: Json) -> None:
    expected = expected_of(vector)
    said = vector["input"]
    try:
        messages = parse(said["rendered"], said.get("thread_inputs"), nonce=said.get("nonce"))
    except TemplateError as error:
        if "error" not in expected:
            raise
        fits_error(error, expected)
        return
    assert "error" not in expected, f"no error was raised; expected {expected!r}"
    written = [{"metadata": {}, **msgspec.to_builtins(message), "content": _parts(message)} for message in messages]
    for message, wanted in zip(written, expected["messages"], strict=False):
        if wanted.get("metadata", {}) is None and not message["metadata"]:
            message["metadata"] = None  # no metadata, in the other way of saying so
    fits({"messages": written}, expected, "")


def _parts(message: Message) -> Json:
    return [msgspec.to_builtins(part) for part in message.content]
