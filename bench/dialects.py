"""The scripted model's answers in the dialects beside Chat Completions: a call or the answer → bodies and events.

Mistral speaks the same as Chat on the same path, apart from its ids, which `upstream` writes for all dialects.
"""

import json
from typing import Any, NamedTuple

Json = dict[str, Any]


class Said(NamedTuple):
    """What the model says this time: a call with these arguments, or the pieces of its answer."""

    model: str
    number: int
    arguments: str
    words: list[str]

    @property
    def text(self) -> str:
        return "".join(self.words)

    @property
    def scraps(self) -> list[str]:
        """Models stream arguments in scraps."""
        text = self.arguments
        return [text[:4], text[4:5], text[5:-2], text[-2:]]


def event(name: str, body: Json) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json.dumps(body, separators=(",", ":")).encode())


# ---- Responses --------------------------------------------------------------------------------------------------------


def response_item(said: Said, status: str = "completed") -> Json:
    if said.arguments:
        call = {"call_id": f"call{said.number:05d}", "name": "lookup", "arguments": said.arguments}
        return {"type": "function_call", "id": f"fc_{said.number}", "status": status, **call}
    content = [{"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}]
    return {"type": "message", "id": f"msg_{said.number}", "status": status, "role": "assistant", "content": content}


def response_body(said: Said, status: str = "completed") -> Json:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return {
        "id": f"resp_{said.number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "model": said.model,
        "output": [response_item(said)] if status == "completed" else [],
        "usage": usage if status == "completed" else None,
    }


def response_events(said: Said) -> list[bytes]:
    events: list[Json] = [
        {"type": f"response.{name}", "response": response_body(said, "in_progress")}
        for name in ("created", "in_progress")
    ]
    done = response_item(said)
    place = {"item_id": done["id"], "output_index": 0}
    if said.arguments:
        events.append(
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**done, "status": "in_progress", "arguments": ""},
            }
        )
        events += [{"type": "response.function_call_arguments.delta", **place, "delta": scrap} for scrap in said.scraps]
        events.append({"type": "response.function_call_arguments.done", **place, "arguments": said.arguments})
    else:
        part = done["content"][0]
        place["content_index"] = 0
        events.append(
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**done, "status": "in_progress", "content": []},
            }
        )
        events.append({"type": "response.content_part.added", **place, "part": {**part, "text": ""}})
        events += [
            {"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in said.words
        ]
        events.append({"type": "response.output_text.done", **place, "text": said.text, "logprobs": []})
        events.append({"type": "response.content_part.done", **place, "part": part})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": done})
    events.append({"type": "response.completed", "response": response_body(said)})
    return [event(one["type"], {**one, "sequence_number": number}) for number, one in enumerate(events)]


# ---- Messages ---------------------------------------------------------------------------------------------------------


def message_block(said: Said) -> Json:
    if said.arguments:
        return {"type": "tool_use", "id": f"toolu_{said.number}", "name": "lookup", "input": json.loads(said.arguments)}
    return {"type": "text", "text": said.text}


def message_body(said: Said) -> Json:
    return {
        "id": f"msg_{said.number}",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": [message_block(said)],
        "stop_reason": "tool_use" if said.arguments else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def message_events(said: Said) -> list[bytes]:
    body = message_body(said)
    block = body["content"][0]
    opened = {**block, "input": {}} if said.arguments else {**block, "text": ""}
    deltas = [{"type": "input_json_delta", "partial_json": scrap} for scrap in said.scraps] if said.arguments else []
    deltas += [{"type": "text_delta", "text": word} for word in said.words] if not said.arguments else []
    events: list[Json] = [
        {"type": "message_start", "message": {**body, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": opened},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": body["stop_reason"], "stop_sequence": None},
            "usage": body["usage"],
        },
        {"type": "message_stop"},
    ]
    return [event(one["type"], one) for one in events]


# ---- Gemini -----------------------------------------------------------------------------------------------------------


def gemini_body(said: Said, parts: list[Json] | None = None, last: bool = True) -> Json:
    if parts is None:
        parts = [{"text": said.text}]
        if said.arguments:
            parts = [{"functionCall": {"name": "lookup", "args": json.loads(said.arguments)}}]
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = "STOP"
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": said.model,
        "responseId": str(said.number),
    }


def gemini_events(said: Said) -> list[bytes]:
    bodies = [gemini_body(said)]
    if not said.arguments:
        last = len(said.words) - 1
        bodies = [gemini_body(said, [{"text": word}], n == last) for n, word in enumerate(said.words)]
    return [b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\r\n\r\n" for body in bodies]
