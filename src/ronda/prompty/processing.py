"""A provider's answer → the result: `process(prompty, response)`. The answer is read by the same wire that calls the provider.

    response     the provider's JSON as bytes, text or a mapping; an SDK's object; or what our own loop kept of an answer

Embeddings and images are no turns of a conversation: they are read here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ronda.core.events import ModelFinished
from ronda.core.parts import AssistantTurn, Text
from ronda.errors import BadRequest, UpstreamError
from ronda.prompty.errors import BadPrompty
from ronda.prompty.model import API_TYPES, Prompty
from ronda.prompty.results import result_of
from ronda.prompty.upstream import provider_of, speaks_openai

UNEXPECTED: Final = "Unexpected response format"


class BadResponse(BadRequest):
    """An answer that is not what the provider's interface promises."""

    status_hint = 502


def process(prompty: Prompty, response: Any) -> Any:
    api = prompty.model.api_type if prompty.model is not None else "chat"
    if api not in API_TYPES:
        raise BadPrompty(f"Unsupported API type: {api}", field="model.apiType")
    if isinstance(response, ModelFinished):
        return result_of(response.turn, structured=bool(prompty.outputs))
    body = _body(response)
    if api == "embedding":
        return read_embedding(body)
    if api == "image":
        return read_image(body)
    return result_of(_turn(provider_of(prompty.model), api, body), structured=bool(prompty.outputs))


def read_embedding(body: bytes) -> Any:
    """One vector; a list of them, in the order of the inputs, where there are several."""
    records = _records(body)
    vectors = [record.get("embedding") for record in sorted(records, key=_index)]
    if not vectors:
        raise BadResponse("Empty embedding response")
    if any(vector is None for vector in vectors):
        raise BadResponse(UNEXPECTED)
    return vectors[0] if len(vectors) == 1 else vectors


def read_image(body: bytes) -> Any:
    """Where the image is, or itself as base64; a list where there are several."""
    images = [record.get("url") or record.get("b64_json") for record in _records(body)]
    if not images:
        raise BadResponse("Empty image response")
    if not all(isinstance(image, str) for image in images):
        raise BadResponse(UNEXPECTED)
    return images[0] if len(images) == 1 else images


# ---- inside -----------------------------------------------------------------------------------------------------------


def _body(response: Any) -> bytes:
    if hasattr(response, "model_dump"):  # an SDK's object
        response = response.model_dump(mode="json")
    try:
        if isinstance(response, bytes | bytearray | str):
            response = msgspec.json.decode(response)
        if not isinstance(response, Mapping):
            raise BadResponse(UNEXPECTED)
        return msgspec.json.encode(response)  # written anew: arguments of a call are compact, however they came
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise BadResponse(UNEXPECTED) from error


def _turn(provider: str, api: str, body: bytes) -> AssistantTurn:
    decoded = msgspec.json.decode(body, type=dict[str, Any])
    if (failure := decoded.get("error")) is not None:
        message = failure.get("message") if isinstance(failure, dict) else failure
        raise BadResponse(str(message or UNEXPECTED))
    if _is_responses(provider, api) and isinstance(decoded.get("output_text"), str) and not decoded.get("output"):
        return AssistantTurn(
            (Text(decoded["output_text"]),)
        )  # an SDK's shortcut, when nothing else is left of the answer
    try:
        return _reader(provider, api)(body).turn
    except UpstreamError as error:
        raise BadResponse(UNEXPECTED) from error


def _is_responses(provider: str, api: str) -> bool:
    return api == "responses" and speaks_openai(provider)


def _reader(provider: str, api: str) -> Callable[[bytes], ModelFinished]:
    if _is_responses(provider, api):
        from ronda.wire.openai_responses.client_answer import read_plain as read_response

        return read_response
    if api == "responses":
        raise BadPrompty(f"Unsupported API type: {api}", field="model.apiType")
    match provider:
        case "anthropic":
            from ronda.wire.anthropic.client_request import read_plain as read_message

            return read_message
        case "gemini":
            from ronda.wire.gemini.client_answer import read_plain as read_content

            return read_content
        case "mistral" | "mistral-agent":
            from ronda.wire.mistral.client_answer import read_plain as read_mistral

            return read_mistral
        case _:  # all others speak Chat Completions
            from ronda.wire.openai_chat.client_answer import read_plain as read_completion

            return read_completion


def _records(body: bytes) -> list[dict[str, Any]]:
    decoded = msgspec.json.decode(body, type=dict[str, Any])
    records = decoded.get("data")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise BadResponse(UNEXPECTED)
    return records


def _index(record: dict[str, Any]) -> int:
    at = record.get("index")
    return at if isinstance(at, int) else 0
