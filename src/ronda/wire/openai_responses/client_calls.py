"""Calls that have items of their own and wait for the client: patches to apply, commands to run, approvals to give.

For the loop each is a call of a tool of the caller's, named for what it asks; its arguments are the item's members. Where a
request offers such a tool, a model of any other API is offered a function that takes the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL, Image, ToolResult
from ronda.core.plan import ToolSpec
from ronda.wire.codec.json import decode_members, decode_or, encode
from ronda.wire.openai_responses import API


class Waiting(NamedTuple):
    tool: str
    answer: str  # the type of the item that answers it


WAITING: Final[dict[str, Waiting]] = {
    "apply_patch_call": Waiting("apply_patch", "apply_patch_call_output"),
    "shell_call": Waiting("shell", "shell_call_output"),
    "local_shell_call": Waiting("local_shell", "local_shell_call_output"),
    "computer_call": Waiting("computer", "computer_call_output"),
    "mcp_approval_request": Waiting("mcp_approval", "mcp_approval_response"),
}
APPROVAL: Final = "mcp_approval"  # what a service of this API asks its client about a call that it would make itself
APPROVAL_ID: Final = "mcpr_"  # how ids of such questions begin
ANSWERS: Final = frozenset({waiting.answer for waiting in WAITING.values()})

_OWN: Final = frozenset({"type", "id", "call_id", "status", "created_by", "environment", "caller"})


class _Environment(Struct, frozen=True):
    type: str | None = None


class Place(Struct, frozen=True):
    """Where a call runs, as a tool or an item says it."""

    environment: _Environment | None = None


def waits(place: Place) -> bool:
    """False where the service runs it itself: a shell in a container of its own."""
    environment = place.environment
    return environment is None or environment.type in (None, "local")


def arguments_of(raw: Raw) -> str:
    """In one spelling, whatever the item's: a stream says it twice."""
    members = encode({name: value for name, value in decode_members(raw).items() if name not in _OWN})
    return msgspec.json.format(members, indent=-1).decode()


def item_of(tool: str, call_id: str, arguments: str) -> dict[str, Any]:
    """A call as the item that its client knows it by. What its client reads of it is there, whatever the model left out."""
    members: dict[str, Any] = decode_or({}, dict[str, Raw], arguments)
    if tool == APPROVAL:  # known by its own id only
        return {"type": "mcp_approval_request", "id": call_id, **members}
    if tool in ("shell", "local_shell"):
        whole = _exec if tool == "local_shell" else _commands
        action = decode_or(None, dict[str, Raw] | None, members.get("action", NULL))
        members = {"action": whole(members)} if action is None else {**members, "action": whole(action)}
    elif tool == "apply_patch" and "operation" not in members:
        members = {"operation": members}
    return {**members, "type": f"{tool}_call", "call_id": call_id}


def _exec(action: Mapping[str, Raw]) -> dict[str, Any]:
    """A program and its arguments; a line of text is one for a shell."""
    command: Any = decode_or([], list[str] | str, action.get("command", action.get("commands", NULL)))
    env: dict[str, str] = decode_or({}, dict[str, str], action.get("env", NULL))
    words = ["bash", "-lc", command] if isinstance(command, str) else command
    return {**action, "type": "exec", "command": words, "env": env}


def _commands(action: Mapping[str, Raw]) -> dict[str, Any]:
    commands: Any = decode_or([], list[str] | str, action.get("commands", action.get("command", NULL)))
    return {**action, "commands": [commands] if isinstance(commands, str) else commands}


class _Approval(Struct, frozen=True):
    approve: bool = False
    reason: str | None = None


def answer_of(answer: str, call_id: str, result: ToolResult) -> dict[str, Any]:
    """A result as the item that answers such a call. Nothing is approved that was not said to be."""
    text = result.content
    match answer:
        case "apply_patch_call_output":
            item: dict[str, Any] = {
                "call_id": call_id,
                "status": "failed" if result.failed else "completed",
                "output": text,
            }
        case "shell_call_output":
            ended = {"type": "exit", "exit_code": int(result.failed)}
            item = {"call_id": call_id, "output": [{"stdout": text, "stderr": "", "outcome": ended}]}
        case "local_shell_call_output":
            item = {"id": call_id, "output": text}
        case "computer_call_output":
            picture = next((one.url for one in result.attachments if type(one) is Image), None)
            screen = {"type": "computer_screenshot", "image_url": picture}
            item = {"call_id": call_id, "output": screen if picture is not None else {"type": "computer_screenshot"}}
        case _:
            approval: _Approval | bool = decode_or(False, _Approval | bool, text)
            if isinstance(approval, bool):
                approval = _Approval(approval)
            item = {"approval_request_id": call_id, "approve": approval.approve and not result.failed}
            if approval.reason is not None:
                item["reason"] = approval.reason
    return {"type": answer, **item}


# ---- what a request may offer -----------------------------------------------------------------------------------------


class _DeclaredCall(Struct, frozen=True):
    type: str | None = None


def is_waiting(tool: ToolSpec) -> bool:
    """A tool of the client's that this API has a type for."""
    is_native = tool.native != NULL and tool.native_api == API and tool.name in OFFERED
    return is_native and msgspec.json.decode(tool.native, type=_DeclaredCall).type == tool.name


class HostedStandIn(NamedTuple):
    description: str
    parameters: dict[str, Any]


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}

OFFERED: Final[dict[str, HostedStandIn]] = {
    "apply_patch": HostedStandIn(
        "Create, update or delete a file. `diff` is a unified diff without headers: in a new file every line begins with '+'.",
        _object(
            operation={
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                    "path": _TEXT,
                    "diff": _TEXT,
                },
                "required": ["type", "path"],
                "additionalProperties": False,
            }
        ),
    ),
    "shell": HostedStandIn(
        "Run commands in a shell on the user's machine, one after another.", _object(action=_object(commands=_TEXTS))
    ),
    "local_shell": HostedStandIn(
        "Run a command on the user's machine. `command` is the program and its arguments.",
        _object(
            action={
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": ["exec"]},
                    "command": _TEXTS,
                    "env": {"type": "object", "additionalProperties": _TEXT},
                    "working_directory": _TEXT,
                },
                "required": ["type", "command", "env"],
            }
        ),
    ),
}
