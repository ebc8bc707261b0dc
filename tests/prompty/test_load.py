"""A file's text becomes a `Prompty`, every shorthand written out."""

from pathlib import Path
from typing import Any

import pytest

from ronda.prompty import load, load_async, loads, to_dict
from ronda.prompty.load import split
from ronda.prompty.model import (
    AnonymousConnection,
    ApprovalMode,
    Binding,
    Connection,
    CustomTool,
    Format,
    FoundryConnection,
    FunctionTool,
    KeyConnection,
    McpTool,
    Model,
    ModelOptions,
    OAuthConnection,
    OpenApiTool,
    Parser,
    Prompty,
    PromptyTool,
    Property,
    ReferenceConnection,
    RemoteConnection,
    Template,
)


def front(yaml: str, body: str = "Hi") -> Prompty:
    return loads(f"---\n{yaml}\n---\n{body}", env={})


# ---- splitting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "yaml", "body"),
    [
        ("---\nname: test\n---\nHello world", "name: test\n", "Hello world"),
        ("Just a prompt with no front matter", None, "Just a prompt with no front matter"),
        ("---\n---\nBody only", "", "Body only"),
        ("  ---\nname: test\n---\nBody", "name: test\n", "Body"),
        ("+++\nname: test\n---\nBody", "name: test\n", "Body"),
        ("\n\n---\nname: test\n---   \n\n\nBody\n\n", "name: test\n", "Body"),
        ("---\nname: test\n---", "name: test\n", ""),
        ("---\ndescription: a --- b\n---\nBody", "description: a --- b\n", "Body"),
        ("---\nd: |\n  one\n  ---\n  two\n---\nBody", "d: |\n  one\n  ---\n  two\n", "Body"),
        ("---\nname: x\n---\nBody\n---\nmore", "name: x\n", "Body\n---\nmore"),
    ],
)
def test_a_file_is_split_at_its_markers(text: str, yaml: str | None, body: str) -> None:
    found = split(text)

    assert (found.yaml, found.body) == (yaml, body)


def test_lines_are_counted_from_the_top_of_the_file() -> None:
    found = split("\n---\nname: x\n---\n\n\nBody")

    assert (found.yaml_line, found.body_line) == (3, 7)


def test_a_file_without_front_matter_is_all_body() -> None:
    assert loads("system:\nBe brief.\n") == Prompty(instructions="system:\nBe brief.\n")


def test_windows_line_ends_and_a_byte_order_mark_make_no_difference(tmp_path: Path) -> None:
    text = "---\nname: x\n---\nsystem:\nHé\n"
    for name, data in (("plain", text.encode()), ("dos", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())):
        (tmp_path / name).write_bytes(data)
    plain, dos = load(tmp_path / "plain"), load(tmp_path / "dos")

    assert (plain.name, plain.instructions) == (dos.name, dos.instructions) == ("x", "system:\nHé")


# ---- the whole --------------------------------------------------------------------------------------------------------


def test_everything_at_once() -> None:
    found = front(
        """
name: helper
displayName: A helper
description: Helps
metadata: {authors: [ann], version: 2026-01-01}
model:
  id: gpt-5
  provider: openai
  apiType: responses
  connection: {kind: key, endpoint: https://e, apiKey: k, authenticationMode: system, region: eu}
  options:
    temperature: 1
    maxOutputTokens: 10
    topP: 0.5
    topK: 3
    frequencyPenalty: -1
    presencePenalty: 0.1
    seed: 7
    stopSequences: [END]
    allowMultipleToolCalls: false
    additionalProperties: {logprobs: true}
template: {format: {kind: mustache, strict: true, options: {a: 1}}, parser: prompty}
someday: maybe
"""
    )

    assert found == Prompty(
        name="helper",
        display_name="A helper",
        description="Helps",
        metadata={"authors": ["ann"], "version": "2026-01-01"},
        model=Model(
            id="gpt-5",
            provider="openai",
            api_type="responses",
            connection=KeyConnection(
                endpoint="https://e", api_key="k", authentication_mode="system", extra={"region": "eu"}
            ),
            options=ModelOptions(
                temperature=1,
                max_output_tokens=10,
                top_p=0.5,
                top_k=3,
                frequency_penalty=-1,
                presence_penalty=0.1,
                seed=7,
                stop_sequences=("END",),
                allow_multiple_tool_calls=False,
                additional_properties={"logprobs": True},
            ),
        ),
        template=Template(format=Format(kind="mustache", strict=True, options={"a": 1}), parser=Parser()),
        instructions="Hi",
        body_line=27,
    )


def test_a_name_alone_is_the_model() -> None:
    assert front("model: gpt-5").model == Model(id="gpt-5", api_type="chat")


@pytest.mark.parametrize(
    ("yaml", "template"),
    [
        ("name: x", Template()),
        ("template:", Template()),
        ("template: {}", Template()),
        ("template: {format: mustache}", Template(format=Format(kind="mustache"))),
        ("template: {format: {kind: '*'}, parser: {kind: ''}}", Template()),
        (
            "template: {format: {kind: liquid}, parser: own}",
            Template(format=Format(kind="liquid"), parser=Parser(kind="own")),
        ),
    ],
)
def test_a_template_that_is_not_said_is_the_default(yaml: str, template: Template) -> None:
    assert front(yaml).template == template


def test_the_body_wins_over_instructions_in_the_front_matter() -> None:
    assert front("instructions: above", "below").instructions == "below"
    assert front("instructions: above", "").instructions == "above"


async def test_both_doors_load_the_same(tmp_path: Path) -> None:
    file = tmp_path / "a.prompty"
    file.write_text("---\nname: x\n---\nHi\n")

    assert (
        await load_async(file) == load(str(file)) == Prompty(name="x", instructions="Hi", path=str(file), body_line=4)
    )


# ---- properties -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("yaml", "prop"),
    [
        ("Jane", Property(name="x", kind="string", default="Jane")),
        ("42", Property(name="x", kind="integer", default=42)),
        ("3.14", Property(name="x", kind="float", default=3.14)),
        ("true", Property(name="x", kind="boolean", default=True)),
        ("[1, 2]", Property(name="x", kind="array", default=[1, 2])),
        ("{a: 1}", Property(name="x", kind="object", default={"a": 1})),
        ("{}", Property(name="x", kind="object", default={})),
        ("", Property(name="x", kind="string")),
        ("{kind: thread}", Property(name="x", kind="thread")),
        ("{kind: string, other: 1}", Property(name="x", kind="string")),
        ("{description: d, required: true}", Property(name="x", description="d", required=True)),
        ("{default: 3}", Property(name="x", kind="integer", default=3)),
        ("{example: true}", Property(name="x", kind="boolean", example=True)),
        ("{enumValues: [1, 2]}", Property(name="x", kind="integer", enum_values=(1, 2))),
        ("{kind: array, items: string}", Property(name="x", kind="array", items=Property(kind="string"))),
        ("{items: {kind: float}}", Property(name="x", kind="array", items=Property(kind="float"))),
        (
            "{kind: object, properties: {a: 1, b: {kind: image}}}",
            Property(
                name="x",
                kind="object",
                properties=(Property(name="a", kind="integer", default=1), Property(name="b", kind="image")),
            ),
        ),
        (
            "{kind: union, anyOf: [{kind: string}, {kind: integer}]}",
            Property(name="x", kind="union", any_of=(Property(kind="string"), Property(kind="integer"))),
        ),
        ("{oneOf: [{kind: string}]}", Property(name="x", kind="union", one_of=(Property(kind="string"),))),
    ],
)
@pytest.mark.parametrize("section", ["inputs", "outputs"])
def test_an_input_or_output_is_read_from_every_form(section: str, yaml: str, prop: Property) -> None:
    found = front(f"{section}:\n  x: {yaml}")

    assert getattr(found, section) == (prop,)


def test_a_list_and_a_mapping_say_the_same() -> None:
    listed = front("inputs:\n  - {name: a, kind: string, default: b}\n  - {name: c, default: 1}")

    assert listed.inputs == front("inputs: {a: {kind: string, default: b}, c: 1}").inputs


# ---- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("yaml", "connection"),
    [
        ("{kind: key, endpoint: e}", KeyConnection(endpoint="e")),
        ("{kind: reference, name: n, target: t}", ReferenceConnection(name="n", target="t")),
        ("{kind: remote, name: n, endpoint: e, target: t}", RemoteConnection(name="n", endpoint="e", target="t")),
        ("{kind: anonymous, endpoint: e}", AnonymousConnection(endpoint="e")),
        ("{kind: foundry, endpoint: e, project: p}", FoundryConnection(endpoint="e", extra={"project": "p"})),
        (
            "{kind: oauth, endpoint: e, clientId: i, clientSecret: s, tokenUrl: t, scopes: [a], usageDescription: u}",
            OAuthConnection(
                endpoint="e", client_id="i", client_secret="s", token_url="t", scopes=("a",), usage_description="u"
            ),
        ),
        ("{kind: vault, path: p}", Connection(kind="vault", extra={"path": "p"})),
    ],
)
def test_every_kind_of_connection(yaml: str, connection: Connection) -> None:
    found = front(f"model: {{id: m, connection: {yaml}}}").model

    assert found is not None
    assert found.connection == connection
    assert type(found.connection) is type(connection)


def test_a_connection_prints_without_its_secrets() -> None:
    said = repr(
        [
            KeyConnection(endpoint="https://e", api_key="hidden"),
            OAuthConnection(client_id="i", client_secret="hidden"),
            Connection(kind="x", extra={"token": "hidden"}),
        ]
    )

    assert "hidden" not in said
    assert "https://e" in said


# ---- tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("yaml", "tool"),
    [
        ("kind: function", FunctionTool(name="t", strict=None)),
        (
            "kind: function, description: d, strict: false, parameters: {a: {kind: string}}",
            FunctionTool(name="t", description="d", strict=False, parameters=(Property(name="a"),)),
        ),
        (
            "kind: function, parameters: {properties: [{name: a, kind: string}]}",
            FunctionTool(name="t", parameters=(Property(name="a"),)),
        ),
        (
            "kind: function, parameters: {properties: {kind: object}}",
            FunctionTool(name="t", parameters=(Property(name="properties", kind="object"),)),
        ),
        (
            "kind: function, parameters: {properties: {a: {kind: integer}}}",
            FunctionTool(name="t", parameters=(Property(name="a", kind="integer"),)),
        ),
        ("kind: mcp, serverName: s", McpTool(name="t", server_name="s")),
        (
            "kind: mcp, serverName: s, serverDescription: d, approvalMode: never, allowedTools: [a, b],"
            " connection: {kind: reference, name: n}",
            McpTool(
                name="t",
                server_name="s",
                server_description="d",
                approval_mode=ApprovalMode(kind="never"),
                allowed_tools=("a", "b"),
                connection=ReferenceConnection(name="n"),
            ),
        ),
        (
            "kind: mcp, serverName: s, approvalMode: {kind: specify, alwaysRequireApprovalTools: [a],"
            " neverRequireApprovalTools: [b]}",
            McpTool(
                name="t",
                server_name="s",
                approval_mode=ApprovalMode(
                    kind="specify", always_require_approval_tools=("a",), never_require_approval_tools=("b",)
                ),
            ),
        ),
        (
            "kind: openapi, specification: ./api.json, connection: {kind: key, endpoint: e}",
            OpenApiTool(name="t", specification="./api.json", connection=KeyConnection(endpoint="e")),
        ),
        ("kind: prompty, path: ./c.prompty", PromptyTool(name="t", path="./c.prompty", mode="single")),
        ("kind: prompty, path: c, mode: agentic", PromptyTool(name="t", path="c", mode="agentic")),
        (
            "kind: my_provider, options: {a: 1}, connection: {kind: key, endpoint: e}",
            CustomTool(name="t", kind="my_provider", options={"a": 1}, connection=KeyConnection(endpoint="e")),
        ),
    ],
)
def test_every_kind_of_tool_in_a_list_and_by_name(yaml: str, tool: Any) -> None:
    assert front(f"tools:\n  - {{name: t, {yaml}}}").tools == (tool,)
    assert front(f"tools:\n  t: {{{yaml}}}").tools == (tool,)


@pytest.mark.parametrize("yaml", ["{unit: {input: u}}", "{unit: u}", "[{name: unit, input: u}]"])
def test_bindings_in_every_form(yaml: str) -> None:
    tool = front(f"tools:\n  t: {{kind: function, parameters: {{unit: ''}}, bindings: {yaml}}}").tools[0]

    assert tool.bindings == {"unit": Binding("u")}


# ---- JSON -------------------------------------------------------------------------------------------------------------


def test_the_json_has_the_specifications_names_and_no_path() -> None:
    found = front(
        "model: {id: m, connection: {kind: vault, path: p}}\n"
        "tools: [{name: t, kind: mine, bindings: {a: b}, connection: {kind: key, apiKey: k}}]"
    )

    said = to_dict(found)

    assert said["kind"] == "prompt"
    assert said["inputs"] is said["outputs"] is said["metadata"] is None
    assert said["model"]["connection"] == {
        "kind": "vault",
        "path": "p",
        "authenticationMode": None,
        "usageDescription": None,
    }
    assert said["tools"][0]["bindings"] == {"a": {"input": "b"}}
    assert said["tools"][0]["connection"]["apiKey"] == "k"
    assert "path" not in said
