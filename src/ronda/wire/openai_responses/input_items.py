"""Turns → the list of input items that a response was made from, each with an id of its own.

What the model was given, so earlier responses of a chain are in it too, and the tools that ran here with their results.
Instructions are not: a response has them in a member of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from ronda.core.parts import (
    AssistantTurn,
    Attachment,
    Audio,
    File,
    Image,
    Reasoning,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
    Video,
)
from ronda.core.run import Run
from ronda.wire.codec.json import encode
from ronda.wire.openai_responses.client_calls import item_of
from ronda.wire.openai_responses.resource import StoredOptions
from ronda.wire.openai_responses.tools import split_name
from ronda.wire.shared.call_ids import all_renamed, caller_ids
from ronda.wire.shared.custom_tools import input_of

_MARK = "in"  # tells the ids of input items from those of output items


def input_items(run: Run, answer_options: StoredOptions) -> list[dict[str, Any]]:
    turns = run.start.turns
    digits = run.id.removeprefix("run_")
    items: list[dict[str, Any]] = []
    for turn in all_renamed(turns[answer_options.lead : len(turns) - answer_options.tail], caller_ids(run.start)):
        for kind, item in _items(turn, answer_options):
            items.append({"id": f"{kind}_{digits}_{_MARK}{len(items)}", **item, "status": "completed"})
    return items


def item_named(item_id: str, run: Run, answer_options: StoredOptions, output: Sequence[bytes]) -> Raw | None:
    """An item of a response, by its id: one that went in, or one that came out."""
    if f"_{_MARK}" in item_id:
        return next((Raw(encode(item)) for item in input_items(run, answer_options) if item["id"] == item_id), None)
    sought = b'"id":%b,' % encode(item_id)
    return next((Raw(item) for item in output if sought in item[:200]), None)


def _items(turn: Turn, answer_options: StoredOptions) -> list[tuple[str, dict[str, Any]]]:
    match turn:
        case SystemTurn(text=text, role=role):
            return [("msg", _message(role, [{"type": "input_text", "text": text}]))]
        case UserTurn(parts=parts):
            return [("msg", _message("user", [write_part(part) for part in parts]))]
        case ToolTurn(results=results):
            return [
                (
                    "fco",
                    {
                        "type": "function_call_output",
                        "call_id": one.call_id,
                        "output": _output(one.content, one.attachments),
                    },
                )
                for one in results
            ]
        case AssistantTurn(parts=answer_parts):
            return [_assistant(part, answer_options) for part in answer_parts]


def _assistant(
    part: Text | Reasoning | Refusal | ToolCall, answer_options: StoredOptions
) -> tuple[str, dict[str, Any]]:
    match part:
        case Text(text=text):
            return "msg", _message(
                "assistant", [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
            )
        case Refusal(text=text):
            return "msg", _message("assistant", [{"type": "refusal", "refusal": text}])
        case Reasoning(text=text):
            return "rs", {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
        case ToolCall():
            if part.name in answer_options.waiting:
                return "call", {**item_of(part.name, part.id, part.arguments), "status": "completed"}
            if part.name in answer_options.customs:
                text = input_of(part.arguments)
                return "ctc", {"type": "custom_tool_call", "call_id": part.id, "name": part.name, "input": text}
            namespace, name = split_name(part.name, answer_options.namespaces)
            call = {"type": "function_call", "call_id": part.id, "name": name, "arguments": part.arguments}
            return "fc", call if namespace is None else {**call, "namespace": namespace}


def _message(role: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _output(text: str, attachments: Sequence[Attachment]) -> str | list[dict[str, Any]]:
    if not attachments:
        return text
    texts = [{"type": "input_text", "text": text}] if text else []
    return [*texts, *[write_part(part) for part in attachments]]


def write_part(part: UserPart) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "input_text", "text": text}
        case Image(url=url, detail=detail):
            return {"type": "input_image", "image_url": url, "detail": detail or "auto"}
        case Audio(data=data, format=audio_format):
            return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}}
        case Video(url=url):
            return {"type": "input_video", "video_url": url}
        case File(data=data, name=name, id=file_id):
            is_url = data is not None and data.startswith(("http://", "https://"))
            fields = {"filename": name, "file_id": file_id, "file_url" if is_url else "file_data": data}
            return {"type": "input_file", **{key: value for key, value in fields.items() if value is not None}}
