"""The front matter as a JSON Schema (draft 2020-12), for editors: what `ronda schema` prints.

It accepts what `load` accepts, written by hand so that the texts help whoever types; a test holds the two together. What a
schema can't say is left to `check`: that no name stands twice, and where references lead. A reference may stand for any
value, null is the same as nothing, and keys that the format doesn't have are let through, as the specification wants.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ronda.prompty.model import API_TYPES, CONNECTIONS, KINDS
from ronda.prompty.read_connection import CONNECTION
from ronda.prompty.read_properties import PROPERTY
from ronda.prompty.read_tools import APPROVALS, MODES, WRAPPER

Schema: TypeAlias = dict[str, Any]


def schema() -> Schema:
    """A new dict each time: it may be changed."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Prompty front matter",
        "description": "What stands between the --- lines of a .prompty file. The text below them is the prompt.",
        "type": ["object", "null"],
        "properties": {
            "name": _text("A short name for the prompt."),
            "displayName": _text("The name that people see."),
            "description": _text("What the prompt is for."),
            "metadata": _free("Authors, tags, a version: anything, and nothing of it has an effect."),
            "model": _or_reference(
                {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/model"}]},
                "The model: its name alone, or with provider, connection and options.",
            ),
            "inputs": _or_reference(
                {"$ref": "#/$defs/properties"},
                "What the template can use, as a list or by name. A plain value is a default.",
            ),
            "outputs": _or_reference({"$ref": "#/$defs/properties"}, "The answer's fields: asks the model for JSON."),
            "tools": _or_reference({"$ref": "#/$defs/tools"}, "What the model may call."),
            "agents": _or_reference(
                {"type": "array", "items": {"type": "string"}}, "Names of other agents that the model may call."
            ),
            "template": _or_reference({"$ref": "#/$defs/template"}, "How the text below becomes messages."),
            "instructions": _text("The prompt, if there is no text below the front matter."),
        },
        "$defs": {
            "reference": {
                "type": "string",
                "pattern": r"^\$\{([Ee][Nn][Vv]|[Ff][Ii][Ll][Ee]):[\s\S]+\}$",
                "description": "${env:NAME}, ${env:NAME:default} or ${file:path}",
            },
            "model": _model(),
            "options": _options(),
            "connection": _connection(),
            "properties": _list_or_mapping("property", "#/$defs/property"),
            "property": _property(),
            "fields": _fields(),
            "tools": _list_or_mapping("tool", "#/$defs/tool", "#/$defs/reference"),
            "tool": _tool(),
            "bindings": _list_or_mapping("binding", "#/$defs/binding", "#/$defs/reference"),
            "binding": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "object", "required": ["input"], "properties": {"input": _name("The input's name.")}},
                ]
            },
            "template": _template(),
        },
    }


# ---- parts --------------------------------------------------------------------------------------------------------------


def _or_reference(inner: Schema, description: str, **more: Any) -> Schema:
    return {"anyOf": [inner, {"type": "null"}, {"$ref": "#/$defs/reference"}], "description": description, **more}


def _text(description: str, *examples: str, **more: Any) -> Schema:
    return {
        "type": ["string", "null"],
        "description": description,
        **({"examples": [*examples]} if examples else {}),
        **more,
    }


def _name(description: str) -> Schema:
    return {"type": "string", "minLength": 1, "description": description}


def _flag(description: str, **more: Any) -> Schema:
    return _or_reference({"type": "boolean"}, description, **more)


def _free(description: str) -> Schema:
    return _or_reference({"type": "object"}, description)


def _texts(description: str) -> Schema:
    texts = {"type": "array", "items": {"type": ["string", "null"]}}
    return _or_reference(texts, description)


def _when(kind: str, then: Schema) -> Schema:
    """What holds for one kind."""
    return {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": then}


def _needs(*keys: str) -> Schema:
    """A key that is there, and says something."""
    return {"required": [*keys], "properties": {key: {"not": {"enum": [None, ""]}} for key in keys}}


def _list_or_mapping(what: str, one: str, *others: str) -> Schema:
    """A list of things with names, or a mapping of names to things."""
    nameless = f"A {what} under its name."
    inside: Schema = {"$ref": one} if not others else {"anyOf": [{"$ref": one}, *({"$ref": other} for other in others)]}
    return {
        "anyOf": [
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": _name("Its name.")},
                    "required": ["name"],
                    "$ref": one,
                },
            },
            {"type": "object", "additionalProperties": {"description": nameless, **inside}},
        ]
    }


# ---- sections -----------------------------------------------------------------------------------------------------------


def _model() -> Schema:
    return {
        "type": "object",
        "properties": {
            "id": _text("The model's name at its provider.", "gpt-5.5", "claude-sonnet-4-5"),
            "provider": _text("Whose interface it speaks.", "openai", "azure", "foundry", "anthropic"),
            "apiType": _text("Which interface.", *API_TYPES, default="chat"),
            "connection": _or_reference({"$ref": "#/$defs/connection"}, "How to reach it."),
            "options": _or_reference({"$ref": "#/$defs/options"}, "How it answers."),
        },
    }


def _options() -> Schema:
    number, whole = {"type": "number"}, {"type": "integer"}
    return {
        "type": "object",
        "properties": {
            "temperature": _or_reference(number, "How freely it chooses words; 0 is least."),
            "maxOutputTokens": _or_reference(whole, "The longest answer."),
            "topP": _or_reference(number, "Choose among the likeliest words that make up this share."),
            "topK": _or_reference(whole, "Choose among this many words."),
            "frequencyPenalty": _or_reference(number, "Against saying the same often."),
            "presencePenalty": _or_reference(number, "Against saying the same again."),
            "seed": _or_reference(whole, "For answers that can be repeated."),
            "stopSequences": _texts("Texts that end the answer."),
            "allowMultipleToolCalls": _flag("Whether it may ask for several tools at once."),
            "additionalProperties": _free("What only this provider knows; sent as it is."),
        },
    }


def _connection() -> Schema:
    texts = {
        "endpoint": "The service's address.",
        "apiKey": "The key; better ${env:NAME} than the key itself.",
        "name": "The connection's name.",
        "target": "What of the service is meant.",
        "connectionType": "The kind of connection within the project.",
        "clientId": "OAuth client id.",
        "clientSecret": "OAuth client secret; better ${env:NAME}.",
        "tokenUrl": "Where a token is asked for.",
    }

    def of(kind: str) -> Schema:
        own = {name: _texts("OAuth scopes.") if name == "scopes" else _text(texts[name]) for name in CONNECTION[kind]}
        if kind == "reference":
            return {"properties": {**own, "name": _name(texts["name"])}, "required": ["name"]}
        return {"properties": own}

    return {
        "type": "object",
        "required": ["kind"],
        "properties": {
            "kind": {
                **_name("How the service knows us; other kinds are for the provider to understand."),
                "examples": [*CONNECTIONS],
            },
            "authenticationMode": _text("On whose behalf: user or system.", "user", "system"),
            "usageDescription": _text("What the connection is for."),
        },
        "allOf": [_when(kind, of(kind)) for kind in CONNECTIONS],
    }


def _property() -> Schema:
    """A mapping is a property if it says its kind, or says nothing but what properties say; else it is a default."""
    return {
        "if": {
            "type": "object",
            "anyOf": [
                {"properties": {"kind": {"type": "string"}}, "required": ["kind"]},
                {"minProperties": 1, "propertyNames": {"enum": [*PROPERTY]}},
            ],
        },
        "then": {"$ref": "#/$defs/fields"},
    }


def _fields() -> Schema:
    branches = _or_reference(
        {"type": "array", "minItems": 1, "items": {"type": "object", "$ref": "#/$defs/property"}}, "One of these."
    )
    items: Schema = {"anyOf": [{"enum": [*KINDS]}, {"type": "object", "$ref": "#/$defs/property"}]}
    implied = {
        "not": {"anyOf": [_needs("kind"), _needs("items"), _needs("properties")]},
        "anyOf": [_needs("oneOf"), _needs("anyOf")],
    }
    return {
        "properties": {
            "name": {"description": "Its name, in a list."},
            "kind": _text("What it is; without it, what its default is.", *KINDS),
            "description": _text("What it means: the model reads this of parameters and outputs."),
            "required": _flag("Whether it must be given.", default=False),
            "nullable": _flag("Whether it may be null.", default=False),
            "default": {"description": "Used when nothing is given."},
            "example": {"description": "For people and tools; has no effect."},
            "enumValues": _or_reference({"type": "array"}, "The only values it may have."),
            "items": _or_reference(items, "What an array is made of."),
            "properties": _or_reference({"$ref": "#/$defs/properties"}, "What an object is made of."),
            "oneOf": branches,
            "anyOf": branches,
        },
        "if": {"anyOf": [{"properties": {"kind": {"const": "union"}}, "required": ["kind"]}, implied]},
        "then": {"oneOf": [_needs("oneOf"), _needs("anyOf")]},
    }


def _tool() -> Schema:
    connection = _or_reference({"$ref": "#/$defs/connection"}, "How to reach it.")
    approval = {
        "anyOf": [
            {"enum": [*APPROVALS]},
            {
                "type": "object",
                "required": ["kind"],
                "properties": {
                    "kind": {
                        "anyOf": [{"enum": [*APPROVALS]}, {"$ref": "#/$defs/reference"}],
                        "description": "When somebody is asked first.",
                    },
                    "alwaysRequireApprovalTools": _texts("Somebody is asked before these."),
                    "neverRequireApprovalTools": _texts("Nobody is asked before these."),
                },
            },
        ]
    }
    mcp = {
        "connection": connection,
        "serverName": _text("The server's name."),
        "serverDescription": _text("What the server is for."),
        "approvalMode": _or_reference(approval, "When somebody is asked before a call."),
        "allowedTools": _texts("Only these of its tools."),
    }
    fields: dict[str, Schema] = {
        "function": {
            "properties": {
                "parameters": _or_reference(_parameters(), "What it takes, as a list or by name."),
                "strict": _flag("Whether arguments must fit exactly.", default=True),
            }
        },
        "mcp": {"properties": mcp, "anyOf": [_required_key("connection"), _required_key("serverName")]},
        "openapi": {
            "required": ["specification"],
            "properties": {
                "connection": connection,
                "specification": {
                    "anyOf": [{"type": "string", "minLength": 1}, {"type": "object", "minProperties": 1}],
                    "description": "The OpenAPI document: a path, an address, or ${file:path}.",
                },
                "allowedTools": _texts("Only these of its operations: their operationId, or GET /path."),
            },
        },
        "prompty": {
            "required": ["path"],
            "properties": {
                "path": _name("The other file, from this file's folder."),
                "mode": _or_reference({"enum": [*MODES]}, "One model call, or its own loop.", default="single"),
            },
        },
    }
    other = {"if": {"properties": {"kind": {"not": {"enum": [*fields]}}}}, "then": _custom(connection)}
    return {
        "type": "object",
        "required": ["kind"],
        "properties": {
            "name": {"description": "What the model calls it."},
            "kind": {
                **_name("What it is; another word finds a handler that the program registered."),
                "examples": [*fields],
            },
            "description": _text("What it does and when to use it: the model reads this."),
            "bindings": _or_reference(
                {"$ref": "#/$defs/bindings"}, "Parameters that are filled in from inputs; the model does not see them."
            ),
        },
        "allOf": [*(_when(kind, then) for kind, then in fields.items()), other],
    }


def _parameters() -> Schema:
    """The list or mapping, or the older form with either under `properties`."""
    inside = {"anyOf": [{"type": "array"}, {"type": "object", "not": _property()["if"]}]}
    return {
        "if": {
            "type": "object",
            "required": ["properties"],
            "propertyNames": {"enum": [*WRAPPER]},
            "properties": {"properties": inside},
        },
        "then": {"properties": {"properties": {"$ref": "#/$defs/properties"}}},
        "else": {"$ref": "#/$defs/properties"},
    }


def _required_key(key: str) -> Schema:
    return {"required": [key], "properties": {key: {"not": {"type": "null"}}}}


def _custom(connection: Schema) -> Schema:
    return {"properties": {"connection": connection, "options": _free("For the handler.")}}


def _template() -> Schema:
    strict = _flag("Whether a text that an input brings in may never begin a message of its own.")

    def part(known: Schema, description: str) -> Schema:
        return _or_reference({"anyOf": [{"type": "string"}, {"type": "object", "properties": known}]}, description)

    options = _free("For the engine.")
    return {
        "type": "object",
        "properties": {
            "format": part(
                {
                    "kind": _text("The engine.", "jinja2", "mustache", default="jinja2"),
                    "strict": strict,
                    "options": options,
                },
                "The template language.",
            ),
            "parser": part(
                {"kind": _text("The parser.", "prompty", default="prompty"), "options": options},
                "How the rendered text becomes messages.",
            ),
        },
    }
