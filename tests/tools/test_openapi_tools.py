"""An operation of an API as a tool: what the model sees of it."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.tools.api_server import Api
from tests.tools.openapi_parameters import parameter
from tests.tools.openapi_tools import CONTEXT, document, schema_of, tools

from ronda.prompty.errors import BadPrompty
from ronda.prompty.load import loads
from ronda.prompty.model import AnonymousConnection, OpenApiTool
from ronda.prompty.tool_kinds import tools_of
from ronda.schema.validate import validator_for

pytestmark = pytest.mark.usefixtures("nothing_registered")


async def test_every_operation_is_a_tool_under_a_legal_name_of_its_own(api: Api) -> None:
    made = await tools(
        document(
            {
                "/pets/{id}": {
                    "get": {"operationId": "getPet", "summary": "Get a pet", "description": "By its id."},
                    "delete": {},
                },
                "/a": {"get": {"operationId": "two words!"}, "post": {"operationId": "getPet"}, "trace": {}},
                "x-not-a-path": {"get": {}},
            }
        ),
        api.url,
    )

    assert {name: tool.spec.description for name, tool in made.items()} == {
        "getPet": "Get a pet\nBy its id.",
        "delete_pets_id": "DELETE /pets/{id}",
        "two_words_": "GET /a",
        "getPet_2": "POST /a",
    }
    assert [tool.spec.repeatable for tool in made.values()] == [True, False, True, False]


async def test_arguments_are_parameters_and_the_members_of_the_body(api: Api) -> None:
    made = await tools(
        document(
            {
                "/pets/{id}": {
                    "parameters": [parameter("id", "path", required=True), parameter("lang", "query")],
                    "put": {
                        "operationId": "put",
                        "parameters": [parameter("lang", "query", required=True, description="Which language.")],
                        "requestBody": {
                            "required": True,
                            "content": {
                                "application/json": {
                                    "schema": {
                                        "type": "object",
                                        "required": ["name", "at"],
                                        "properties": {
                                            "name": {"type": "string"},
                                            "tags": {"type": "array", "items": {"type": "string"}},
                                            "at": {"type": "string", "readOnly": True},
                                        },
                                    }
                                }
                            },
                        },
                    },
                }
            }
        ),
        api.url,
    )

    assert schema_of(made["put"]) == {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "lang": {"type": "string", "description": "Which language."},
            "name": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["id", "lang", "name"],
    }
    await made["put"].run({"id": "7", "lang": "de", "name": "Rex"}, CONTEXT)
    assert api.last()["method"] == "PUT"
    assert api.last()["path"] == "/pets/7?lang=de"
    assert json.loads(api.last()["body"]) == {"name": "Rex"}
    assert api.last()["headers"]["Content-Type"] == "application/json"


async def test_two_parameters_of_one_name_and_a_body_that_has_it_too_are_told_apart(api: Api) -> None:
    body = {"type": "object", "properties": {"id": {"type": "integer"}}}
    made = await tools(
        document(
            {
                "/a/{id}": {
                    "post": {
                        "operationId": "post",
                        "parameters": [parameter("id", "path"), parameter("id", "query")],
                        "requestBody": {"content": {"application/json": {"schema": body}}},
                    }
                }
            }
        ),
        api.url,
    )

    assert list(schema_of(made["post"])["properties"]) == ["id", "query_id", "body"]
    await made["post"].run({"id": "1", "query_id": "2", "body": {"id": 3}}, CONTEXT)
    assert (api.last()["path"], api.last()["body"]) == ("/a/1?id=2", '{"id":3}')


async def test_references_are_followed_and_circles_stay_circles(api: Api) -> None:
    node = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "next": {"$ref": "#/components/schemas/Node"}},
    }
    made = await tools(
        document(
            {"/a": {"$ref": "#/components/pathItems/A"}},
            components={
                "pathItems": {
                    "A": {
                        "post": {
                            "operationId": "post",
                            "parameters": [{"$ref": "#/components/parameters/Limit"}],
                            "requestBody": {"$ref": "#/components/requestBodies/Node"},
                        }
                    }
                },
                "parameters": {"Limit": parameter("limit", "query")},
                "requestBodies": {
                    "Node": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}}
                },
                "schemas": {"Node": node},
            },
        ),
        api.url,
    )

    schema = schema_of(made["post"])
    assert schema == {
        "type": "object",
        "properties": {
            "limit": {"type": "string"},
            "name": {"type": "string"},
            "next": {"$ref": "#/$defs/Node"},
        },
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}},
            }
        },
    }
    check = validator_for(bytes(made["post"].spec.parameters))
    assert check.explain({"next": {"next": {"name": "deep"}}}) is None
    assert check.explain({"next": {"next": {"name": 1}}}) is not None


async def test_the_dialect_of_openapi_3_0_is_understood(api: Api) -> None:
    made = await tools(
        {
            **document(
                {
                    "/a": {
                        "get": {
                            "operationId": "get",
                            "parameters": [
                                {
                                    "name": "n",
                                    "in": "query",
                                    "schema": {
                                        "type": "integer",
                                        "nullable": True,
                                        "minimum": 0,
                                        "exclusiveMinimum": True,
                                        "maximum": 9,
                                        "exclusiveMaximum": False,
                                        "example": 3,
                                    },
                                },
                                {
                                    "name": "e",
                                    "in": "query",
                                    "schema": {"type": "string", "nullable": True, "enum": ["a"]},
                                },
                            ],
                        }
                    }
                }
            ),
            "openapi": "3.0.3",
        },
        api.url,
    )

    assert schema_of(made["get"])["properties"] == {
        "n": {"type": ["integer", "null"], "exclusiveMinimum": 0, "maximum": 9},
        "e": {"type": ["string", "null"], "enum": ["a", None]},
    }


async def test_only_allowed_operations_are_offered(api: Api) -> None:
    said = document({"/a": {"get": {"operationId": "getA"}, "post": {"operationId": "postA"}}, "/b": {"get": {}}})

    assert list(await tools(said, api.url, allowed_tools=("postA", "GET /b"))) == ["postA", "get_b"]
    with pytest.raises(BadPrompty, match="allowedTools names 'nope', which is none of its operations: getA, postA"):
        await tools(said, api.url, allowed_tools=("nope",))


async def test_too_many_operations_must_be_chosen_from(api: Api) -> None:
    said = document({f"/{n}": {"get": {}} for n in range(200)})

    with pytest.raises(BadPrompty, match="it has 200 operations, more than 128; name those to offer in allowedTools"):
        await tools(said, api.url)
    assert list(await tools(said, api.url, allowed_tools=("GET /7",))) == ["get_7"]


async def test_an_operation_never_takes_the_name_of_a_declared_tool(api: Api) -> None:
    said = document({"/a": {"get": {"operationId": "search"}}})
    agent = loads("---\ntools: [{name: search, kind: function}]\n---\nhi")
    tool = OpenApiTool(name="api", connection=AnonymousConnection(endpoint=api.url), specification=said)
    made = await tools_of(msgspec.structs.replace(agent, tools=(*agent.tools, tool)))

    assert list(made) == ["search", "api_search"]
