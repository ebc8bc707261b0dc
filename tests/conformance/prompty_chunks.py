"""A provider's stream → the chunks of Prompty's vectors: text as it comes, calls when they are complete, and a failure as
the last chunk if there is one.

    for chunk in process_stream(prompty, arriving, outcome): …

A failure is `determinate` when the provider itself said that there will be no answer (a refusal, an error in the stream), and
`indeterminate` when the stream broke off: then it is not known what the provider did, so a completion is never committed and
the caller must look before calling again. Text that came before the end is kept in either case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol, TypeAlias, assert_never

import msgspec
from msgspec import Struct

from ronda.core.events import (
    CallDelta,
    LogprobsDelta,
    ModelFinished,
    NativeDelta,
    Preview,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolProgressed,
)
from ronda.core.parts import ToolCall
from ronda.errors import UpstreamError
from ronda.prompty.model import Prompty
from ronda.prompty.results import ModelRefused
from ronda.prompty.upstream import provider_of, speaks_openai
from ronda.providers.http import StreamReader


class TextChunk(Struct, frozen=True, tag_field="kind", tag="text"):
    value: str


class ThinkingChunk(Struct, frozen=True, tag_field="kind", tag="thinking"):
    value: str


class ToolChunk(Struct, frozen=True, tag_field="kind", tag="tool", rename="camel"):
    tool_call: ToolCall


class Failure(Struct, frozen=True):
    outcome: Literal["determinate", "indeterminate"]
    message: str


class FailureChunk(Struct, frozen=True, tag_field="kind", tag="failure"):
    failure: Failure


Chunk: TypeAlias = TextChunk | ThinkingChunk | ToolChunk | FailureChunk


class StreamOutcome(Struct, rename="camel"):
    """What there is to say about a stream when it is over."""

    partial_text: str = ""
    requires_reconciliation: bool = False
    completion_committed: bool = False


def process_stream(prompty: Prompty, arriving: Iterable[Any], outcome: StreamOutcome | None = None) -> Iterator[Chunk]:
    """`arriving` are the provider's events: mappings, an SDK's objects, or bytes of the stream itself."""
    seen = outcome if outcome is not None else StreamOutcome()
    reader = _reader(prompty)
    refused: list[str] = []
    try:
        for item in arriving:
            yield from _chunks(reader.feed(_frame(item)), seen, refused)
            if refused or reader.broken:
                break
    except Exception as error:  # the caller's own stream: whatever breaks it is a broken stream
        seen.requires_reconciliation = True
        yield FailureChunk(Failure("indeterminate", str(error) or type(error).__name__))
        return
    if not refused:
        yield from _chunks(reader.close(), seen, refused)
    if refused:
        yield FailureChunk(Failure("determinate", str(ModelRefused("".join(refused)))))
        return
    try:
        finished = reader.finish()
    except UpstreamError as error:
        seen.requires_reconciliation = error.connection
        yield FailureChunk(Failure("indeterminate" if error.connection else "determinate", str(error)))
        return
    for call in finished.turn.calls:
        yield ToolChunk(call)
    seen.completion_committed = True


def _chunks(previews: list[Preview], seen: StreamOutcome, refused: list[str]) -> Iterator[Chunk]:
    for preview in previews:
        match preview:
            case TextDelta(text=text):
                seen.partial_text += text
                yield TextChunk(text)
            case ReasoningDelta(text=text):
                yield ThinkingChunk(text)
            case RefusalDelta(text=text):
                refused.append(text)
            case (
                CallDelta() | LogprobsDelta() | NativeDelta() | ToolProgressed()
            ):  # calls are shown when they are complete
                pass
            case _:
                assert_never(preview)


def _frame(item: Any) -> bytes:
    if isinstance(item, bytes | bytearray):
        return bytes(item)
    if hasattr(item, "model_dump"):
        item = item.model_dump(mode="json", exclude_none=True)
    data = item if isinstance(item, str) else msgspec.json.encode(item).decode()
    kind = item.get("type") if isinstance(item, dict) else None
    name = f"event: {kind}\n" if isinstance(kind, str) else ""
    return f"{name}data: {data}\n\n".encode()


class _Reader(StreamReader, Protocol):
    def finish(self) -> ModelFinished: ...


def _reader(prompty: Prompty) -> _Reader:
    provider = provider_of(prompty.model)
    api = prompty.model.api_type if prompty.model is not None else "chat"
    if api == "responses" and speaks_openai(provider):
        from ronda.wire.openai_responses.client_stream import Reader as Responses

        return Responses({})
    match provider:
        case "anthropic":
            from ronda.wire.anthropic.client_request import Reader as Messages

            return Messages()
        case "gemini":
            from ronda.wire.gemini.client_answer import Reader as Contents

            return Contents()
        case "mistral" | "mistral-agent":
            from ronda.wire.mistral.client_answer import Reader as Mistral

            return Mistral()
        case _:
            from ronda.wire.openai_chat.client_answer import Reader as Completions

            return Completions()
