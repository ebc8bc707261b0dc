"""A server that looks used, for pictures: a week of runs of several owners, models and agents, before the first page is opened.

    the table of what was asked → a server at a clock of its own, asked over HTTP → a data folder → `page_server` opens it

All runs are real: their words come from the `Actor`, their tools and figures from this server. Only time is made up. While the
week is played, `time.time` is a `Stage`, and the actor and the tools move it on by as long as they pretend to take.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final
from unittest.mock import patch

from msgspec import Struct
from tests.web.actor import PACKAGES, SCENES, THOUGHT, Actor, Scenes

from ronda import tool
from ronda.core.parts import SystemTurn, Turn, Usage
from ronda.drive import Capabilities, Provider, Tool, capabilities_of
from ronda.errors import ToolFailed
from ronda.providers import Where, open_provider
from ronda.server.features.budgets.settings import BudgetLimit, BudgetOptions
from ronda.server.services.models import Target
from ronda.store.values.scopes import Scopes
from ronda.testing import Call, Line, calls, says
from ronda.tools.function import as_tool
from ronda.tools.mcp.config import McpServer
from ronda.tools.mcp.read import read_tables
from ronda.tools.search.settings import SearchCallback

MAIN: Final = "anthropic:claude-opus-4-8"
OTHERS: Final = ("openai:gpt-5.5", "gemini:gemini-3-pro", "mistral:mistral-large-latest")
INSTRUCTIONS: Final = {
    "planner": "You plan for three warehouses. Use figures from the export only, and say which row they come from.",
    "triage": "You find out why something is slow or wrong. Measure first, then name one cause.",
}
GALLERY_KEYS: Final[dict[str, tuple[str, list[str]]]] = {
    "ops": ("ops", ["operate:write"]),
    "finance": ("finance", []),
    "web": ("web", []),
    "lab": ("lab", []),
}
GALLERY_BUDGETS: Final = BudgetOptions(
    limits=(
        BudgetLimit(scope="owner", name="finance", per="month", usd=2.0),
        BudgetLimit(scope="owner", name="web", per="month", usd=5.0),
        BudgetLimit(scope="owner", name="lab", per="month", usd=1.0),
        BudgetLimit(scope="owner", name="ops", per="month", usd=50.0),
        BudgetLimit(scope="owner", name="ops", per="day", tokens=2_000_000),
    ),
    unknown_price="allow",
)
PER_SECOND: Final = 86.0  # tokens that a model writes
SANDBOX_SPEED: Final = 2.0  # seconds of the stage in a second of the sandbox, whose clock is its own

# What the cells of the pictures are written with: a cell that shows no folder of this machine.
PREPARE: Final = f"""import sys; sys.path.append({PACKAGES!r})
def show(left, stock):
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(5, 1.75), layout="tight")
    for (site, days), colour in zip(left.items(), ["#3a6ea5", "#c8453b", "#4f9d69"]):
        axes.plot(range(1, 32), days, color=colour, linewidth=1.8)
        axes.annotate(site, (12, days[11]), xytext=(0, 5), textcoords="offset points", color=colour, weight="bold", size=8)
    axes.set_xticks([1, 17, 31], ["1 Dec", "17 Dec", "31 Dec"], size=8)
    axes.set_yticks([0, 2000, 4000], ["0", "2k", "4k"], size=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="y", linewidth=.5, alpha=.5)
    plt.show()
    print(f"{{'site':10}}{{'pallets':>9}}{{'per day':>10}}{{'empty on':>11}}")
    for site, (have, use) in stock.items():
        day = f"{{left[site].index(0)}} Dec" if 0 in left[site] else "–"
        print(f"{{site:10}}{{have:>9,}}{{use:>10}}", f"\\x1b[31m{{day:>10}}\\x1b[0m" if 0 in left[site] else f"{{day:>10}}")
    open("reorder-plan.csv", "w").write("site,quantity,by\\nharbour,1450,2026-12-14\\n" + "north,0,\\n" * 800)
"""
CELL: Final = """stock = {"North": (4310, 96.2), "Harbour": (1940, 118.7), "South": (2655, 81.0)}
left = {site: [max(0, have - use * day) for day in range(31)]
        for site, (have, use) in stock.items()}
show(left, stock)   # until 31 Dec
"""


class Stage:
    """The clock of the week: it moves when something pretends to take time."""

    def __init__(self) -> None:
        self._start = self._mark = 0.0

    def time(self) -> float:
        return self._start + SANDBOX_SPEED * (time.monotonic() - self._mark)

    def set(self, at: float) -> None:
        self._start, self._mark = at, time.monotonic()

    def move(self, seconds: float) -> None:
        self._start += seconds


class Asked(Struct, frozen=True):
    """A run of the week. `scene` is found by the words of the question."""

    at: float
    question: str
    owner: str = "ops"
    target: str = "default"
    title: str = ""
    ends: bool = True


def _work(rounds: int, tokens: int, cost: float | None, answer: str, *tools: Call) -> Callable[[], list[Line]]:
    """So many rounds with the tools in turn, then an answer; tokens and costs are shared out between them."""

    def script() -> list[Line]:
        share = tokens // rounds
        usage = Usage(share - 180, 180, cached=int(share * 0.7), cost=None if cost is None else cost / rounds)
        acts = [Line(calls=(tools[n % len(tools)],), usage=usage) for n in range(rounds - 1)] if tools else []
        return [*acts, says(answer, usage=usage)]

    return script


def _pallets() -> list[Line]:
    order = {"site": "harbour", "quantity": 1450, "deliver_by": "2026-12-14"}
    return [
        Line(
            reasoning=THOUGHT,
            calls=(
                Call("read_file", {"path": "stock-2026.csv"}),
                Call("mistralrs_search_the_web", {"query": "pallet carrier delivery calendar December 2026 holidays"}),
            ),
            usage=Usage(3900, 610, cached=1200, reasoning=480, cost=0.009),
        ),
        Line(
            reasoning="The export has one row for each site and day, so the daily use is a mean of two weeks. " * 3,
            text="Now the daily use per warehouse, and when each of them is empty.",
            calls=(
                Call("mistralrs_execute_python", {"code": CELL}),
                Call("carrier-desk", {"input": "When are the last deliveries of the year?"}),
            ),
            usage=Usage(21960, 920, cached=18020, reasoning=610, cost=0.041),
        ),
        Line(
            text="Harbour runs out on **17 December**, two days before the last delivery of the year [1]. The rail "
            "notice [2] adds one day of delay, so 1,450 pallets have to be ordered by Friday.",
            calls=(Call("place_order", order),),
            usage=Usage(33800, 260, cached=30500, cost=0.062),
        ),
        says(
            "The order is placed: **1,450 pallets** for the harbour, delivered by 14 December [1].",
            usage=Usage(36500, 40, cached=36000, cost=0.011),
        ),
    ]


_SQL: Final = tuple(
    [
        Call("sql", {"query": query})
        for query in (
            "select count(*) from stage",
            "explain analyze insert into stage",
            "select * from pg_stat_user_indexes",
        )
    ]
)
_SLOW_A: Final = (
    "The nightly import spends 61 % of its time on the index `stage_day_site`, which is built again for every file. "
    "Repack the table, then build the index once after the last file, and run `vacuum` weekly."
)
_SLOW_B: Final = (
    "The nightly import spends 58 % of its time on the index `stage_day_site`, which is built again for every file. "
    "Drop it before the import and build the index once after the last file: about 40 minutes less each night."
)


def _slow(answer: str, *more: Call, tokens: int, cost: float) -> Callable[[], list[Line]]:
    acts = [*_SQL, *more]
    usage = Usage(tokens // (len(acts) + 1), 240, cached=tokens // (len(acts) + 2), cost=cost / (len(acts) + 1))
    return lambda: [*[Line(calls=(act,), usage=usage) for act in acts], says(answer, usage=usage)]


# What programs ask, day and night.
_PROGRAMS: Final[dict[str, Callable[[], list[Line]]]] = {
    "Tickets of the morning": _work(2, 14_200, 0.021, "Six tickets, none of them urgent.", _SQL[0]),
    "Release check": _work(5, 48_000, 0.094, "Nothing stands in the way of the release.", *_SQL),
    "Stock of the harbour": _work(3, 19_800, 0.043, "1,940 pallets.", _SQL[2], _SQL[0]),
    "Summary of the call": _work(1, 7_400, 0.012, "They agreed on Friday."),
    "Sensor values": _work(4, 31_700, 0.074, "All within their limits.", *_SQL),
}

_INVOICES: Final = [
    Line(calls=(Call("read_file", {"path": f"invoices/2026-{n:03}.pdf"}),), usage=Usage(22000, 90, cost=0.06))
    for n in range(1, 14)
]

_LINES: Final = (
    ("2", "#2a6b45", "Harbour", "on time", "2"),
    ("7", "#a85a2a", "University", "on time", "9"),
    ("11", "#3a4a8f", "Central Station", "on time", "12"),
    ("2", "#2a6b45", "Old Mill", "on time", "14"),
    ("4", "#7a3568", "Airport", "on time", "19"),
    ("7", "#a85a2a", "Lakeside", "on time", "21"),
)
_DEPARTURES: Final = "\n".join(
    [
        f'<li class="departure"><b style="--line: {colour}">{line}</b> <span class="to">{place}</span> '
        f'<span class="state">{state}</span> <span class="minutes">{minutes}′</span></li>'
        for line, colour, place, state, minutes in _LINES
    ]
)
_TRAMS: Final = f"""<!doctype html>
<html lang="en" class="day">
<head>
<title>Departures</title>
<style>
  body {{ font: 500 21px/1.3 "Inter", "Liberation Sans", sans-serif; margin: 0; padding: 26px 28px; }}
  header {{ display: flex; justify-content: space-between; font-weight: 700; font-size: 30px; }}
  ul {{ list-style: none; margin: 12px 0 0; padding: 0; }}
  li {{ display: grid; grid-template-columns: 52px 1fr 110px 60px; align-items: center; gap: 14px; padding: 13px 0; }}
  li b {{ padding: 8px 0; border-radius: 6px; text-align: center; color: #fff; background: var(--line); }}
  .state {{ font-size: 16px; opacity: .7; }} .late {{ color: #a8281f; opacity: 1; font-weight: 700; }}
  .minutes {{ font-weight: 700; text-align: right; font-size: 25px; }}
  .day body {{ background: #fbfaf5; color: #1c2420; }} .day header {{ border-bottom: 4px solid; padding-bottom: 12px; }}
  .day li {{ border-bottom: 1px solid #ddd8c8; }}
  .night body {{ background: #10141d; color: #e8edf6; }} .night header {{ font-size: 26px; }}
  .night li {{ background: #1b2130; border-radius: 10px; padding: 15px; margin-bottom: 10px; }}
  .night b {{ background: #ffcf3f; color: #14120a; }} .night .late {{ color: #ff9d8f; }}
</style>
</head>
<body>
<header><span>Market Square</span><time>14:56</time></header>
<ul class="departures">
{_DEPARTURES}
</ul>
</body>
</html>
"""


_LATE: Final = _TRAMS.replace(
    '<span class="to">University</span> <span class="state">on time</span>',
    '<span class="to">University</span> <span class="state late">+6 min</span>',
).replace(
    '<span class="to">Airport</span> <span class="state">on time</span>',
    '<span class="to">Airport</span> <span class="state late">+3 min</span>',
)


def _page(before: str, after: str) -> list[Line]:
    edit = {"path": "index.html", "old_text": before, "new_text": after}
    usage = Usage(8200, 240, cached=6100, cost=0.03)
    return [Line(calls=(Call("edit_file", edit),), usage=usage), says("It is changed.", usage=usage)]


GALLERY_SCENES: Final[Scenes] = {
    "tram stop": lambda: [
        Line(
            calls=(Call("create_file", {"path": "index.html", "content": _TRAMS}),), usage=Usage(6000, 1900, cost=0.06)
        ),
        says("The page is written.", usage=Usage(8200, 40, cached=6000, cost=0.03)),
    ],
    "four metres": lambda: _page("font: 500 21px/1.3", "font: 500 23px/1.3"),
    "at a glance": lambda: [
        Line(
            calls=(Call("create_file", {"path": "index.html", "content": _LATE}),), usage=Usage(9100, 1950, cost=0.07)
        ),
        says("Delays can be seen.", usage=Usage(9200, 40, cached=8000, cost=0.03)),
    ],
    "load the stock": lambda: [
        Line(calls=(Call("mistralrs_execute_python", {"code": PREPARE}),), usage=Usage(900, 400, cost=0.002)),
        says("Ready.", usage=Usage(900, 20, cost=0.001)),
    ],
    "which warehouse": _pallets,
    "nightly import": _slow(
        _SLOW_A,
        Call("mistralrs_shell", {"commands": ["pg_repack --table stage"]}),
        Call("read_file", {"path": "import.log"}),
        tokens=140_000,
        cost=0.338,
    ),
    "invoices": lambda: [*_INVOICES, Line(calls=(Call("convert", {"path": "invoices/2026-014.pdf"}),))],
    "bridge": lambda: [
        Line(calls=(Call("calculate", {"expression": "41 * 18"}),), usage=Usage(17000, 300, cost=0.061)),
        Line(error="the model is overloaded", status=400),
    ],
    "tickets of the night": lambda: [Line(error="gemini-3-pro is overloaded", status=503)],
    "harbour's page": lambda: [
        calls("fetch", url="https://harbour.example/closed"),
        says("The page did not answer.", usage=Usage(4000, 90, cost=0.01)),
    ],
    "clean the cache": lambda: [calls("remove", path="build/cache"), says("The cache is empty.")],
    "churn": _work(4, 31_700, 0.074, "The cohort of March churns twice as fast as that of April.", *_SQL),
    "regatta": _work(
        3, 22_900, 0.058, "Wind from the west, 4 to 5, and no rain.", Call("fetch", {"url": "wind.example"})
    ),
    "handbook": _work(3, 41_000, None, "Part 2 is translated.", Call("read_file", {"path": "handbook-2.md"})),
    "release notes": _work(
        5, 54_200, 0.131, "Eleven changes, two of them breaking.", Call("read_file", {"path": "CHANGES"})
    ),
    "sensor": _work(8, 77_500, 0.149, "Station 4 drifts by 0.3 degrees a week.", *_SQL),
    "gguf": _work(12, 402_000, 1.12, "The 4-bit file loses 1.2 points.", Call("calculate", {"expression": "8 * 4"})),
    **{name.lower(): script for name, script in _PROGRAMS.items()},
    **SCENES,
}

# What another model than `MAIN` makes of the same question.
OTHER_SCENES: Final[Scenes] = {
    "nightly import": _slow(_SLOW_B, Call("read_file", {"path": "import.log.1"}), tokens=96_400, cost=0.187),
    **{name: scene for name, scene in GALLERY_SCENES.items() if name != "nightly import"},
}

# The table of the week: days ago, time of day, and what was asked. The titles are those that a person would give.
_WEEK: Final = (
    (0, "11:05", "ops", "triage", "Why is the nightly import slow?", "Why is the nightly import slow?"),
    (
        0,
        "11:02",
        "ops",
        "gpt-5.5",
        "Why is the nightly import slow?",
        "Why is the nightly import slow?",
    ),
    (0, "09:48", "ops", "triage", "Translate the handbook, part 2", "Translate the handbook, part 2"),
    (1, "16:12", "ops", "triage", "SQL for the churn cohort", "SQL for the churn cohort"),
    (1, "09:22", "ops", "planner", "Weather report for the regatta", "Weather report for the regatta"),
    (1, "17:31", "ops", "gemini-3-pro", "Bridge load calculation", "Bridge load calculation"),
    (1, "15:40", "ops", "gpt-5.5", "Compare three GGUF quantisations", "Compare three GGUF quantisations"),
    (4, "12:50", "ops", "planner", "Release notes 0.11", "Release notes 0.11"),
    (5, "18:05", "ops", "gpt-5.5", "Refund policy, shorter", "Refund policy, shorter"),
    (6, "10:14", "ops", "triage", "Sensor drift, station 4", "Sensor drift, station 4"),
)


class GalleryActor(Actor):
    # Of a gallery that is open: another model is so slow that one of two variants is still being written when the other is done.
    SLOWER: Final = 7

    """Takes as long as a model does: a while until the first token, then so many tokens in a second."""

    def __init__(self, stage: Stage | None, pace: float, scenes: Scenes, capabilities: Capabilities) -> None:
        super().__init__(pace if scenes is GALLERY_SCENES else pace * self.SLOWER, scenes, capabilities)
        self._stage = stage

    @property
    def is_night(self) -> bool:
        return self._scenes is not GALLERY_SCENES

    async def pause(self, line: Line, pieces: int) -> None:
        if self._stage is None:
            await super().pause(line, pieces)
        else:
            self._stage.move(1.6 if line.error is not None else line.usage.output / PER_SECOND / pieces)

    async def call(self, request: Any, show: Any) -> Any:
        if self._stage is not None:
            self._stage.move(0.5 + len(request.turns) * 0.3)
        return await super().call(request, show)


def actor(spec: str, stage: Stage | None, pace: float) -> Provider:
    """Writes requests as the provider of that name does, and sends none."""
    real = open_provider(spec, Where())
    project = capabilities_of(real).project
    scenes = GALLERY_SCENES if spec == MAIN else OTHER_SCENES
    return GalleryActor(stage, pace, scenes, Capabilities(takes_addresses=True, project=project))


class Cast:
    """The other models, and two agents: a source of `Models`."""

    def __init__(self, stage: Stage | None, pace: float) -> None:
        self._targets = {}
        for spec in OTHERS:
            name = spec.partition(":")[2].removesuffix("-latest")
            self._targets[name] = Target(name, spec, actor(spec, stage, pace))
        for name, words in INSTRUCTIONS.items():
            self._targets[name] = Target(name, MAIN, actor(MAIN, stage, pace), begin=_with(words))

    async def find(self, name: str, owner: str) -> Target | None:
        """By its name, or by its spec, which is what a run in the background remembers of a model."""
        return self._targets.get(name) or next((one for one in self._targets.values() if one.spec == name), None)

    def names(self) -> Iterable[str]:
        return list(self._targets)

    def names_open_to(self, scopes: Scopes) -> Iterable[str]:
        return self.names()


def _with(words: str) -> Callable[[tuple[Turn, ...]], tuple[Turn, ...]]:
    return lambda turns: (SystemTurn(words), *turns)


def week(now: float) -> list[Asked]:
    """What was asked, the oldest first: the named runs, those of other owners, and the one that waits since four minutes."""
    midnight = datetime.fromtimestamp(now).astimezone().replace(hour=0, minute=0, second=0)
    found = []
    for days, clock, owner, target, title, question in _WEEK:
        hour, minute = map(int, clock.split(":"))
        at = (midnight - timedelta(days=days) + timedelta(hours=hour, minutes=minute)).timestamp()
        found.append(Asked(min(at, now - 3700), question, owner, target, title))
    dice = random.Random(4)
    words = tuple(_PROGRAMS)
    for _ in range(130):
        at = now - dice.uniform(12_000, 6.9 * 86400)
        owner = dice.choice(("finance", "web", "web", "lab", "ops", "ops", "ops"))
        found.append(Asked(at, dice.choice(words), owner, dice.choice(("triage", "gpt-5.5", "default"))))
    failed = {52: "web", 39: "lab", 25: "web", 24: "web", 9: "ops", 8: "web", 7: "web", 2: "web"}
    night = "Sum up the tickets of the night"
    found += [Asked(now - 60 * minutes, night, owner, "gemini-3-pro") for minutes, owner in failed.items()]
    found.append(Asked(now - 60 * 14, "Read the harbour's page", "web", "gpt-5.5"))
    found.append(Asked(now - 60 * 3, "Clean the cache of the build", "ops", "gpt-5.5", ends=False))
    found.append(Asked(now - 60 * 6, "Load the stock export", "ops", "planner", "December pallet shortage"))
    question = (
        "Which warehouse runs out of pallets in December? Use the stock export, check the carrier’s holiday calendar, "
        "and order what is missing."
    )
    found.append(Asked(now - 60 * 4 - 40, question, "ops", "planner", "December pallet shortage", ends=False))
    return sorted(found, key=lambda one: one.at)


def tools(stage: Stage | None) -> list[Tool]:
    """Each takes the time that its kind takes."""

    def take(seconds: float) -> None:
        if stage is not None:
            stage.move(seconds)

    @tool
    def read_file(path: str) -> str:
        """Read a file of the workspace."""
        take(0.2)
        return f"{path}: 18,204 rows"

    @tool
    def sql(query: str) -> str:
        """Ask the database. It can only be read."""
        take(3.9 if "explain" in query else 0.8)
        return "42 rows"

    @tool
    def fetch(url: str) -> str:
        """Read a page."""
        take(1.1)
        if "closed" in url:
            raise ToolFailed("timed out after 30 s")
        return "The wind turns west."

    @tool(approval="ask")
    def remove(path: str) -> str:
        """Remove a folder of the build."""
        return f"{path} is removed"

    @tool
    async def convert(path: str) -> str:
        """Make text of a scan."""
        await asyncio.sleep(900)  # as long as pictures are taken
        return f"{path}: 2 pages"

    return [as_tool(one) for one in (read_file, sql, fetch, convert, remove)]


def searching(search: SearchCallback, stage: Stage | None) -> SearchCallback:
    def at_length(query: str) -> Any:
        if stage is not None:
            stage.move(1.9)
        return search(query)

    return at_length


def gallery_servers() -> list[McpServer]:
    """One that works, one whose program ends, one that cannot be reached, and one that is switched off."""
    tiny = ["-m", "tests.tools.mcp.tiny"]
    found = {
        "calendar": {"command": sys.executable, "args": tiny},
        "notes": {"command": sys.executable, "args": ["-c", "import sys; sys.exit('NOTES_DIR is not set')"]},
        "tickets": {"url": "http://127.0.0.1:9/mcp"},
        "maps": {"url": "http://127.0.0.1:9/maps", "enabled": False},
    }
    return read_tables(found, os.environ)


@contextmanager
def staged(stage: Stage) -> Iterator[None]:
    with patch("time.time", stage.time):
        yield


async def play(url: str, keys: Mapping[str, str], stage: Stage, now: float) -> None:
    """Ask a server everything of the week, one after the other."""
    for number, asked in enumerate(week(now)):
        stage.set(asked.at)
        client = Client(url, keys[asked.owner])
        # Runs without a title are those of programs, which keep no session.
        session = f"chat-week{number}" if asked.title != "December pallet shortage" else "chat-pallets"
        body = {
            "model": asked.target,
            "background": True,
            **({"session_id": session, "session_mode": "append"} if asked.title or not asked.ends else {}),
            "messages": [{"role": "user", "content": asked.question}],
            "enable_code_execution": asked.owner == "ops",
            "enable_shell": asked.owner == "ops",
        }
        try:
            answer = await client.send("POST", "/v1/chat/completions", body)
        except PermissionError:  # a budget that is used up, as one is in every week
            continue
        run = f"run_{answer['id'].removeprefix('chatcmpl-')}"
        while True:
            state = await client.send("GET", f"/v1/runs/{run}")
            if state["ended_at"] is not None or (not asked.ends and state["state"] == "waiting"):
                break
            await asyncio.sleep(0.01)
        if asked.title:
            await client.send("PATCH", f"/v1/sessions/{session}", {"title": asked.title})


class Client:
    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        return await asyncio.to_thread(self._send, method, path, body)

    def _send(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {self._key}"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == 402:
                raise PermissionError(path) from error
            raise RuntimeError(f"{method} {path}: {error.read()[:500]!r}") from error
