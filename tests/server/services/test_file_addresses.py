"""Files that a request names by their address: fetched for models whose API takes none, passed on to others."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from tests.interaction.doors import Door, Json
from tests.interaction.upstreams import Upstream, answers, completes
from tests.server.http.test_capabilities import body, post
from tests.tools.api_server import Api, serve

from ronda.server.services.file_addresses import MAX_FILES

PDF = b"%PDF-1.4 nearly"


@pytest_asyncio.fixture(loop_scope="session")
async def files() -> AsyncIterator[Api]:
    async with serve() as api:
        api.answers["/a.pdf"] = web.Response(body=PDF, content_type="application/pdf")
        api.answers["/gone.pdf"] = web.Response(status=404)
        yield api


def naming(door: str, url: str) -> tuple[str, Json]:
    """A question about a file at an address, in a dialect's own words."""
    parts: dict[str, Json] = {
        "responses": {"type": "input_file", "file_url": url},
        "messages": {"type": "document", "source": {"type": "url", "url": url}},
        "conversations": {"type": "document_url", "document_url": url},
        "agents/completions": {"type": "document_url", "document_url": url},
    }
    message = {"role": "user", "content": [parts[door]]}
    field = {"responses": "input", "conversations": "inputs"}.get(door, "messages")
    return body(door, **{field: [message]})


DOORS = ["responses", "messages", "conversations", "agents/completions"]


@pytest.mark.parametrize("name", DOORS)
async def test_a_file_is_fetched_for_a_model_whose_api_takes_no_address(door: Door, files: Api, name: str) -> None:
    async with (
        Upstream(completes("It is short.")) as upstream,
        door.serving(upstream.url, fetch_allow=("127.0.0.1",)),
    ):
        status, answer = await post(door, naming(name, f"{files.url}/a.pdf"))

    assert status == 200, answer
    [part] = upstream.requests[0]["messages"][0]["content"]
    assert part["file"] == {"filename": "a.pdf", "file_data": data_url(PDF)}


def data_url(data: bytes) -> str:
    return f"data:application/pdf;base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize(
    ("path", "allow", "message"),
    [
        ("/a.pdf", (), "leads to a loopback address, which the operator of this server has not allowed"),
        ("/gone.pdf", ("127.0.0.1",), "cannot be fetched: HTTP 404"),
    ],
    ids=["refused", "gone"],
)
async def test_a_file_that_cannot_be_had_is_the_callers_mistake(
    door: Door, files: Api, name: str, path: str, allow: tuple[str, ...], message: str
) -> None:
    async with Upstream() as upstream, door.serving(upstream.url, fetch_allow=allow):
        status, answer = await post(door, naming(name, f"{files.url}{path}"))

    assert status == 400, answer
    assert message in str(answer)
    assert upstream.bodies == []


async def test_an_upstream_that_takes_addresses_fetches_for_itself(door: Door, files: Api) -> None:
    answer: Json = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": []}
    message: Any = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    answer["output"] = [{**message, "content": [{"type": "output_text", "text": "ok", "annotations": []}]}]

    async with (
        Upstream(answers(json.dumps(answer).encode())) as upstream,
        door.serving(upstream.url, model="openai:gpt-test"),
    ):
        status, said = await post(door, naming("responses", f"{files.url}/a.pdf"))

    assert status == 200, said
    assert upstream.requests[0]["input"][0]["content"][0]["file_url"] == f"{files.url}/a.pdf"
    assert files.asked == []


async def test_a_request_names_only_so_many_files(door: Door, files: Api) -> None:
    parts = [{"type": "input_file", "file_url": f"{files.url}/{at}.pdf"} for at in range(MAX_FILES + 1)]

    async with Upstream() as upstream, door.serving(upstream.url, fetch_allow=("127.0.0.1",)):
        status, answer = await post(door, body("responses", input=[{"role": "user", "content": parts}]))

    assert status == 400
    assert answer["error"]["message"] == "the request names 11 files by their addresses; it may name 10"
    assert files.asked == []
