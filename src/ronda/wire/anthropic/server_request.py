"""Anthropic's Messages as its server, the way in: request bytes → turns, tools, choice, options; or a 400 that names the field.

What is known is checked here, before any model is called. What only an upstream of this dialect can use is kept apart, to be
given to one (`for_anthropic`) or translated, ignored or refused for any other (`for_others`): see `fields`. It does not know
which models, tools or sessions exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda._suggest import did_you_mean
from ronda.core.parts import NULL
from ronda.core.plan import Options, ResponseFormat, ToolSpec
from ronda.errors import BadRequest
from ronda.wire.anthropic import OLD_VERSION, VERSION
from ronda.wire.anthropic.blocks import Conversation, read_conversation
from ronda.wire.anthropic.declarations import (
    DeclaredTools,
    ReadChoice,
    read_choice,
    read_tools,
    toolset_name,
    undeclared,
)
from ronda.wire.anthropic.fields import FIELDS, IGNORED, NEEDED, OWN, PASSED_ON, REFUSED, SAMPLING, TABLE
from ronda.wire.anthropic.mcp_servers import apart_from_secrets, read_servers, without_servers
from ronda.wire.anthropic.pending_calls import read_decisions
from ronda.wire.anthropic.server_answer import MessageOptions
from ronda.wire.codec.json import encode
from ronda.wire.shared.capabilities import HOSTED, Need, read_needs
from ronda.wire.shared.door_request import DoorRequest
from ronda.wire.shared.fields import (
    bad,
    decode_field,
    field,
    read_fields,
    sane,
)
from ronda.wire.shared.formats import NamedSchema, read_response_format
from ronda.wire.shared.supplies import ANY_CONTAINER, ContainerWish, read_container, read_outputs

# A budget to think, in words: the efforts our own writer makes these budgets of, and what is between them.
_LITTLE: Final = 4096
_MIDDLING: Final = 12288

_SKILLS: Final = "container.skills"
_CODE: Final = ("python", "shell")


class MessagesRequest(DoorRequest, frozen=True, kw_only=True):
    answer: MessageOptions = MessageOptions()
    own: dict[str, Raw] = msgspec.field(default_factory=dict)  # fields of Anthropic's, as they came
    effort: str | None = None  # what they say of reasoning, in the words of all other upstreams
    elsewhere: tuple[tuple[str, str], ...] = ()  # what cannot be had from another upstream: the field and why
    own_needs: tuple[Need, ...] = ()  # what Anthropic would do itself
    own_container: ContainerWish = ANY_CONTAINER  # where Anthropic would run code
    every: tuple[ToolSpec, ...] = ()  # the caller's tools and Anthropic's own


def read_request(body: bytes, version: str | None = None, betas: str | None = None) -> MessagesRequest:
    """`version` and `betas` are what the headers say."""
    if version not in (None, OLD_VERSION, VERSION):
        known = f'"{OLD_VERSION}" and "{VERSION}"'
        raise BadRequest(
            f"'anthropic-version' is {version[:40]!r}; this server knows {known}", param="anthropic-version"
        )
    fields = read_fields(body)
    if decisions := read_decisions(fields):
        return MessagesRequest(model="", turns=(), stream=field(fields, "stream", bool, False), decisions=decisions)
    _refuse(fields, version)
    own = {name: value.copy() for name, value in fields.items() if name in OWN or name not in FIELDS}
    wanted = [
        *field(fields, "betas", list[str], []),
        *[name.strip() for name in (betas or "").split(",") if name.strip()],
    ]
    if wanted:
        own["betas"] = Raw(encode(wanted))
    conversation = read_conversation(fields, version)
    declared = read_tools(field(fields, "tools", list[Raw], []))
    chosen = read_choice(fields["tool_choice"]) if "tool_choice" in fields else ReadChoice()
    config = _read_config(fields, own)
    effort = _read_effort(fields, config)
    _check_own(fields)
    container = read_container(fields["container"]) if "container" in fields else ANY_CONTAINER
    members = TABLE.read(fields)
    return MessagesRequest(
        turns=conversation.turns,
        tools=declared.tools,
        choice=chosen.choice,
        options=_read_options(fields, config, chosen, members.options),
        about={"metadata": own["metadata"]} if "metadata" in own else {},
        own=own,
        effort=effort,
        elsewhere=_elsewhere(own, conversation, declared),
        needs=read_needs(fields),
        own_container=container,
        outputs=read_outputs(fields),
        own_needs=(
            *([Need("container", _SKILLS, HOSTED["container"])] if container.skills else ()),
            *read_servers(field(fields, "mcp_servers", list[Raw], []), declared.toolsets),
            *declared.needs,
        ),
        every=declared.every,
        **{"model": "default", **members.request},
    )


def for_anthropic(request: MessagesRequest, here: Sequence[Need] = ()) -> MessagesRequest:
    """For an upstream that speaks this dialect: its own fields, and tools that it has itself; but for what is done `here`."""
    own = request.own
    names = {need.called for need in here if need.called}
    if servers := {need.server.label for need in here if need.server is not None}:
        own = without_servers(own, servers)
        names |= {toolset_name(label) for label in servers}
    container = ANY_CONTAINER
    if any(name in _CODE for need in here for name in need.capabilities):  # skills are where the code is
        container = request.own_container
        own = {name: value for name, value in own.items() if name != "container"}
        here = (*here, *[need for need in request.own_needs if need.path == _SKILLS and need not in here])
    _refuse_elsewhere(request, here)
    own, secrets = apart_from_secrets(own)
    # What is deferred Anthropic looks for itself.
    tools = [
        replace(tool, deferred=False) if tool.deferred else tool for tool in request.every if tool.name not in names
    ]
    declared = {tool.name for tool in tools} | names
    servers_left = [need.server.label for need in request.own_needs if need.server is not None]
    tools += [undeclared(server) for server in servers_left if toolset_name(server) not in declared]
    return replace(
        request,
        options=replace(request.options, extra={**request.options.extra, **own}) if own else request.options,
        tools=tuple(tools),
        needs=(*request.needs, *here),
        container=container,
        secrets=secrets,
    )


def _refuse_elsewhere(request: MessagesRequest, here: Sequence[Need]) -> None:
    """What only Anthropic can keep to, of tools that it does not run: raises BadRequest."""
    places = [need.path.removesuffix("type") for need in here]
    runs_code = any("python" in need.capabilities for need in here)
    for name, why in request.elsewhere:
        if name.startswith(tuple(places)) or (runs_code and name.endswith(".allowed_callers")):
            raise BadRequest(f"'{name}' is not supported with the tools of this server: {why}", param=name)


def for_others(request: MessagesRequest) -> MessagesRequest:
    for name, why in request.elsewhere:
        raise BadRequest(f"'{name}' is not supported with this model: {why}", param=name)
    request = replace(request, needs=(*request.needs, *request.own_needs), container=request.own_container)
    if request.effort is None or request.options.reasoning_effort is not None:
        return request
    return replace(request, options=replace(request.options, reasoning_effort=request.effort))


def _elsewhere(own: dict[str, Raw], conversation: Conversation, declared: DeclaredTools) -> tuple[tuple[str, str], ...]:
    request = [name for name in own if _is_asked(own, name) and name not in NEEDED]
    found = [(name, OWN[name].removeprefix("refused: ")) for name in request if OWN.get(name, "")[:7] == "refused"]
    found += [
        (name, f"it is unknown here; {did_you_mean(name, FIELDS)}".rstrip("; ")) for name in own if name not in OWN
    ]
    return (*found, *[("messages", one) for one in conversation.unknown], *declared.elsewhere)


def _is_asked(own: dict[str, Raw], name: str) -> bool:
    return name in own and bytes(own[name]) not in (b"[]", b"{}")  # of nothing there is no lack


# ---- the fields -------------------------------------------------------------------------------------------------------


def _refuse(fields: dict[str, Raw], version: str | None) -> None:
    for name in REFUSED:
        if name in fields and bytes(fields[name]) != b"false":
            # The SDK's tool runner begins with a thread; at this code it goes on without.
            code = "thread_unsupported_request" if name == "thread" else None
            raise BadRequest(f"'{name}' is not supported here: {REFUSED[name]}", param=name, code=code)
    if version == VERSION:
        for name in SAMPLING:
            if name in fields:
                raise bad(
                    name, f"is not taken by the API of {VERSION}; leave it out, or ask for the API of {OLD_VERSION}"
                )


class _Metadata(Struct, frozen=True):
    user_id: str | None = None


def _check_own(fields: dict[str, Raw]) -> None:
    """What is passed on or ignored must make sense anyway: a mistake in it is one."""
    field(fields, "metadata", _Metadata, None)
    field(fields, "service_tier", Literal["auto", "standard_only"], None)
    field(fields, "speed", Literal["standard", "fast"], None)
    for name in ("cache_control", "context_management", *IGNORED):
        if name in fields and bytes(fields[name])[:1] not in (b'"', b"{"):
            raise bad(name, "must be an object")


# ---- how to answer ----------------------------------------------------------------------------------------------------


def _read_options(fields: dict[str, Raw], config: _Config, chosen: ReadChoice, members: dict[str, Any]) -> Options:
    stop: list[str] = field(fields, "stop_sequences", list[str], [])
    if not all(stop):
        raise bad("stop_sequences", "has an empty text in it, which would stop at once")
    return Options(
        stop=tuple(stop),
        parallel_tool_calls=False if chosen.one_at_a_time else None,
        response_format=_read_format(fields, config),
        extra={name: fields[name].copy() for name in PASSED_ON if name in fields},
        **members,
    )


class _Thinking(Struct, frozen=True):
    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: int | None = None
    display: str | None = None  # of Anthropic's thoughts: ways to show them come and go, and it knows which it has


class _Config(Struct, frozen=True):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: Raw = NULL


def _read_config(fields: dict[str, Raw], own: dict[str, Raw]) -> _Config:
    """The format concerns every upstream and is taken out of what is Anthropic's own."""
    config: _Config = field(fields, "output_config", _Config, _Config())
    if config.format != NULL:
        rest: dict[str, Raw] = field(fields, "output_config", dict[str, Raw], {})
        del rest["format"]
        own["output_config"] = Raw(encode(rest))
        if not rest:
            del own["output_config"]
    return config


def _read_effort(fields: dict[str, Raw], config: _Config) -> str | None:
    thinking: _Thinking | None = field(fields, "thinking", _Thinking, None)
    if thinking is not None and thinking.type == "enabled":
        if thinking.budget_tokens is None:
            raise bad("thinking.budget_tokens", "is missing")
        if thinking.budget_tokens < 1:
            raise bad("thinking.budget_tokens", "must be at least 1")
        sane(thinking.budget_tokens, "thinking.budget_tokens")
    if thinking is not None and thinking.type == "disabled":
        return "none"
    if config.effort is not None:
        return "xhigh" if config.effort == "max" else config.effort
    if thinking is None:
        return None
    if thinking.budget_tokens is None:
        return "medium" if thinking.type == "adaptive" else "low"
    budget = thinking.budget_tokens
    return "low" if budget <= _LITTLE else "medium" if budget <= _MIDDLING else "high"


class _Format(NamedSchema, frozen=True, kw_only=True):
    type: Literal["json_schema"]
    schema: Raw


def _read_format(fields: dict[str, Raw], config: _Config) -> ResponseFormat | None:
    formats: dict[str, Raw] = {
        name: fields[name] for name in ("output_format", "response_format", "grammar") if name in fields
    }
    if config.format != NULL:
        formats["output_config.format"] = config.format
    if len(formats) > 1:
        first, second = list(formats)[:2]
        raise bad(second, f"and '{first}' are mutually exclusive; give one of them")
    for path, raw in formats.items():
        if path == "response_format":
            return read_response_format(raw)  # as our other doors know it
        if path != "grammar":
            answer_format: _Format = decode_field(raw, _Format, path)
            return answer_format.must_fit(path)
    return None
