"""Every vector of WireConformance.toRequest: a file as the vector says it, and the body that its messages would be sent in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conformance.prompty_requests import write_request
from tests.conformance.prompty_vectors import Json, expected_of, fits, fits_error, run_vectors
from tests.conformance.report import PartResult

from ronda.prompty import Prompty, loads
from ronda.prompty.message_parts import read_message


def run(data: Path) -> PartResult:
    return run_vectors(data, {"WireConformance.toRequest": _check})


def _check(vector: Json) -> None:
    expected = expected_of(vector)
    said = vector["input"]
    try:
        body = write_request(prompty_of(said), [read_message(message) for message in said["messages"]])
    except ValueError as error:
        if "error" not in expected:
            raise
        fits_error(error, expected)
        return
    assert "error" not in expected, f"no error was raised; expected {expected!r}"
    fits({"request_body": json.loads(body)}, expected, "")


def prompty_of(said: Json) -> Prompty:
    """The file that a vector describes."""
    front_matter: dict[str, Any] = {
        "model": {
            "id": said.get("model_id") or "any",
            "provider": said["provider"],
            "apiType": said.get("apiType", "chat"),
            "options": said.get("options") or {},
        }
    }
    if said["provider"] in ("azure", "foundry"):
        front_matter["model"]["connection"] = {"kind": "key", "endpoint": "https://example.openai.azure.com"}
    for section in ("tools", "outputs"):
        if said.get(section):
            front_matter[section] = said[section]
    if said.get("has_outputs"):
        front_matter["outputs"] = [{"name": "any", "kind": "string"}]
    return loads(f"---\n{json.dumps(front_matter, ensure_ascii=False)}\n---\nAny body.")
