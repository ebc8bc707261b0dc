"""A model for tests of the page: the words of a question choose the scene that it plays, at the pace of a stream.

    a conversation → the scene of its last question → the turn that comes next, piece by piece

Everything around the model is real: the server, its tools, the sandbox. `PACE` is the seconds between two pieces.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

from ronda.core.events import CallDelta, ModelFinished, Preview, ReasoningDelta, TextDelta
from ronda.core.parts import AssistantPart, AssistantTurn, Reasoning, Text, ToolCall, ToolTurn, Turn, Usage, UserTurn
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.testing import Call, Line, calls, says

_FOUND: Final = find_spec("matplotlib")
PACKAGES: Final = "" if _FOUND is None or _FOUND.origin is None else str(Path(_FOUND.origin).parent.parent)

PREPARE: Final = f"import sys; sys.path.append({PACKAGES!r})\n"
DRAW: Final = """import matplotlib.pyplot as plt

stock = {"North": (4310, 96), "Harbour": (1940, 119), "South": (2655, 81)}
figure, axes = plt.subplots(figsize=(5.2, 2.2), layout="tight")
print(f"{'site':10}{'pallets':>9}{'per day':>10}{'empty on':>11}")
for site, (pallets, use) in stock.items():
    left = [max(0, pallets - use * day) for day in range(31)]
    axes.plot(range(1, 32), left, label=site)
    empty = f"{left.index(0)} Dec" if 0 in left else "–"
    print(f"{site:10}{pallets:>9,}{use:>10}{empty:>11}")
axes.legend(frameon=False)
plt.show()
_ = open("reorder-plan.csv", "w").write("site,quantity,by\\nharbour,1450,2026-12-14\\n")
"""
FIGURE: Final = PREPARE + DRAW

PLAN: Final = """print("Harbour     1,940     118.7     17 Dec")
open("plan.csv", "w").write("site,quantity\\nharbour,1450\\n");
"""

ESCAPES: Final = (
    "printf '\\033[31mred\\033[0m and \\033[1;32mgreen\\033[0m\\n'; printf '\\033]0;owned\\007title\\n'; "
    'for n in $(seq 1 300); do echo "line $n"; done'
)

MARKDOWN: Final = """# Three things

A paragraph with **bold**, *italic*, `code [1]`, a [link](https://example.org/a?b=c) and a citation [1].

- one
- two
  - nested
- [x] done

| site | pallets |
|---|---:|
| North | 4,310 |
| Harbour | 1,940 |

```python
def left(stock: int, use: float) -> int:
    return int(stock / use)  # days
```

> A quotation.

1. first
2. second
"""

HOSTILE: Final = """<script>window.owned = 1</script>

<img src=x onerror="window.owned = 2"> and [a link](javascript:window.owned=3) and ![beacon](https://evil.example/pixel.png)

[data](data:text/html,<script>window.owned=4</script>) [ok](https://example.org/)

<svg onload="window.owned=5"></svg> <iframe src="https://evil.example"></iframe>
"""

THOUGHT: Final = (
    "Two facts are needed: daily use per warehouse, and the days without delivery. I read the export first, then "
    "look for the calendar of the carrier, and only then count the days that are left."
)


def _pallets(code: str = FIGURE) -> list[Line]:
    return [
        Line(
            reasoning=THOUGHT,
            calls=(
                Call("read_file", {"path": "stock-2026.csv"}),
                Call("mistralrs_search_the_web", {"query": "pallet carrier delivery calendar December 2026 holidays"}),
            ),
            usage=Usage(3900, 210, cached=1200, reasoning=80, cost=0.009),
        ),
        Line(
            text="Now the daily use per warehouse, and when each of them is empty.",
            calls=(Call("mistralrs_execute_python", {"code": code}),),
            usage=Usage(21000, 420, cached=15200, cost=0.041),
        ),
        Line(
            text="Harbour runs out on **17 December**, two days before the last delivery of the year [1]. The rail notice [2] "
            "adds one day of delay, so 1,450 pallets have to be ordered by Friday.",
            calls=(Call("place_order", {"site": "harbour", "quantity": 1450, "deliver_by": "2026-12-14"}),),
            usage=Usage(36000, 260, cached=30500, cost=0.062),
        ),
        Line(
            text="The order is placed: **1,450 pallets** for the harbour, delivered by 14 December [1].",
            usage=Usage(36500, 40, cached=36000, cost=0.011),
        ),
    ]


UNEVEN: Final = "every other call of the model fails"
OVERLOADED: Final = "the model has too much to do"  # once: the next try of the same call is answered
BOARD: Final = """<!doctype html>
<html lang="en" class="day">
<head>
<title>Departures</title>
<style>
  body { font: 500 20px/1.3 "Liberation Sans", sans-serif; margin: 0; padding: 28px 32px; }
  h1 { font-size: 30px; margin: 0 0 16px; }
  ul { list-style: none; margin: 0; padding: 0; }
  li { display: flex; align-items: center; gap: 16px; padding: 14px 0; }
  b { width: 44px; padding: 7px 0; border-radius: 6px; text-align: center; }
  .minutes, .delay { margin-left: auto; font-weight: 700; }
  #script { opacity: .6; font-size: 14px; }
  .day body { background: #fbfaf5; color: #1c2420; }
  .day h1 { border-bottom: 4px solid; padding-bottom: 12px; }
  .day li { border-bottom: 1px solid #ddd8c8; }
  .day b { background: #2a6b45; color: #fff; }
  .day .delay { color: #a8281f; }
  .night body { background: #10141d; color: #e8edf6; }
  .night li { background: #1b2130; border-radius: 10px; padding: 16px; margin-bottom: 10px; }
  .night b { background: #ffcf3f; color: #14120a; }
  .night .delay { color: #ff9d8f; }
</style>
</head>
<body>
<h1>Market Square</h1>
<ul class="departures">
<li class="departure"><b>2</b> Harbour <span class="minutes">2′</span></li>
<li class="departure"><b>7</b> University <span class="minutes">9′</span></li>
<li class="departure"><b>11</b> Central Station <span class="minutes">12′</span></li>
</ul>
<p id="script">asleep</p>
<script>document.getElementById("script").textContent = "awake";</script>
</body>
</html>
"""
WITH_LIBRARY: Final = """<!doctype html><html><head>
<script src="https://code.jquery.com/jquery-3.7.1.min.js" integrity="sha256-of-another-version" crossorigin="anonymous"></script>
<script src="https://unknown.example/nothing.js"></script></head>
<body><h1 id="found">bare</h1><script>if (window.jQuery) window.jQuery("found");</script></body></html>
"""
HOSTILE_PAGE: Final = """<!doctype html><html><body><h1>Spy</h1><pre id="found"></pre><img src="https://evil.example/p.png"><script>
const found = [];
const attempt = (name, work) => { try { const got = work();
found.push(name + ":" + (got ? "GOT" : "nothing")); } catch { found.push(name + ":refused"); } };
attempt("parent", () => parent.document.title);
attempt("cookie", () => document.cookie);
attempt("storage", () => localStorage.length + 1);
attempt("top", () => { top.location = "https://evil.example"; });
fetch("/v1/sessions").then(() => found.push("fetch:GOT"), () => found.push("fetch:refused")).finally(() => {
  document.getElementById("found").textContent = found.join(" ");
});
</script></body></html>
"""


def _long() -> list[Line]:
    words = " ".join([f"word{n}" for n in range(1, 401)])
    return [says(words, usage=Usage(40, 800))]


SCENES: Final[dict[str, Callable[[], list[Line]]]] = {
    "pallets": _pallets,
    "prepare": lambda: [calls("mistralrs_execute_python", code=PREPARE), says("Ready.")],
    # In a session that is prepared: for pictures, which name no folder of this machine.
    "december": lambda: _pallets(DRAW),
    "plan": lambda: _pallets(PLAN),  # the same without a figure, for recordings
    "calculate": lambda: [calls("calculate", expression="17 * 23"), says("17 × 23 = **391**.")],
    "think": lambda: [Line(reasoning=THOUGHT * 6, text="I have thought about it.")],
    "markdown": lambda: [says(MARKDOWN)],
    "hostile": lambda: [says(HOSTILE)],
    "figure": lambda: [
        calls("mistralrs_execute_python", code=FIGURE),
        says("The figure is above, and the plan is a file."),
    ],
    "escapes": lambda: [calls("mistralrs_shell", commands=[ESCAPES]), says("That was the output.")],
    "search": lambda: [
        calls("mistralrs_search_the_web", query="carrier calendar"),
        says("The last delivery is on the 19th [1], and the rail notice adds a day [2]. In code `[1]` stays text."),
    ],
    "order": lambda: [
        calls("place_order", site="harbour", quantity=1450, deliver_by="2026-12-14"),
        says("Done: what was decided is known."),
    ],
    "twice": lambda: [
        calls("place_order", site="harbour", quantity=1450, deliver_by="2026-12-14"),
        calls("place_order", site="north", quantity=20, deliver_by="2026-12-15"),
        says("Both are placed."),
    ],
    "together": lambda: [
        Line(
            calls=(
                Call("place_order", {"site": "harbour", "quantity": 1450, "deliver_by": "2026-12-14"}),
                Call("place_order", {"site": "north", "quantity": 20, "deliver_by": "2026-12-15"}),
            )
        ),
        says("Both are placed."),
    ],
    "desk": lambda: [
        calls("carrier-desk", input="When are the last deliveries of the year?"),
        says("The desk says: no deliveries from 24 to 27 December."),
    ],
    "departures": lambda: [calls("create_file", path="index.html", content=BOARD), says("The page is written.")],
    "delays": lambda: [
        calls(
            "edit_file",
            path="index.html",
            old_text='<span class="minutes">9′</span>',
            new_text='<span class="delay">9′, 6 late</span>',
        ),
        says("Delays can be seen."),
    ],
    "uneven": lambda: [
        Line(calls=(Call("create_file", {"path": "index.html", "content": BOARD}),), error=UNEVEN, status=400),
        says("The page is written."),
    ],
    "library": lambda: [calls("create_file", path="index.html", content=WITH_LIBRARY), says("Written.")],
    "spy": lambda: [calls("create_file", path="index.html", content=HOSTILE_PAGE), says("Written.")],
    "long": _long,
    "slow": lambda: [calls("wait", seconds=30.0), says("It has waited.")],
    "steer": lambda: [calls("wait", seconds=2.0, note=THOUGHT * 3), says("HEARD"), says("HEARD")],
    "fail": lambda: [Line(error="the model is overloaded", status=400)],
    "patience": lambda: [Line(text="It was worth the wait.", error=OVERLOADED, status=503)],
    "cut": lambda: [Line(text="The bridge carries two loads: its own weight of 41 kN/m, and traffic of", cut=True)],
    "broken": lambda: [calls("always_fails"), says("The tool failed, and I say so.")],
    "files": lambda: [says("I have read the file.")],
}
ABLE: Final = Capabilities(takes_addresses=True)
DEFAULT: Final = "Here is an answer to that, in a few plain words."


Scenes: TypeAlias = Mapping[str, Callable[[], list[Line]]]


class Actor:
    """Plays `scenes`. `asked` is what it was sent, call by call."""

    def __init__(self, pace: float, scenes: Scenes = SCENES, capabilities: Capabilities = ABLE) -> None:
        self._pace = pace
        self._scenes = scenes
        self._capabilities = capabilities
        self.asked: list[list[Turn]] = []

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def is_night(self) -> bool:
        """How the pages look that it writes: variants differ."""
        return len(self.asked) % 2 == 0

    async def pause(self, line: Line, pieces: int) -> None:
        """Before a piece of a line that has so many."""
        await asyncio.sleep(self._pace)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        turns = list(request.turns)
        self.asked.append(turns)
        line = _line(turns, self._scenes)
        if line.error == OVERLOADED:
            if self.asked[-2:-1] != [turns]:
                raise UpstreamError(OVERLOADED, status=line.status, retryable=True, retry_after=3)
        elif line.error is not None and (line.error != UNEVEN or len(self.asked) % 2):
            await self.pause(line, 1)
            raise UpstreamError(line.error, status=line.status, retryable=False)
        text = line.text
        if text == "HEARD":
            text = "I have read: " + _question(turns)[1]
        parts = _parts(line, text, len(self.asked), is_night=self.is_night)
        batches = _pieces(line, text, parts)
        for batch in batches:
            await self.pause(line, len(batches))
            show(batch)
        if line.cut:
            raise UpstreamBroken("the model's server broke off", retryable=False)
        return ModelFinished(AssistantTurn(tuple(parts), "tool_calls" if line.calls else "stop"), line.usage)


def _line(turns: Sequence[Turn], scenes: Scenes) -> Line:
    start, words = _question(turns)
    name = next((name for name in scenes if re.search(rf"\b{name}\b", words.lower())), None)
    if name is None:
        # Words said into a run leave its scene as it is.
        starts = [at for at, turn in enumerate(turns) if type(turn) is UserTurn]
        for at in reversed(starts):
            words = _text_of(turns[at])
            name = next((name for name in scenes if re.search(rf"\b{name}\b", words.lower())), None)
            if name == "steer" and any(type(turn) is ToolTurn for turn in turns[at:]):
                start = at
                break
            name = None
    if name is None:
        return says(DEFAULT)
    script = scenes[name]()
    count = sum(type(turn) is AssistantTurn for turn in turns[start:])
    return script[min(count, len(script) - 1)]


def _question(turns: Sequence[Turn]) -> tuple[int, str]:
    at = max((at for at, turn in enumerate(turns) if type(turn) is UserTurn), default=0)
    return at, _text_of(turns[at]) if turns else ""


def _text_of(turn: Turn) -> str:
    assert type(turn) is UserTurn
    return " ".join([part.text for part in turn.parts if type(part) is Text])


def _parts(line: Line, text: str, number: int, *, is_night: bool) -> list[AssistantPart]:
    parts: list[AssistantPart] = [Reasoning(line.reasoning)] if line.reasoning else []
    if text:
        parts.append(Text(text))
    return [*parts, *[_call(call, number, at, is_night=is_night) for at, call in enumerate(line.calls)]]


def _call(call: Call, number: int, at: int, *, is_night: bool) -> ToolCall:
    arguments: Any = call.arguments
    if is_night and isinstance(arguments, dict) and 'class="day"' in str(arguments.get("content")):
        arguments = {**arguments, "content": arguments["content"].replace('class="day"', 'class="night"')}
    return ToolCall(
        f"call_{number}_{at}", call.name, arguments if isinstance(arguments, str) else json.dumps(arguments)
    )


def _pieces(line: Line, text: str, parts: Sequence[AssistantPart]) -> list[list[Preview]]:
    batches: list[list[Preview]] = [[ReasoningDelta(piece)] for piece in re.findall(r"\S+\s*", line.reasoning)]
    batches += [[TextDelta(piece)] for piece in re.findall(r"\S+\s*|\s+", text)]
    for n, call in enumerate([part for part in parts if type(part) is ToolCall]):
        size = 12
        pieces = [call.arguments[at : at + size] for at in range(0, len(call.arguments), size)]
        batches += [[CallDelta(n, call.id, call.name, piece)] for piece in pieces]
    return batches
