"""A run's events → spans: `execute` for each model call, `execute_tool` for each tool call, under the span that is current.

    spans = run_spans(run)                  None without a tracer
    emit = …spans.take(batch)…              next to journal and followers, in the task that drives the run
    tools = spans.around(tools)             so that what a tool traces, and the agents it starts, stand inside its span

It reads what the loop says of itself and takes the times from there: two tools that run side by side are two spans side by
side. The span around them, `invoke_agent` or `turn`, belongs to the code that starts the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec

from ronda.core import events
from ronda.core.parts import AssistantTurn, ToolCall, Turn, Usage
from ronda.core.run import Run
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.trace.spans import OpenSpan, Tracer, _current


def run_spans(run: Run) -> RunSpans | None:
    """The spans of a run that is about to be driven; None without a tracer."""
    return None if Tracer.is_idle() else RunSpans(run)


class RunSpans:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._around = _current.get()
        self._model: OpenSpan | None = None
        self._calls: dict[str, ToolCall] = {}
        self._tools: dict[str, OpenSpan] = {}

    def take(self, batch: Sequence[events.Event]) -> None:
        for event in batch:
            match event:
                case (
                    events.TextDelta()
                    | events.ReasoningDelta()
                    | events.RefusalDelta()
                    | events.CallDelta()
                    | events.LogprobsDelta()
                    | events.NativeDelta()
                ):
                    return  # previews come by themselves
                case events.ToolProgressed():
                    return
                case events.ModelStarted():
                    self._model_started(event, batch)
                case events.ModelRetried():
                    self._model_retried(event)
                case events.ModelFinished():
                    self._calls = {call.id: call for call in event.turn.calls}
                    self._close_model({**_turn_fields(event.turn), "usage": _token_counts(event.usage)}, event.at)
                case events.ModelInterrupted(turn=turn, reason=reason):
                    self._close_model(
                        {**_turn_fields(turn), "exception": "ModelInterrupted", "message": reason}, event.at
                    )
                case events.ModelFailed():
                    status = {} if event.status is None else {"status": event.status}
                    self._close_model({"exception": "ExecuteError", "message": event.reason, **status}, event.at)
                case events.ToolStarted():
                    self._tool_started(event)
                case events.ToolFinished():
                    self._tool_finished(event)
                case events.RunFinished():
                    self._end(event.message or "the run ended first", event.at or None)
                case (
                    events.RunStarted()
                    | events.Asked()
                    | events.Answered()
                    | events.Checked()
                    | events.Steered()
                    | events.Compacted()
                    | events.Warned()
                ):
                    pass  # of the run, and of no call
                case events.Released() | events.Recovered():
                    pass
                case _:
                    assert_never(event)

    def around(self, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        """The same tools, each running inside the span of its call."""
        return {name: _TracedTool(tool, self) for name, tool in tools.items()}

    def close(self) -> None:
        """Whatever is still open: the run broke off without saying so."""
        self._end("the run ended first", None)

    # ---- models ------------------------------------------------------------------------------------------------------

    def _model_started(self, event: events.ModelStarted, batch: Sequence[events.Event]) -> None:
        run = self._run
        self._model = OpenSpan("execute", self._around, event.at or None)
        inputs = {"model": run.plan.model, "round": event.round, "messages": _before(run.shown, batch)}
        self._model.emit("signature", "ronda.drive.Provider.call")
        self._model.emit("inputs", inputs)
        _current.set(self._model.span)  # events come in the task that is about to call the model

    def _model_retried(self, event: events.ModelRetried) -> None:
        if self._model is not None:
            self._model.emit("retry", {"attempt": event.attempt, "reason": event.reason, "wait": event.wait})

    def _close_model(self, result: dict[str, Any], at: float) -> None:
        if self._model is not None:
            _current.set(self._around)
            self._model.emit("result", result)
            self._model.close(at or None)
            self._model = None

    # ---- tools -------------------------------------------------------------------------------------------------------

    def _tool_started(self, event: events.ToolStarted) -> None:
        opened = self._tools[event.call_id] = OpenSpan("execute_tool", self._around, event.at or None)
        opened.emit("signature", "ronda.drive.Tool.run")
        call = self._calls.get(event.call_id)
        if call is None:  # a call of before a restart
            opened.emit("inputs", {"id": event.call_id})
        else:
            opened.emit("inputs", {"name": call.name, "arguments": _arguments(call), "id": call.id})

    def _tool_finished(self, event: events.ToolFinished) -> None:
        result = event.result
        opened = self._tools.pop(result.call_id, None)
        if opened is not None:
            if result.failed:
                opened.emit("failed", True)
            opened.emit("result", result.content)
            opened.close(event.at or None)

    def _end(self, why: str, at: float | None) -> None:
        for opened in (*self._tools.values(), *([self._model] if self._model is not None else ())):
            opened.emit("result", {"exception": "RunEnded", "message": why})
            opened.close(at)
        if self._model is not None:
            _current.set(self._around)
        self._tools = {}
        self._model = None


class _TracedTool:
    __slots__ = ("_spans", "_tool", "spec")

    def __init__(self, tool: Tool, spans: RunSpans) -> None:
        self.spec = tool.spec
        self._tool = tool
        self._spans = spans

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        opened = self._spans._tools.get(context.call_id)
        if opened is None:
            return await self._tool.run(arguments, context)
        before = _current.get()
        _current.set(opened.span)
        try:
            return await self._tool.run(arguments, context)
        finally:
            _current.set(before)


def _before(turns: Sequence[Turn], batch: Sequence[events.Event]) -> list[Turn]:
    """The conversation that a model call was made with: without the answer, where that came along with the news of the call."""
    answers = {id(event.turn) for event in batch if type(event) is events.ModelFinished}
    at = next((at for at, turn in enumerate(turns) if id(turn) in answers), len(turns))
    return list(turns[:at])


def _turn_fields(turn: AssistantTurn) -> dict[str, Any]:
    fields: dict[str, Any] = {"content": turn.text or turn.refusal, "finish_reason": turn.stop}
    if turn.calls:
        fields["tool_calls"] = [{"id": one.id, "name": one.name, "arguments": _arguments(one)} for one in turn.calls]
    return fields


def _arguments(call: ToolCall) -> Any:
    try:
        return msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return call.arguments


def _token_counts(usage: Usage) -> dict[str, int]:
    more = {"cached_tokens": usage.cached, "reasoning_tokens": usage.reasoning}
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": usage.total,
        **{name: count for name, count in more.items() if count},
    }
