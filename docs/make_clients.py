"""Prints the clients from the OpenAPI document: src/ronda/client/operations.py and clients/typescript/ronda.ts.

An operation that has a name of ours (`x-client`) is a method; shapes of the document are types. What sends requests is written by
hand, next to each.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server
from ronda.server.features.openapi.document import openapi_document
from ronda.server.features.table import make_config
from ronda.testing import ScriptedModel

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / "src/ronda/client/operations.py"
TYPESCRIPT = ROOT / "clients/typescript/ronda.ts"

# Features that are off unless a setting asks for them, and have addresses of ours.
FEATURES = ("budgets", "notices")
WITHOUT_BODY = ("GET", "DELETE")  # all fields of these go into the address

Schema = Mapping[str, Any]


def document() -> dict[str, Any]:
    server = Server(
        make_config({"model": "script:test", "features": FEATURES}), MemoryJournal(), provider=ScriptedModel()
    )
    rows = [row for feature in server.features.all for row in feature.routes()]
    return openapi_document(rows, server.features.operations())


class Method(NamedTuple):
    """An operation as a method: what it is called, what stands in its address, what it takes and gives."""

    name: str
    verb: str
    path: str
    summary: str
    places: list[str]  # names of arguments, in the order of the address
    query: list[str]
    fields: Schema | None  # of the query and the body together
    takes_body: bool  # any object
    answer: Schema | None
    event: Schema | None


def methods(found: Mapping[str, Any]) -> list[Method]:
    return [
        _method(verb, path, one)
        for path, item in found["paths"].items()
        for verb, one in item.items()
        if one.get("x-client")
    ]


def _method(verb: str, path: str, one: Mapping[str, Any]) -> Method:
    parameters = [parameter for parameter in one.get("parameters", ()) if parameter["in"] == "query"]
    properties = {parameter["name"]: _with_text(parameter) for parameter in parameters}
    required = [parameter["name"] for parameter in parameters if parameter.get("required")]
    body = one.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    takes_body = body is not None and "properties" not in body
    if body is not None and not takes_body:
        properties |= body["properties"]
        required += body.get("required", ())
    fields = {"type": "object", "properties": properties, "required": required} if properties else None
    content = next(one for status, one in one["responses"].items() if status.startswith("2")).get("content", {})
    answer = content.get("application/json", {}).get("schema")
    event = content.get("text/event-stream", {}).get("x-event")
    names = [_argument(path, name) for name in re.findall(r"\{(\w+)\}", path)]
    query = [parameter["name"] for parameter in parameters]
    return Method(
        one["operationId"], verb.upper(), path, one["summary"], names, query, fields, takes_body, answer, event
    )


def _with_text(parameter: Mapping[str, Any]) -> dict[str, Any]:
    text = parameter.get("description")
    return {**parameter["schema"], "description": text} if text else dict(parameter["schema"])


def _argument(path: str, name: str) -> str:
    """`{id}` of `/v1/runs/{id}/…` → `run_id`: an argument says of what."""
    if name not in ("id", "round", "name"):
        return name
    before = path.partition(f"/{{{name}}}")[0].rpartition("/")[2]
    return f"{before.removesuffix('s')}_{'id' if name == 'id' else name}" if name != "round" else "round_index"


def _camel(name: str, *, first_upper: bool = False) -> str:
    head, *rest = name.split("_")
    return (head.capitalize() if first_upper else head) + "".join([word.capitalize() for word in rest])


def used_components(found: Mapping[str, Any], all_methods: Iterable[Method]) -> dict[str, Schema]:
    """The named shapes that methods speak of, and those that these speak of."""
    schemas = found["components"]["schemas"]
    waiting = [name for one in all_methods for part in (one.fields, one.answer, one.event) for name in _names(part)]
    used: dict[str, Schema] = {}
    while waiting:
        name = waiting.pop()
        if name not in used:
            used[name] = schemas[name]
            waiting += _names(schemas[name])
    return dict(sorted(used.items()))


def _names(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(ref := schema.get("$ref"), str):
            yield ref.rpartition("/")[2]
        for key, value in schema.items():
            if key != "discriminator":
                yield from _names(value)
    elif isinstance(schema, list):
        for one in schema:
            yield from _names(one)


def _summary(text: str) -> str:
    return text.rstrip(".") + "."


# ---- Python ----------------------------------------------------------------------------------------------------------

_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class PythonTypes:
    """Schemas → annotations; objects become TypedDicts, under names made of where they stand."""

    def __init__(self) -> None:
        self.classes: dict[str, list[str]] = {}

    def name(self, schema: Schema, name: str) -> str:
        if "$ref" in schema:
            return str(schema["$ref"]).rpartition("/")[2]
        if "const" in schema:
            return f"Literal[{json.dumps(schema['const'])}]"
        if "enum" in schema:
            return f"Literal[{', '.join([json.dumps(one) for one in schema['enum']])}]"
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys([self.name(one, name) for one in schema["anyOf"]]))
        kind = schema.get("type")
        if kind == "array":
            items = schema.get("items")
            return f"list[{self.name(items, name + 'Item') if isinstance(items, Mapping) else 'Any'}]"
        if kind == "object" and schema.get("properties"):
            self.add(name, schema)
            return name
        if kind == "object":
            inner = schema.get("additionalProperties")
            return f"dict[str, {self.name(inner, name + 'Value') if isinstance(inner, Mapping) and inner else 'Any'}]"
        return _PLAIN.get(kind, "Any") if isinstance(kind, str) else "Any"

    def add(self, name: str, schema: Schema) -> None:
        if name in self.classes:
            return
        self.classes[name] = []
        required = schema.get("required", ())
        lines = [f"class {name}(TypedDict):"]
        if text := schema.get("description"):
            lines += _docstring(str(text))
            lines.append("")
        for member, one in schema["properties"].items():
            kind = self.name(one, name + _camel(member, first_upper=True))
            lines.append(f"    {member}: {kind}" if member in required else f"    {member}: NotRequired[{kind}]")
        self.classes[name] = lines


def _docstring(text: str) -> list[str]:
    lines = textwrap.wrap(" ".join(text.split()), 110)
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    return [f'    """{lines[0]}', *[f"    {line}" for line in lines[1:]], '    """']


def python_client(found: Mapping[str, Any]) -> str:
    all_methods, types, aliases = methods(found), PythonTypes(), []
    for name, schema in used_components(found, all_methods).items():
        if schema.get("properties"):
            types.add(name, schema)
        else:
            aliases.append(f"{name}: TypeAlias = {types.name(schema, name)}")
    written = [line for one in all_methods for line in ("", *_python_method(one, types))]
    blocks = ["\n".join(lines) for lines in types.classes.values()]
    return "\n".join(
        [
            '"""The methods and types of the client. Printed by docs/make_clients.py from the OpenAPI document: change that."""',
            "",
            "from __future__ import annotations",
            "",
            "from collections.abc import Iterator, Mapping",
            "from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, Unpack",
            "",
            "from ronda.client.transport import ServerEvent, Transport, place",
            "",
            "\n\n\n".join(["", *blocks]),
            "",
            "",
            *aliases,
            "",
            "",
            "class Operations:",
            '    """What the server does, a method each."""',
            "",
            "    def __init__(self, transport: Transport) -> None:",
            "        self._transport = transport",
            *written,
            "",
        ]
    )


def _python_method(one: Method, types: PythonTypes) -> list[str]:
    name = _camel(one.name, first_upper=True)
    arguments = ["self", *[f"{place}: {'int' if place == 'round_index' else 'str'}" for place in one.places]]
    if one.takes_body:
        arguments.append("body: Mapping[str, Any]")
    if one.fields is not None:
        types.add(f"{name}Fields", one.fields)
        arguments.append(f"**fields: Unpack[{name}Fields]")
    path = one.path
    for original, argument in zip(re.findall(r"\{(\w+)\}", path), one.places, strict=True):
        path = path.replace(f"{{{original}}}", f"{{place({argument})}}", 1)
    address = f'f"{path}"' if one.places else f'"{path}"'
    given = "fields" if one.fields is not None else "{}"
    in_address = f", query={json.dumps(one.query)}" if one.query and one.verb not in WITHOUT_BODY else ""
    body = ", body=body" if one.takes_body else ""
    call = f'"{one.verb}", {address}, {given}{in_address}{body}'
    if one.event is not None:
        kind = f"Iterator[ServerEvent[{types.name(one.event, name + 'Event')}]]"
        lines = [f"return self._transport.follow({address}, {given})"]
    elif one.answer is None:
        kind, lines = "None", [f"self._transport.ask({call})"]
    else:
        kind = types.name(one.answer, f"{name}Answer")
        lines = [f"answer: {kind} = self._transport.ask({call})", "return answer"]
    return [
        f"    def {one.name}({', '.join(arguments)}) -> {kind}:",
        f'        """{_summary(one.summary)}"""',
        *[f"        {line}" for line in lines],
    ]


# ---- TypeScript ------------------------------------------------------------------------------------------------------

_SCRIPT = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def _script_type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join([json.dumps(one) for one in schema["enum"]])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys([_script_type(one) for one in schema["anyOf"]]))
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        return f"Array<{_script_type(items) if isinstance(items, Mapping) else 'unknown'}>"
    if kind == "object" and schema.get("properties"):
        return f"{{ {'; '.join(_script_members(schema))} }}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"Record<string, {_script_type(inner) if isinstance(inner, Mapping) and inner else 'unknown'}>"
    return _SCRIPT.get(kind, "unknown") if isinstance(kind, str) else "unknown"


def _script_members(schema: Schema) -> list[str]:
    required = schema.get("required", ())
    return [
        f"{member}{'' if member in required else '?'}: {_script_type(one)}"
        for member, one in schema["properties"].items()
    ]


def _interface(name: str, schema: Schema) -> str:
    text = schema.get("description")
    head = f"/** {' '.join(str(text).split())} */\n" if text else ""
    if not schema.get("properties"):
        return f"{head}export type {name} = {_script_type(schema)};"
    members = "\n".join([f"  {member};" for member in _script_members(schema)])
    return f"{head}export interface {name} {{\n{members}\n}}"


def typescript_client(found: Mapping[str, Any]) -> str:
    all_methods = methods(found)
    types = [_interface(name, schema) for name, schema in used_components(found, all_methods).items()]
    written: list[str] = []
    for one in all_methods:
        name = _camel(one.name, first_upper=True)
        if one.fields is not None:
            types.append(_interface(f"{name}Fields", one.fields))
        if one.answer is not None and "$ref" not in one.answer:
            types.append(f"export type {name}Answer = {_script_type(one.answer)};")
        written += ["", *_script_method(one, name)]
    return "\n".join(
        [
            "// Printed by docs/make_clients.py from the OpenAPI document: change that. What sends requests is in transport.ts.",
            'import { type ClientOptions, place, type ServerEvent, Transport } from "./transport.ts";',
            "",
            'export { type ClientOptions, RondaHttpError, type ServerEvent } from "./transport.ts";',
            "",
            "\n\n".join(types),
            "",
            "/** What the server does, a method each. */",
            "export class Ronda {",
            "  readonly #transport: Transport;",
            "",
            "  constructor(options: ClientOptions) {",
            "    this.#transport = new Transport(options);",
            "  }",
            *written,
            "}",
            "",
        ]
    )


def _script_method(one: Method, name: str) -> list[str]:
    arguments = [f"{_camel(place)}: {'number' if place == 'round_index' else 'string'}" for place in one.places]
    if one.takes_body:
        arguments.append("body: Record<string, unknown>")
    if one.fields is not None:
        default = "" if one.fields["required"] else " = {}"
        arguments.append(f"fields: {name}Fields{default}")
    path = one.path
    for original, argument in zip(re.findall(r"\{(\w+)\}", path), one.places, strict=True):
        path = path.replace(f"{{{original}}}", f"${{place({_camel(argument)})}}", 1)
    address = f"`{path}`" if one.places else json.dumps(path)
    given = "fields" if one.fields is not None else "{}"
    query = json.dumps([] if one.verb in WITHOUT_BODY else one.query)
    more = f", {query}" if query != "[]" or one.takes_body else ""
    if one.event is not None:
        kind = f"AsyncGenerator<ServerEvent<{_script_type(one.event)}>>"
        call = f"this.#transport.follow({address}, {given})"
    else:
        answer = (
            "void" if one.answer is None else f"{name}Answer" if "$ref" not in one.answer else _script_type(one.answer)
        )
        kind = f"Promise<{answer}>"
        call = f'this.#transport.ask("{one.verb}", {address}, {given}{more}{", body" if one.takes_body else ""})'
    return [
        f"  /** {_summary(one.summary)} */",
        f"  {_camel(one.name)}({', '.join(arguments)}): {kind} {{",
        f"    return {call};",
        "  }",
    ]


def formatted(text: str) -> str:
    """As the formatter writes it."""
    ruff = Path(sys.executable).parent / "ruff"
    command = [str(ruff), "format", "--stdin-filename", str(PYTHON), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def clients() -> dict[Path, str]:
    found = document()
    return {PYTHON: formatted(python_client(found)), TYPESCRIPT: typescript_client(found)}


if __name__ == "__main__":
    for file, text in clients().items():
        file.write_text(text)
