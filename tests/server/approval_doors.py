"""What the tests of approvals share: an answer that waits, at any door, and the door's own request that decides."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.interaction.doors import Json, Served, soon
from tests.interaction.every_door import PATHS, Heard, body_for, read_plain, read_stream
from tests.server.runs_door import get, post

EVENT = "agentic_tool_approval_required"
KEYS = {"authorization": "Bearer test", "anthropic-version": "2023-06-01"}


@dataclass
class Pause:
    """An answer that waits for a person."""

    name: str
    answer: Json  # the whole of it, as the dialect has it
    approvals: list[Json]
    events: list[tuple[str, Json]]

    @property
    def ids(self) -> list[str]:
        return [one["approval_id"] for one in self.approvals]


async def send(served: Served, path: str, body: Json) -> tuple[int, bytes, bool]:
    async with soon(), served.http.post(f"{served.url}/{path}", json=body, headers=KEYS) as answer:
        return answer.status, await answer.read(), answer.content_type == "text/event-stream"


def sse(data: bytes) -> list[tuple[str, Json]]:
    """The name and the JSON of each event of a stream."""
    blocks = [block.split("\n") for block in data.decode().split("\n\n") if block and not block.startswith(":")]
    fields = [dict(line.split(": ", 1) for line in block) for block in blocks]
    return [(one.get("event", ""), json.loads(one["data"])) for one in fields if one["data"] != "[DONE]"]


async def pause(served: Served, name: str, stream: bool, more: Json | None = None, **fields: Any) -> Pause:
    status, data, is_stream = await send(served, PATHS[name], {**body_for(name, stream, **fields), **(more or {})})
    assert (status, is_stream) == (200, stream), data
    return paused(name, data, stream)


def paused(name: str, data: bytes, stream: bool) -> Pause:
    if not stream:
        answer = json.loads(data)
        return Pause(name, answer, answer["approvals"], [])
    events = sse(data)
    last = next(
        event for _, event in reversed(events) if "approvals" in event or "approvals" in event.get("response", {})
    )
    answer = last.get("response", last)
    match name:
        case "messages":
            answer = {**answer, "content": blocks(events)}
        case "conversations":
            answer = {**answer, "conversation_id": events[0][1]["conversation_id"]}
            answer["outputs"] = [event for kind, event in events if kind == "function.call.delta"]
    return Pause(name, answer, answer["approvals"], events)


def blocks(events: list[tuple[str, Json]]) -> list[Json]:
    """The blocks of a message, added up."""
    found: list[Json] = []
    inputs: dict[int, str] = {}
    for kind, event in events:
        if kind == "content_block_start":
            found.append({**event["content_block"]})
        elif kind == "content_block_delta" and "partial_json" in event["delta"]:
            inputs[event["index"]] = inputs.get(event["index"], "") + event["delta"]["partial_json"]
    for index, text in inputs.items():
        found[index]["input"] = json.loads(text)
    return found


def deciding(paused: Pause, stream: bool, verdict: str = "approve", message: str | None = None) -> tuple[str, Json]:
    """The door's own request that decides about all that waits: its address and its body."""
    body: Json = {"stream": stream}
    entries = [
        {"id": approval_id, "decision": verdict, **({"message": message} if message else {})}
        for approval_id in paused.ids
    ]
    match paused.name:
        case "chat":
            return PATHS["chat"], {**body, "messages": [], "approvals": entries}
        case "completions":
            return PATHS["completions"], {**body, "agent_id": "default", "messages": [], "approvals": entries}
        case "messages":
            said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": paused.answer["content"]}]
            return PATHS["messages"], {**body, "max_tokens": 99, "messages": said, "approvals": entries}
        case "responses":
            reason = {"reason": message} if message else {}
            answers = [
                {
                    "type": "mcp_approval_response",
                    "approval_request_id": approval_id,
                    "approve": verdict == "approve",
                    **reason,
                }
                for approval_id in paused.ids
            ]
            return PATHS["responses"], {**body, "previous_response_id": paused.answer["id"], "input": answers}
    words = [
        {"tool_call_id": entry["tool_call_id"], "confirmation": "allow" if verdict == "approve" else "deny"}
        for entry in paused.answer["outputs"]
        if entry.get("confirmation_status") == "pending"
    ]
    return f"conversations/{paused.answer['conversation_id']}", {**body, "tool_confirmations": words}


async def decide(served: Served, paused: Pause, stream: bool, verdict: str = "approve", **more: Any) -> Heard:
    """What the door's own next request gets."""
    path, body = deciding(paused, stream, verdict, **more)
    status, data, is_stream = await send(served, path, body)
    return read_stream(paused.name, data) if is_stream else read_plain(paused.name, data, status)


async def post_decision(served: Served, id: str, key: str = "test", **body: Any) -> tuple[int, Json]:
    return await post(served, f"/agent/approvals/{id}", {"decision": "approve", **body}, key)


async def waiting(served: Served, key: str = "test") -> list[Json]:
    _, found = await get(served, "/agent/approvals", key)
    data: list[Json] = found["data"]
    return data


async def until_asked(served: Served) -> Json:
    """The first that waits, once one does."""
    async with soon():
        while not (found := await waiting(served)):
            pass
    return found[0]


async def watch(
    served: Served, name: str, decide: Callable[[Json], Awaitable[object]] | None = None, **more: Any
) -> Heard:
    """A stream that waits, read to its end. `decide` is told about what is asked, as soon as the stream says it."""
    body = body_for(name, True, **more)
    async with soon(), served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=KEYS) as answer:
        assert answer.status == 200, await answer.text()
        data = left = b""
        async for piece in answer.content.iter_any():
            data += piece
            *whole, left = (left + piece).split(b"\n\n")
            for _, event in sse(b"".join([one + b"\n\n" for one in whole])):
                asked = event.get(EVENT, event if event.get("type") == EVENT else None)
                if asked is not None and decide is not None:
                    await decide(asked)
    heard = read_stream(name, data)
    heard.events = sse(data)
    return heard
