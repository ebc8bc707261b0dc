"""Runs → spans and metrics of OpenTelemetry, in the words of its conventions for generative AI.

    invoke_agent NAME            a run, from its first step to its end; again when it is taken up after it has waited
      ├─ chat MODEL              a model call, tries of the driver included one by one
      └─ execute_tool NAME       a tool call; an agent that is a tool is an invoke_agent inside of it

It is an extension of a run (`run_agent(…, extensions=[OpenTelemetry()])`) and the inside of the server's `--otel`. Content is not
told unless `content` asks for it. Where spans go is OpenTelemetry's own business: the variables `OTEL_*`, or a provider
that a program gives.

A run keeps its trace wherever it goes on: the trace of the request that started it is kept with the run (`ABOUT`), and a run that
came without one has a trace whose id is made from its own.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw

from ronda._extras import check_extra
from ronda.core.events import Asked, Event, ModelFinished, Released, RunFinished
from ronda.core.parts import AssistantTurn, SystemTurn, ToolTurn, Turn, Usage, UserTurn
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Provider, Show, Tool, ToolContext, ToolOutput, capabilities_of
from ronda.drive.outgoing import OUTGOING, Outgoing
from ronda.trace.collector import exporters_of, resource
from ronda.trace.plain import redact

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

ABOUT: Final = "traceparent"  # in `RunStarted.about`: the trace that a run is part of
# The conventions that are pinned, and those that OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental switches to. They are
# what opentelemetry.io calls stable to keep and newest; between them `gen_ai.system` became `gen_ai.provider.name`.
_PINNED, _LATEST = "1.36.0", "1.37.0"
_OPT_IN: Final = "gen_ai_latest_experimental"
_CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"  # the conventions' own variable
# Characters of one attribute: collectors refuse larger messages (4 MB for a batch, by default).
_MAX_TEXT: Final = 100_000
# Runs at a time that something is remembered of; a run that never ends must not stay for ever.
_MAX_RUNS: Final = 10_000
# Buckets that the conventions recommend for the two metrics.
_TOKEN_BUCKETS: Final = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_SECOND_BUCKETS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
# A provider of ours → its name in the conventions; any other goes by the name that it has here.
_SYSTEMS: Final = {
    "openai": "openai", "openai-chat": "openai", "azure": "azure.ai.openai", "anthropic": "anthropic", "gemini": "gcp.gemini",
    "mistral": "mistral_ai", "mistral-agent": "mistral_ai", "bedrock": "aws.bedrock", "groq": "groq", "deepseek": "deepseek",
    "xai": "x_ai", "perplexity": "perplexity",
}  # fmt: skip

_inside: ContextVar[Span | None] = ContextVar("ronda_otel", default=None)  # the tool call that this code runs in


class OpenTelemetry:
    """An extension that tells a collector of runs. Without providers they are made from the variables `OTEL_*`, and `close` ends
    them; those that a program gives are the program's to end."""

    def __init__(
        self,
        *,
        content: bool | None = None,
        redact: Callable[[str], str] | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        """`content`: whether messages, arguments and results are told; None: as the variable
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says, and no if it is not set. `redact`: what becomes of their words
        before they are told."""
        check_extra("otel", "OpenTelemetry")
        self._is_latest = _OPT_IN in os.environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").split(",")
        self.content = os.environ.get(_CAPTURE, "").lower() in ("true", "1") if content is None else content
        self._redact = redact
        self._own: list[Any] = []
        traces = tracer_provider or self._own_tracer_provider()
        meters = meter_provider or self._own_meter_provider()
        schema = f"https://opentelemetry.io/schemas/{_LATEST if self._is_latest else _PINNED}"
        self._tracer = traces.get_tracer("ronda", schema_url=schema)
        meter = meters.get_meter("ronda", schema_url=schema)
        self._token_usage = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens of model calls.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )  # fmt: skip
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", "How long model calls, tool calls and runs took.",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )  # fmt: skip
        self._runs: OrderedDict[str, _RunTrace] = OrderedDict()

    def words(self, value: Any) -> str:
        """As JSON, redacted before it is written."""
        return _text(self.redacted(value))

    def redacted(self, value: Any) -> Any:
        if self._redact is None:
            return value
        from ronda.journal.redacting import redacted

        return redacted(value, self._redact)

    def _own_tracer_provider(self) -> TracerProvider:
        from opentelemetry.sdk.trace import TracerProvider as Sdk
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        made = Sdk(resource=resource(), id_generator=_ids(), shutdown_on_exit=False)
        for exporter in exporters_of("traces"):
            made.add_span_processor(BatchSpanProcessor(exporter()))
        self._own.append(made)
        return made

    def _own_meter_provider(self) -> MeterProvider:
        from opentelemetry.sdk.metrics import MeterProvider as Sdk
        from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader

        made_by = [exporter() for exporter in exporters_of("metrics")]
        readers = [one if isinstance(one, MetricReader) else PeriodicExportingMetricReader(one) for one in made_by]
        made = Sdk(readers, resource=resource(), shutdown_on_exit=False)
        self._own.append(made)
        return made

    def close(self) -> None:
        """Send what there is. It may wait for the collector: not for an event loop."""
        for trace in tuple(self._runs.values()):
            trace.end()
        for one in self._own:
            one.shutdown()

    # ---- an extension of runs (`host.extension`) ---------------------------------------------------------------------

    def tap(self, run: Run) -> Callable[[Sequence[Event]], object]:
        trace = self._runs[run.id] = _RunTrace(self, run)
        self._runs.move_to_end(run.id)
        if len(self._runs) > _MAX_RUNS:
            self._runs.popitem(last=False)[1].end()
        return trace.take

    def around(self, run: Run, provider: Provider) -> Provider:
        trace = self._runs.get(run.id)
        return provider if trace is None else _TracedProvider(provider, trace)

    def around_tool(self, run: Run, tool: Tool) -> Tool:
        trace = self._runs.get(run.id)
        return tool if trace is None else _TracedTool(tool, trace)

    # ---- what all spans share ----------------------------------------------------------------------------------------

    def _begin(self, name: str, parent: Context | None, attributes: Mapping[str, Any], *, is_client: bool) -> Span:
        from opentelemetry.trace import SpanKind

        kind = SpanKind.CLIENT if is_client else SpanKind.INTERNAL
        return self._tracer.start_span(name, parent, kind=kind, attributes=attributes)

    def _forget(self, run: str, trace: _RunTrace) -> None:
        if self._runs.get(run) is trace:
            del self._runs[run]

    def system_of(self, model: str) -> dict[str, str]:
        name = model.partition(":")[0]
        return {"gen_ai.provider.name" if self._is_latest else "gen_ai.system": _SYSTEMS.get(name, name)}


class _RunTrace:
    """The spans of one run, while it is driven."""

    def __init__(self, otel: OpenTelemetry, run: Run) -> None:
        self._otel = otel
        self._run = run
        self._around = _inside.get()  # the call that this run is
        self._span: Span | None = None
        self._began = 0.0
        model = run.plan.model or "unknown"
        self.shared = {**otel.system_of(model), "gen_ai.request.model": model.partition(":")[2] or model}

    @property
    def otel(self) -> OpenTelemetry:
        return self._otel

    def context(self) -> Context:
        """That of the run's span, which begins with the first that happens in it."""
        from opentelemetry import trace

        if self._span is None:
            self._span, self._began = self._begin(), time.monotonic()
        return trace.set_span_in_context(self._span)

    def take(self, facts: Sequence[Event]) -> None:
        self.context()
        for fact in facts:
            if isinstance(fact, RunFinished):
                self._finish(fact)
            elif isinstance(fact, Asked):
                assert self._span is not None
                self._span.add_event("ronda.question", {"gen_ai.tool.name": fact.tool, "ronda.question.id": fact.id})
            elif isinstance(fact, Released):
                self.end("released")
        if self._span is not None and self._run.is_waiting:
            self.end("waiting")

    def end(self, state: str = "") -> None:
        """Of what is known so far. What happens in the run later has a span of its own, in the same trace."""
        if self._span is not None:
            self._span.set_attributes(_spent(self._run.usage))
            if state:
                self._span.set_attribute("ronda.run.state", state)
            self._span.end()
            self._span = None
        self._otel._forget(self._run.id, self)

    def _begin(self) -> Span:
        run, start = self._run, self._run.start
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            **self.shared,
            "gen_ai.conversation.id": start.session or run.id,
            "ronda.run.id": run.id,
        }
        if start.agent:
            attributes |= {"gen_ai.agent.name": start.agent, "gen_ai.agent.id": start.agent}
        name = f"invoke_agent {start.agent}" if start.agent else "invoke_agent"
        parent, forced = self._parent()
        token = _trace_id.set(forced)
        try:
            return self._otel._begin(name, parent, attributes, is_client=False)
        finally:
            _trace_id.reset(token)

    def _parent(self) -> tuple[Context, int | None]:
        """Where the run's span stands; or the trace that it begins."""
        from opentelemetry import trace
        from opentelemetry.context import Context, get_current
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        if self._around is not None:
            return trace.set_span_in_context(self._around), None
        if (kept := self._run.start.about.get(ABOUT)) is not None:
            try:
                carrier = msgspec.json.decode(kept, type=dict[str, str])
            except msgspec.MsgspecError:  # of a Ronda to come
                carrier = {}
            found = TraceContextTextMapPropagator().extract(carrier, Context())
            if trace.get_current_span(found).get_span_context().is_valid:
                return found, None
        if trace.get_current_span().get_span_context().is_valid:
            return get_current(), None
        return Context(), int.from_bytes(blake2b(self._run.id.encode(), digest_size=16).digest())

    def _finish(self, end: RunFinished) -> None:
        from opentelemetry.trace import Status, StatusCode

        assert self._span is not None
        failed = end.reason in ("failed", "interrupted")
        self._span.set_attributes({"gen_ai.response.finish_reasons": [end.reason], "ronda.run.state": "finished"})
        labels = {"gen_ai.operation.name": "invoke_agent", **self.shared}
        if failed:
            code = end.code or end.reason
            self._span.set_attribute("error.type", code)
            self._span.set_status(Status(StatusCode.ERROR))  # its message may say what was said to a model
            labels["error.type"] = code
        self._otel._durations.record(time.monotonic() - self._began, labels)
        self.end()


class _TracedProvider(Provider):
    def __init__(self, provider: Provider, trace: _RunTrace) -> None:
        self._provider = provider
        self._trace = trace
        self.capabilities = capabilities_of(provider)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        trace, otel = self._trace, self._trace.otel
        labels = {"gen_ai.operation.name": "chat", **trace.shared}
        span = otel._begin(
            f"chat {trace.shared['gen_ai.request.model']}",
            trace.context(),
            {**labels, **_options(request), "gen_ai.conversation.id": trace._run.start.session or request.run},
            is_client=True,
        )
        if otel.content:
            span.set_attribute("gen_ai.input.messages", otel.words([_message(turn) for turn in request.turns]))
        began, token = time.monotonic(), OUTGOING.set(_outgoing(span))
        first = 0.0

        def timed(previews: Any) -> bool | None:
            nonlocal first
            if not first:
                first = time.monotonic()
                span.add_event("gen_ai.first_token")
            return show(previews)

        try:
            finished = await self._provider.call(request, timed if request.stream else show)
        except BaseException as error:
            labels["error.type"] = _fail(span, error)
            raise
        else:
            usage = finished.usage
            span.set_attributes({"gen_ai.response.finish_reasons": [finished.turn.stop], **_spent(usage)})
            if finished.model:
                labels["gen_ai.response.model"] = finished.model.partition(":")[2]
                span.set_attribute("gen_ai.response.model", labels["gen_ai.response.model"])
            if otel.content:
                span.set_attribute("gen_ai.output.messages", otel.words([_message(finished.turn)]))
            for kind, count in (("input", usage.input), ("output", usage.output)):
                otel._token_usage.record(count, {**labels, "gen_ai.token.type": kind})
            return finished
        finally:
            OUTGOING.reset(token)
            otel._durations.record(time.monotonic() - began, labels)
            span.end()


class _TracedTool:
    __slots__ = ("_tool", "_trace", "spec")

    def __init__(self, tool: Tool, trace: _RunTrace) -> None:
        self.spec = tool.spec
        self._tool = tool
        self._trace = trace

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        otel, name = self._trace.otel, self.spec.name
        labels = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        more = {"gen_ai.tool.call.id": context.call_id, "gen_ai.tool.type": "function", "ronda.run.id": context.run}
        span = otel._begin(f"execute_tool {name}", self._trace.context(), {**labels, **more}, is_client=False)
        if otel.content:
            span.set_attribute("gen_ai.tool.call.arguments", otel.words(redact(arguments)))
        began, token, before = time.monotonic(), OUTGOING.set(_outgoing(span)), _inside.set(span)
        try:
            output = await self._tool.run(arguments, context)
        except BaseException as error:
            labels["error.type"] = _fail(span, error)
            raise
        else:
            if output.failed:
                from opentelemetry.trace import Status, StatusCode

                labels["error.type"] = "tool_failed"
                span.set_attribute("error.type", "tool_failed")
                span.set_status(Status(StatusCode.ERROR))
            if otel.content:
                span.set_attribute("gen_ai.tool.call.result", otel.redacted(output.content)[:_MAX_TEXT])
            return output
        finally:
            OUTGOING.reset(token)
            _inside.reset(before)
            otel._durations.record(time.monotonic() - began, labels)
            span.end()


def _options(request: ModelRequest) -> dict[str, Any]:
    options = request.options
    found = {
        "gen_ai.request.temperature": options.temperature,
        "gen_ai.request.top_p": options.top_p,
        "gen_ai.request.max_tokens": options.max_tokens,
        "gen_ai.request.seed": options.seed,
    }
    more = {"ronda.run.id": request.run, "ronda.round": request.round, "ronda.attempt": request.attempt}
    return {name: value for name, value in found.items() if value is not None} | more


def _spent(usage: Usage) -> dict[str, Any]:
    spent: dict[str, Any] = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
    }
    if usage.cost is not None:
        spent["ronda.usage.cost"] = usage.cost
    return spent


def _outgoing(span: Span) -> Outgoing | None:
    context = span.get_span_context()
    if not context.is_valid:  # the SDK is disabled, and the request is part of no trace
        return None
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    return Outgoing(parent, context.trace_state.to_header())


def _fail(span: Span, error: BaseException) -> str:
    """By the name of its class only: what an error says may be what was said to a model."""
    from opentelemetry.trace import Status, StatusCode

    name = type(error).__name__
    span.set_attribute("error.type", name)
    span.set_status(Status(StatusCode.ERROR))
    return name


def _message(turn: Turn) -> dict[str, Any]:
    match turn:
        case SystemTurn(text=text):
            return {"role": "system", "parts": [{"type": "text", "content": text}]}
        case UserTurn(parts=parts):
            shown = [
                {"type": "text", "content": said} if (said := getattr(part, "text", None)) is not None
                else {"type": type(part).__name__.lower()}
                for part in parts
            ]  # fmt: skip
            return {"role": "user", "parts": shown}
        case AssistantTurn():
            calls = [
                {"type": "tool_call", "id": call.id, "name": call.name, "arguments": redact(call.arguments)}
                for call in turn.calls
            ]
            texts = [{"type": "text", "content": turn.text}] if turn.text else []
            return {"role": "assistant", "parts": [*texts, *calls], "finish_reason": turn.stop}
        case ToolTurn(results=results):
            answers = [{"type": "tool_call_response", "id": one.call_id, "response": one.content} for one in results]
            return {"role": "tool", "parts": answers}


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:_MAX_TEXT]


def keep_parent(headers: Mapping[str, str]) -> dict[str, Raw]:
    """What is kept with a run of the trace that its request is part of."""
    members = {name: headers[name] for name in ("traceparent", "tracestate") if headers.get(name)}
    return {ABOUT: Raw(msgspec.json.encode(members))} if "traceparent" in members else {}


# ---- the parts of OpenTelemetry that are imported with the first use ----------------------------------------------------

_trace_id: ContextVar[int | None] = ContextVar("ronda_trace_id", default=None)


def _ids() -> Any:
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        """By chance, but for a trace whose id is made from its run's."""

        def generate_trace_id(self) -> int:
            return _trace_id.get() or super().generate_trace_id()

    return Ids()
