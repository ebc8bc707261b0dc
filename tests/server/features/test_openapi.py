"""The address book of the API: a document that programs read, and a page for people."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import aiohttp
import jsonschema_rs
import pytest
from openapi_spec_validator import validate
from tests.interaction.doors import Door, Json, Served, soon
from tests.interaction.every_door import NAMES, PATHS, body_for

from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server
from ronda.server.doors.chat import chat_error
from ronda.server.features.openapi.document import openapi_document
from ronda.server.features.table import make_config
from ronda.server.http.operations import Named, Operation
from ronda.server.http.routing import Dialect, Route
from ronda.testing import ScriptedModel, says

_OWN = Dialect("Ronda", chat_error)


async def _nothing(request: Any) -> Any:
    raise NotImplementedError


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


def check_events(document: Json, method: str, path: str, text: str) -> None:
    """Raises likewise for an event of a stream."""
    content = document["paths"][path][method.lower()]["responses"]["200"]["content"]["text/event-stream"]
    validator = jsonschema_rs.validator_for({**content["x-event"], "components": document["components"]})
    found = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    assert found
    for one in found:
        validator.validate(json.loads(one))


async def test_answers_about_what_was_made_are_as_the_document_says(door: Door) -> None:
    async with door.serving(ScriptedModel(*[says("Hello.")] * 2)) as served, soon():
        document = await _document(served)
        base = served.url.removesuffix("/v1")

        async def ask(method: str, path: str, identifier: str = "", **request: Any) -> Json:
            place = path.partition("{")[0] + identifier
            async with served.http.request(method, base + place, **request) as answer:
                said: Json = await answer.json()
                check_answer(document, method, path, answer.status, said)
                return said

        form = aiohttp.FormData({"purpose": "user_data"})
        form.add_field("file", b"a,b", filename="a.csv")
        file = await ask("POST", "/v1/files", data=form)
        await ask("GET", "/v1/files/{id}", file["id"])
        await ask("DELETE", "/v1/files/{id}", file["id"])
        response = await ask("POST", "/v1/responses", json={"input": "go", "store": True})
        await ask("GET", "/v1/responses/{id}", response["id"])
        await ask("DELETE", "/v1/responses/{id}", response["id"])
        conversation = await ask("POST", "/v1/conversations", json={"inputs": "go", "model": "default"})
        await ask("GET", "/v1/conversations/{conversation_id}", conversation["conversation_id"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "go"}),
        ("/v1/conversations", {"inputs": "go", "model": "default", "background": True}),
    ],
)
async def test_streams_are_as_the_document_says(door: Door, path: str, body: Json) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served, soon():
        document = await _document(served)
        base, is_later = served.url.removesuffix("/v1"), body.get("background", False)
        async with served.http.post(base + path, json={**body, "stream": not is_later}) as answer:
            text = await answer.text()
        if is_later:
            await served.all_over()
            name = json.loads(text)["conversation_id"]
            path += "/{conversation_id}"
            async with served.http.get(f"{base}/v1/conversations/{name}", params={"stream": "true"}) as answer:
                text = await answer.text()
    check_events(document, "GET" if is_later else "POST", path, text)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("chat", "/v1/chat/completions/chatcmpl-{id}"),
        ("responses", "/v1/responses/{id}"),
        ("messages", "/v1/messages/msg_{id}"),
        ("completions", "/v1/agents/completions/{id}"),
        ("conversations", "/v1/conversations/{conversation_id}"),
    ],
)
async def test_what_was_asked_for_in_the_background_is_as_the_document_says(door: Door, name: str, path: str) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served, soon():
        document = await _document(served)
        base = served.url.removesuffix("/v1")
        async with served.http.post(
            f"{served.url}/{PATHS[name]}", json=body_for(name, False, background=True)
        ) as answer:
            started = await answer.json()
            check_answer(document, "POST", f"/v1/{PATHS[name]}", answer.status, started)
        made = started.get("conversation_id") or started["id"]
        place = base + re.sub(r"(chatcmpl-|msg_)?{\w+}", made, path)
        async with served.http.get(place, params={"stream": "true"}) as answer:
            check_events(document, "GET", path, await answer.text())
        async with served.http.get(place) as answer:
            check_answer(document, "GET", path, answer.status, await answer.json())


async def test_agents_in_pages_are_as_the_document_says(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served, soon():
        document = await _document(served)
        for number in range(2):
            async with served.http.post(
                f"{served.url}/agents", json={"model": "default", "name": f"a{number}"}
            ) as answer:
                assert answer.status == 200
        for query, is_last in (({"page_size": "1"}, False), ({}, True)):
            async with served.http.get(f"{served.url}/agents/pages", params=query) as answer:
                page = await answer.json()
                check_answer(document, "GET", "/v1/agents/pages", answer.status, page)
                assert (page.get("next_page_token") is None) == is_last


def test_a_stream_is_no_single_text_in_the_document() -> None:
    """A program that reads the events one by one would compare each with it."""
    document = openapi_document(
        [row for feature in made_server().features.all for row in feature.routes()], made_server().features.operations()
    )
    contents = [
        answer["content"]["text/event-stream"]
        for path in document["paths"].values()
        for operation in path.values()
        for answer in operation["responses"].values()
        if "text/event-stream" in answer.get("content", {})
    ]
    assert contents
    assert all("type" not in content["schema"] for content in contents)


def test_a_name_in_the_document_means_one_thing() -> None:
    brought = Named("Thing", schema={"type": "object", "$defs": {"File": {"type": "string"}}})
    rows = [Route("GET", f"/v1/{name}", _OWN, _nothing, "read") for name in ("thing", "file")]
    operations = {
        "GET /v1/thing": Operation(summary="A thing", answer=brought),
        "GET /v1/file": Operation(summary="A file", answer=Named("File", {"id": str})),
    }
    with pytest.raises(AssertionError, match="File"):
        openapi_document(rows, operations)


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
