"""A Messages answer read the obvious way, to hold our readers against: no code of Ronda is used here."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from msgspec import Struct
from tests.conformance.recordings import Exchange, Json, read_files

_FILES = ("anthropic.jsonl", "compatible/vertex.jsonl")


class Said(Struct):
    """`content` is what a plain answer holds, or what the events of a stream come to."""

    content: list[Json] = []
    stop_reason: str | None = None
    usage: dict[str, Json] = {}
    container: str | None = None

    def all(self, kind: str, member: str) -> str:
        return "".join(block[member] for block in self.content if block["type"] == kind)

    @property
    def calls(self) -> list[Json]:
        return [block for block in self.content if block["type"] == "tool_use"]

    @property
    def stop(self) -> str:
        stops = {"tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
        return stops.get(self.stop_reason or "", "stop")

    @property
    def counts(self) -> tuple[int, int, int, int]:
        usage = self.usage
        cached = usage.get("cache_read_input_tokens") or 0
        made = usage.get("cache_creation_input_tokens") or 0
        thought = (usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0
        return ((usage.get("input_tokens") or 0) + cached + made, usage.get("output_tokens") or 0, cached, thought)


@cache
def exchanges(data: Path) -> list[Exchange]:
    """Everything recorded that speaks Messages, known by its address; counting tokens is another call."""
    found = read_files(data / "traffic", _FILES)
    return [one for one in found if "/v1/messages" in one.url and "count_tokens" not in one.url]


def is_answer(exchange: Exchange) -> bool:
    return exchange.status < 400 and (exchange.sse is not None or isinstance(exchange.body, dict))


def read(exchange: Exchange) -> Said:
    if exchange.sse is not None:
        return _read_stream(exchange.sse)
    body = exchange.body
    container = (body.get("container") or {}).get("id")
    return Said(body["content"], body["stop_reason"], body["usage"], container)


def events(sse: str) -> list[Json]:
    return [json.loads(line[5:]) for line in sse.splitlines() if line.startswith("data:")]


def _read_stream(sse: str) -> Said:
    said = Said(content=[], usage={})
    inputs: dict[int, str] = {}
    for event in events(sse):
        if event["type"] == "message_start":
            said.usage = {**event["message"]["usage"]}
        elif event["type"] == "content_block_start":
            assert event["index"] == len(said.content)
            said.content.append(event["content_block"])
        elif event["type"] == "content_block_delta":
            block, delta = said.content[event["index"]], event["delta"]
            if delta["type"] == "input_json_delta":
                inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
            elif delta["type"] == "citations_delta":
                block["citations"].append(delta["citation"])
            elif delta["type"] == "compaction_delta":  # comes in one piece
                block.update({name: value for name, value in delta.items() if name != "type"})
            else:
                member = delta["type"].removesuffix("_delta")
                block[member] += delta[member]
        elif event["type"] == "message_delta":
            said.stop_reason = event["delta"]["stop_reason"]
            said.container = (event["delta"].get("container") or {}).get("id")
            said.usage.update(event["usage"])
    for at, text in inputs.items():
        said.content[at]["input"] = json.loads(text) if text else {}
    return said
