"""Recorded traffic of the Responses API: where it is, and an answer read the obvious way. No code of Ronda is used here.

Whole answers are looked up. Of streams, words and calls are glued together from their deltas, and the items are those of
the last event.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from msgspec import Struct
from tests.conformance.naive import chunks
from tests.conformance.recordings import Exchange, Json, read_files

FILES = ("openai-responses.jsonl", "compatible/*.jsonl")
# Other addresses under the same roof: they answer with a compacted conversation, and with a count.
OTHERS = ("/responses/compact", "/responses/input_tokens")
CALLS = ("function_call", "custom_tool_call")
# Items that the client answers as well, and what each asks for.
WAITING = {
    "apply_patch_call": "apply_patch",
    "shell_call": "shell",
    "local_shell_call": "local_shell",
    "computer_call": "computer",
    "mcp_approval_request": "mcp_approval",
}
_AROUND = ("type", "id", "call_id", "status", "created_by", "environment", "caller")


class Said(Struct):
    """`calls` are (call_id, name, arguments) as they came; of items that wait, their members instead of arguments.

    `usage` is (input, output, cached, reasoning).
    """

    id: str
    text: str
    thoughts: list[str]
    refusal: str
    calls: list[list[Json]]
    status: str
    reason: str | None
    usage: tuple[int, int, int, int]
    output: list[Json]
    done: list[Json]  # the items as they were when each was done; of a plain answer, the same

    @property
    def stop(self) -> str:
        if self.status == "incomplete":
            return "content_filter" if self.reason == "content_filter" else "length"
        return "tool_calls" if self.calls else "stop"

    @property
    def reasoning(self) -> str:
        return "\n\n".join(self.thoughts)


@cache
def exchanges(data: Path) -> list[Exchange]:
    found = read_files(data / "traffic", FILES)
    return [one for one in found if "/responses" in one.url and not any(other in one.url for other in OTHERS)]


def is_answer(exchange: Exchange) -> bool:
    """It came to an end, and a good one."""
    if exchange.status >= 400:
        return False
    response = _response(exchange)
    return response is not None and response.get("status") in ("completed", "incomplete")


def read(exchange: Exchange) -> Said:
    response = _response(exchange)
    said = Said(
        response["id"], "", [], "", [], response["status"], None, (0, 0, 0, 0), response["output"], response["output"]
    )
    said.reason = (response.get("incomplete_details") or {}).get("reason")
    if usage := response.get("usage"):
        into, out = usage.get("input_tokens_details") or {}, usage.get("output_tokens_details") or {}
        said.usage = (
            usage["input_tokens"],
            usage["output_tokens"],
            into.get("cached_tokens") or 0,
            out.get("reasoning_tokens") or 0,
        )
    if exchange.sse is None:
        _look_up(said)
    else:
        _glue(said, chunks(exchange.sse))
    return said


def _response(exchange: Exchange) -> Json:
    if exchange.sse is None:
        return exchange.body
    return next((one["response"] for one in chunks(exchange.sse) if one["type"] in _LAST), None)


_LAST = ("response.completed", "response.incomplete", "response.failed")


def _look_up(said: Said) -> None:
    for item in said.output:
        if item["type"] == "message":
            said.text += "".join(part.get("text") or "" for part in item["content"])
            said.refusal += "".join(part.get("refusal") or "" for part in item["content"])
        elif item["type"] == "reasoning":
            said.thoughts += [part["text"] for part in item.get("content") or item["summary"]]
        elif item["type"] in CALLS:
            said.calls.append([item["call_id"], item["name"], item.get("arguments") or item.get("input") or ""])
        elif waits(item):
            said.calls.append(waiting_call(item))


def waits(item: Json) -> bool:
    where = (item.get("environment") or {}).get("type", "local")
    return item.get("type") in WAITING and where == "local"


def waiting_call(item: Json) -> list[Json]:
    members = {name: value for name, value in item.items() if name not in _AROUND}
    return [item.get("call_id") or item["id"], WAITING[item["type"]], members]


def _glue(said: Said, events: list[Json]) -> None:
    calls: dict[int, list[Json]] = {}
    thoughts: dict[tuple[int, int], str] = {}
    done: dict[int, Json] = {}
    for event in events:
        at = event.get("output_index")
        match event["type"]:
            case "response.output_text.delta":
                said.text += event["delta"]
            case "response.refusal.delta":
                said.refusal += event["delta"]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                key = (at, event.get("summary_index", event.get("content_index")))
                thoughts[key] = thoughts.get(key, "") + event["delta"]
            case "response.output_item.added" if event["item"]["type"] in CALLS:
                calls[at] = [event["item"]["call_id"], event["item"]["name"], ""]
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                calls[at][2] += event["delta"]
            case "response.output_item.done":
                done[at] = event["item"]
                if waits(event["item"]):
                    calls[at] = waiting_call(event["item"])
    said.thoughts = list(thoughts.values())
    said.calls = list(calls.values())
    said.done = [done.get(at, item) for at, item in enumerate(said.output)]
