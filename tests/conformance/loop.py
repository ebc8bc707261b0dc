"""A recorded round, driven: our loop asks a server that gives the recorded answer, tools (or the caller) give the recorded
results, and what the loop asks next is read off the socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from tests.conformance.recordings import Exchange, Json
from tests.driving import drive

from ronda.core.arguments import recover
from ronda.core.events import Event, ModelFinished, RunStarted
from ronda.core.parts import AssistantTurn, Text, ToolResult, ToolTurn, Turn, UserTurn
from ronda.core.plan import Plan, ToolSpec
from ronda.core.run import Run
from ronda.core.steering import Steering
from ronda.drive import ToolContext, ToolOutput
from ronda.providers import Where, open_provider

# The answer after which there is nothing more to do, in each dialect; all of them take a whole one where they expect a stream.
_SAID = {"role": "assistant", "content": "Done."}
_CHAT = {"choices": [{"index": 0, "message": _SAID, "finish_reason": "stop"}]}
_ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
_CANDIDATE = {"content": {"role": "model", "parts": [{"text": "Done."}]}, "finishReason": "STOP"}
_DONE: dict[str, Json] = {
    "anthropic": {"type": "message", "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"},
    "gemini": {"candidates": [_CANDIDATE]},
    "mistral": _CHAT,
    "openai": {"status": "completed", "output": [_ITEM]},
    "openai-chat": _CHAT,
}


def next_request(
    spec: str,
    before: Exchange,
    turns: Sequence[Turn],
    turn: AssistantTurn,
    rest: Sequence[Turn],
    version: str | None = None,
) -> Json:
    """What our loop asks when `before` was the answer to `turns`, read as `turn`, and `rest` followed it.

    Where that is what tools gave, and perhaps words that people said meanwhile, it is one run. Else the answer ends a run,
    its calls are handed to the caller, and the caller comes back with the rest: that is two.
    """
    replay = _Replay(spec, before, version)
    words = [_said(one) for one in rest[1:]]
    if turn.stop == "tool_calls" and _answers_all(rest, turn) and None not in words:
        return asyncio.run(replay.in_one_run(tuple(turns), turn, rest, [said for said in words if said is not None]))
    return asyncio.run(replay.in_two_runs(tuple(turns), turn, rest))


def _answers_all(rest: Sequence[Turn], turn: AssistantTurn) -> bool:
    """One result for each call, in no words but the result's. A custom tool's plain words are the caller's to read."""
    if not rest or type(rest[0]) is not ToolTurn or any(recover(call.arguments) is None for call in turn.calls):
        return False
    results = rest[0].results
    return {one.call_id for one in results} == {call.id for call in turn.calls} and all(
        not one.native for one in results
    )


def _said(turn: Turn) -> str | None:
    """Plain words, as they can be said to a run under way."""
    if type(turn) is not UserTurn or turn.native is not None or turn.name is not None or len(turn.parts) != 1:
        return None
    part = turn.parts[0]
    return part.text if type(part) is Text and part.text.strip() else None


class _Replay:
    def __init__(self, spec: str, before: Exchange, version: str | None) -> None:
        self._spec = spec
        self._before = before
        self._where = Where(version=version, vision=True)

    async def in_one_run(
        self, turns: tuple[Turn, ...], turn: AssistantTurn, rest: Sequence[Turn], words: list[str]
    ) -> Json:
        assert type(rest[0]) is ToolTurn
        by_id = {result.call_id: result for result in rest[0].results}
        toolbox = _Toolbox([by_id[call.id] for call in turn.calls], words)
        specs = tuple([ToolSpec(name) for name in _names(turns, self._before)])
        async with _Recorded([self._answer, self._done]) as server:
            handlers = {spec.name: _Recalled(spec, toolbox) for spec in specs}
            await self._drive(server, turns, specs, handlers, toolbox)
        assert len(server.bodies) == 2, f"{len(server.bodies)} requests were made; the answer did not lead to a second"
        return json.loads(server.bodies[1])

    async def in_two_runs(self, turns: tuple[Turn, ...], turn: AssistantTurn, rest: Sequence[Turn]) -> Json:
        specs = tuple([ToolSpec(name, kind="caller") for name in _names(turns, self._before)])
        async with _Recorded([self._answer, self._done]) as server:
            first = await self._drive(server, turns, specs)
            answer = first.turns[-1]
            assert type(answer) is AssistantTurn
            ids = {theirs.id: ours.id for theirs, ours in zip(turn.calls, answer.calls, strict=True)}
            await self._drive(server, (*first.turns, *[_renamed(one, ids) for one in rest]), specs)
        assert len(server.bodies) == 2, f"{len(server.bodies)} requests were made"
        return json.loads(server.bodies[1])

    async def _drive(
        self,
        server: _Recorded,
        turns: tuple[Turn, ...],
        specs: tuple[ToolSpec, ...],
        handlers: Mapping[str, _Recalled] = {},
        toolbox: _Toolbox | None = None,
    ) -> Run:
        provider = open_provider(self._spec, msgspec.structs.replace(self._where, base_url=server.url))
        run = Run(RunStarted("run", Plan(self._spec, specs, stream=self._before.sse is not None), turns))
        toolbox = toolbox or _Toolbox([], [])
        await drive(run, provider=provider, tools=handlers, emit=toolbox.take, steering=toolbox.steering)
        assert run.failure is None, run.failure
        return run

    @property
    def _answer(self) -> tuple[str, bytes]:
        return ("application/json" if self._before.sse is None else "text/event-stream"), self._before.raw

    @property
    def _done(self) -> tuple[str, bytes]:
        return "application/json", json.dumps(_DONE[self._spec.partition(":")[0]]).encode()


def _renamed(turn: Turn, ids: dict[str, str]) -> Turn:
    if type(turn) is not ToolTurn:
        return turn
    return ToolTurn(
        tuple([msgspec.structs.replace(one, call_id=ids.get(one.call_id, one.call_id)) for one in turn.results])
    )


def _names(turns: Sequence[Turn], before: Exchange) -> list[str]:
    """Everything that looks like the name of a tool: more than there are do no harm."""
    found: set[str] = set()

    def look(value: Json) -> None:
        if isinstance(value, dict):
            if isinstance(name := value.get("name"), str):
                found.add(name)
            for one in value.values():
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    look(before.request)
    look(before.body)
    found |= {call.name for turn in turns if type(turn) is AssistantTurn for call in turn.calls}
    return sorted(found)


class _Toolbox:
    """Which call of the turn under way gets which result, and what people say while it is run."""

    def __init__(self, results: list[ToolResult], words: list[str]) -> None:
        self._results = results
        self._words = words
        self.steering = Steering()
        self.by_call: dict[str, ToolResult] = {}

    def take(self, batch: list[Event]) -> None:
        for event in batch:
            if type(event) is ModelFinished:
                for text in self._words if event.turn.calls else ():
                    self.steering.send(text)
                self.by_call = {call.id: result for call, result in zip(event.turn.calls, self._results, strict=False)}


class _Recalled:
    def __init__(self, spec: ToolSpec, toolbox: _Toolbox) -> None:
        self.spec = spec
        self._toolbox = toolbox

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        result = self._toolbox.by_call[context.call_id]
        return ToolOutput(result.content, result.attachments, result.failed)


class _Recorded:
    """A server that gives one answer after the other, and keeps what it was asked."""

    def __init__(self, answers: list[tuple[str, bytes]]) -> None:
        self._answers = answers
        self._server: asyncio.Server
        self.bodies: list[bytes] = []
        self.url = ""

    async def __aenter__(self) -> _Recorded:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            self.bodies.append(await reader.readexactly(length))
            kind, body = self._answers[len(self.bodies) - 1]
            said = (
                f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            writer.write(said.encode() + body)
            await writer.drain()
        finally:
            writer.close()
