"""/v1/agents/completions as its server, the way in: request bytes → turns, tools, choice and options; or a 422.

Closed, as Mistral's own API is: a field that is not known is refused by name. It does not know which agents or upstreams
there are: what only some upstreams have an equivalent of is put aside as `hints`, for the upstreams that know them.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from ronda.core.parts import NULL, AssistantTurn, SystemTurn, ToolCall, ToolResult, ToolTurn, Turn, UserTurn
from ronda.core.plan import Approval, Options
from ronda.core.splice import SessionMode
from ronda.wire.codec.json import text_of
from ronda.wire.mistral.call_ids import made_up_id
from ronda.wire.mistral.chunks import Content, assistant_parts, result_parts, system_text, user_parts
from ronda.wire.mistral.declarations import (
    ChoiceWord,
    Disconnect,
    Effort,
    Format,
    Guardrail,
    NamedChoice,
    Penalty,
    Prediction,
    Seed,
    Tokens,
    raws,
    read_choice,
    read_format,
    read_stop,
    read_tools,
    seconds_of,
)
from ronda.wire.mistral.validation_errors import BODY, Loc, check_count, read_body, refuse
from ronda.wire.shared.approvals import decisions_of
from ronda.wire.shared.door_request import DoorRequest, OnBusy, SessionWish
from ronda.wire.shared.fields import MAX_MESSAGES, DisabledTools

MAX_CHOICES: Final = 8

_OF_THE_AGENT: Final = "it belongs to the agent"
REFUSED: Final[dict[str, str]] = {
    "model": _OF_THE_AGENT,
    "temperature": _OF_THE_AGENT,
    "top_p": _OF_THE_AGENT,
    "safe_prompt": _OF_THE_AGENT,
}


class CallFunction(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: str | dict[str, Raw] | None


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    function: CallFunction
    id: str | None = "null"
    type: Literal["function"] | None = "function"
    index: int | None = 0


class Message(Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant", "tool"] = "assistant"
    content: Content | UnsetType = UNSET
    tool_calls: list[Call] | None = None
    prefix: bool | None = False
    tool_call_id: str | None = None
    name: str | None = None


class CompletionBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    refused: ClassVar[dict[str, str]] = REFUSED

    messages: list[Message]
    agent_id: str
    max_tokens: Tokens | None = None
    stream: bool | None = None
    stop: str | list[str] | None = None
    random_seed: Seed | None = None
    metadata: dict[str, Raw] | None = None
    response_format: Format | None = None
    tools: list[Raw] | None = None
    tool_choice: ChoiceWord | NamedChoice | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None
    prediction: Prediction | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Effort | None = None
    prompt_mode: Literal["reasoning"] | None = None
    guardrails: list[Guardrail] | None = None
    prompt_cache_key: str | None = None
    # newer than the rest of it
    min_tokens: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    repetition_penalty: float | None = None
    top_k: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    prompt_logprobs: Literal[False] | None = None
    top_prompt_logprobs: Literal[0] | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    # ours
    max_tool_rounds: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    session_id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    session_mode: SessionMode | None = None
    on_busy: OnBusy | None = None
    inputs: dict[str, Any] | None = None
    truncate_sequence: bool | None = None
    on_disconnect: Disconnect | None = None
    agent_permission: Approval | None = None
    disabled_tools: DisabledTools | None = None
    background: bool | None = None
    approvals: list[Raw] | None = None
    grammar: Raw = NULL
    min_p: float | None = None
    typical_p: float | None = None
    logit_bias: dict[str, float] | None = None
    ignore_eos: bool | None = None
    enable_thinking: bool | None = None
    chat_template_kwargs: dict[str, Raw] | None = None
    guide_calls: bool | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    dry_sequence_breakers: list[str] | None = None


# Passed on under their own names.
_EXTRA: Final = (
    "presence_penalty", "frequency_penalty", "min_tokens", "repetition_penalty", "top_k", "logprobs", "top_logprobs", "min_p",
    "typical_p", "logit_bias", "ignore_eos", "enable_thinking", "chat_template_kwargs", "guide_calls", "dry_multiplier",
    "dry_base", "dry_allowed_length", "dry_sequence_breakers",
)  # fmt: skip
_HINTS: Final = ("prediction", "prompt_cache_key", "prompt_mode", "metadata", "guardrails")


class CompletionRequest(DoorRequest, frozen=True, kw_only=True):
    """`hints` are fields that only some upstreams know; `guardrail_level` says that a guardrail must be asked."""

    chose: bool = False  # a choice among the tools was made, which holds whatever the agent's is
    hints: dict[str, Raw] = field(default_factory=dict)
    guardrail_level: Literal["no", "if possible", "always"] = "no"


def _read_session(body: CompletionBody) -> SessionWish | None:
    name = body.session_id
    if name is None:
        for field_name in ("session_mode", "on_busy"):
            if (value := getattr(body, field_name)) is not None:
                refuse("value_error", (*BODY, field_name), "it is about a session; say which with 'session_id'", value)
        return None
    if not name.isprintable():
        refuse("value_error", (*BODY, "session_id"), "it has characters that cannot be printed", name)
    return SessionWish(name, body.session_mode or "auto", body.on_busy or "queue")


def read_completion(body: bytes) -> CompletionRequest:
    body_fields = read_body(body, CompletionBody)
    if body_fields.approvals:
        decisions = decisions_of(body_fields.approvals)
        return CompletionRequest(model="", turns=(), stream=bool(body_fields.stream), decisions=decisions)
    if not body_fields.messages:
        refuse("too_short", (*BODY, "messages"), "List should have at least 1 item", [])
    check_count(body_fields.messages, MAX_MESSAGES, (*BODY, "messages"))
    extra = raws({name: getattr(body_fields, name) for name in _EXTRA})
    answer_format = read_format(body_fields.response_format, (*BODY, "response_format"))
    if body_fields.grammar != NULL:
        if answer_format is not None:
            refuse("value_error", (*BODY, "grammar"), "it cannot stand next to 'response_format'", body_fields.grammar)
        extra["grammar"] = body_fields.grammar.copy()
    options = Options(
        max_tokens=body_fields.max_tokens,
        stop=read_stop(body_fields.stop),
        seed=body_fields.random_seed,
        parallel_tool_calls=body_fields.parallel_tool_calls,
        reasoning_effort=body_fields.reasoning_effort,
        response_format=answer_format,
        extra=extra,
    )
    hints = raws({name: getattr(body_fields, name) for name in _HINTS})
    declared = read_tools(body_fields.tools, (*BODY, "tools"))
    about = {"metadata": hints["metadata"]} if "metadata" in hints else {}
    if body_fields.messages[-1].prefix:
        about["prefix"] = Raw(b"true")
    return CompletionRequest(
        model=body_fields.agent_id,
        turns=read_messages(body_fields.messages),
        tools=declared.specs,
        needs=declared.needs,
        choice=read_choice(body_fields.tool_choice),
        options=options,
        stream=bool(body_fields.stream),
        n=body_fields.n or 1,
        max_tool_rounds=body_fields.max_tool_rounds,
        session=_read_session(body_fields),
        lingers=seconds_of(body_fields.on_disconnect, body_fields.background),
        background=bool(body_fields.background),
        permission=body_fields.agent_permission or "auto",
        disabled_tools=tuple(body_fields.disabled_tools or ()),
        inputs=body_fields.inputs or {},
        truncates=bool(body_fields.truncate_sequence),
        about=about,
        chose=body_fields.tool_choice is not None,
        hints=hints,
        guardrail_level=guardrail_level(body_fields.guardrails),
    )


def guardrail_level(guardrails: list[Guardrail] | None) -> Literal["no", "if possible", "always"]:
    if not guardrails:
        return "no"
    return "always" if any(one.block_on_error for one in guardrails) else "if possible"


def read_messages(messages: list[Message]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    results: list[ToolResult] = []
    for index, message in enumerate(messages):
        loc: Loc = (*BODY, "messages", index)
        if message.prefix and (message.role != "assistant" or index < len(messages) - 1):
            refuse("value_error", (*loc, "prefix"), "only the last message, an assistant's, can be a prefix", True)
        if message.role == "tool":
            results.append(_read_result(message, results, turns, loc))
            continue
        if results:
            turns.append(ToolTurn(tuple(results)))
            results = []
        turns.append(_read_message(message, index, loc))
    if results:
        turns.append(ToolTurn(tuple(results)))
    return tuple(turns)


def _read_message(message: Message, at: int, loc: Loc) -> Turn:
    content = message.content
    for name in ("tool_call_id", "name"):
        if getattr(message, name) is not None:
            refuse("extra_forbidden", (*loc, name), "Extra inputs are not permitted", getattr(message, name))
    if message.role == "assistant":
        return _read_assistant(message, at, loc)
    if message.tool_calls is not None:
        refuse("extra_forbidden", (*loc, "tool_calls"), "Extra inputs are not permitted")
    if content is UNSET:
        refuse("missing", (*loc, "content"), "Field required", {"role": message.role})
    if message.role == "system":
        return SystemTurn(system_text(content, (*loc, "content")))
    if isinstance(content, list) and not content:
        refuse("too_short", (*loc, "content"), "List should have at least 1 item", [])
    return UserTurn(user_parts(content))


def _read_assistant(message: Message, at: int, loc: Loc) -> AssistantTurn:
    parts, native = assistant_parts(message.content)
    calls = message.tool_calls or []
    if message.content in (UNSET, None) and not calls:
        refuse("missing", (*loc, "content"), "an assistant's message needs 'content' or 'tool_calls'", {})
    seen: set[str] = set()
    for n, call in enumerate(calls):
        call_id = call.id
        if call_id is None or call_id in ("", "null"):  # the SDK's word for none is the string
            call_id = made_up_id("history", at, n)
        if call_id in seen:
            msg = f"'{call_id}' is the id of another call of this message"
            refuse("value_error", (*loc, "tool_calls", n, "id"), msg, call_id)
        seen.add(call_id)
        parts.append(ToolCall(call_id, call.function.name, text_of(call.function.arguments)))
    return AssistantTurn(tuple(parts), "tool_calls" if calls else "stop", native)


def _read_result(message: Message, before: list[ToolResult], turns: list[Turn], loc: Loc) -> ToolResult:
    if message.tool_calls is not None:
        refuse("extra_forbidden", (*loc, "tool_calls"), "Extra inputs are not permitted")
    if message.content is UNSET:
        refuse("missing", (*loc, "content"), "Field required", {"role": "tool"})
    call_id = message.tool_call_id
    if call_id is None or call_id in ("", "null"):
        # Its id may be left out: then it answers the next call in order.
        last = turns[-1] if turns else None
        call_ids = [call.id for call in last.calls] if isinstance(last, AssistantTurn) else []
        answered = {result.call_id for result in before}
        call_id = next((one for one in call_ids if one not in answered), None)
        if call_id is None:
            refuse("missing", (*loc, "tool_call_id"), "Field required: no call waits for this result", {"role": "tool"})
    text, attached = result_parts(message.content)
    return ToolResult(call_id, text, attachments=attached)
