"""What Gemini would refuse of a request, by its error messages: the strict end of the wire, for tests.

Written from the documentation and from messages in issue trackers (field-notes 3.4), apart from the code that writes
requests, so that the two do not share a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.conformance.recordings import Json

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_DATA = {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"}
_DATA |= {"toolCall", "toolResponse"}
_BESIDE = {"thought", "thoughtSignature", "videoMetadata"}
_TOP = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings", "cachedContent"}
_TOP |= {"labels", "serviceTier", "modelArmorConfig"}
_CONFIG = {
    "maxOutputTokens",
    "temperature",
    "topP",
    "topK",
    "stopSequences",
    "seed",
    "responseMimeType",
    "candidateCount",
}
_CONFIG |= {"responseSchema", "responseJsonSchema", "thinkingConfig", "responseModalities", "presencePenalty"}
_CONFIG |= {"frequencyPenalty", "responseLogprobs", "logprobs"}


def refusals(model: str, request: Json, *, roles: tuple[str, ...] = ("user", "model")) -> list[str]:
    """All that is wrong; `roles` may have `tool` in it, which the Gemini API takes and Vertex does not."""
    return [*_members(model, request), *_contents(request.get("contents"), roles, "gemini-3" in model)]


def _members(model: str, request: Json) -> Iterator[str]:
    yield from [f"Unknown name {name!r}" for name in request.keys() - _TOP]
    config = request.get("generationConfig") or {}
    yield from [f"Unknown name {name!r} at 'generation_config'" for name in config.keys() - _CONFIG]
    declared = [one for tool in request.get("tools") or [] for one in tool.get("functionDeclarations") or []]
    names = [one["name"] for one in declared]
    yield from [f"Invalid function name {name!r}" for name in names if not _NAME.fullmatch(name)]
    if len(set(names)) < len(names):
        yield "Duplicate function declaration found"
    calling = (request.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if calling and calling.get("mode") not in ("AUTO", "ANY", "NONE", "VALIDATED"):
        yield "unknown mode"
    if allowed := calling.get("allowedFunctionNames"):
        if calling["mode"] not in ("ANY", "VALIDATED"):
            yield "allowed_function_names should only be set when mode is ANY or VALIDATED"
        yield from [f"{name!r} is not a declared function" for name in allowed if name not in names]
    if declared and "gemini-3" not in model and config.get("responseMimeType") == "application/json":
        yield "Function calling with a response mime type: 'application/json' is unsupported"
    if system := request.get("systemInstruction"):
        yield from _parts("system", system["parts"])


def _contents(contents: Json, roles: tuple[str, ...], signed: bool) -> Iterator[str]:
    if not contents:
        yield "contents is not specified"
        return
    if contents[0]["role"] != "user":
        yield "the first content must be the user's"
    asked: list[Json] = []  # calls that the next content must answer
    for at, content in enumerate(contents):
        where = f"contents[{at}]"
        if content.keys() != {"role", "parts"} or content["role"] not in roles:
            yield f"{where}: Please use a valid role: {', '.join(roles)}"
        yield from _parts(where, content["parts"])
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        answers = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        if calls and (content["role"] != "model" or at == 0 or contents[at - 1]["role"] == "model"):
            yield f"{where}: function call turn must come immediately after a user turn or after a function response turn"
        if answers and content["role"] == "model":
            yield f"{where}: function responses are the user's"
        if len(answers) != len(asked) or (answers and len(answers) < len(content["parts"])):
            yield f"{where}: the number of function response parts must equal the number of function call parts"
        for call, answer in zip(asked, answers, strict=False):
            if (call.get("id"), call["name"]) != (answer.get("id"), answer["name"]):
                yield f"{where}: {answer['name']!r} ({answer.get('id')}) answers {call['name']!r} ({call.get('id')})"
        asked = calls
    if asked:
        yield "the last calls have no results"
    if signed:
        yield from _unsigned(contents)


def _unsigned(contents: list[Json]) -> Iterator[str]:
    """Only the current turn is looked at: back to what the user said last."""
    current = 0
    for at, content in enumerate(contents):
        if content["role"] != "model" and any("functionResponse" not in part for part in content["parts"]):
            current = at
    for at, content in enumerate(contents):
        calls = [part for part in content["parts"] if "functionCall" in part]
        if at > current and calls and not calls[0].get("thoughtSignature"):
            yield f"contents[{at}]: Function call is missing a thought_signature in functionCall parts"


def _parts(where: str, parts: Json) -> Iterator[str]:
    if not parts:
        yield f"{where}: parts must not be empty"
    for part in parts:
        data = part.keys() - _BESIDE
        if len(data) != 1 or not data <= _DATA:
            yield f"{where}: required oneof field 'data' must have one initialized field: {part.keys()}"
        if part.get("text") == "" and "thoughtSignature" not in part:
            yield f"{where}: must have a text parameter"
        for name in ("functionCall", "functionResponse"):
            if name in part:
                yield from _function(f"{where}.{name}", part[name], "args" if name == "functionCall" else "response")
        if "inlineData" in part and part["inlineData"].keys() != {"mimeType", "data"}:
            yield f"{where}: inline_data"
        if "fileData" in part and part["fileData"].keys() != {"mimeType", "fileUri"}:
            yield f"{where}: file_data"


def _function(where: str, said: Json, body: str) -> Iterator[str]:
    if said.keys() - {"id", "name", body, "parts"}:
        yield f"{where}: unknown members in {said.keys()}"
    if not _NAME.fullmatch(said.get("name") or ""):
        yield f"{where}: Invalid function name {said.get('name')!r}"
    if not isinstance(said.get(body, {}), dict):
        yield f"{where}.{body}: Proto field is not repeating, cannot start list / must be an object"
    if "id" in said and not said["id"]:
        yield f"{where}.id is empty"
