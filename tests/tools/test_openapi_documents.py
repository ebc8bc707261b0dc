"""Where OpenAPI documents come from, and which of them are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.api_server import Api
from tests.tools.openapi_tools import CONTEXT, document, schema_of, tools, with_body

from ronda.prompty.errors import BadPrompty, PromptyNotFound
from ronda.schema.validate import validator_for
from ronda.tools.openapi.document import BadDocument, Document
from ronda.tools.openapi.operations import read_operations

YAML = """
openapi: 3.0.0
paths:
  /a:
    get:
      operationId: getA
      responses:
        200: {description: fine}
"""


async def test_a_document_is_read_from_a_file_beside_the_agent(api: Api, tmp_path: Path) -> None:
    (tmp_path / "api.yaml").write_text(YAML)

    assert list(await tools("./api.yaml", api.url, folder=tmp_path)) == ["getA"]
    (tmp_path / "api.yaml").write_text(YAML.replace("getA", "getAnother"))
    assert list(await tools("./api.yaml", api.url, folder=tmp_path)) == ["getAnother"]


async def test_a_key_that_stands_twice_is_refused_whatever_its_words(api: Api, tmp_path: Path) -> None:
    twice = "  'is not text: write': {}\n"
    (tmp_path / "api.yaml").write_text(YAML.replace("paths:\n", f"paths:\n{twice}{twice}"))

    with pytest.raises(BadPrompty, match="stands here twice"):
        await tools("./api.yaml", api.url, folder=tmp_path)


async def test_a_document_may_refer_to_files_beside_it(api: Api, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "api.json").write_text(
        json.dumps(
            document({"/a": {"post": {"operationId": "a", **with_body("application/json", {"$ref": "s.yaml#/Pet"})}}})
        )
    )
    (tmp_path / "in" / "s.yaml").write_text(
        "Pet: {type: object, properties: {tag: {$ref: '#/Tag'}}}\nTag: {type: string}"
    )

    made = await tools("in/api.json", api.url, folder=tmp_path)

    assert schema_of(made["a"])["properties"] == {"tag": {"$ref": "#/$defs/Tag"}}
    assert schema_of(made["a"])["$defs"] == {"Tag": {"type": "string"}}


@pytest.mark.parametrize("path", ["../api.json", "/etc/hostname", "link.json"])
async def test_a_document_outside_of_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "api.json").write_text(json.dumps(document({"/a": {"get": {}}})))
    (tmp_path / "in" / "link.json").symlink_to(tmp_path / "api.json")

    with pytest.raises(BadPrompty, match="resolves outside allowed roots"):
        await tools(path, "https://api.test", folder=tmp_path / "in")


async def test_a_reference_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.json").write_text('{"type": "string"}')
    said = document({"/a": {"post": {"operationId": "a", **with_body("application/json", {"$ref": "../secret.json"})}}})
    (tmp_path / "in" / "api.json").write_text(json.dumps(said))

    with pytest.raises(BadPrompty, match="resolves outside allowed roots"):
        await tools("api.json", "https://api.test", folder=tmp_path / "in")


async def test_a_document_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(PromptyNotFound, match=r"Referenced file not found: \./api\.json"):
        await tools("./api.json", "https://api.test", folder=tmp_path)


async def test_a_document_is_fetched_and_its_server_is_where_it_came_from(api: Api) -> None:
    api.answers["/v2/api.json"] = web.json_response(
        document({"/a": {"get": {"operationId": "get"}}}, servers=[{"url": "./x"}])
    )

    made = await tools(f"{api.url}/v2/api.json")
    await made["get"].run({}, CONTEXT)

    assert [one["path"] for one in api.asked] == ["/v2/api.json", "/v2/x/a"]


async def test_a_fetched_document_does_not_decide_whom_this_machine_calls(api: Api) -> None:
    said = document({"/a": {"get": {"operationId": "get"}}}, servers=[{"url": "http://169.254.169.254/latest"}])
    api.answers["/api.json"] = web.json_response(said)

    with pytest.raises(BadPrompty, match=r"names a server at http://169\.254\.169\.254; if that is right, say so"):
        await tools(f"{api.url}/api.json", None, "s3cret")
    assert list(await tools(f"{api.url}/api.json", "https://api.test")) == ["get"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (web.Response(status=404), "cannot be fetched: HTTP 404"),
        (web.Response(status=302, headers={"Location": "http://169.254.169.254/"}), "redirects to another host"),
        (web.Response(text="{"), "is not JSON"),
        (web.Response(text="a: [b"), "is not YAML"),
        (web.Response(text="x" * 9_000_000), "larger than 8000000 bytes"),
        (web.json_response({"swagger": "2.0"}), "this is Swagger 2.0; convert it first"),
        (web.json_response([1]), "an OpenAPI document is an object"),
        (web.json_response(document({})), "it has no operations"),
    ],
)
async def test_a_document_that_cannot_be_used_is_refused_by_name(api: Api, answer: web.Response, why: str) -> None:
    api.answers["/api.json"] = answer

    with pytest.raises(BadPrompty, match=f"the specification of 'api' cannot be used: .*{why}") as refused:
        await tools(f"{api.url}/api.json?token=hunter2")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (document({"/a": {"$ref": "#/nowhere"}}), "the reference '#/nowhere' leads nowhere"),
        (document({"/a": {"$ref": "#/x"}}, x={"$ref": "#/y"}, y={"$ref": "#/x"}), "go round in a circle"),
        (document({"/a": {"post": with_body("application/json", {"$ref": "https://evil.test/s.json"})}}), "not read"),
        (document({"/a": {"get": {}}}), "it names no server with a full address; give the connection an endpoint"),
        (document({"/a": {"get": {}}}, servers=[{"url": "file:///etc"}]), "not an address that can be called"),
        (document({"/a": {"get": {}}}, servers=[{"url": "https://u:p@api.test"}]), "put the key into the connection"),
    ],
)  # fmt: skip
async def test_a_document_that_makes_no_sense_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(BadPrompty, match=why):
        await tools(said)


KEYS = [
    "$ref",
    "get",
    "post",
    "parameters",
    "requestBody",
    "content",
    "application/json",
    "schema",
    "properties",
    "in",
    "name",
    "type",
    "allOf",
    "items",
]
VALUES = ["#/paths", "#/components", "object", "query", "path", "/a", "name"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(VALUES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*KEYS, "servers", "url", "security", "required", "nullable", "/a"]), inner, max_size=4
        )
    ),
    max_leaves=25,
)
OPERATIONS = st.dictionaries(
    st.sampled_from(["/a", "/b/{x}"]), st.dictionaries(st.sampled_from(["get", "post"]), JSON, max_size=2)
)


@given(JSON | OPERATIONS, JSON)
def test_any_document_is_read_or_refused(paths: Any, components: Any) -> None:
    try:
        found = read_operations(Document({"openapi": "3.0.0", "paths": paths, "components": components}))
    except BadDocument:
        return
    for one in found:
        assert msgspec.json.decode(one.spec.parameters)["type"] == "object"
        validator_for(bytes(one.spec.parameters)).explain({})


async def test_an_address_in_braces_is_filled_in_with_its_defaults(api: Api) -> None:
    port = api.url.rpartition(":")[2]
    server = {"url": "http://127.0.0.1:{port}/{v}", "variables": {"port": {"default": port}, "v": {"default": "v3"}}}
    made = await tools(document({"/a": {"get": {"operationId": "get"}}}, servers=[server]))

    await made["get"].run({}, CONTEXT)

    assert api.last()["path"] == "/v3/a"
