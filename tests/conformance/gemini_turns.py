"""A recorded request of generateContent → our turns, tools, choice and options: as if a client had asked us for this.

There is no Gemini door, so this reader is here alone. Results are read under the roles `user`, `tool` and `function`.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw
from tests.conformance.gemini_recorded import SKIP, camel, model_in
from tests.conformance.recordings import Exchange, Json

from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
    Attachment,
    File,
    Native,
    Reasoning,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
)
from ronda.core.plan import Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.wire.gemini import native_api

_OPTIONS = {"maxOutputTokens", "temperature", "topP", "stopSequences", "seed", "responseMimeType"}
_FORMATS = {"responseJsonSchema", "responseSchema"}


def read_request(exchange: Exchange) -> ModelRequest:
    said = camel(exchange.request)
    turns: list[Turn] = []
    if system := said.get("systemInstruction"):
        turns += [SystemTurn(part["text"]) for part in system["parts"]]
    turns += read_contents(said["contents"], model_in(exchange))
    stream = ":streamGenerate" in exchange.url
    return ModelRequest(turns, _tools(said), _choice(said), _options(said), stream, "run", 0, 1, scratch={})


def read_contents(contents: Json, model: str) -> list[Turn]:
    turns: list[Turn] = []
    waiting: list[tuple[str, str]] = []  # id and name of the calls not yet answered
    for at, content in enumerate(_joined(camel(contents))):
        parts = content.get("parts") or []
        if content.get("role") == "model":
            turn, waiting = _assistant(parts, model, at)
            turns.append(turn)
            continue
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if answers:
            turns.append(ToolTurn(tuple([_result(answer, waiting) for answer in answers])))
        if others := [part for part in parts if "functionResponse" not in part]:
            turns.append(UserTurn(tuple([_user_part(part) for part in others])))
    return turns


def _joined(contents: list[Json]) -> list[Json]:
    """What the model said in two contents on end it said in one turn."""
    found: list[Json] = []
    for content in contents:
        if found and content.get("role") == "model" == found[-1].get("role"):
            found[-1] = {"role": "model", "parts": [*found[-1]["parts"], *content["parts"]]}
        else:
            found.append(content)
    return found


def _assistant(parts: list[Json], model: str, at: int) -> tuple[AssistantTurn, list[tuple[str, str]]]:
    said: list[AssistantPart] = []
    for n, part in enumerate(parts):
        if "functionCall" in part:
            call = part["functionCall"]
            said.append(
                ToolCall(call.get("id") or f"gemini_{at}_{n}", call["name"], json.dumps(call.get("args") or {}))
            )
        elif "text" in part:
            said.append(Reasoning(part["text"]) if part.get("thought") else Text(part["text"]))
    # One that says there is no signature was written by another model.
    foreign = any((part.get("thoughtSignature") or "").rstrip("=").startswith(SKIP) for part in parts)
    native = None if foreign else Native(native_api(model), Raw(json.dumps(parts).encode()))
    turn = AssistantTurn(tuple(said), "stop", native)
    return turn, [(call.id, call.name) for call in turn.calls]


def _result(answer: Json, waiting: list[tuple[str, str]]) -> ToolResult:
    by_id = [call_id for call_id, name in waiting if call_id == answer.get("id")]
    call_id = by_id[0] if by_id else next(call_id for call_id, name in waiting if name == answer["name"])
    waiting[:] = [one for one in waiting if one[0] != call_id]
    response = answer.get("response") or {}
    attached: list[Attachment] = [_media(part) for part in answer.get("parts") or []]
    failed = response.keys() == {"error"}
    content = response["error"] if failed else response.get("output") if response.keys() == {"output"} else response
    text = content if isinstance(content, str) else json.dumps(content)
    return ToolResult(call_id, text, failed, tuple(attached))


def _user_part(part: Json) -> UserPart:
    return Text(part["text"]) if "text" in part else _media(part)


def _media(part: Json) -> File:
    if "inlineData" in part:
        return File(data=f"data:{part['inlineData']['mimeType']};base64,{part['inlineData']['data']}")
    uri, kind = part["fileData"]["fileUri"], part["fileData"]["mimeType"]
    return File(id=uri, name=f"file.{_SUFFIX.get(kind, kind.split('/')[1])}")


_SUFFIX = {"audio/mpeg": "mp3", "text/plain": "txt"}


def _tools(said: Json) -> tuple[ToolSpec, ...]:
    found = [one for tool in said.get("tools") or [] for one in tool.get("functionDeclarations") or []]
    return tuple(
        [
            ToolSpec(
                one["name"], one.get("description") or "", Raw(json.dumps(_schema(one)).encode()), strict=_strict(said)
            )
            for one in found
        ]
    )


def _schema(declared: Json) -> Json:
    return declared.get("parametersJsonSchema") or _lower_case(declared.get("parameters")) or {"type": "object"}


def _lower_case(schema: Json) -> Json:
    """The types of OpenAPI in capitals → as JSON Schema has them."""
    if isinstance(schema, dict):
        return {k: v.lower() if k == "type" and isinstance(v, str) else _lower_case(v) for k, v in schema.items()}
    return [_lower_case(item) for item in schema] if isinstance(schema, list) else schema


def _strict(said: Json) -> bool | None:
    return True if (said.get("toolConfig") or {}).get("functionCallingConfig") == {"mode": "VALIDATED"} else None


def _choice(said: Json) -> ToolChoice:
    config = (said.get("toolConfig") or {}).get("functionCallingConfig") or {}
    names = tuple(config.get("allowedFunctionNames") or ())
    mode = {"ANY": "required", "NONE": "none"}.get(config.get("mode") or "AUTO", "auto")
    return ToolChoice(mode, names)  # type: ignore[arg-type]  # one of the three


def _options(said: Json) -> Options:
    config: dict[str, Any] = said.get("generationConfig") or {}
    schema = next((_lower_case(config[name]) for name in _FORMATS if name in config), None)
    answer_format = None
    if config.get("responseMimeType") == "application/json":
        raw = Raw(json.dumps(schema).encode())
        answer_format = ResponseFormat("json_object") if schema is None else ResponseFormat("json_schema", schema=raw)
    extra: dict[str, Any] = {
        n: v for n, v in said.items() if n in ("safetySettings", "cachedContent", "modelArmorConfig")
    }
    if hosted := [tool for tool in said.get("tools") or [] if "functionDeclarations" not in tool]:
        extra["tools"] = hosted
    if rest := {name: value for name, value in config.items() if name not in _OPTIONS | _FORMATS}:
        extra["generationConfig"] = rest
    if rest := {n: v for n, v in (said.get("toolConfig") or {}).items() if n != "functionCallingConfig"}:
        extra["toolConfig"] = rest
    return Options(
        max_tokens=config.get("maxOutputTokens"),
        temperature=config.get("temperature"),
        top_p=config.get("topP"),
        stop=tuple(config.get("stopSequences") or ()),
        seed=config.get("seed"),
        response_format=answer_format,
        extra={name: Raw(json.dumps(value).encode()) for name, value in extra.items()},
    )
