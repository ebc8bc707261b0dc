"""Schemathesis asks the server for what its OpenAPI document says it takes, and for what it says it does not take: no answer is a
5xx, and each is as the document says."""

from __future__ import annotations

import logging
import re
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
# With OpenID Connect each request would need a sign-in, and each answer would be a 401.
SETTINGS: Final = {name: value for name, value in EVERYTHING.items() if name not in ("model", "rates", "oidc")}
CHECKS: Final = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

# Of containers that are there: files whose ids are not known.
NEVER_FOUND: Final = {
    "GET /v1/containers/{id}/files/{file_id}", "GET /v1/containers/{id}/files/{file_id}/content",
}  # fmt: skip

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


class Things(dict[str, str]):
    """An address with a place in it → what is there: a chance id finds nothing."""

    def of(self, path: str) -> str | None:
        return next((self[known] for known in sorted(self, key=len, reverse=True) if path.startswith(known)), None)


def make_things(url: str) -> Things:
    def make(method: str, path: str, **given: Any) -> Any:
        answer = requests.request(method, url + path, timeout=WAIT, **given)
        assert answer.status_code < 300, (path, answer.text)
        return answer.json() if answer.content else None

    hi = [{"role": "user", "content": "Hi."}]
    ask = {"model": "default", "background": True}
    skill = b"---\nname: brief\ndescription: Be brief.\n---\nSay little."
    container = make("POST", "/v1/containers", json={"name": "mine"})["id"]
    make("PUT", "/v1/sessions/mine", json={"messages": [*hi, {"role": "assistant", "content": "Hello."}]})
    return Things({
        "/v1/runs/{id}": make("POST", "/v1/runs", json={"input": "go"})["data"][0]["id"],
        "/v1/responses/{id}": make("POST", "/v1/responses", json={"model": "default", "input": "Hi."})["id"],
        "/v1/chat/completions/chatcmpl-{id}": make(
            "POST", "/v1/chat/completions", json={**ask, "messages": hi}
        )["id"].removeprefix("chatcmpl-"),
        "/v1/messages/msg_{id}": make(
            "POST", "/v1/messages", json={**ask, "max_tokens": 9, "messages": hi}
        )["id"].removeprefix("msg_"),
        "/v1/agents/completions/{id}": make(
            "POST", "/v1/agents/completions", json={"agent_id": "default", "background": True, "messages": hi}
        )["id"],
        "/v1/conversations/{conversation_id}": make(
            "POST", "/v1/conversations", json={"model": "default", "inputs": "Hi."}
        )["conversation_id"],
        "/v1/agents/{agent_id}": make("POST", "/v1/agents", json={"model": "default", "name": "mine"})["id"],
        "/v1/schedules/{schedule_id}": make(
            "POST", "/v1/schedules", json={"cron": "0 0 1 1 *", "request": {"model": "default", "input": "Hi."}}
        )["id"],
        "/v1/files/{id}": make(
            "POST", "/v1/files", files={"file": ("a.csv", b"a,b")}, data={"purpose": "user_data"}
        )["id"],
        "/v1/containers/{id}": container,
        "/v1/sessions/{id}": "mine",
        "/v1/skills/{id}": make("POST", "/v1/skills", files={"files": ("brief/SKILL.md", skill)})["id"],
    })  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, Things]]:
    logging.getLogger("ronda.server").setLevel(logging.CRITICAL)
    with served_in_thread(**SETTINGS) as address:
        yield address, make_things(address)


def test_nothing_is_left_out_that_is_not_there() -> None:
    assert LEFT_OUT.keys() <= _operations().keys()


@pytest.mark.parametrize("mode", [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE])
@pytest.mark.parametrize("name", [name for name in _operations() if name not in LEFT_OUT])
def test_every_answer_is_as_the_document_says(served: tuple[str, Things], name: str, mode: Any) -> None:
    operation, (url, things) = _operations()[name], served
    # What is there stays for the other tests, wherever they run.
    is_known = mode is schemathesis.GenerationMode.POSITIVE and not name.startswith("DELETE ")
    known = things.of(operation.path) if is_known else None
    statuses: list[int] = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if known is not None and len(statuses) % 2 == 0:
            case.path_parameters = {**case.path_parameters, **_places(operation.path, known)}
        try:
            answer = case.call(base_url=url, timeout=WAIT)
        except requests.exceptions.InvalidHeader:  # which the client does not send
            return
        statuses.append(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    with suppress(Unsatisfiable):  # where there is nothing that an address does not take
        ask()
    if known is not None and name.startswith("GET ") and name not in NEVER_FOUND:
        assert 200 in statuses


def _places(path: str, known: str) -> dict[str, str]:
    """Of what is there several times (rounds, versions) the first."""
    first, *others = re.findall(r"{(\w+)}", path)
    numbers = {"round": "0", "version": "0" if path.startswith("/v1/agents/") else "1"}
    return {first: known, **{place: numbers[place] for place in others if place in numbers}}
