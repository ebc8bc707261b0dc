"""An operation's arguments → its request: how values are written, as whom, and what comes back."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.api_server import Api, serve
from tests.tools.openapi_parameters import parameter
from tests.tools.openapi_tools import CONTEXT, document, schema_of, tools, with_body

from ronda import ToolOutput, invoke_agent_async
from ronda.core.parts import File, Image, ToolResult, ToolTurn
from ronda.errors import ToolFailed
from ronda.prompty import register_connection
from ronda.prompty.errors import BadPrompty
from ronda.prompty.load import loads
from ronda.prompty.model import OAuthConnection, OpenApiTool, Prompty
from ronda.prompty.tool_kinds import tools_of
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.tools.openapi.document import Document
from ronda.tools.openapi.operations import read_operations
from ronda.tools.openapi.request import write_request

# ---- how values are written ----------------------------------------------------------------------------------------

pytestmark = pytest.mark.usefixtures("nothing_registered")


WRITTEN: dict[str, tuple[dict[str, Any], Any, str]] = {
    "text": (parameter("q", "query"), "a b&c=d#e?f/ü", "/x?q=a%20b%26c%3Dd%23e%3Ff%2F%C3%BC"),
    "a number": (parameter("q", "query"), 1.5, "/x?q=1.5"),
    "a flag": (parameter("q", "query"), True, "/x?q=true"),
    "nothing": (parameter("q", "query"), None, "/x"),
    "a list": (parameter("q", "query"), ["a", "b,c"], "/x?q=a&q=b%2Cc"),
    "a list with commas": (parameter("q", "query", explode=False), ["a", "b"], "/x?q=a%2Cb"),
    "a list with pipes": (parameter("q", "query", style="pipeDelimited", explode=False), ["a", "b"], "/x?q=a%7Cb"),
    "a deep object": (
        parameter("q", "query", style="deepObject"),
        {"a": 1, "b c": "d"},
        "/x?q%5Ba%5D=1&q%5Bb%20c%5D=d",
    ),
    "an object": (parameter("q", "query"), {"a": 1, "b": "c"}, "/x?a=1&b=c"),
    "an object with commas": (parameter("q", "query", explode=False), {"a": 1, "b": "c"}, "/x?q=a%2C1%2Cb%2Cc"),
    "JSON": (
        {"name": "q", "in": "query", "content": {"application/json": {}}},
        {"a": [1]},
        "/x?q=%7B%22a%22%3A%5B1%5D%7D",
    ),
    "a path": (parameter("p", "path"), "a/../b?c#d%2e", "/x/a%2F..%2Fb%3Fc%23d%252e"),
    "a list in a path": (parameter("p", "path"), ["a", "b/c"], "/x/a,b%2Fc"),
    "a label in a path": (parameter("p", "path", style="label"), "a", "/x/.a"),
    "a matrix in a path": (parameter("p", "path", style="matrix"), "a", "/x/;p=a"),
}


@pytest.mark.parametrize(("said", "value", "path"), WRITTEN.values(), ids=WRITTEN.keys())
async def test_a_parameter_is_written_as_the_document_asks(
    api: Api, said: dict[str, Any], value: Any, path: str
) -> None:
    where = "/x/{p}" if said["in"] == "path" else "/x"
    made = await tools(document({where: {"get": {"operationId": "get", "parameters": [said]}}}), api.url)

    output = await made["get"].run({said["name"]: value}, CONTEXT)

    assert not output.failed
    assert api.last()["path"] == path


async def test_headers_and_cookies_are_sent_but_none_that_belong_to_the_connection(api: Api) -> None:
    said = [
        parameter("X-Trace", "header"),
        parameter("Authorization", "header"),
        parameter("Host", "header"),
        parameter("Bad Name", "header"),
        parameter("session", "cookie"),
        parameter("theme", "cookie"),
    ]
    made = await tools(document({"/a": {"get": {"operationId": "get", "parameters": said}}}), api.url)

    assert list(schema_of(made["get"])["properties"]) == ["X-Trace", "session", "theme"]
    await made["get"].run(
        {"X-Trace": "t1", "session": "a; admin=1", "theme": "dark", "Authorization": "mine", "Host": "evil"}, CONTEXT
    )
    headers = api.last()["headers"]
    assert (headers["X-Trace"], headers["Cookie"]) == ("t1", "session=a%3B%20admin%3D1; theme=dark")
    assert "Authorization" not in headers
    assert headers["Host"] == api.url.removeprefix("http://")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "ü"])
async def test_nothing_breaks_out_of_a_header(api: Api, value: str) -> None:
    made = await tools(
        document({"/a": {"get": {"operationId": "get", "parameters": [parameter("X-A", "header")]}}}), api.url
    )

    with pytest.raises(ValueError, match="'X-A' is sent as a header"):
        await made["get"].run({"X-A": value}, CONTEXT)
    assert api.asked == []


@pytest.mark.parametrize("value", ["", ".", "..", []])
async def test_nothing_walks_out_of_its_path_segment(api: Api, value: Any) -> None:
    made = await tools(
        document({"/a/{p}/b": {"get": {"operationId": "get", "parameters": [parameter("p", "path")]}}}), api.url
    )

    with pytest.raises(ValueError, match="'p' cannot be"):
        await made["get"].run({"p": value}, CONTEXT)
    assert api.asked == []


ODD = document(
    {
        "/a/{p}": {
            "get": {
                "operationId": "get",
                "parameters": [parameter("p", "path"), parameter("q", "query"), parameter("c", "cookie")],
            }
        }
    }
)


@given(st.text(), st.text(), st.text())
def test_no_text_changes_where_a_request_goes(p: str, q: str, c: str) -> None:
    [operation] = read_operations(Document(ODD))
    try:
        request = write_request(operation, "https://api.test/v1", {"p": p, "q": q, "c": c})
    except ValueError:
        assert p in ("", ".", "..")
        return

    path, _, query = request.url.partition("?")
    assert path.startswith("https://api.test/v1/a/")
    assert not set(path.removeprefix("https://api.test/v1/a/")) & set("/?#@ \\")
    assert query.startswith("q=")
    assert not set(query.removeprefix("q=")) & set("&#= ;\r\n")
    assert not set(request.headers["Cookie"].removeprefix("c=")) & set("; =,\r\n")


@pytest.mark.parametrize(
    ("media", "arguments", "kind", "body"),
    [
        ("application/vnd.api+json", {"a": "x", "n": [1]}, "application/vnd.api+json", '{"a":"x","n":[1]}'),
        ("application/x-www-form-urlencoded", {"a": "x y&z", "n": [1, 2]}, None, "a=x+y%26z&n=1&n=2"),
    ],
)
async def test_a_body_is_written_in_its_media_type(
    api: Api, media: str, arguments: dict[str, Any], kind: str | None, body: str
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "array"}}}
    content = {"requestBody": {"content": {media: {"schema": schema}}}}
    made = await tools(document({"/a": {"post": {"operationId": "post", **content}}}), api.url)

    await made["post"].run(arguments, CONTEXT)

    assert api.last()["headers"]["Content-Type"] == (kind or media)
    assert api.last()["body"] == body


async def test_a_form_of_several_parts_and_plain_text_can_be_sent(api: Api) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "file": {"type": "string"}}}
    made = await tools(
        document(
            {
                "/form": {"post": {"operationId": "form", **with_body("multipart/form-data", schema)}},
                "/text": {"post": {"operationId": "text", **with_body("text/plain", {"type": "string"})}},
            }
        ),
        api.url,
    )

    await made["form"].run({"name": "ü", "file": "line\r\n--x"}, CONTEXT)
    assert api.last()["headers"]["Content-Type"].startswith("multipart/form-data; boundary=")
    assert 'name="name"' in api.last()["body"]
    assert "line\r\n--x" in api.last()["body"]
    await made["text"].run({"body": "hello"}, CONTEXT)
    assert (api.last()["headers"]["Content-Type"], api.last()["body"]) == ("text/plain", "hello")


# ---- as whom -------------------------------------------------------------------------------------------------------


SCHEMES = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "oauth": {"type": "oauth2", "flows": {}},
    "digest": {"type": "http", "scheme": "digest"},
}


def secured(security: Any, **root: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": "get", "parameters": [parameter("key", "query")]}
    if security is not None:
        operation["security"] = security
    return document({"/a": {"get": operation}}, components={"securitySchemes": SCHEMES}, **root)


@pytest.mark.parametrize(
    ("security", "header", "value"),
    [
        ([{"header": []}], "X-Key", "s3:cret"),
        ([{"bearer": []}], "Authorization", "Bearer s3:cret"),
        ([{"oauth": ["read"]}], "Authorization", "Bearer s3:cret"),
        ([{"basic": []}], "Authorization", f"Basic {base64.b64encode(b's3:cret').decode()}"),
        ([{"cookie": []}], "Cookie", "sid=s3%3Acret"),
        ([{"digest": []}, {"bearer": []}], "Authorization", "Bearer s3:cret"),
        ([{}, {"header": []}], "X-Key", "s3:cret"),
        (None, "X-Key", "s3:cret"),
    ],
)
async def test_the_key_is_sent_as_the_document_asks(api: Api, security: Any, header: str, value: str) -> None:
    made = await tools(secured(security), api.url, "s3:cret")

    await made["get"].run({}, CONTEXT)

    assert api.last()["headers"][header] == value


async def test_a_key_in_the_query_is_not_the_model_s_to_write(api: Api) -> None:
    made = await tools(secured([{"query": []}]), api.url, "s3cret")

    await made["get"].run({"key": "mine"}, CONTEXT)

    assert api.last()["path"] == "/a?key=s3cret"


async def test_a_document_that_says_nothing_of_security_gets_a_bearer_token(api: Api) -> None:
    made = await tools(document({"/a": {"get": {"operationId": "get"}}}), api.url, "s3cret")

    await made["get"].run({}, CONTEXT)

    assert api.last()["headers"]["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize("key", [None, "s3cret"], ids=["anonymous", "an operation without security"])
async def test_no_key_is_sent_where_none_is_asked_for(api: Api, key: str | None) -> None:
    made = await tools(secured([] if key else [{"bearer": []}]), api.url, key)

    await made["get"].run({}, CONTEXT)

    assert not {"Authorization", "X-Key", "Cookie"} & api.last()["headers"].keys()


async def test_the_key_is_not_sent_to_another_host_that_the_document_names(api: Api) -> None:
    async with serve() as other:
        operation = {"operationId": "get", "servers": [{"url": other.url}]}
        said = document({"/a": {"get": operation}, "/b": {"get": {}}}, servers=[{"url": f"{api.url}/v1"}])
        made = await tools(said, None, "s3cret")

        await made["get"].run({}, CONTEXT)
        await made["get_b"].run({}, CONTEXT)

        assert "Authorization" not in other.last()["headers"]
        assert (api.last()["path"], api.last()["headers"]["Authorization"]) == ("/v1/b", "Bearer s3cret")


async def test_a_redirect_is_followed_on_the_same_host_and_nowhere_else(api: Api) -> None:
    async with serve() as other:
        api.answers["/here"] = web.Response(status=302, headers={"Location": "/there?x=1"})
        api.answers["/away"] = web.Response(status=307, headers={"Location": f"{other.url}/stolen"})
        api.answers["/round"] = web.Response(status=302, headers={"Location": "/round"})
        made = await tools(document({f"/{name}": {"get": {}} for name in ("here", "away", "round")}), api.url, "s3cret")

        assert (await made["get_here"].run({}, CONTEXT)).content == '{"method": "GET", "path": "/there?x=1"}'
        with pytest.raises(Exception, match=r"GET http://127.0.0.1:\d+/away redirects to another host"):
            await made["get_away"].run({}, CONTEXT)
        with pytest.raises(Exception, match="redirects more than 3 times"):
            await made["get_round"].run({}, CONTEXT)
        assert other.asked == []


@pytest.mark.parametrize("key", ["with\nbreak", "with\r\nX-Evil: 1", "ü"])
async def test_a_key_that_no_header_can_hold_is_refused_at_the_start(api: Api, key: str) -> None:
    with pytest.raises(BadPrompty, match="the connection's key has characters that no header can hold"):
        await tools(document({"/a": {"get": {}}}), api.url, key)


async def test_a_connection_can_be_one_that_the_host_registered(api: Api) -> None:
    register_connection("shop", {"kind": "key", "endpoint": api.url, "apiKey": "s3cret"})
    agent = loads(
        "---\ntools:\n  - name: shop\n    kind: openapi\n    connection: {kind: reference, name: shop}\n"
        "    specification: {openapi: 3.1.0, paths: {/a: {get: {operationId: getA}}}}\n---\nhi"
    )

    made = await tools_of(agent)
    await made["getA"].run({}, CONTEXT)

    assert api.last()["headers"]["Authorization"] == "Bearer s3cret"


async def test_an_oauth_connection_gets_its_token_and_a_new_one_when_that_is_refused(api: Api) -> None:
    tokens = iter(["first", "second"])

    async def token(request: web.Request) -> web.Response:
        return web.json_response({"access_token": next(tokens)})

    async def guarded(request: web.Request) -> web.Response:
        said = request.headers["Authorization"]
        return web.Response(text=said) if said == "Bearer second" else web.Response(status=401)

    app = web.Application()
    app.router.add_post("/token", token)
    app.router.add_get("/a", guarded)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        connection = OAuthConnection(endpoint=url, client_id="me", client_secret="s", token_url=f"{url}/token")
        tool = OpenApiTool(name="api", connection=connection, specification=secured([{"oauth": []}]))
        made = await tools_of(Prompty(tools=(tool,)))

        assert await made["get"].run({}, CONTEXT) == ToolOutput("Bearer second")
    finally:
        await runner.cleanup()


async def test_an_oauth_connection_without_its_fields_is_refused() -> None:
    tool = OpenApiTool(name="api", connection=OAuthConnection(endpoint="https://a.test"), specification=secured(None))

    with pytest.raises(BadPrompty, match="needs a tokenUrl, a clientId and a clientSecret, or an accessToken"):
        await tools_of(Prompty(tools=(tool,)))


# ---- what comes back -----------------------------------------------------------------------------------------------


PNG = ToolOutput("[4 bytes of image/png]", (Image("data:image/png;base64,iVBORw=="),))


ZIP = ToolOutput("[2 bytes of application/zip]", (File("data:application/zip;base64,AAE="),))


LONG = f"Error: HTTP 500 Internal Server Error: {'x' * 2000}"


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (web.json_response({"a": 1}), ToolOutput('{"a": 1}')),
        (web.Response(text="grüezi", charset="latin-1"), ToolOutput("grüezi")),
        (web.Response(status=204), ToolOutput("HTTP 204 No Content")),
        (web.Response(body=b"\x89PNG", content_type="image/png"), PNG),
        (web.Response(body=b"\0\1", content_type="application/zip"), ZIP),
        (web.Response(status=404, text="no pet"), ToolOutput("Error: HTTP 404 Not Found: no pet", failed=True)),
        (web.Response(status=500, text="x" * 5000), ToolOutput(LONG, failed=True)),
        (web.Response(status=304), ToolOutput("Error: HTTP 304 Not Modified", failed=True)),
    ],
    ids=["JSON", "text", "nothing", "an image", "a file", "an error", "a long error", "no success"],
)
async def test_the_answer_is_what_the_model_reads(api: Api, answer: web.Response, output: ToolOutput) -> None:
    api.answers["/a"] = answer
    made = await tools(document({"/a": {"get": {"operationId": "get"}}}), api.url)

    assert await made["get"].run({}, CONTEXT) == output


async def test_an_answer_that_is_too_large_is_an_error(api: Api) -> None:
    api.answers["/a"] = web.Response(text="x" * (1024 * 1024 + 1))
    made = await tools(document({"/a": {"get": {"operationId": "get"}}}), api.url)

    output = await made["get"].run({}, CONTEXT)

    assert (output.failed, output.content) == (
        True,
        "Error: the answer is larger than 1048576 bytes; ask for less of it",
    )


async def test_an_api_that_is_not_there_is_an_error_that_names_no_key() -> None:
    made = await tools(document({"/a": {"get": {"operationId": "get"}}}), "http://127.0.0.1:1", "s3cret")

    with pytest.raises(ToolFailed) as failed:
        await made["get"].run({}, CONTEXT)
    assert (
        str(failed.value)
        == "GET http://127.0.0.1:1/a could not be called: cannot reach 127.0.0.1:1: Connection refused"
    )


async def test_an_api_that_hangs_up_is_named() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        address = "http://{}:{}".format(*server.sockets[0].getsockname())
        made = await tools(document({"/a": {"get": {"operationId": "get"}}}), address)
        with pytest.raises(ToolFailed) as failed:
            await made["get"].run({}, CONTEXT)
    said = f"GET {address}/a could not be called: the connection was closed before there was an answer"
    assert str(failed.value) == said


async def test_a_model_uses_an_api_from_start_to_end(api: Api, tmp_path: Path) -> None:
    said = document(
        {
            "/pets/{id}": {
                "get": {"operationId": "getPet", "parameters": [parameter("id", "path"), parameter("lang", "query")]}
            }
        }
    )
    (tmp_path / "api.json").write_text(json.dumps(said))
    model = ScriptedModel(calls(Call("getPet", {"id": "a/b", "lang": "fr"}, "c1")), says("It is Rex."))
    register_connection("model", model)
    (tmp_path / "agent.prompty").write_text(
        "---\nmodel: {id: m, connection: {kind: reference, name: model}}\ninputs: {language: de}\n"
        "tools:\n  - name: pets\n    kind: openapi\n    specification: ./api.json\n"
        f"    connection: {{kind: key, endpoint: '{api.url}', apiKey: s3cret}}\n    bindings: {{lang: language}}\n---\nhi\n"
    )

    assert await invoke_agent_async(tmp_path / "agent.prompty") == "It is Rex."

    assert api.last()["path"] == "/pets/a%2Fb?lang=de"
    [spec] = model.requests[0].tools
    assert list(msgspec.json.decode(spec.parameters)["properties"]) == ["id"]
    assert model.heard[1][-1] == ToolTurn((ToolResult("c1", '{"method": "GET", "path": "/pets/a%2Fb?lang=de"}'),))
