"""The bars: what each figure must reach, what it should aim for, and the table that says so.

A figure is judged as a ratio to its floor (`times`) or alone (`alone`). Less is better, except where a bar is the `least`
that a figure must be.
"""

import statistics
from typing import Literal

import msgspec

Section = Literal["local", "library", "wires", "prompty", "start", "server", "doors", "sessions", "durable", "previews"]
Side = Literal["floor", "ours", "before"]  # before: the commit of `--against`


class Bar(msgspec.Struct, frozen=True):
    """One row of the table."""

    key: str
    section: Section
    figure: str
    unit: str
    judged: Literal["times", "alone"]
    must: float | None  # None: shown, and not judged
    aim: float | None
    least: bool = False  # more is better
    difference: bool = False  # of two costs, so near zero: a ratio of two such figures says nothing

    def reached(self, result: float, line: float) -> bool:
        return result >= line if self.least else result <= line


BARS = (
    Bar("library plain c=1", "library", "library, plain, c=1: CPU per round", "ms", "times", 0.9, 0.6),
    Bar("library plain c=32", "library", "library, plain, c=32: CPU per round", "ms", "times", 0.9, 0.6),
    Bar("library stream c=1", "library", "library, streaming, c=1: CPU per round", "ms", "times", 0.9, 0.6),
    Bar("library stream c=32", "library", "library, streaming, c=32: CPU per round", "ms", "times", 0.9, 0.6),
    Bar("growth", "library", "CPU of round 200 minus round 10", "ms", "alone", 0.12, 0.04, difference=True),
    *(
        Bar(
            f"wire {wire} {mode}",
            "wires",
            f"loop through {wire}, {mode}: CPU per round, to openai-chat",
            "ms",
            "times",
            1.35,
            1.1,
        )
        for wire in ("openai", "anthropic", "mistral", "gemini")
        for mode in ("plain", "stream")
    ),
    Bar(
        "prompty prepare",
        "prompty",
        "prompty file, loaded and prepared again: CPU, beside `prompty`",
        "ms",
        "alone",
        2.0,
        1.0,
    ),
    Bar("start", "start", "process start to first answer: wall", "s", "times", 1.0, 0.5),
    Bar("start memory", "start", "process with its first answer: peak memory", "MB", "alone", 40, None),
    Bar("server plain", "server", "server, plain request, c=32: CPU", "ms", "times", 1.3, 1.0),
    Bar("server loop", "server", "server, 10-round loop, c=32: CPU", "ms", "times", 1.1, 0.8),
    Bar("server stream", "server", "server, streamed request, c=32: CPU", "ms", "times", 1.2, 0.9),
    Bar("server paced", "server", "server, paced stream, c=32: CPU per event", "µs", "times", 0.85, 0.6),
    Bar("server first", "server", "server, added time to first content, c=1", "ms", "times", 1.2, 1.0),
    Bar("server idle", "server", "server, idle after one request: memory", "MB", "alone", 60, 45),
    *(
        Bar(
            f"door {door} {mode}",
            "doors",
            f"10-round loop at {door}, {mode}: CPU, to Chat's door",
            "ms",
            "times",
            1.35,
            1.1,
        )
        for door in ("responses", "messages", "mistral")
        for mode in ("plain", "stream")
    ),
    Bar(
        "session growth",
        "sessions",
        "CPU of a session's request 200 minus request 10",
        "ms",
        "alone",
        0.1,
        0.05,
        difference=True,
    ),
    Bar("session idle", "sessions", "memory of 5,000 sessions that no client uses", "MB", "alone", 20, 10),
    Bar("journal", "durable", "10-round loop: journal in a folder, to one in memory: CPU", "ms", "times", 1.3, 1.1),
    Bar("resume", "durable", "run of 500 rounds, until its model is asked again", "s", "alone", 0.3, 0.1),
    Bar("followers", "durable", "CPU for each event to each of 100 followers", "µs", "alone", None, None),
    Bar("workers 1", "durable", "requests per second, --workers 1", "/s", "alone", None, None, least=True),
    Bar("workers 2", "durable", "requests per second, --workers 2", "/s", "alone", None, None, least=True),
    Bar(
        "preview chat",
        "previews",
        "a megabyte of arguments, 4 bytes a piece: its end to its beginning",
        "µs",
        "times",
        1.2,
        1.05,
    ),
    Bar("preview page", "previews", "the same as a page that grows (/generate-code)", "µs", "times", 1.2, 1.05),
    Bar("local decode", "local", "local model, one stream: decoding", "tok/s", "times", 0.9, 0.97, least=True),
    Bar("local schema", "local", "local model, held to a schema or free", "tok/s", "times", 0.85, 0.95, least=True),
    Bar("local prefix", "local", "local model, prompt of round 2 or round 1", "s", "times", 0.15, 0.05),
    Bar("local streams", "local", "local model, 8 streams or one: in total", "tok/s", "times", 1.4, 1.8, least=True),
)


class Samples:
    """What was measured, by key and side, in the order it was measured: neighbours belong together."""

    def __init__(self) -> None:
        self.values: dict[str, dict[Side, list[float]]] = {}

    def add(self, key: str, side: Side, value: float) -> None:
        self.values.setdefault(key, {}).setdefault(side, []).append(value)

    def of(self, key: str, side: Side) -> list[float]:
        return self.values.get(key, {}).get(side, [])


class Row(msgspec.Struct, frozen=True):
    """A bar and what was measured against it."""

    bar: Bar
    ours: list[float]
    floor: list[float]

    @property
    def result(self) -> float | None:
        """The median over pairs of neighbours, so that a machine that changes its pace changes both of them."""
        match self.bar.judged:
            case "times":
                return ratio(self.ours, self.floor)
            case "alone":
                return median(self.ours)

    @property
    def missed(self) -> bool:
        """A figure that could not be measured has not reached its bar."""
        if self.result is None:
            return True
        return self.bar.must is not None and not self.bar.reached(self.result, self.bar.must)

    @property
    def verdict(self) -> str:
        return "MISSED" if self.missed else "ok"

    def cells(self) -> list[str]:
        bar = self.bar
        reached = bar.aim is not None and self.result is not None and bar.reached(self.result, bar.aim)
        sign = "≥" if bar.least else "≤"
        return [
            bar.figure,
            number(median(self.ours), bar.unit),
            number(median(self.floor), bar.unit),
            self._judged(self.result),
            f"{sign} {self._judged(bar.must)}" if bar.must is not None else "–",
            f"{sign} {self._judged(bar.aim)}{' reached' if reached else ''}" if bar.aim is not None else "–",
            self.verdict,
        ]

    def _judged(self, value: float | None) -> str:
        if value is None:
            return "–"
        match self.bar.judged:
            case "times":
                return f"{value:.2f}×"
            case "alone":
                return number(value, self.bar.unit)


def ratio(ours: list[float], others: list[float]) -> float | None:
    return median([one / other for one, other in zip(ours, others, strict=False)])


def median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def number(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return f"{value:.{1 if unit in ('MB', 'µs', 'tok/s', '/s') else 3}f} {unit}"


def rows(samples: Samples, sections: set[Section]) -> list[Row]:
    return [
        Row(bar, samples.of(bar.key, "ours"), samples.of(bar.key, "floor")) for bar in BARS if bar.section in sections
    ]


def table(judged: list[Row]) -> str:
    return aligned(["figure", "ours", "floor", "ratio", "must", "aim", "verdict"], [row.cells() for row in judged])


def aligned(head: list[str], cells: list[list[str]]) -> str:
    lines = [head, *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
