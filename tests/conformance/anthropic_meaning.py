"""Two Messages requests that look different and mean the same → equal values.

The same: a member that is null or left out; text as a string or as a list of text blocks; messages of one role in a row or
as one; a default written out. Anything else differs.
"""

from __future__ import annotations

from tests.conformance.recordings import Json


def messages(said: Json) -> list[Json]:
    found: list[Json] = []
    for message in said:
        content = [block(one) for one in _blocks(message["content"])]
        if found and found[-1]["role"] == message["role"]:
            found[-1]["content"] += content
        elif content:
            found.append({"role": message["role"], "content": content})
    return found


def _blocks(content: Json) -> Json:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def block(said: Json) -> Json:
    found = {name: value for name, value in said.items() if value is not None}
    if found["type"] == "tool_result":
        if not found.get("is_error"):
            found.pop("is_error", None)
        content = found.get("content", "")
        if not isinstance(content, str):
            content = [block(one) for one in content]
            if all(one.keys() == {"type", "text"} for one in content):
                content = "".join(one["text"] for one in content)
        found["content"] = content
    if found["type"] == "text" and found.get("citations") == []:
        del found["citations"]
    return found


def system(said: Json) -> Json:
    if said is None or isinstance(said, str):
        return said or None
    if all(one.keys() == {"type", "text"} for one in said):
        return "\n\n".join(one["text"] for one in said if one["text"].strip()) or None
    return said


def tool(said: Json) -> Json:
    found = {name: value for name, value in said.items() if value is not None}
    if found.get("type") == "custom":
        del found["type"]
    found.pop("eager_input_streaming", None)  # ours: arguments as they are written
    if not found.get("description"):
        found.pop("description", None)
    return found


def request(said: Json) -> dict[str, Json]:
    """All but the messages."""
    found = {name: value for name, value in said.items() if value not in (None, [], {}) and name != "messages"}
    if "system" in found:
        found["system"] = system(found["system"])
    if "tools" in found:
        found["tools"] = [tool(one) for one in found["tools"]]
    if found.get("tool_choice") == {"type": "auto"} or "tools" not in found:
        found.pop("tool_choice", None)
    if not found.get("stream"):
        found.pop("stream", None)
    return {name: value for name, value in found.items() if value is not None}
