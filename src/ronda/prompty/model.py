"""A loaded prompty file: frozen values, as the file says them, with every shorthand written out.

    Prompty   Model (Connection, ModelOptions) · Property for inputs, outputs and parameters · Tool · Template

Names are those of the specification in Python's spelling; `to_dict` gives the specification's JSON. Nothing here reads
files, and nothing here knows how a model is called.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ronda.core.events import AgentFile
from ronda.prompty.files import Files
from ronda.prompty.segments import RICH_KINDS

KINDS = ("string", "integer", "float", "boolean", "array", "object", "union", *RICH_KINDS)
API_TYPES = ("chat", "embedding", "image", "responses")

_SECRET = frozenset({"api_key", "client_secret", "extra"})


# ---- inputs, outputs, parameters ------------------------------------------------------------------------------------


class Property(Struct, frozen=True, rename="camel", kw_only=True):
    """One input, output or parameter. `example` is for people and tools; at run time only `default` counts.

    `kind` is one of `KINDS`; another word is kept and constrains nothing. `name` is empty for items and union branches.
    """

    name: str = ""
    kind: str = "string"
    description: str = ""
    required: bool = False
    nullable: bool = False
    default: Any = None
    example: Any = None
    enum_values: tuple[Any, ...] | None = None
    items: Property | None = None  # of an array
    properties: tuple[Property, ...] | None = None  # of an object
    one_of: tuple[Property, ...] | None = None  # of a union: these, or those below
    any_of: tuple[Property, ...] | None = None


# ---- connections ------------------------------------------------------------------------------------------------------


class Connection(Struct, frozen=True, rename="camel", kw_only=True):
    """How to reach a service. A kind that only its provider knows is a plain `Connection` with all it says in `extra`;
    in the kinds below, `extra` holds what the file says beyond their own fields."""

    kind: str
    authentication_mode: str | None = None
    usage_description: str | None = None
    extra: dict[str, Any] = {}

    def __repr__(self) -> str:
        """Without secrets: this ends up in logs and tracebacks."""
        fields = [
            f"{name}={'***' if name in _SECRET else repr(value)}"
            for name in self.__struct_fields__
            if (value := getattr(self, name))
        ]
        return f"{type(self).__name__}({', '.join(fields)})"


class KeyConnection(Connection, frozen=True, kw_only=True):
    kind: Literal["key"] = "key"
    endpoint: str | None = None
    api_key: str | None = None


class ReferenceConnection(Connection, frozen=True, kw_only=True):
    """Stands for a connection that the host registered under this name."""

    kind: Literal["reference"] = "reference"
    name: str = ""
    target: str | None = None


class RemoteConnection(Connection, frozen=True, kw_only=True):
    """The specification gives it a target, the schema a name: either may be said."""

    kind: Literal["remote"] = "remote"
    name: str | None = None
    endpoint: str | None = None
    target: str | None = None


class AnonymousConnection(Connection, frozen=True, kw_only=True):
    kind: Literal["anonymous"] = "anonymous"
    endpoint: str | None = None


class FoundryConnection(Connection, frozen=True, kw_only=True):
    kind: Literal["foundry"] = "foundry"
    endpoint: str | None = None
    name: str | None = None
    connection_type: str | None = None


class OAuthConnection(Connection, frozen=True, kw_only=True):
    kind: Literal["oauth"] = "oauth"
    endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    token_url: str | None = None
    scopes: tuple[str, ...] | None = None


CONNECTIONS: dict[str, type[Connection]] = {
    "key": KeyConnection,
    "reference": ReferenceConnection,
    "remote": RemoteConnection,
    "anonymous": AnonymousConnection,
    "foundry": FoundryConnection,
    "oauth": OAuthConnection,
}


# ---- the model --------------------------------------------------------------------------------------------------------


class ModelOptions(Struct, frozen=True, rename="camel", kw_only=True):
    """`additional_properties` go to the provider as they are, and override nothing."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] | None = None
    allow_multiple_tool_calls: bool | None = None
    additional_properties: dict[str, Any] = {}


class Model(Struct, frozen=True, rename="camel", kw_only=True):
    id: str = ""
    provider: str | None = None
    api_type: str = "chat"  # one of `API_TYPES`; another is refused when the model is called
    connection: Connection | None = None
    options: ModelOptions | None = None


# ---- tools ------------------------------------------------------------------------------------------------------------


class Binding(Struct, frozen=True):
    """A parameter that is filled in from an input, and that the model never sees."""

    input: str


class _Tool(Struct, frozen=True, rename="camel", kw_only=True):
    kind: str
    name: str
    description: str = ""
    bindings: dict[str, Binding] = {}


class FunctionTool(_Tool, frozen=True, kw_only=True):
    """`strict` of None was not said: true by the schema's default, but the vectors send no strict declaration unasked."""

    kind: Literal["function"] = "function"
    parameters: tuple[Property, ...] = ()
    strict: bool | None = None


class ApprovalMode(Struct, frozen=True, rename="camel", kw_only=True):
    kind: Literal["always", "never", "specify"]
    always_require_approval_tools: tuple[str, ...] = ()
    never_require_approval_tools: tuple[str, ...] = ()


class McpTool(_Tool, frozen=True, kw_only=True):
    """The tools of an MCP server. `allowed_tools` of None are all of them."""

    kind: Literal["mcp"] = "mcp"
    connection: Connection | None = None
    server_name: str = ""
    server_description: str | None = None
    approval_mode: ApprovalMode | None = None
    allowed_tools: tuple[str, ...] | None = None


class OpenApiTool(_Tool, frozen=True, kw_only=True):
    """The operations of an API. `specification` is a path or an address, or the document where the file brought it in.

    `allowed_tools` of None are all of them."""

    kind: Literal["openapi"] = "openapi"
    connection: Connection | None = None
    specification: str | dict[str, Any] = ""
    allowed_tools: tuple[str, ...] | None = None


class PromptyTool(_Tool, frozen=True, kw_only=True):
    """Another prompty file. `path` is relative to this one's folder."""

    kind: Literal["prompty"] = "prompty"
    path: str = ""
    mode: Literal["single", "agentic"] = "single"


class CustomTool(_Tool, frozen=True, kw_only=True):
    """Any other kind: the word in the file is kept, since it finds the handler."""

    connection: Connection | None = None
    options: dict[str, Any] = {}


Tool: TypeAlias = FunctionTool | McpTool | OpenApiTool | PromptyTool | CustomTool


# ---- template and file --------------------------------------------------------------------------------------------------


class Format(Struct, frozen=True, rename="camel", kw_only=True):
    """`strict` of None was not said. The schema's default is false, the reference's true: the renderer decides."""

    kind: str = "jinja2"
    strict: bool | None = None
    options: dict[str, Any] = {}


class Parser(Struct, frozen=True, rename="camel", kw_only=True):
    kind: str = "prompty"
    options: dict[str, Any] = {}


class Template(Struct, frozen=True, rename="camel", kw_only=True):
    format: Format = Format()
    parser: Parser = Parser()


class Host:
    """What the loading program allows a file, and the files below it: folders to read from, an environment instead of the
    process's. It is no part of the file: two files that say the same are equal, whatever program loaded them. And it is never
    shown: there are keys in an environment."""

    __slots__ = ("_parts", "env", "files", "roots")

    def __init__(
        self,
        roots: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        files: Files | None = None,
        parts: tuple[object, ...] = (),
    ) -> None:
        self.roots = tuple(roots)
        self.env = env
        self.files = files  # what the files are read with
        self._parts = parts

    def keep(self, prompty: Prompty) -> AgentFile | None:
        """What a file was read from; none if it was changed since, in code."""
        if self.files is None or prompty.path is None or any(map(operator.is_not, self._parts, _parts(prompty))):
            return None
        return self.files.keep(Path(prompty.path))

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Host)

    def __hash__(self) -> int:
        return hash(None)

    def __repr__(self) -> str:
        return f"Host({len(self.roots)} folders)"


class Prompty(Struct, frozen=True, rename="camel", kw_only=True):
    """A file as an agent. `instructions` is its body, which begins in line `body_line` of the file `path`; in none (0) where
    it stands elsewhere and was brought in."""

    kind: Literal["prompt"] = "prompt"

    name: str = ""
    display_name: str = ""
    description: str = ""
    metadata: dict[str, Any] = {}
    model: Model | None = None
    inputs: tuple[Property, ...] = ()
    outputs: tuple[Property, ...] = ()
    tools: tuple[Tool, ...] = ()
    agents: tuple[str, ...] = ()  # names of others that are its tools; Ronda's own, no part of the format
    template: Template = Template()
    instructions: str = ""
    path: str | None = None
    body_line: int = 1
    host: Host | None = None

    @property
    def has_conversation(self) -> bool:
        """Its model talks. Others make one thing of one request: a vector, an image."""
        return self.model is None or self.model.api_type not in ("embedding", "image")


def _parts(prompty: Prompty) -> tuple[object, ...]:
    """What decides how it runs."""
    return (
        prompty.model,
        prompty.inputs,
        prompty.outputs,
        prompty.tools,
        prompty.agents,
        prompty.template,
        prompty.instructions,
    )


def with_host(prompty: Prompty, roots: Sequence[str], env: Mapping[str, str] | None, files: Files) -> Prompty:
    """A file as it was read: what it was read with is known, and what it reads later is read in the same way."""
    return msgspec.structs.replace(prompty, host=Host(roots, env, files, _parts(prompty)))


def for_one_run(prompty: Prompty) -> Prompty:
    """The same, whose run is opened again with what that run has read."""
    host = prompty.host
    if host is None or host.files is None:
        return prompty
    return msgspec.structs.replace(prompty, host=Host(host.roots, host.env, host.files.branch(), host._parts))


def to_dict(value: Prompty) -> dict[str, Any]:
    """The specification's JSON, every default written out; a section that the file does not have is None."""
    known: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(msgspec.structs.replace(value, host=None)))
    del known["path"], known["bodyLine"], known["host"]
    if not value.agents:
        del known["agents"]
    for section in ("metadata", "inputs", "outputs", "tools"):
        known[section] = known[section] or None
    for tool in known["tools"] or ():
        if tool["kind"] == "function" and tool["strict"] is None:
            tool["strict"] = True
    for owner in (known["model"], *(known["tools"] or ())):
        if owner and isinstance(owner.get("connection"), dict):
            connection = owner["connection"]
            owner["connection"] = {**connection.pop("extra"), **connection}
    return known
