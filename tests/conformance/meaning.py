"""Two Chat Completions requests that look different and mean the same → equal values.

The same: a member that is null, empty or left out; text as a string or as a list of text parts; arguments as JSON text in any
spelling; a default written out; what a client adds for its own bookkeeping. Anything else differs.
"""

from __future__ import annotations

import json

from tests.conformance.recordings import Json

# Of an answer, not of a request: clients that echo an answer send these along, clients that rebuild it do not.
NOT_SENT = {"refusal", "annotations", "audio", "function_call", "index"}
# Where an upstream's reasoning may stand. Clients may send it back or leave it out.
REASONING = {"reasoning", "reasoning_content", "reasoning_details"}
# Of an answer, and in no vendor's documentation of requests: ours come back as they came.
THEIR_OWN = {"extra_content", "thought_signature", "executed_tools"}

ANY_OBJECT: tuple[Json, ...] = ({}, {"type": "object"}, {"type": "object", "properties": {}})


def message(said: Json) -> Json:
    """One message. Calls are there or not, never empty; so is content."""
    found = {name: value for name, value in said.items() if value not in (None, "", [], {})}
    if "content" in found:
        found["content"] = content(found["content"])
    if said["role"] == "assistant":
        found = {name: value for name, value in found.items() if name not in NOT_SENT | REASONING | THEIR_OWN}
        if "tool_calls" in found:
            found["tool_calls"] = [_call(call) for call in found["tool_calls"]]
    if said["role"] == "tool":
        found.pop("name", None)  # the call's id says it
    return found


def messages(said: Json) -> list[Json]:
    """A string in place of the list is what the user says; an assistant that says nothing says nothing."""
    if isinstance(said, str):
        said = [{"role": "user", "content": said}]
    found = [message(one) for one in said]
    return [one for one in found if one != {"role": "assistant"}]


def content(said: Json) -> Json:
    if isinstance(said, str):
        return said
    parts = [_part(part) for part in said]
    if all(part.keys() == {"type", "text"} for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(said: Json) -> Json:
    part = {name: value for name, value in said.items() if value is not None}
    for name in ("image_url", "video_url"):
        if isinstance(part.get(name), str):
            part[name] = {"url": part[name]}
    return {"type": part.pop("type", "text"), **part}


def _call(said: Json) -> Json:
    function = said.get("function") or {}
    return {
        **{name: value for name, value in said.items() if name not in THEIR_OWN | {"index"} and value is not None},
        "type": said.get("type") or "function",
        "function": {"name": function.get("name"), "arguments": arguments(function.get("arguments"))},
    }


def arguments(said: Json) -> Json:
    if not isinstance(said, str):
        return said or {}
    try:
        return json.loads(said) if said.strip() else {}
    except ValueError:
        return said


def tool(said: Json) -> Json:
    function = said.get("function") or {name: value for name, value in said.items() if name != "type"}
    function = {name: value for name, value in function.items() if value not in (None, "") and name != "type"}
    if function.get("parameters", {}) in ANY_OBJECT:
        function["parameters"] = {}
    around = {name: value for name, value in said.items() if value is not None} if "function" in said else {}
    return {**around, "type": said.get("type") or "function", "function": function}


def request(said: Json) -> dict[str, Json]:
    """All but the messages. What is about tools means nothing where there are none."""
    found = {name: value for name, value in said.items() if value is not None and name != "messages"}
    if tools := found.pop("tools", None):
        found["tools"] = [tool(one) for one in tools]
    else:
        found.pop("tool_choice", None)
        found.pop("parallel_tool_calls", None)
    if found.get("tool_choice") == "auto":
        del found["tool_choice"]
    if isinstance(found.get("stop"), str):
        found["stop"] = [found["stop"]]
    if (answer_format := found.get("response_format")) is not None:
        if answer_format == {"type": "text"}:
            del found["response_format"]
        elif isinstance(answer_format.get("json_schema"), dict):
            schema = {name: value for name, value in answer_format["json_schema"].items() if value is not None}
            found["response_format"] = {**answer_format, "json_schema": schema}
    return {name: value for name, value in found.items() if value not in ([], {}, False) or name not in _OFF}


_OFF = {"stream", "stop"}
