"""All figures, each written once: names, labels and words → objects of prometheus-client in a registry.

Names that mistral.rs has too are called as there, so that its dashboards find them. Labels are bounded: a value beyond the first
ones of its kind is counted as "other".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ronda.server.features.contract import Figure

MAX_FIGURES: Final = 500  # values that other features report

_REQUEST: Final = ("method", "path", "model", "status")
_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_TOKEN_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_BYTES: Final = (256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)


class Figures:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(name, words, labels, registry=registry)

        def gauge(name: str, words: str, *labels: str) -> Gauge:
            # Of several processes the sum, of those that live.
            return Gauge(name, words, labels, registry=registry, multiprocess_mode="livesum")

        def histogram(name: str, words: str, buckets: Iterable[float], *labels: str) -> Histogram:
            return Histogram(name, words, labels, registry=registry, buckets=tuple(buckets))

        self.requests = counter("http_requests_total", "Requests that were answered.", *_REQUEST)
        self.request_seconds = histogram(
            "http_request_duration_seconds", "From a request to the end of its answer.", _SECONDS, *_REQUEST
        )
        self.in_flight = gauge("http_requests_in_flight", "Requests whose answers have not ended.", "method", "path")
        self.body_bytes = histogram(
            "http_request_body_bytes", "Bodies whose length was said.", _BYTES, "method", "path", "model"
        )
        self.first_token = histogram(
            "mistralrs_time_to_first_token_seconds", "From a streamed request to its first token.", _SECONDS, *_REQUEST
        )
        self.between_tokens = histogram(
            "mistralrs_inter_token_latency_seconds", "Between tokens of a streamed answer.", _TOKEN_SECONDS, *_REQUEST
        )
        self.tokens_processed = counter("mistralrs_tokens_processed_total", "Input and output of model calls.")
        self.calls_running = gauge("mistralrs_sequences_running", "Model calls under way.")
        self.calls_completed = counter("mistralrs_sequences_completed_total", "Model calls that ended.", "reason")
        self.model_seconds = histogram(
            "ronda_model_call_seconds", "Duration of model calls.", _SECONDS, "model", "outcome"
        )
        self.model_first_token = histogram(
            "ronda_model_first_token_seconds", "From a model call to its first token.", _SECONDS, "model"
        )
        self.model_retries = counter("ronda_model_retries_total", "Model calls that were tried again.", "model")
        self.tokens = counter("ronda_tokens_total", "Tokens, as providers count them.", "model", "kind")
        self.cost = counter("ronda_cost_dollars_total", "US dollars, of calls whose price is known.", "model")
        self.tool_calls = counter("ronda_tool_calls_total", "Calls of tools that the server runs.", "tool", "outcome")
        self.tool_seconds = histogram("ronda_tool_call_seconds", "Duration of tool calls.", _SECONDS, "tool")
        self.approvals = counter("ronda_questions_total", "Questions that runs asked people.")
        self.runs_finished = counter("ronda_runs_finished_total", "Runs that ended.", "reason")
        self.runs_live = gauge("ronda_runs_live", "Runs that this server drives.")
        self.queue = Gauge(  # which all processes share, so that their sum would count each run several times
            "ronda_queue_runs",
            "Runs that wait in the queue, or are driven from it.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.journal_facts = counter(
            "ronda_journal_facts_total", "Facts of runs that were written down, their starts left out."
        )
        self.journal_bytes = Gauge(  # likewise shared
            "ronda_journal_bytes", "What the journal takes.", registry=registry, multiprocess_mode="livemax"
        )
        self.owner_runs = counter("ronda_owner_runs_total", "Runs that ended, by owner.", "owner")
        self.owner_tokens = counter("ronda_owner_tokens_total", "Input and output of model calls, by owner.", "owner")
        self._reported: dict[str, tuple[Any, tuple[str, ...]]] = {}
        self._last: dict[tuple[str, tuple[str, ...]], float] = {}

    def report(self, figures: Iterable[Figure]) -> None:
        """What other features say of now."""
        for figure in figures:
            names = tuple(sorted(figure.labels))
            values = tuple([str(figure.labels[name]) for name in names])
            key = (figure.name, values)
            if key not in self._last and len(self._last) >= MAX_FIGURES:
                continue
            made = self._reported.get(figure.name)
            if made is None:
                made = self._reported[figure.name] = self._make(figure, names), names
            metric, labels = made
            if labels != names:  # one name, other labels: Prometheus would take neither
                continue
            child = metric.labels(*values) if values else metric
            if figure.kind == "counter":
                child.inc(max(0.0, figure.value - self._last.get(key, 0.0)))
            else:
                child.set(figure.value)
            self._last[key] = figure.value

    def _make(self, figure: Figure, labels: tuple[str, ...]) -> Any:
        words = figure.help or figure.name
        if figure.kind == "counter":
            return Counter(figure.name, words, labels, registry=self.registry)
        return Gauge(figure.name, words, labels, registry=self.registry, multiprocess_mode="livesum")
