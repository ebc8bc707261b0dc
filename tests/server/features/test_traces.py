"""Runs as traces of OpenTelemetry: what a collector receives, decoded from its protobuf."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter
from opentelemetry.sdk.trace.export import ConsoleSpanExporter
from tests.interaction.doors import Door, Served, soon, user
from tests.interaction.upstreams import Upstream, answers, call, completes
from tests.server.features.test_system import doctor_of
from tests.tools.mcp.serving import config

from ronda import Agent, resume_agent_async, run_agent_async, tool
from ronda.core.parts import ToolTurn, Usage
from ronda.core.prices import Price
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.server.features.contract import Line
from ronda.server.features.table import make_config
from ronda.server.features.traces.feature import Traces
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.function import as_tool
from ronda.tools.mcp.config import Process
from ronda.trace import OpenTelemetry

TINY = Path(__file__).parents[2] / "tools" / "mcp" / "tiny.py"
CANARY = "sk-canary-0123456789abcdef"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = PARENT.split("-")[1]


@dataclass
class Told:
    """A span as a test reads it."""

    name: str
    id: str
    parent: str
    trace: str
    attributes: dict[str, Any]
    failed: bool
    schema: str


@dataclass
class Collector:
    url: str = ""
    runner: web.AppRunner | None = None
    bodies: list[bytes] = field(default_factory=list)
    spans: list[Told] = field(default_factory=list)
    metrics: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    async def close(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()

    def named(self, name: str) -> list[Told]:
        return [span for span in self.spans if span.name == name]

    async def take_traces(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.spans += [
                    Told(
                        one.name, one.span_id.hex(), one.parent_span_id.hex(), one.trace_id.hex(),
                        _attributes(one.attributes), one.status.code == 2, scope.schema_url,
                    )
                    for one in scope.spans
                ]  # fmt: skip
        return web.Response(content_type="application/x-protobuf")

    async def take_metrics(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.bodies.append(body)
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = [{**_attributes(one.attributes), "sum": one.sum} for one in metric.histogram.data_points]
                    self.metrics.setdefault(metric.name, []).extend(points)
        return web.Response(content_type="application/x-protobuf")


def _attributes(pairs: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        found[pair.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return found


@asynccontextmanager
async def collecting(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take_traces)
    app.router.add_post("/v1/metrics", collector.take_metrics)
    runner = collector.runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization={CANARY}")
    try:
        yield collector
    finally:
        await collector.close()


@asynccontextmanager
async def traced(door: Door, model: Any, *tools: Any, **settings: Any) -> AsyncIterator[Served]:
    """A server that has started, as its process would start it."""
    async with door.serving(model, *tools, **settings) as served:
        await served.server.start()
        yield served


def look(city: str) -> str:
    """Look outside.

    Args:
        city: Where.
    """
    return f"a secret rain in {city}"


async def test_a_run_is_a_trace_with_its_model_calls_and_tools(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        collecting(monkeypatch) as collector,
        traced(
            door,
            ScriptedModel(replace(calls("look", city="Paris"), usage=Usage(100, 10)), says("Rain.")),
            as_tool(look),
            otel=True,
            prices={"script:*": Price(1.0, 10.0)},
        ) as served,
    ):
        answer = await served.post(
            {"messages": [user("How is Paris?")], "temperature": 0.5}, headers={"traceparent": PARENT}
        )

    run = answer.headers["x-ronda-run"]
    [agent] = collector.named("invoke_agent")
    chats, [executed] = collector.named("chat test"), collector.named("execute_tool look")
    assert (agent.trace, agent.parent) == (TRACE, PARENT.split("-")[2])
    assert [(one.parent, one.trace) for one in (*chats, executed)] == [(agent.id, TRACE)] * 3
    assert agent.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert agent.attributes["ronda.run.id"] == run
    assert agent.attributes["gen_ai.conversation.id"].startswith("sess_")
    assert chats[0].attributes["gen_ai.system"] == "script"
    assert chats[0].attributes["gen_ai.request.temperature"] == 0.5
    assert chats[0].attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"} <= chats[0].attributes.keys()
    assert chats[0].attributes["ronda.usage.cost"] == pytest.approx(0.0002)  # dollars, by the prices above
    assert executed.attributes["gen_ai.tool.name"] == "look"
    assert chats[0].schema == "https://opentelemetry.io/schemas/1.36.0"
    operations = {point["gen_ai.operation.name"] for point in collector.metrics["gen_ai.client.operation.duration"]}
    assert operations == {"invoke_agent", "chat", "execute_tool"}
    kinds = {point["gen_ai.token.type"] for point in collector.metrics["gen_ai.client.token.usage"]}
    assert kinds == {"input", "output"}
    told = b"".join(collector.bodies)
    assert not [word for word in (b"How is Paris", b"secret rain", b"Rain.", CANARY.encode()) if word in told]


@pytest.mark.parametrize("signal", ["TRACES", "METRICS"])
async def test_either_is_switched_off_by_its_variable(door: Door, monkeypatch: pytest.MonkeyPatch, signal: str) -> None:
    monkeypatch.setenv(f"OTEL_{signal}_EXPORTER", "none")
    async with (
        collecting(monkeypatch) as collector,
        traced(door, ScriptedModel(says("Hi.")), otel=True) as served,
    ):
        await served.ask(stream=False)
    assert (bool(collector.spans), bool(collector.metrics)) == (signal == "METRICS", signal == "TRACES")


async def test_a_disabled_sdk_sends_no_trace_of_its_own(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    async with (
        collecting(monkeypatch) as collector,
        Upstream(completes("Hi."), completes("Hi.")) as upstream,
        traced(door, upstream.url, otel=True) as served,
    ):
        await served.post({"messages": [user("Hi")]})
        await served.post({"messages": [user("Hi")]}, headers={"traceparent": PARENT})
        [traces, metrics] = await doctor_of(served, "traces")
    assert [head.get("traceparent") for head in upstream.heads] == [None, PARENT]
    assert collector.bodies == []
    assert {traces.text, metrics.text} == {"OTEL_SDK_DISABLED leaves them out"}


@pytest.mark.parametrize(
    ("variable", "value", "helps"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "opentelemetry-exporter-otlp-proto-grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/xml", "http/protobuf or grpc"),
        ("OTEL_TRACES_EXPORTER", "otlp,jaeger", "'jaeger'"),
        ("OTEL_METRICS_EXPORTER", "statsd", "'statsd'"),
    ],
)
def test_an_exporter_that_is_not_there_is_named_before_the_server_starts(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, helps: str
) -> None:
    settings = make_config({"model": "script:test", "otel": True})
    assert list(Traces.check(settings)) == []
    monkeypatch.setenv(variable, value)
    problems = [finding.problem for finding in Traces.check(settings)]
    assert problems
    assert all(helps in problem and "OTEL_" in problem for problem in problems)


async def test_exporters_are_those_that_variables_name(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    for kind in (ConsoleSpanExporter, ConsoleMetricExporter):
        monkeypatch.setattr(kind, "export", lambda self, *_, **__: written.append(type(self).__name__))
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp,console")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "console")
    async with collecting(monkeypatch) as collector, traced(door, ScriptedModel(says("Hi.")), otel=True) as served:
        await served.ask(stream=False)
        lines = await doctor_of(served, "traces")
    assert ([line.state for line in lines], lines[1].text) == (["works", "missing"], "they go to console only")
    assert (len(collector.named("chat test")), collector.metrics) == (1, {})
    assert set(written) == {"ConsoleSpanExporter", "ConsoleMetricExporter"}


async def test_the_doctor_asks_whether_the_collector_takes_what_is_sent(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with collecting(monkeypatch) as collector, traced(door, ScriptedModel(), otel=True) as served:
        works = await doctor_of(served, "traces")
        await collector.close()
        monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
        fails = await doctor_of(served, "traces")
    assert works == [Line(f"otel {one}", "works", f"{collector.url} takes them") for one in ("traces", "metrics")]
    assert [(line.name, line.state, line.text) for line in fails] == [
        ("otel traces", "fails", f"{collector.url} does not take them"),
        ("otel metrics", "missing", "OTEL_METRICS_EXPORTER leaves them out"),
    ]
    assert CANARY not in repr([works, fails])


async def test_content_is_told_where_it_is_asked_for(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    async with collecting(monkeypatch) as collector:
        model = ScriptedModel(calls("look", city="Paris"), says("Rain."))
        async with traced(door, model, as_tool(look), otel=True, otel_content=True) as served:
            await served.post({"messages": [user("How is Paris?")]})

    first, second = collector.named("chat test")
    [executed] = collector.named("execute_tool look")
    assert json.loads(first.attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "How is Paris?"}]}
    ]
    assert json.loads(second.attributes["gen_ai.output.messages"])[0]["parts"][0]["content"] == "Rain."
    assert executed.attributes["gen_ai.tool.call.result"] == "a secret rain in Paris"
    assert json.loads(executed.attributes["gen_ai.tool.call.arguments"]) == {"city": "Paris"}


async def test_a_model_that_answered_in_anothers_place_is_named(
    door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "down.json").write_text(json.dumps([{"error": "down", "status": 503}]))
    models = {"safe": {"model": f"script:{tmp_path / 'down.json'}", "fallback": ["default"]}}
    async with (
        collecting(monkeypatch) as collector,
        traced(door, ScriptedModel(says("Hi."), says("Hi.")), models=models, otel=True) as served,
    ):
        await served.post({"model": "safe", "messages": [user("Hi")]})
        await served.post({"messages": [user("Hi")]})

    answered_by = [span.attributes.get("gen_ai.response.model") for span in collector.spans if span.name[:5] == "chat "]
    assert answered_by == ["test", None]


async def test_the_newest_conventions_are_switched_on_by_their_variable(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http,gen_ai_latest_experimental")
    async with collecting(monkeypatch) as collector, traced(door, ScriptedModel(says("Hi.")), otel=True) as served:
        await served.post({"messages": [user("Hi")]})

    [chat] = collector.named("chat test")
    assert "gen_ai.system" not in chat.attributes
    assert (chat.attributes["gen_ai.provider.name"], chat.schema[-6:]) == ("script", "1.37.0")


async def test_the_trace_goes_out_to_models_and_to_addresses_of_dispatch(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        collecting(monkeypatch) as collector,
        Upstream(completes(None, call("far")), completes("Done.")) as upstream,
        Upstream(answers(b'{"content":"yes"}')) as dispatch,
    ):
        far = {"type": "function", "function": {"name": "far", "parameters": {"type": "object"}}}
        settings: Any = {"otel": True, "tool_dispatch_url": dispatch.url}
        async with traced(door, upstream.url, **settings) as served:
            answer = await served.post(
                {"messages": [user("Hi")], "tools": [far]},
                headers={"traceparent": PARENT},
            )

    assert answer.status == 200, answer.body
    chats, [executed] = collector.named("chat gpt-test"), collector.named("execute_tool far")
    assert [head["traceparent"] for head in upstream.heads] == [f"00-{TRACE}-{chat.id}-01" for chat in chats]
    assert dispatch.heads[0]["traceparent"] == f"00-{TRACE}-{executed.id}-01"


async def test_without_traces_nothing_goes_out(door: Door) -> None:
    async with Upstream(completes("Done.")) as upstream, door.serving(upstream.url) as served:
        await served.post({"messages": [user("Hi")]}, headers={"traceparent": PARENT})

    assert "traceparent" not in upstream.heads[0]


async def test_a_failed_call_is_told_without_what_it_says(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        collecting(monkeypatch) as collector,
        Upstream() as upstream,
        traced(door, upstream.url, otel=True) as served,
    ):
        await served.post({"messages": [user("Hi")]})

    [agent] = collector.named("invoke_agent")
    assert agent.failed
    assert all(chat.failed for chat in collector.named("chat gpt-test"))
    assert b"script of this upstream" not in b"".join(collector.bodies)


async def test_a_run_that_waits_goes_on_in_the_same_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(approval="ask")
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    journal, agent = MemoryJournal(), Agent(ScriptedModel(calls("pay", amount=3), says("Paid.")), tools=[pay])
    async with collecting(monkeypatch) as collector:
        before, after = OpenTelemetry(), OpenTelemetry()  # as of two processes
        first = await run_agent_async(agent, "Pay.", journal=journal, extensions=[before])
        await _closed(before)
        approved = {question.id: True for question in first.questions}
        last = await resume_agent_async(first.run_id, approved, journal=journal, agent=agent, extensions=[after])
        await _closed(after)

    waiting, finished = collector.named("invoke_agent agent")
    assert last.output == "Paid."
    assert [one.attributes["ronda.run.state"] for one in (waiting, finished)] == ["waiting", "finished"]
    assert {span.trace for span in collector.spans} == {waiting.trace}
    assert [span.parent for span in collector.named("execute_tool pay")] == [finished.id]


async def _closed(telemetry: OpenTelemetry) -> None:
    await asyncio.to_thread(telemetry.close)


async def test_an_agent_that_is_a_tool_stands_inside_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async with collecting(monkeypatch) as collector:
        telemetry = OpenTelemetry()
        inner = Agent(ScriptedModel(says("Rain.")), name="inner", description="Looks.")
        outer = Agent(ScriptedModel(calls("inner", input="go"), says("Done.")), tools=[inner], name="outer")
        await run_agent_async(outer, "Go.", extensions=[telemetry])
        await _closed(telemetry)

    [executed] = collector.named("execute_tool inner")
    agents = {span.parent: span for span in collector.spans if span.name.startswith("invoke_agent")}
    assert executed.id in agents
    assert len({span.trace for span in collector.spans}) == 1


WEATHER = """---
name: weather
description: Looks.
model: script:child.json
---
user:
Look.
"""


async def test_an_agent_an_mcp_server_and_the_next_server_are_parts_of_one_trace(
    door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @tool(approval="ask")
    def pay() -> str:
        """Pay."""
        return "paid"

    (tmp_path / "child.json").write_text(json.dumps(["Rain."]))
    (tmp_path / "weather.prompty").write_text(WEATHER)
    (tmp_path / "weather.prompty").write_text(WEATHER)
    tiny = config(Process(sys.executable, (str(TINY), "meta")), "tiny", era="legacy")
    settings: Any = {"agents": str(tmp_path), "agent_tools": {"default": ("weather",)}, "mcp": [tiny], "otel": True}

    def journal() -> SqliteJournal:
        return SqliteJournal(tmp_path / "journal.db")

    async with collecting(monkeypatch) as collector:
        model = ScriptedModel(calls("tiny_pid"), calls("weather", input="Rome?"), calls("pay"))
        async with traced(door, model, pay, **settings, journal=journal()) as served:
            headers = {"traceparent": PARENT, "tracestate": "a=1"}
            answer = await served.post({"messages": [user("Hi")]}, headers=headers)
            run = answer.headers["x-ronda-run"]
            async with soon(), served.http.get(f"{served.url}/agent/approvals") as listed:
                [question] = (await listed.json())["data"]
        async with traced(door, ScriptedModel(says("Done.")), pay, **settings, journal=journal()) as served, soon():
            url = f"{served.url}/runs/{run}/answer"
            async with served.http.post(url, json={"id": question["approval_id"], "decision": "approve"}) as decided:
                assert decided.status == 200, await decided.text()
            await served.all_over()

    [first, last], [inner] = collector.named("invoke_agent"), collector.named("invoke_agent weather")
    [server], [agent], [paid] = [collector.named(f"execute_tool {name}") for name in ("tiny_pid", "weather", "pay")]
    [result] = [turn for turn in model.heard[1] if isinstance(turn, ToolTurn)]
    sent = json.loads(result.results[0].content)  # that server answers with what came beside the call
    assert (sent["traceparent"], sent["tracestate"]) == (f"00-{TRACE}-{server.id}-01", "a=1")
    assert {span.trace for span in collector.spans} == {TRACE}
    assert inner.parent == agent.id
    assert [one.parent for one in (first, last)] == [PARENT.split("-")[2]] * 2
    assert [one.parent for one in (server, agent, paid)] == [first.id, first.id, last.id]
