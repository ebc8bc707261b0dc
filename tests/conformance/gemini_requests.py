"""Every recorded request of generateContent, read and written again by our client: the same request in meaning."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance.gemini_recorded import camel, exchanges, meaning, model_in
from tests.conformance.gemini_turns import read_request
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import Excepted, PartResult, Tally, absent, same

from ronda.schema.lower import GEMINI, lower
from ronda.wire.gemini.client_request import write_request


def run(data: Path) -> PartResult:
    found = [exchange for exchange in exchanges(data) if isinstance(exchange.request, dict)]
    if not found:
        return absent("a recorded request of generateContent")
    tally = Tally()
    for exchange in found:
        tally.check("read and written again", exchange.id, lambda exchange=exchange: _compare(exchange))  # type: ignore[misc]
    return tally.result()


def _compare(exchange: Exchange) -> None:
    recorded = camel(exchange.request)
    if any(content.get("role") not in (None, "user", "model", "tool", "function") for content in recorded["contents"]):
        raise Excepted("a role that the upstream refused as well")
    written = json.loads(write_request(model_in(exchange), read_request(exchange)))
    ids = _ids(recorded["contents"])
    if any("videoMetadata" in part for content in recorded["contents"] for part in content["parts"]):
        raise Excepted("how to sample a video (videoMetadata) has no word in our parts")
    same(meaning(written["contents"], ids), meaning(recorded["contents"], ids), "contents")
    same(_texts(written), _texts(recorded), "systemInstruction")
    same(_declared(written, "parametersJsonSchema"), _lowered(recorded), "functionDeclarations")
    same(_config(written), _config(recorded), "generationConfig")
    same(_tool_config(written), _tool_config(recorded), "toolConfig")
    for name in ("safetySettings", "cachedContent", "modelArmorConfig"):
        same(written.get(name), recorded.get(name), name)
    same(_hosted(written), _hosted(recorded), "tools that Google runs")
    if "gemini-3" in model_in(exchange):
        same(_unsigned(written["contents"]), 0, "steps whose first call has no signature")


def _ids(contents: list[Json]) -> set[str]:
    parts = [part for content in contents for part in content["parts"]]
    return {part["functionCall"]["id"] for part in parts if "id" in part.get("functionCall", {})}


def _hosted(request: Json) -> list[Json]:
    return [tool for tool in request.get("tools") or [] if "functionDeclarations" not in tool]


def _unsigned(contents: list[Json]) -> int:
    steps = [[part for part in content["parts"] if "functionCall" in part] for content in contents]
    return sum("thoughtSignature" not in calls[0] for calls in steps if calls)


def _texts(request: Json) -> list[str]:
    return [part["text"] for part in (request.get("systemInstruction") or {}).get("parts") or []]


def _declared(request: Json, key: str) -> list[Json]:
    found = [one for tool in request.get("tools") or [] for one in tool.get("functionDeclarations") or []]
    return [{"name": one["name"], "description": one.get("description") or "", "schema": one.get(key)} for one in found]


def _lowered(request: Json) -> list[Json]:
    """Schemas go out lowered, for which there are tests of their own; those that need no lowering must be the same."""
    found = []
    for one in _declared(camel(request), "parametersJsonSchema"):
        fitted = lower(one["schema"], GEMINI) if one["schema"] is not None else None
        found.append({**one, "schema": fitted.schema if fitted is not None else None})
    for one, old in zip(found, _declared(request, "parameters"), strict=True):
        if old["schema"] is not None:
            one["schema"] = lower(_lower_case(old["schema"]), GEMINI).schema
    return found


def _lower_case(schema: Json) -> Json:
    if isinstance(schema, dict):
        return {k: v.lower() if k == "type" and isinstance(v, str) else _lower_case(v) for k, v in schema.items()}
    return [_lower_case(item) for item in schema] if isinstance(schema, list) else schema


def _config(request: Json) -> Json:
    config = dict(request.get("generationConfig") or {})
    schema = config.pop("responseJsonSchema", None) or _lower_case(config.pop("responseSchema", None))
    if schema:
        config["schema"] = lower(schema, GEMINI).schema
    return config


def _tool_config(request: Json) -> Json:
    config = request.get("toolConfig") or {}
    return {name: value for name, value in config.items() if value != {"mode": "AUTO"}}  # what happens unasked
