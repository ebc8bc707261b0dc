"""What the tests of the app stream share: a page that asks, a model that writes, and the rules that hold for every answer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import aiohttp
from msgspec.structs import replace
from tests.interaction.doors import Json, Served, soon

from ronda.core.events import CallDelta, ModelFinished, ReasoningDelta, TextDelta
from ronda.core.parts import AssistantTurn, Reasoning, Text, ToolCall, ToolTurn
from ronda.core.request import ModelRequest
from ronda.drive import Show

PAGE = "<!DOCTYPE html>\n<html><head><title>Small</title></head><body>\n<h1>Hello 😀</h1>\n<p>one</p>\n</body></html>"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABgAAAAQCAIAAACDRijCAAAAGklEQVR4nGPQqDhBFcQwatCoQaMGjRpEGQIAPLEcH9Ol6TsAAAAA"
    "SUVORK5CYII="
)

Parts: TypeAlias = Sequence[Text | Reasoning | ToolCall]


def create(content: str = PAGE, path: str = "index.html", id: str = "c1", first: str = "path") -> ToolCall:
    members = {"path": path, "content": content} if first == "path" else {"content": content, "path": path}
    return ToolCall(id, "create_file", json.dumps(members))


def call(name: str, id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, json.dumps(arguments))


class PageModel:
    """A model whose turns depend on the round, and on which variant asks, in the order that they come."""

    def __init__(self, *turns: Parts, chunk: int = 7, of_variant: Callable[[int, int], Parts] | None = None) -> None:
        self._turns = turns
        self._chunk = chunk
        self._of_variant = of_variant
        self._variants: dict[str, int] = {}
        self.requests: list[ModelRequest] = []

    def variant_of(self, request: ModelRequest) -> int:
        return self._variants.setdefault(request.run, len(self._variants))

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.requests.append(replace(request, turns=tuple(request.turns)))
        variant = self.variant_of(request)
        if self._of_variant is not None:
            parts = self._of_variant(variant, request.round)
        else:
            parts = self._turns[request.round] if request.round < len(self._turns) else [Text("Done.")]
        calls = 0
        for part in parts:
            match part:
                case Text(text=text):
                    show([TextDelta(text)])
                case Reasoning(text=text):
                    show([ReasoningDelta(text)])
                case ToolCall(id=name, arguments=arguments):
                    for at in range(0, len(arguments), self._chunk):
                        show([CallDelta(calls, name, part.name, arguments[at : at + self._chunk])])
                    calls += 1
        return ModelFinished(AssistantTurn(tuple(parts), "tool_calls" if calls else "stop"))


def results_of(request: ModelRequest) -> list[Json]:
    """What the model reads of the calls before."""
    last = request.turns[-1]
    assert isinstance(last, ToolTurn)
    return [json.loads(result.content) for result in last.results]


def asking(**more: Any) -> Json:
    """What the page sends, with the settings that it always sends."""
    return {
        "openAiApiKey": None,
        "anthropicApiKey": None,
        "isImageGenerationEnabled": True,
        "editorTheme": "cobalt",
        "generatedCodeConfig": "html_tailwind",
        "codeGenerationModel": "some label",
        "generationType": "create",
        "inputMode": "text",
        "prompt": {"text": "A board.", "images": [], "videos": []},
        "designSystem": None,
        **more,
    }


@dataclass
class Heard:
    """All that came over one socket, and how it was closed."""

    messages: list[Json] = field(default_factory=list)
    code: int | None = None
    reason: str = ""

    def of(self, variant: int, *types: str) -> list[Json]:
        return [
            message
            for message in self.messages
            if message.get("variantIndex") == variant and (not types or message["type"] in types)
        ]

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.messages]

    @property
    def count(self) -> int:
        return int(self.messages[0]["value"])

    def code_of(self, variant: int) -> str:
        """What the page shows in the end: what was set, and what was added to it."""
        code = ""
        for message in self.of(variant, "setCode", "chunk"):
            code = message["value"] if message["type"] == "setCode" else code + message["value"]
        return code

    def growth(self, variant: int) -> list[str]:
        shown, code = [], ""
        for message in self.of(variant, "setCode", "chunk"):
            code = message["value"] if message["type"] == "setCode" else code + message["value"]
            shown.append(code)
        return shown

    def check(self) -> None:
        """What holds for every answer that has variants."""
        assert self.types[: 1 + self.count] == ["variantCount"] + ["status"] * self.count
        assert [message["variantIndex"] for message in self.messages[1 : 1 + self.count]] == list(range(self.count))
        for message in self.messages:
            assert None not in message.values()
            assert message["type"] == "error" or 0 <= message["variantIndex"] < self.count
        for variant in range(self.count):
            self._check_variant(variant)

    def _check_variant(self, variant: int) -> None:
        mine = self.of(variant)
        ends = [message["type"] for message in mine if message["type"] in ("variantComplete", "variantError")]
        assert len(ends) == 1
        assert mine[-1]["type"] == ends[0]
        started: dict[str, str] = {}
        for message in mine:
            if message["type"] == "toolStart":
                assert message["eventId"] not in started
                started[message["eventId"]] = message["data"]["name"]
            elif message["type"] == "toolResult":
                assert started.pop(message["eventId"]) == message["data"]["name"]
        assert started == {}
        if ends == ["variantComplete"]:
            assert mine[-2]["type"] == "setCode"
            assert mine[-2]["value"]


class Socket:
    def __init__(self, raw: aiohttp.ClientWebSocketResponse) -> None:
        self.raw = raw
        self.heard = Heard()

    async def next(self) -> Json | None:
        message = await self.raw.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            self.heard.messages.append(json.loads(message.data))
            return self.heard.messages[-1]
        assert message.type is not aiohttp.WSMsgType.BINARY
        self.heard.code = self.raw.close_code
        self.heard.reason = message.extra or ""
        return None

    async def until(self, type: str, variant: int | None = None) -> Json:
        while (message := await self.next()) is not None:
            if message["type"] == type and variant in (None, message.get("variantIndex")):
                return message
        raise AssertionError(f"closed before {type}: {self.heard}")

    async def rest(self) -> Heard:
        while await self.next() is not None:
            pass
        return self.heard


@contextlib.asynccontextmanager
async def app_socket(served: Served, **headers: str) -> AsyncIterator[Socket]:
    url = served.url.removesuffix("/v1") + "/generate-code"
    sent = {"authorization": "Bearer test", **headers}
    async with soon(), served.http.ws_connect(url, headers=sent, max_msg_size=0) as raw:
        yield Socket(raw)


async def generate(served: Served, **parameters: Any) -> Heard:
    """Ask as the page does, and hear it to the end."""
    async with app_socket(served) as socket:
        await socket.raw.send_str(json.dumps(asking(**parameters)))
        return await socket.rest()
