"""Every vector of Processor.process and Processor.processStream, through `process` and `process_stream`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.conformance.prompty_chunks import StreamOutcome, process_stream
from tests.conformance.prompty_vectors import Json, expected_of, fits, fits_error, run_vectors
from tests.conformance.prompty_wire import prompty_of
from tests.conformance.report import PartResult

from ronda.prompty.processing import process


def run(data: Path) -> PartResult:
    return run_vectors(data, {"Processor.process": _check, "Processor.processStream": _check_stream})


def _check(vector: Json) -> None:
    expected = expected_of(vector)
    said = vector["input"]
    try:
        result = process(prompty_of(said), said["response"])
    except ValueError as error:
        if "error" not in expected:
            raise
        fits_error(error, expected)
        return
    assert "error" not in expected, f"no error was raised; expected {expected!r}"
    fits({"result": msgspec.to_builtins(result)}, expected, "")


def _check_stream(vector: Json) -> None:
    said = vector["input"]
    outcome = StreamOutcome()
    chunks = list(process_stream(prompty_of(said), _arriving(said["events"]), outcome))
    ours = {"chunks": [msgspec.to_builtins(chunk) for chunk in chunks], **msgspec.to_builtins(outcome)}
    fits(ours, expected_of(vector), "")


def _arriving(events: Json) -> Iterator[Json]:
    """What an SDK's stream would give: chunks, and an exception where the connection broke."""
    for event in events:
        match event["kind"]:
            case "provider":
                yield event["value"]
            case "transportError":
                raise ConnectionError(event["message"])
            case other:
                raise AssertionError(f"the vector has an event of the kind {other!r}, which no code reads")
