"""Schemathesis asks the server for what its OpenAPI document says it takes, and for what it says it does not take: no answer is a
5xx, and each is as the document says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.server.features.test_openapi import EVERYTHING, server_with_everything
from tests.server.served_thread import WAIT, served_in_thread

from ronda.server.features.openapi.document import openapi_document

EXAMPLES: Final = 12  # of each operation, and mode: always the same ones
SETTINGS: Final = {name: value for name, value in EVERYTHING.items() if name not in ("model", "rates")}
CHECKS: Final = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

# What cannot be asked so, and why.
LEFT_OUT: Final = {
    "GET /v1/events": "it has no end",
    "GET /mcp": "likewise",
    "GET /v1/responses": "it is a WebSocket, which `tests/fuzz` asks",
    "GET /generate-code": "likewise",
    "POST /api/screenshot": "where a page cannot be shown it answers 500, as the original does",
    "GET /v1/system/doctor": "it starts a browser each time",
    "POST /v1/system/doctor": "likewise",
    "GET /v1/oidc/login": "it asks a provider, of which the tests of it have one",
    "GET /v1/oidc/callback": "likewise",
    "GET /ui": "503 where the page is not built",
    "GET /ui/frame": "likewise",
    "GET /ui/{path}": "likewise",
}


@cache
def _schema() -> Any:
    features = server_with_everything().features
    rows = [row for feature in features.all for row in feature.routes()]
    return schemathesis.openapi.from_dict(openapi_document(rows, features.operations()))


def _operations() -> dict[str, Any]:
    found = [result.ok() for result in _schema().get_all_operations()]
    return {f"{one.method.upper()} {one.path}": one for one in found}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    logging.getLogger("ronda.server").setLevel(logging.CRITICAL)
    with served_in_thread(**SETTINGS) as address:
        yield address


def test_nothing_is_left_out_that_is_not_there() -> None:
    assert LEFT_OUT.keys() <= _operations().keys()


@pytest.mark.parametrize("mode", [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE])
@pytest.mark.parametrize("name", [name for name in _operations() if name not in LEFT_OUT])
def test_every_answer_is_as_the_document_says(url: str, name: str, mode: Any) -> None:
    operation = _operations()[name]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        try:
            answer = case.call(base_url=url, timeout=WAIT)
        except requests.exceptions.InvalidHeader:  # which the client does not send
            return
        case.validate_response(answer, checks=CHECKS)

    with suppress(Unsatisfiable):  # where there is nothing that an address does not take
        ask()
