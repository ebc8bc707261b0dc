"""The address book of the API: a document that programs read, and a page for people."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
from openapi_spec_validator import validate
from tests.interaction.doors import Door, Json, Served, soon
from tests.interaction.every_door import NAMES, PATHS, body_for

from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server
from ronda.server.features.table import make_config
from ronda.testing import ScriptedModel, says


@cache
def made_server() -> Server:
    return Server(make_config({"model": "script:test"}), MemoryJournal(), provider=ScriptedModel())


async def _document(served: Served, path: str = "/openapi.json") -> Json:
    async with soon(), served.http.get(served.url.removesuffix("/v1") + path) as answer:
        document: Json = await answer.json()
        return document


def check_answer(document: Json, method: str, path: str, status: int, body: Any) -> None:
    """Raises jsonschema_rs.ValidationError for an answer that is not as the document says."""
    responses = document["paths"][path][method.lower()]["responses"]
    response = responses.get(str(status)) or responses[f"{status // 100}XX"]
    schema = response["content"]["application/json"]["schema"]
    jsonschema_rs.validator_for({**schema, "components": document["components"]}).validate(body)


async def test_it_is_a_valid_document_at_our_address_and_at_mistralrs(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        document = await _document(served)
        same = await _document(served, "/api-doc/openapi.json")
    validate(document)
    assert (document["openapi"], same) == ("3.1.0", document)


# Every feature in the box that brings addresses only where a setting asks for it.
EVERYTHING: Json = {
    "model": "script:test",
    "metrics": {"enabled": True},
    "budgets": {"enabled": True},
    "notices": True,
    "schedules": True,
    "rates": {"requests": 1000},
    "oidc": {
        "issuer": "https://id.example",
        "client_id": "ronda",
        "redirect_url": "https://ronda.example/v1/oidc/callback",
    },
}


@cache
def server_with_everything() -> Server:
    return Server(make_config(EVERYTHING), MemoryJournal(), provider=ScriptedModel())


@pytest.mark.parametrize("make_server", [made_server, server_with_everything])
def test_every_address_is_described(make_server: Callable[[], Server]) -> None:
    features = make_server().features
    rows = {f"{row.method} {row.path}" for feature in features.all for row in feature.routes()}
    assert set(features.operations()) == rows


@pytest.mark.parametrize("name", NAMES)
async def test_what_a_door_answers_is_as_the_document_says(door: Door, name: str) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        document = await _document(served)
        for body in (body_for(name, stream=False), {"stream": 7}):
            async with soon(), served.http.post(f"{served.url}/{PATHS[name]}", json=body) as answer:
                check_answer(document, "POST", f"/v1/{PATHS[name]}", answer.status, await answer.json())


async def test_what_our_own_addresses_answer_is_as_the_document_says(door: Door) -> None:
    gets = [
        "/v1/runs", "/v1/runs/summary", "/v1/runs/{id}", "/v1/sessions", "/v1/agent/approvals", "/v1/models", "/v1/tools",
        "/v1/mcp", "/v1/me", "/v1/login", "/v1/operate", "/v1/operate/errors", "/v1/operate/series", "/v1/audit", "/ready",
        "/v1/system/info", "/ui/server", "/v1/runs/{id}/rounds/{round}/request",
    ]  # fmt: skip
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        document = await _document(served)
        base = served.url.removesuffix("/v1")
        async with soon(), served.http.post(f"{base}/v1/runs", json={"input": "go"}) as answer:
            started = await answer.json()
            check_answer(document, "POST", "/v1/runs", answer.status, started)
        await served.all_over()
        run = started["data"][0]["id"]
        for path in gets:
            place = path.replace("{id}", run).replace("{round}", "0")
            async with soon(), served.http.get(base + place) as answer:
                assert (path, answer.status) == (path, 200)
                check_answer(document, "GET", path, answer.status, await answer.json())


async def test_it_is_not_sent_again_to_a_client_that_has_it(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served, soon():
        url = served.url.removesuffix("/v1") + "/openapi.json"
        async with served.http.get(url) as first:
            tag = first.headers["etag"]
        async with served.http.get(url, headers={"if-none-match": tag}) as again:
            assert (again.status, await again.read()) == (304, b"")


async def test_the_page_names_every_operation_and_loads_nothing(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served, soon():
        document = await _document(served)
        async with served.http.get(served.url.removesuffix("/v1") + "/docs") as answer:
            page = await answer.text()
            policy = answer.headers["content-security-policy"]
    names = [one["operationId"] for item in document["paths"].values() for one in item.values()]
    assert [name for name in names if f'<details id="{name}">' not in page] == []
    assert re.findall(r"src=|url\(|@import|<link", page) == []
    for kind in ("style", "script"):
        [text] = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


async def test_a_server_without_pages_has_the_document_only(door: Door) -> None:
    async with door.serving(ScriptedModel(), no_ui=True) as served, soon():
        async with served.http.get(served.url.removesuffix("/v1") + "/docs") as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (404, "no_ui")
        assert json.dumps(await _document(served))
