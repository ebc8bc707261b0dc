"""What a request, an agent or a conversation says besides its messages: tools, the choice among them, how to sample.

The same objects stand in /v1/agents/completions, in agents and in conversations; each becomes our values here, or a 422.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Raw, Struct, structs

from ronda.core.plan import AUTO, NONE, Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.errors import quote_names
from ronda.schema.validate import check_schema
from ronda.wire.codec.json import encode
from ronda.wire.mistral.validation_errors import Invalid, Loc, check_count, problem, read_value, refuse
from ronda.wire.shared import capabilities
from ronda.wire.shared.capabilities import Need, fate
from ronda.wire.shared.fields import MAX_TOOLS, seconds_without_client
from ronda.wire.shared.mcp_servers import MAX_LABEL, NamedServer, ToolFilter

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")

Tokens: TypeAlias = Annotated[int, Meta(ge=1, le=2**53)]
Seed: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
ChoiceWord: TypeAlias = Literal["auto", "none", "any", "required"]


# What becomes of a run whose client is gone. (Ours.)
Disconnect: TypeAlias = Annotated[str, Meta(pattern=r"^(cancel|detach|grace:[0-9]{1,9})$")]


def seconds_of(on_disconnect: Disconnect | None, background: bool | None) -> float:
    """How long the runs of a request go on when its client is gone."""
    if background:
        return math.inf
    return 0.0 if on_disconnect is None else seconds_without_client(on_disconnect) or 0.0


class _KnownObject(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class Prediction(_KnownObject, frozen=True, omit_defaults=False):
    type: Literal["content"] = "content"
    content: str | None = ""


class JsonSchema(_KnownObject, frozen=True):
    name: str
    schema: Raw
    description: str | None = None
    strict: bool | None = None


class Format(_KnownObject, frozen=True):
    type: Literal["text", "json_object", "json_schema"] | None = None
    json_schema: JsonSchema | None = None


class FunctionName(_KnownObject, frozen=True):
    name: str


class NamedChoice(_KnownObject, frozen=True):
    function: FunctionName
    type: Literal["function"] | None = "function"


class Moderation(_KnownObject, frozen=True):
    model_name: str | None = None
    custom_category_thresholds: dict[str, Any] | None = None
    ignore_other_categories: bool | None = None
    action: Literal["none", "block"] | None = None


class Guardrail(_KnownObject, frozen=True):
    block_on_error: bool | None = False
    moderation_llm_v1: Moderation | None = None
    moderation_llm_v2: Moderation | None = None


class CompletionArgs(_KnownObject, frozen=True):
    """How an agent samples. A choice is a word here: the agent's tools may change without it."""

    stop: str | list[str] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_tokens: Tokens | None = None
    random_seed: Seed | None = None
    prediction: Prediction | None = None
    response_format: Format | None = None
    tool_choice: ChoiceWord | None = None
    reasoning_effort: Effort | None = None


# ---- tools ------------------------------------------------------------------------------------------------------------


class Function(_KnownObject, frozen=True):
    name: str
    parameters: Raw
    description: str | None = None
    strict: bool | None = None


class FunctionTool(_KnownObject, frozen=True):
    function: Function
    type: Literal["function"] | None = "function"


class ToolConfiguration(_KnownObject, frozen=True):
    include: list[str] | None = None
    exclude: list[str] | None = None
    requires_confirmation: list[str] | None = None
    skip_confirmation: list[str] | None = None


class Connector(_KnownObject, frozen=True):
    connector_id: Annotated[str, Meta(min_length=1, max_length=MAX_LABEL)]
    type: Literal["connector"] | None = "connector"
    authorization: dict[str, Any] | None = None
    tool_configuration: ToolConfiguration | None = None


class _TypedTool(Struct, frozen=True):
    type: str | None = None


class _ConfiguredTool(Struct, frozen=True):
    """A tool that Mistral runs itself, as far as it says who has to confirm its calls."""

    tool_configuration: ToolConfiguration | None = None


# Tools that Mistral runs itself, by their type.
HOSTED: Final = (
    "web_search",
    "web_search_premium",
    "code_interpreter",
    "image_generation",
    "document_library",
    "connector",
)
TOOLS: Final[dict[str, str]] = {
    "function": "read",
    **{name: fate(capabilities.HOSTED[name]) for name in HOSTED},
}


class DeclaredTools(Struct, frozen=True):
    """The caller's tools, and what the server must have."""

    specs: tuple[ToolSpec, ...] = ()
    needs: tuple[Need, ...] = ()


def read_tools(raws: Sequence[Raw] | None, loc: Loc) -> DeclaredTools:
    specs: dict[str, ToolSpec] = {}
    needs: list[Need] = []
    check_count(raws or (), MAX_TOOLS, loc)
    for index, raw in enumerate(raws or ()):
        spec = _known_tool(bytes(raw)) or _read_tool(raw, (*loc, index))
        if isinstance(spec, Need):
            needs.append(spec)
            continue
        if spec.name in specs:
            refuse("value_error", (*loc, index, "function", "name"), f"'{spec.name}' is declared twice", spec.name)
        specs[spec.name] = spec
    return DeclaredTools(tuple(specs.values()), tuple(needs))


@lru_cache(maxsize=512)  # a client declares the same tools with every request
def _known_tool(raw: bytes) -> ToolSpec | None:
    """A tool that can be used; None for one whose place must be said."""
    try:
        spec = _read_tool(Raw(raw), ())
    except Invalid:
        return None
    return spec if isinstance(spec, ToolSpec) else None


def _read_tool(raw: Raw, loc: Loc) -> ToolSpec | Need:
    kind = read_value(raw, _TypedTool, loc).type or "function"
    if kind == "connector":
        return _connector(raw, loc)
    if kind in HOSTED:
        return _with_confirmation(_need(kind, (*loc, "type")), read_value(raw, _ConfiguredTool, loc))
    if kind != "function":
        expected = quote_names(TOOLS)
        refuse("union_tag_invalid", (*loc, "type"), f"Input should be one of {expected}", kind)
    tool: FunctionTool = read_value(raw, FunctionTool, loc)
    function = tool.function
    inner = (*loc, "function")
    if not _NAME.fullmatch(function.name):
        msg = "String should be 1 to 64 letters, digits, '_', '-' or '.'"
        refuse("string_pattern_mismatch", (*inner, "name"), msg, function.name[:100])
    return _spec(function, read_schema(function.parameters, (*inner, "parameters")))


def _need(kind: str, loc: Loc) -> Need:
    found = Need(kind, ".".join(map(str, loc[1:])), capabilities.HOSTED[kind])
    return structs.replace(found, details=[problem("unavailable", loc, found.refusal, encode(kind))])


def _with_confirmation(need: Need, tool: _ConfiguredTool) -> Need:
    """Its calls, or those of some of the tools that do it here, wait for a person: by Mistral's name or by ours."""
    wanted = tool.tool_configuration
    names = () if wanted is None else tuple(wanted.requires_confirmation or ())
    return structs.replace(need, confirmed=names) if names else need


def _connector(raw: Raw, loc: Loc) -> Need:
    """The operator's MCP server of that name: no connector of Mistral's is to be had elsewhere."""
    tool: Connector = read_value(raw, Connector, loc)
    wanted = tool.tool_configuration or ToolConfiguration()
    server = NamedServer(
        label=tool.connector_id,
        configured=tool.connector_id,
        token=None if tool.authorization is None else "given",  # refused: such a server has its own
        allowed=ToolFilter(None if wanted.include is None else tuple(wanted.include), tuple(wanted.exclude or ())),
        always_asks=ToolFilter(tuple(wanted.requires_confirmation or ())),
    )
    return structs.replace(_need("connector", (*loc, "type")), server=server)


def _spec(function: Function, schema: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters.copy(),
        strict=function.strict,
        kind="caller",
        no_arguments_needed=not schema.get("required"),
    )


def read_schema(raw: Raw, loc: Loc) -> dict[str, Any]:
    schema: dict[str, Any] = read_value(raw, dict[str, Any], loc)
    if (wrong := check_schema(schema)) is not None:
        raise Invalid([problem("value_error", loc, f"it is not a JSON Schema: {wrong}", raw)])
    return schema


def read_choice(choice: ChoiceWord | NamedChoice | None) -> ToolChoice:
    match choice:
        case None | "auto":
            return AUTO
        case "none":
            return NONE
        case NamedChoice(function=function):
            return ToolChoice("required", (function.name,), named=True)
        case _:  # "any" and "required" mean the same
            return ToolChoice("required")


# ---- options ----------------------------------------------------------------------------------------------------------


def read_stop(stop: str | list[str] | None) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else tuple(stop or ())


def read_format(asked: Format | None, loc: Loc) -> ResponseFormat | None:
    if asked is None or asked.type in (None, "text"):
        return None
    if asked.type == "json_object":
        return ResponseFormat("json_object")
    schema = asked.json_schema
    if schema is None:
        refuse("missing", (*loc, "json_schema"), "Field required", {"type": asked.type})
    read_schema(schema.schema, (*loc, "json_schema", "schema"))
    return ResponseFormat("json_schema", schema.name, schema.schema.copy(), schema.strict, schema.description)


def read_args(args: CompletionArgs | None, loc: Loc) -> tuple[Options, ToolChoice]:
    """An agent's options; what only some upstreams know is `extra`, as in a request."""
    if args is None:
        return Options(), AUTO
    extra = {
        "presence_penalty": args.presence_penalty,
        "frequency_penalty": args.frequency_penalty,
        "prediction": args.prediction,
    }
    options = Options(
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        top_p=args.top_p,
        stop=read_stop(args.stop),
        seed=args.random_seed,
        reasoning_effort=args.reasoning_effort,
        response_format=read_format(args.response_format, (*loc, "response_format")),
        extra=raws(extra),
    )
    return options, read_choice(args.tool_choice)


def raws(values: dict[str, Any]) -> dict[str, Raw]:
    """What was said of these, as JSON to pass on."""
    return {name: Raw(encode(value)) for name, value in values.items() if value is not None}
