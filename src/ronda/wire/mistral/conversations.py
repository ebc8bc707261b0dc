"""Conversations as Mistral's API starts, continues and shows them: request bodies → what they ask; rows → JSON.

What a conversation is about is kept as JSON, `ConversationBody`. What was said in it is in the journal.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from msgspec import Meta, Raw, Struct, structs

from ronda.core.plan import Approval
from ronda.errors import BadRequest
from ronda.wire.codec.json import decode_or, decoder, encode
from ronda.wire.mistral.agents import AgentBody, check_agent, when
from ronda.wire.mistral.declarations import CompletionArgs, Disconnect, Guardrail, seconds_of
from ronda.wire.mistral.entries import Entry, read_inputs
from ronda.wire.mistral.handoffs import Execution
from ronda.wire.mistral.validation_errors import BODY, Invalid, read_body, refuse
from ronda.wire.shared.fields import DisabledTools


class Confirmation(Struct, frozen=True, forbid_unknown_fields=True):
    tool_call_id: str
    confirmation: Literal["allow", "deny"]


class _Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    stream: bool | None = None
    store: bool | None = True
    handoff_execution: Execution | None = None
    completion_args: CompletionArgs | None = None
    max_tool_rounds: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None  # ours
    truncate_sequence: bool | None = None  # ours
    on_disconnect: Disconnect | None = None  # ours
    agent_permission: Approval | None = None  # ours
    disabled_tools: DisabledTools | None = None  # ours
    background: bool | None = None  # ours


class Start(_Body, frozen=True, kw_only=True):
    inputs: str | list[Raw]
    instructions: str | None = None
    tools: list[Raw] | None = None
    guardrails: list[Guardrail] | None = None
    name: str | None = None
    description: str | None = None
    metadata: dict[str, Raw] | None = None
    agent_id: str | None = None
    agent_version: int | str | None = None
    model: Annotated[str, Meta(min_length=1)] | None = None


class Append(_Body, frozen=True, kw_only=True):
    inputs: str | list[Raw] | None = None
    tool_confirmations: list[Confirmation] | None = None


class Restart(_Body, frozen=True, kw_only=True):
    from_entry_id: str
    inputs: str | list[Raw] | None = None
    guardrails: list[Guardrail] | None = None
    metadata: dict[str, Raw] | None = None
    agent_version: int | str | None = None


class ConversationBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """With an agent, or with a model and what else an agent would say: `agent` then has it."""

    name: str | None = None
    description: str | None = None
    metadata: dict[str, Raw] | None = None
    agent_id: str | None = None
    agent_version: int | str | None = None
    agent: AgentBody | None = None


class Wish(Struct, frozen=True, kw_only=True):
    """What all three requests ask for."""

    entries: list[Entry]
    stream: bool
    store: bool
    args: CompletionArgs | None
    execution: Execution = "server"
    guardrails: list[Guardrail] | None = None
    max_tool_rounds: int | None = None
    truncates: bool = False
    lingers: float = 0.0
    permission: Approval = "auto"
    disabled_tools: tuple[str, ...] = ()
    background: bool = False
    confirmations: tuple[Confirmation, ...] = ()


def _wish(body: Start | Append | Restart) -> Wish:
    return Wish(
        entries=read_inputs(body.inputs),
        stream=bool(body.stream),
        store=body.store is not False,
        args=body.completion_args,
        execution=body.handoff_execution or "server",
        guardrails=getattr(body, "guardrails", None),
        max_tool_rounds=body.max_tool_rounds,
        truncates=bool(body.truncate_sequence),
        lingers=seconds_of(body.on_disconnect, body.background),
        background=bool(body.background),
        permission=body.agent_permission or "auto",
        disabled_tools=tuple(body.disabled_tools or ()),
    )


T = TypeVar("T")

_NOT_OPENAI: Final = (
    "this address is Mistral's: a conversation is started with 'agent_id' or 'model', and continued with 'inputs'. OpenAI's are "
    "not kept here; go on from a response with 'previous_response_id'"
)


_READ_AGAIN: Final = 256 * 1024


def read_start(body: bytes) -> tuple[ConversationBody, Wish]:
    body_fields = _read_theirs(body, Start)
    if (body_fields.agent_id is None) == (body_fields.model is None):
        refuse("value_error", BODY, "a conversation is with 'agent_id' or with 'model': give one of them")
    wish = _wish(body_fields)
    if not wish.entries:
        refuse("too_short", (*BODY, "inputs"), "List should have at least 1 item", [])
    about = ConversationBody(name=body_fields.name, description=body_fields.description, metadata=body_fields.metadata)
    if body_fields.model is not None:
        if body_fields.agent_version is not None:
            refuse("value_error", (*BODY, "agent_version"), "it goes with 'agent_id'", body_fields.agent_version)
        agent = AgentBody(
            model=body_fields.model,
            name="conversation",
            instructions=body_fields.instructions,
            tools=body_fields.tools,
            completion_args=body_fields.completion_args,
            guardrails=body_fields.guardrails,
        )
        # The arguments are the conversation's, so they hold for all answers.
        return structs.replace(about, agent=check_agent(agent)), structs.replace(wish, args=None, guardrails=None)
    for name in ("instructions", "tools"):
        if getattr(body_fields, name) is not None:
            refuse(
                "value_error", (*BODY, name), "it goes with 'model': an agent has its own", getattr(body_fields, name)
            )
    return structs.replace(about, agent_id=body_fields.agent_id, agent_version=body_fields.agent_version), wish


def _read_theirs(body: bytes, kind: type[T]) -> T:
    """Mistral's body, or a hint to a client that takes this for OpenAI's address."""
    try:
        return read_body(body, kind)
    except Invalid as error:
        if _is_openais(body, may_be_empty=kind is Start):
            raise BadRequest(_NOT_OPENAI, code="not_openai_conversations") from error
        raise


def _is_openais(body: bytes, *, may_be_empty: bool) -> bool:
    """`conversations.create()` and `update()` of OpenAI's SDK have the same addresses. They send items and metadata; the first
    may send nothing.

    A large body is not read a second time for the sake of a better message.
    """
    if len(body) > _READ_AGAIN:
        return False
    fields: dict[str, Raw] | None = decode_or(None, dict[str, Raw], body)
    return fields is not None and fields.keys() <= {"items", "metadata"} and (may_be_empty or bool(fields))


def read_append(body: bytes) -> Wish:
    body_fields = _read_theirs(body, Append)
    if body_fields.tool_confirmations and body_fields.inputs:
        msg = "next to 'tool_confirmations' there can be none: the answer goes on from the calls that are confirmed"
        refuse("value_error", (*BODY, "inputs"), msg)
    return structs.replace(_wish(body_fields), confirmations=tuple(body_fields.tool_confirmations or ()))


def read_restart(body: bytes) -> tuple[Restart, Wish]:
    body_fields = read_body(body, Restart)
    return body_fields, _wish(body_fields)


def restart_body(about: ConversationBody, body: Restart) -> ConversationBody:
    """What the new conversation is about."""
    metadata = about.metadata if body.metadata is None else body.metadata
    if about.agent is not None and body.agent_version is not None:
        msg = "this conversation is with a model, which has no versions"
        refuse("value_error", (*BODY, "agent_version"), msg, body.agent_version)
    return structs.replace(about, metadata=metadata, agent_version=body.agent_version)


_decode_body = decoder(ConversationBody).decode


def read_conversation(body: Raw) -> ConversationBody:
    about: ConversationBody = _decode_body(body)
    return about


def keep_conversation(about: ConversationBody) -> bytes:
    return encode(about)


def write_conversation(conversation_id: str, about: ConversationBody, created: float, updated: float) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": conversation_id,
        "object": "conversation",
        "created_at": when(created),
        "updated_at": when(updated),
        "name": about.name,
        "description": about.description,
        "metadata": about.metadata,
    }
    if (agent := about.agent) is None:
        return {**fields, "agent_id": about.agent_id, "agent_version": about.agent_version}
    return {
        **fields,
        "model": agent.model,
        "instructions": agent.instructions,
        "tools": agent.tools or [],
        "completion_args": agent.completion_args or {},
        "guardrails": agent.guardrails,
    }
