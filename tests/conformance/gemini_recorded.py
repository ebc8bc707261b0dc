"""Recorded traffic of generateContent: where it is, an answer read the obvious way, and what `contents` mean.

No code of Ronda is used here. Meaning leaves out how a client spells things: snake_case or camelCase, base64 or base64url,
a text in one piece or in many, ids that the client made up, thoughts that it did not send back, and the word that there
is no signature.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from tests.conformance.recordings import Exchange, Json, read_files

SKIP = ("c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I", "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv")


@cache
def exchanges(data: Path) -> list[Exchange]:
    found = read_files(data / "traffic", ("gemini.jsonl", "compatible/vertex.jsonl"))
    found = [exchange for exchange in found if ":generateContent" in exchange.url or ":streamGenerate" in exchange.url]
    return [replace(exchange, request=_in_lists(exchange.request)) for exchange in found]


def _in_lists(request: Json) -> Json:
    """The API takes one content, and one part, where a list of them belongs."""
    if not isinstance(request, dict):
        return request
    found = dict(request)
    if isinstance(found.get("contents"), dict):
        found["contents"] = [found["contents"]]
    if isinstance(found.get("contents"), list):
        found["contents"] = [_with_parts(content) for content in found["contents"]]
    for name in ("systemInstruction", "system_instruction"):
        if name in found:
            found[name] = _with_parts(found[name])
    return found


def _with_parts(content: Json) -> Json:
    if isinstance(content, dict) and isinstance(content.get("parts"), dict):
        return {**content, "parts": [content["parts"]]}
    return content


def model_in(exchange: Exchange) -> str:
    return exchange.url.split("/models/", 1)[1].split(":", 1)[0]


def is_stream(exchange: Exchange) -> bool:
    return exchange.sse is not None or isinstance(exchange.body, list)


# ---- answers ------------------------------------------------------------------------------------------------------------


class Said(Struct):
    """`parts` as they came; `calls` are (id, name, arguments)."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, Json]] = []
    finish: Json = None
    parts: list[Json] = []
    usage: dict[str, int] = {}
    logprobs: list[tuple[str, float]] = []


def chunks(exchange: Exchange) -> list[Json]:
    if exchange.sse is None:
        return exchange.body if isinstance(exchange.body, list) else [exchange.body]
    blocks = exchange.sse.replace("\r\n", "\n").split("\n\n")
    return [json.loads(block[5:]) for block in blocks if block.startswith("data:")]


def read(exchange: Exchange) -> Said:
    said = Said(calls=[], parts=[], logprobs=[])
    for chunk in chunks(exchange):
        if (chunk.get("usageMetadata") or {}).get("promptTokenCount") is not None:
            said.usage = chunk["usageMetadata"]
        for candidate in chunk.get("candidates") or []:
            said.finish = candidate.get("finishReason") or said.finish
            chosen = (candidate.get("logprobsResult") or {}).get("chosenCandidates") or []
            said.logprobs += [(token["token"], token["logProbability"]) for token in chosen]
            for part in (candidate.get("content") or {}).get("parts") or []:
                said.parts.append(part)
                if part.get("thought"):
                    said.reasoning += part.get("text") or ""
                elif "text" in part:
                    said.text += part["text"]
                elif "functionCall" in part:
                    call = part["functionCall"]
                    said.calls.append((call.get("id") or "", call["name"], call.get("args") or {}))
    return said


# ---- requests -----------------------------------------------------------------------------------------------------------

_OPAQUE = {"args", "response", "data", "parameters", "parametersJsonSchema", "responseJsonSchema", "responseSchema"}


def camel(value: Json) -> Json:
    """Members of Google's own in camelCase; what a user put inside is left alone."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = {_camel(name): item for name, item in value.items()}
    return {name: item if name in _OPAQUE else camel(item) for name, item in named.items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def meaning(contents: Json, ids: set[str]) -> list[Json]:
    """(role, parts) with neighbours of one role as one; `ids` are those that a server gave."""
    found: list[tuple[str, list[Json]]] = []
    for content in camel(contents):
        role = "model" if content.get("role") == "model" else "user"
        if not found or found[-1][0] != role:
            found.append((role, []))
        parts = found[-1][1]
        for part in content.get("parts") or []:
            said = _part(part, ids)
            if (said.keys() == {"text"} and not said["text"].strip()) or (
                said.get("thought") and "thoughtSignature" not in said
            ):
                continue
            if parts and said.keys() == {"text"} == parts[-1].keys() and role == "model":
                parts[-1] = {"text": parts[-1]["text"] + said["text"]}
            else:
                parts.append(said)
    return [{"role": role, "parts": parts} for role, parts in found if parts]


def _part(part: Json, ids: set[str]) -> Json:
    part = dict(part)
    if "thoughtSignature" in part:
        part["thoughtSignature"] = _base64(part["thoughtSignature"])
        if part["thoughtSignature"] in SKIP:
            del part["thoughtSignature"]
    for name in ("functionCall", "functionResponse"):
        if name in part:
            said = {key: value for key, value in part[name].items() if key != "id" or value in ids}
            if name == "functionCall":
                said["args"] = said.get("args") or {}
            if "parts" in said:
                said["parts"] = [_part(inner, ids) for inner in said["parts"]]
            part[name] = said
    if "inlineData" in part:
        part["inlineData"] = {**part["inlineData"], "data": _base64(part["inlineData"]["data"])}
    return part


def _base64(text: str) -> str:
    return text.replace("-", "+").replace("_", "/").rstrip("=")


def given_ids(found: list[Exchange]) -> set[str]:
    """The ids of calls in recorded answers."""
    return {call[0] for exchange in found if exchange.status < 400 for call in read(exchange).calls if call[0]}


def parts_of(contents: list[dict[str, Any]]) -> list[Json]:
    return [part for content in contents for part in content["parts"]]
