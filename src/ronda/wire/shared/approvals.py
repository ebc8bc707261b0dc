"""Questions about calls as clients are told about them, and what clients decide: the same on every door.

out   agentic_tool_approval_required  {approval_id, session_id, round, tool {source, kind, label}, arguments, …}
in    {id, decision, message?, arguments?, remember_for_session?}, in a request's `approvals` or as a body of its own
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import Answered, Asked
from ronda.core.parts import NULL
from ronda.core.plan import ToolSpec
from ronda.wire.codec.json import as_json
from ronda.wire.shared.fields import bad, check_count, field
from ronda.wire.web.search import EXTRACT, SEARCH

EVENT: Final = "agentic_tool_approval_required"
REQUIRES_ACTION: Final = "requires_action"  # the status of an answer that waits for a person
MAX_DECISIONS: Final = 64
FATE: Final = (
    "read (ours): `[{id, decision, message?, arguments?, remember_for_session?}]`: what was decided about the calls that an "
    "answer waits for. The answer goes on, and messages are not read; an entry without a decision waits for what others decide"
)

# ---- out --------------------------------------------------------------------------------------------------------------

# What mistral.rs calls its own tools: kind and label.
_BY_TYPE: Final = {
    "code_execution": ("code_execution", "Python code"),
    "shell": ("shell", "Shell command"),
}
_BY_NAME: Final = {
    SEARCH: ("web_search", "Web search"),
    EXTRACT: ("web_search", "Web page extraction"),
    **dict.fromkeys(
        ("mistralrs_read_file", "mistralrs_list_files", "read_file", "list_files"), ("file", "File access")
    ),
    "mistralrs_surface_outputs": ("file", "File outputs"),
}
_SOURCES: Final = {"mcp": ("mcp", "custom"), "dispatch": ("external", "external")}


def write_tool(name: str, spec: ToolSpec | None) -> dict[str, str]:
    """What a tool is, to the person who decides about a call of it."""
    known = None
    if spec is not None and spec.kind in ("builtin", "function"):
        known = _BY_TYPE.get(spec.tool_type) or _BY_NAME.get(name)
    if known is not None:
        return {"source": "built_in", "kind": known[0], "label": known[1]}
    source, kind = _SOURCES.get("" if spec is None else spec.kind, ("user", "custom"))
    return {"source": source, "kind": kind, "label": name}


class Approval(Struct, frozen=True, gc=False):
    """A question, and how clients are told about it."""

    question: Asked
    spec: ToolSpec | None
    event: dict[str, Any]  # without its type


def approval_of(question: Asked, spec: ToolSpec | None, session: str, round_index: int) -> Approval:
    event: dict[str, Any] = {
        "approval_id": question.id,
        "session_id": session,
        "round": round_index,
        "tool": write_tool(question.tool, spec),
        "arguments": _arguments(question, spec),
        "tool_name": question.tool,
        "tool_call_id": question.call_id,
        "expires_at": question.expires_at or None,
    }
    if question.cause == "taint":
        event["reason"] = "this run has read private data and data of strangers, and the call would send data out"
    if question.kind == "input":
        schema = None if question.schema == NULL else question.schema
        event |= {"question": "input", "message": question.message, "schema": schema}
    return Approval(question, spec, event)


def _arguments(question: Asked, spec: ToolSpec | None) -> Any:
    """As the call would run with them. Of files that code is to give back only the names: programs for mistral.rs join them."""
    shown = as_json(question.arguments)
    if spec is None or spec.tool_type != "code_execution" or not isinstance(shown, Raw):
        return shown
    values = msgspec.json.decode(shown)
    outputs = values.get("outputs") if isinstance(values, dict) else None
    if not isinstance(outputs, list):
        return shown
    return {**values, "outputs": [str(one.get("name", "")) if isinstance(one, dict) else str(one) for one in outputs]}


def write_approval(approval: Approval) -> dict[str, Any]:
    """In an answer in one piece."""
    return {"type": EVENT, **approval.event}


# ---- in ---------------------------------------------------------------------------------------------------------------


class Decision(Struct, frozen=True):
    """`verdict` None: nothing is decided here; what others decide is waited for."""

    id: str
    verdict: Literal["approve", "deny"] | None = None
    message: str | None = None
    arguments: str | None = None
    remember: bool = False

    def answer(self, by: str) -> Answered | None:
        if self.verdict is None:
            return None
        remember = self.remember and self.verdict == "approve"
        return Answered(self.id, self.verdict, self.arguments, self.message, remember, by)


def read_decision(fields: Mapping[str, Raw], approval_id: str, path: str = "") -> Decision:
    """As mistral.rs has it; `arguments` are ours."""

    def at(name: str) -> str:
        return f"{path}.{name}" if path else name

    raw = {at(name): value for name, value in fields.items() if value != NULL}
    arguments = raw.get(at("arguments"))
    if arguments is not None and bytes(arguments).lstrip()[:1] != b"{":
        raise bad(at("arguments"), "must be an object: what the call is to run with instead")
    verdict: Literal["approve", "deny"] | None = field(raw, at("decision"), Literal["approve", "deny"], None)
    if arguments is not None and verdict != "approve":
        raise bad(at("arguments"), 'goes with "decision": "approve"')
    return Decision(
        approval_id,
        verdict,
        field(raw, at("message"), str, None),
        None if arguments is None else bytes(arguments).decode(),
        field(raw, at("remember_for_session"), bool, False),
    )


class _NamedDecision(Struct):
    id: str = ""
    approval_id: str = ""


def read_approvals(fields: Mapping[str, Raw]) -> tuple[Decision, ...]:
    """The member `approvals` of a request."""
    raws: list[Raw] = field(fields, "approvals", list[Raw], [])
    return decisions_of(raws)


def decisions_of(raws: Sequence[Raw]) -> tuple[Decision, ...]:
    check_count(raws, MAX_DECISIONS, "approvals")
    found: dict[str, Decision] = {}
    for index, raw in enumerate(raws):
        path = f"approvals[{index}]"
        named: _NamedDecision = field({path: raw}, path, _NamedDecision, _NamedDecision())
        approval_id = named.id or named.approval_id
        if not approval_id:
            raise bad(f"{path}.id", "is missing: the approval_id of the call")
        if approval_id in found:
            raise bad(f"{path}.id", "is decided twice in this request")
        found[approval_id] = read_decision(field({path: raw}, path, dict[str, Raw], {}), approval_id, path)
    return tuple(found.values())
