"""Recorded input items → turns, and two ways to say an item → equal values. Only the core's values are used here.

What our parts can say becomes parts; the rest is kept in the API's own words, as a server of ours would keep it.
"""

from __future__ import annotations

import json
import unicodedata

from msgspec import Raw
from tests.conformance.recordings import Json
from tests.conformance.responses_recorded import waiting_call, waits

from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
    Attachment,
    File,
    Image,
    Native,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
)

API = "openai-responses@caller"  # whose words these are: see `ronda.wire.upstream.native`
WAITING_OUTPUTS = (
    "apply_patch_call_output",
    "computer_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "mcp_approval_response",
)
OUTPUTS = ("function_call_output", "custom_tool_call_output", *WAITING_OUTPUTS)
# Items of a client; all others are a model's. A tool search may be run by either.
CLIENTS = {
    *OUTPUTS,
    "additional_tools",
}


def items(input: Json) -> list[Json]:
    """A string in place of the list is what the user says."""
    return [{"role": "user", "content": input}] if isinstance(input, str) else input


def kind(item: Json) -> str:
    return str(item.get("type") or "message")


def is_clients(item: Json) -> bool:
    if kind(item) == "message":
        return bool(item["role"] != "assistant")
    if kind(item) == "tool_search_output":
        return bool(item.get("execution") == "client")
    return kind(item) in CLIENTS


# ---- turns ------------------------------------------------------------------------------------------------------------


def turns(said: list[Json]) -> list[Turn]:
    found: list[Turn] = []
    at = 0
    while at < len(said):
        end = at + 1
        if not is_clients(said[at]):
            while end < len(said) and not is_clients(said[end]):
                end += 1
            found.append(_assistant(said[at:end]))
        elif kind(said[at]) in OUTPUTS:
            while end < len(said) and kind(said[end]) in OUTPUTS:
                end += 1
            found.append(ToolTurn(tuple(_result(item) for item in said[at:end])))
        else:
            found.append(_client(said[at]))
        at = end
    return found


def native(said: list[Json]) -> Native:
    return Native(API, Raw(json.dumps([{"type": "message", **item} for item in said]).encode()))


def _assistant(said: list[Json]) -> AssistantTurn:
    parts: list[AssistantPart] = []
    plain = True
    for item in said:
        if kind(item) == "message":
            for part in content(item["content"]):
                plain = plain and not part.get("annotations") and not part.get("logprobs")
                parts.append(Refusal(part["refusal"]) if "refusal" in part else Text(part["text"]))
        elif kind(item) in ("function_call", "custom_tool_call"):
            parts.append(ToolCall(item["call_id"], item["name"], item.get("arguments") or item.get("input") or ""))
        elif waits(item):
            response_id, name, members = waiting_call(item)
            parts.append(ToolCall(response_id, name, json.dumps(members)))
        plain = plain and item.keys() <= {"type", "role", "content", "call_id", "name", "arguments"}
    return AssistantTurn(tuple(parts), native=None if plain else native(said))


def _client(item: Json) -> Turn:
    if kind(item) != "message":
        return UserTurn((), native=native([item]))
    if item["role"] != "user":
        text = "".join(part["text"] for part in content(item["content"]))
        return SystemTurn(text, item["role"])
    parts = [_part(part) for part in content(item["content"])]
    kept = tuple(part for part in parts if part is not None)
    return UserTurn(kept, native=native([item]) if len(kept) < len(parts) else None)


def _result(item: Json) -> ToolResult:
    if kind(item) in WAITING_OUTPUTS:
        call_id = item.get("call_id") or item.get("approval_request_id") or item["id"]
        return ToolResult(call_id, json.dumps(item.get("output")), native=native([item]))
    if isinstance(item["output"], str):
        return ToolResult(item["call_id"], item["output"])
    text, *rest = [_part(part) for part in item["output"]] or [None]
    if not isinstance(text, Text):
        text, rest = Text(""), [text, *rest]
    attachments: tuple[Attachment, ...] = tuple(part for part in rest if isinstance(part, Image | File))
    kept = native([item]) if len(attachments) < len(rest) else None
    return ToolResult(item["call_id"], text.text, attachments=attachments, native=kept)


def content(content: Json) -> list[Json]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def _part(part: Json) -> UserPart | None:
    """None for what our parts cannot say."""
    said = {name: value for name, value in part.items() if value is not None and name != "type"}
    match part["type"]:
        case "input_text" if said.keys() == {"text"}:
            return Text(part["text"])
        case "input_image" if "image_url" in said:
            return Image(part["image_url"], part.get("detail"))
        case "input_file":
            data = said.get("file_data") or said.get("file_url")
            if data and data.startswith(("data:audio/", "data:video/", "data:image/")):
                return None  # refused by the API, in this form
            return File(data, said.get("filename"), said.get("file_id"))
    return None


# ---- meaning ----------------------------------------------------------------------------------------------------------


def meaning(said: list[Json]) -> list[Json]:
    """The same: a member that is null, empty or left out; text as a string or as a list; arguments in any spelling.

    An assistant that says nothing says nothing.
    """
    return [_meaning(item) for item in said if not says_nothing(item)]


def says_nothing(item: Json) -> bool:
    return kind(item) == "message" and item["role"] == "assistant" and not item["content"]


def _meaning(item: Json) -> Json:
    found = {name: value for name, value in item.items() if value not in (None, [], {})}
    found["type"] = kind(item)
    for name in ("content", "output"):
        if isinstance(found.get(name), list) and kind(item) != "reasoning":
            found[name] = _text([_meaning_of_part(part) for part in found[name]])
    if isinstance(found.get("arguments"), str):
        found["arguments"] = _json(found["arguments"])
    return found


def _meaning_of_part(part: Json) -> Json:
    if not isinstance(part, dict):
        return part
    found = {name: value for name, value in part.items() if value not in (None, [], {})}
    return {
        **found,
        "type": {"output_text": "text", "input_text": "text"}.get(part.get("type") or "", part.get("type")),
    }


def _text(parts: list[Json]) -> Json:
    if all(isinstance(part, dict) and part.keys() == {"type", "text"} for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _json(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text


def covers(item: Json, echoed: Json) -> bool:
    """A client's echo of an item says nothing else than the item did. It may say less: no ids, no status, no citations.

    What the server itself did is known by its kind and its id: clients word it anew.
    """
    if kind(item) not in ("message", "reasoning", "function_call", "custom_tool_call"):
        return kind(item) == kind(echoed) and echoed.get("id", item.get("id")) == item.get("id")
    whole, part = _meaning(item), _meaning(echoed)
    if kind(item) == "message":
        whole, part = ({**one, "content": _words(one.get("content", ""))} for one in (whole, part))
    return all(whole.get(name) == value for name, value in part.items())


def _words(content: Json) -> str:
    """The text of a message. Recorders turned typographic marks to ASCII, in what was parsed and not in streams."""
    text = content if isinstance(content, str) else "".join(one.get("text") or one.get("refusal") for one in content)
    return unicodedata.normalize("NFKC", text).translate(_ASCII)


_ASCII = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014", "''\"\"--")
