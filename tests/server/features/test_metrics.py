"""Figures for Prometheus: what they count, who may read them, and that their labels stay few."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families
from tests.interaction.doors import Door, Served, user
from tests.server.coding import post, serving
from tests.server.coding import root as root
from tests.server.responses_door import connected
from tests.server.services.test_served_code import HI
from tests.tools.mcp.serving import config

import ronda
from ronda.core.parts import Usage
from ronda.journal.sqlite import SqliteJournal
from ronda.providers.script import ScriptedModel, calls, says
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Feature, Figure, Services
from ronda.server.features.metrics.feature import Bounded, Metrics
from ronda.server.features.metrics.figures import Figures
from ronda.server.features.metrics.settings import MetricsOptions
from ronda.store.keys import KeyRow, hash_key
from ronda.tools.function import as_tool
from ronda.tools.mcp.config import Process

ON: Any = {"metrics": MetricsOptions(enabled=True)}
TINY = Path(__file__).parents[2] / "tools" / "mcp" / "tiny.py"
FEATURES = Path(ronda.__file__).parent / "server" / "features"
REPORTED = re.compile(r'\bFigure\(\s*"(\w+)"')  # by features other than this one
DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana-dashboard.json"


def read(text: str) -> dict[tuple[str, ...], float]:
    """(name, label=value, …) → the number."""
    return {
        (sample.name, *sorted(f"{name}={value}" for name, value in sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scrape(served: Served, **headers: str) -> tuple[int, str]:
    async with served.http.get(served.url.removesuffix("/v1") + "/metrics", headers=headers) as answer:
        return answer.status, await answer.text()


async def figures(served: Served) -> dict[tuple[str, ...], float]:
    status, text = await scrape(served)
    assert status == 200
    return read(text)


async def test_requests_model_calls_tools_and_runs_are_counted(door: Door) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel(calls("look"), says("over", chunks=("o", "ver")))
    async with door.serving(model, as_tool(look), **ON) as served:
        await served.ask(stream=True)
        found = await figures(served)

    request = ("method=POST", "model=script:test", "path=/v1/chat/completions", "status=200")
    assert found["http_requests_total", *request] == 1
    assert found["http_request_duration_seconds_count", *request] == 1
    assert found["http_request_body_bytes_count", *request[:3]] == 1
    assert found["http_requests_in_flight", "method=POST", "path=/v1/chat/completions"] == 0
    assert found["mistralrs_time_to_first_token_seconds_count", *request] == 1
    assert found["mistralrs_inter_token_latency_seconds_count", *request] >= 1
    assert found["mistralrs_tokens_processed_total",] == 30
    assert found["mistralrs_sequences_completed_total", "reason=tool_calls"] == 1
    assert found["mistralrs_sequences_completed_total", "reason=stop"] == 1
    assert found["ronda_tokens_total", "kind=input", "model=script:test"] == 20
    assert found["ronda_tool_calls_total", "outcome=ok", "tool=look"] == 1
    assert found["ronda_runs_finished_total", "reason=stop"] == 1
    assert found["ronda_runs_live",] == 0


async def test_a_cost_that_is_not_known_is_no_figure(door: Door) -> None:
    async with door.serving(ScriptedModel(says("a"), says("b", usage=Usage(10, 5, cost=0.25))), **ON) as served:
        await served.ask(stream=False)
        before = await figures(served)
        await served.ask(stream=False)
        after = await figures(served)

    cost = ("ronda_cost_dollars_total", "model=script:test")
    assert (cost in before, after.get(cost)) == (False, 0.25)


async def test_tokens_are_of_the_model_that_answered(door: Door, tmp_path: Path) -> None:
    (tmp_path / "down.json").write_text(json.dumps([{"error": "down", "status": 503}]))
    models = {"safe": {"model": f"script:{tmp_path / 'down.json'}", "fallback": ["default"]}}
    async with door.serving(ScriptedModel(says("a")), models=models, **ON) as served:
        answer = await served.post({"model": "safe", "messages": [user("Hi")]})
        found = await figures(served)

    assert answer.status == 200
    counted = {key[2] for key, value in found.items() if key[0] == "ronda_tokens_total" and value}
    assert counted == {"model=script:test"}


async def test_no_path_of_a_client_is_a_label_and_probes_are_not_counted(door: Door) -> None:
    async with door.serving(ScriptedModel(), **ON) as served:
        for path in ("/canary-1", "/v1/runs/canary-2", "/health", "/ui/canary", "/metrics"):
            async with served.http.get(served.url.removesuffix("/v1") + path) as answer:
                await answer.read()
        _, text = await scrape(served)

    paths = {label for key in read(text) for label in key if label.startswith("path=")}
    assert paths == {"path=<unmatched>", "path=/v1/runs/{id}"}
    assert "canary" not in text


async def test_a_websocket_is_counted(door: Door) -> None:
    async with door.serving(ScriptedModel(says("one")), **ON) as served, connected(served) as socket:
        await socket.turn(input="x")
        found = await figures(served)

    assert found["http_requests_in_flight", "method=WEBSOCKET", "path=/v1/responses"] == 1


async def test_once_there_are_keys_figures_need_the_right_to_operate(door: Door) -> None:
    class Operators(Feature):
        name = "operators"

        async def sign_in(self, request: Any) -> str | None:
            if request.header(b"x-operator") is None:
                return None
            request.rights = frozenset({"operate"})
            return "ann"

    async with door.serving(ScriptedModel(), features=[Metrics, Operators], **ON) as served:
        await served.server.catalog.keys.add(KeyRow("key_1", "ann", hash_key(b"rk_mine"), 1.0))
        unknown = await scrape(served)
        with_key = await scrape(served, authorization="Bearer rk_mine")
        operator = await scrape(served, **{"x-operator": "yes"})

    assert [unknown[0], with_key[0], operator[0]] == [401, 403, 200]
    assert "the scope 'operate'" in with_key[1]
    assert "http_requests" not in unknown[1] + with_key[1]


async def test_the_port_serves_figures_to_this_machine_alone(door: Door) -> None:
    async with door.serving(ScriptedModel(), metrics=MetricsOptions(port=0)) as served:
        feature: Any = served.server.features.find("metrics")
        await feature.start()
        try:
            base = f"http://127.0.0.1:{feature.port.port}"
            said = []
            for path, host in (("/metrics", "localhost"), ("/metrics", "evil.example"), ("/v1/models", "localhost")):
                async with served.http.get(base + path, headers={"host": host}) as answer:
                    said.append((answer.status, "ronda_runs_live" in await answer.text()))
        finally:
            await feature.stop()
        status, _ = await scrape(served)

    assert said == [(200, True), (403, False), (404, False)]
    assert status == 404  # on the server's own port it was not asked for


async def test_owners_are_labels_only_if_asked_for_and_only_so_many(door: Door) -> None:
    async with door.serving(
        ScriptedModel(says("x"), says("y"), says("z")), metrics=MetricsOptions(enabled=True, owners=1)
    ) as served:
        for key in ("one", "two", "three"):
            await served.ask(stream=False, key=key)
        found = await figures(served)
    async with door.serving(ScriptedModel(says("x")), **ON) as served:
        await served.ask(stream=False)
        without = await figures(served)

    counts = {key[1]: value for key, value in found.items() if key[0] == "ronda_owner_runs_total"}
    assert counts.pop("owner=other") == 2
    assert list(counts.values()) == [1]
    assert not [key for key in without if "owner" in "".join(key)]


async def test_figures_of_other_features_are_among_them(door: Door) -> None:
    class Reporting(Feature):
        name = "reporting"

        def __init__(self, settings: ServerConfig, services: Services) -> None:
            self._count = 0.0

        def figures(self) -> Iterable[Figure]:
            self._count += 2
            return [
                Figure("parrots_awake", 3, {"cage": "b"}, help="Parrots."),
                Figure("parrots_fed_total", self._count, kind="counter"),
                Figure("parrots_awake", 3, {"colour": "red"}),
            ]

    async with door.serving(ScriptedModel(), features=[Metrics, Reporting], **ON) as served:
        await figures(served)
        found = await figures(served)

    assert found["parrots_awake", "cage=b"] == 3
    assert found["parrots_fed_total",] == 4


async def test_without_a_setting_for_it_nothing_is_loaded(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, _ = await scrape(served)
        assert served.server.features.find("metrics") is None

    assert status == 404


def test_a_label_has_only_so_many_values() -> None:
    bounded = Bounded(2)

    assert [bounded.value(name) for name in ("a", "b", "c", "a")] == ["a", "b", "other", "a"]


# What the dashboard leaves out: figures that only some servers have, or that another panel shows in another form.
NOT_SHOWN = {
    "http_request_body_bytes", "mistralrs_tokens_processed_total", "mistralrs_sequences_running", "ronda_model_call_seconds",
    "ronda_model_first_token_seconds", "ronda_owner_runs_total", "ronda_owner_tokens_total", "ronda_mcp_server_tools",
}  # fmt: skip


async def exported(door: Door, root: Path) -> dict[str, set[str]]:
    """Each sample with its labels: our own figures, and what features of servers report that have them."""
    found: dict[str, set[str]] = {}
    for metric in vars(Figures()).values():
        if isinstance(metric, MetricWrapperBase):
            [family] = metric.collect()
            found |= {sample: set(metric._labelnames) for sample in _samples(family)}
    tiny = config(Process(sys.executable, (str(TINY), "")), "tiny", era="legacy")
    async with door.serving(ScriptedModel(says("Hi.")), mcp=[tiny], schedules=True, **ON) as served:
        await served.ask(stream=False)  # which connects to servers
        texts = [(await scrape(served))[1]]
    async with (
        serving(door, ScriptedModel(), root, **ON),
        door.http.get(f"{door.url.removesuffix('/v1')}/metrics") as answer,
    ):
        texts.append(await answer.text())
    for text in texts:
        for family in text_string_to_metric_families(text):
            if not family.name.endswith("_created"):
                found |= {one.name: set(one.labels) for one in family.samples if one.name not in found}
    return found


async def test_the_dashboard_shows_figures_that_there_are(door: Door, root: Path) -> None:
    there, shown = await exported(door, root), set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            [sample] = re.findall(r"\b(?:http|mistralrs|ronda)_\w+", target["expr"])  # of two, one could hide the other
            shown.add(sample)
            grouped = {word for words in re.findall(r"\bby \(([^)]*)\)", target["expr"]) for word in words.split(", ")}
            assert grouped - {"le"} <= there[sample], target["expr"]
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= grouped

    kinds = {sample.removesuffix("_bucket") for sample in there if not sample.endswith(("_count", "_sum"))}
    assert kinds - {sample.removesuffix("_bucket") for sample in shown} == NOT_SHOWN


async def test_the_docs_name_every_figure(door: Door, root: Path) -> None:
    text = (DASHBOARD.parent / "operate.md").read_text()
    kinds = [re.sub("_(bucket|count|sum)$", "", sample) for sample in await exported(door, root)]
    assert [kind for kind in kinds if f"`{kind}`" not in text] == []


def _samples(metric: Any) -> list[str]:
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(metric.type, ("",))
    return [metric.name + suffix for suffix in suffixes]


async def test_the_journal_is_told_of(door: Door, tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    async with door.serving(ScriptedModel(says("Hi.")), journal=journal, **ON) as served:
        answer = await served.post({"messages": [user("Hi")]})
        await served.all_over()
        found = await figures(served)
        facts = await journal.read(answer.headers["x-ronda-run"])
        size = await journal.size()

    assert found["ronda_journal_facts_total",] == len(facts[1:]) > 2
    assert found["ronda_journal_bytes",] == size > 0


async def test_sandboxes_are_told_of(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_execute_python", code="6 * 7"), says("done"))
    async with serving(door, model, root, **ON) as server:
        status, _ = await post(door, "chat/completions", {"messages": HI, "enable_code_execution": True})
        async with door.http.get(f"{door.url.removesuffix('/v1')}/metrics") as answer:
            found = read(await answer.text())
        features = [one.name for one in server.features.all]

    assert (status, "code" in features) == (200, True)
    assert [found["ronda_sandboxes", f"state={state}"] for state in ("busy", "idle", "spare")] == [0, 1, 0]


async def test_each_mcp_server_is_told_of(door: Door) -> None:
    tiny = config(Process(sys.executable, (str(TINY), "")), "tiny", era="legacy")
    gone = config(Process(sys.executable, (str(TINY), "missing")), "gone", era="legacy")
    async with door.serving(ScriptedModel(says("Hi.")), mcp=[tiny, gone], **ON) as served:
        await served.ask(stream=False)
        found = await figures(served)

    assert (found["ronda_mcp_server_up", "server=tiny"], found["ronda_mcp_server_up", "server=gone"]) == (1, 0)
    assert found["ronda_mcp_server_tools", "server=tiny"] == 2
