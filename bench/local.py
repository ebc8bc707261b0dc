"""The process under test of the local model's figures: orders on stdin, `FLOOR OURS` for each on stdout.

Ours is the model that comes with Ronda, called as Ronda calls it. The floor is `bare_engine.py`, a process of its own that is
asked the very same without Ronda. Rates are tokens per second of wall time, from the call to its end, with prompts that the
engine has in its cache: so what is done around the decoding counts, too. Every order measures floor and ours right after
each other; whichever is not measured is idle.
"""

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from ronda.core.events import ModelFinished, Preview, TextDelta
from ronda.core.parts import SystemTurn, Turn, user
from ronda.core.plan import AUTO, Options, ResponseFormat
from ronda.core.request import ModelRequest, Wait
from ronda.local.calls import Completion, Take
from ronda.local.engine import Engine
from ronda.local.files import DEFAULT, find_model
from ronda.local.provider import LocalModel

STORY = "Tell a long story about a lighthouse."
NO_END = {"ignore_eos": Raw(b"true")}
LONG_STRING = ResponseFormat(
    "json_schema",
    schema=Raw(
        b'{"type":"object","properties":{"story":{"type":"string","minLength":2000}},"required":["story"],'
        b'"additionalProperties":false}'
    ),
    strict=True,
)
PLACES = ("harbour", "desert", "forest", "library", "mountain", "market", "railway", "island")
SHELVES = 80  # sentences of 12 tokens: a thousand


class Overheard(Engine):
    """The engine, which remembers what it was last asked: the floor is asked the very same."""

    body: dict[str, Any]

    async def complete(self, body: dict[str, Any], take: Take, room: Wait | None = None) -> Completion:
        self.body = body
        return await super().complete(body, take, room)


class Bare:
    """The floor: the engine in a process that is not ours."""

    def __init__(self, engine: Engine) -> None:
        sizing = engine.sizing
        wanted = {
            "path": str(engine.file.path),
            "context": sizing.context,
            "batch": sizing.batch,
            "threads": sizing.threads,
            "threads_alone": sizing.threads_alone,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.bare_engine"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._exchange(wanted) != "ready":
            raise SystemExit("the bare engine did not start")

    def rate(self, body: dict[str, Any], tokens: int) -> float:
        """Tokens per second of a prompt that is in its cache."""
        self._complete(body | {"n_predict": 1})
        count, seconds, _ = self._complete(body | {"n_predict": tokens})
        check_count(int(count), tokens)
        return count / seconds

    def prompt_seconds(self, body: dict[str, Any]) -> float:
        return self._complete(body | {"n_predict": 1})[2]

    def _complete(self, body: dict[str, Any]) -> tuple[float, float, float]:
        count, seconds, prompt = map(float, self._exchange(body | {"stream": True, "cache_prompt": True}).split())
        return count, seconds, prompt

    def _exchange(self, what: dict[str, Any]) -> str:
        """Blocks the loop: while the floor is measured nothing else may run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(what).decode() + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


class Local:
    bare: Bare

    def __init__(self) -> None:
        self._engine = Overheard(find_model(DEFAULT))
        self._model = LocalModel(self._engine)
        self._numbers = itertools.count(time.time_ns())

    async def load(self) -> str:
        line = await self._model.load()
        self.bare = Bare(self._engine)
        return line

    async def decode(self, tokens: int) -> tuple[float, float]:
        """One stream: the bare engine, and the model through Ronda."""
        floor = await self._floor(tokens)
        return floor, await self._rate(tokens)

    async def schema(self, tokens: int) -> tuple[float, float]:
        """The bare engine, free, and Ronda held to a schema."""
        floor = await self._floor(tokens)
        await self._bound(1)  # the first time, the engine also makes sure that it can read the grammar
        return floor, await self._rate(tokens, bound=True)

    async def prefix(self, tokens: int) -> tuple[float, float]:
        """Seconds for the prompt of a first round, bare, and of the second; no two conversations begin alike."""
        shelves = " ".join(f"Shelf {number} holds red boxes and blue maps." for number in range(10, 10 + SHELVES))
        turns: list[Turn] = [
            SystemTurn(f"{next(self._numbers)} is the archive. {shelves}"),
            user("Where are the maps?"),
        ]
        first = await self._ask(turns, Options(max_tokens=tokens, temperature=0))
        floor = self.bare.prompt_seconds(self._engine.body)
        turns += [first.turn, user("And the boxes?")]
        second = await self._ask(turns, Options(max_tokens=tokens, temperature=0))
        if not 800 <= first.usage.input <= 1200 or first.usage.cached > 100:
            raise SystemExit(f"the first prompt has {first.usage.input} tokens, {first.usage.cached} of them known")
        return floor, second.usage.prompt_seconds

    async def streams(self, tokens: int) -> tuple[float, float]:
        """One stream of the bare engine, and eight at once. The first time, the prompts are not in the cache yet."""
        floor = await self._floor(tokens)
        start = time.perf_counter()
        answers = await asyncio.gather(*(self._free(f"Tell a long story about a {place}.", tokens) for place in PLACES))
        return floor, sum(answer.usage.output for answer in answers) / (time.perf_counter() - start)

    async def _floor(self, tokens: int) -> float:
        await self._free(STORY, 1)  # its prompt into the cache, its body into our hands
        return self.bare.rate(self._engine.body, tokens)

    async def _rate(self, tokens: int, bound: bool = False) -> float:
        start = time.perf_counter()
        done = await (self._bound(tokens) if bound else self._free(STORY, tokens))
        return done.usage.output / (time.perf_counter() - start)

    async def _free(self, prompt: str, tokens: int) -> ModelFinished:
        done = await self._ask([user(prompt)], Options(max_tokens=tokens, temperature=0, extra=NO_END))
        check_count(done.usage.output, tokens)
        return done

    async def _bound(self, tokens: int) -> ModelFinished:
        """The string is longer than the answer may be, so it takes as many tokens as it may."""
        done = await self._ask([user(STORY)], Options(max_tokens=tokens, temperature=0, response_format=LONG_STRING))
        check_count(done.usage.output, tokens)
        if not done.turn.text.startswith("{"):
            raise SystemExit(f"not held to its schema: {done.turn.text[:200]!r}")
        return done

    async def _ask(self, turns: Sequence[Turn], options: Options) -> ModelFinished:
        shown: list[Preview] = []
        request = ModelRequest(turns, (), AUTO, options, True, "run", 0, 1, {})
        done = await self._model.call(request, shown.extend)
        text = "".join([preview.text for preview in shown if isinstance(preview, TextDelta)])
        if text != done.turn.text:
            raise SystemExit(f"showed {text[:200]!r}, and finished with {done.turn.text[:200]!r}")
        return done


def check_count(count: int, wanted: int) -> None:
    if count != wanted:
        raise SystemExit(f"{count} tokens instead of {wanted}")


async def main() -> None:
    local = Local()
    print(await local.load(), flush=True)
    measures = {"decode": local.decode, "schema": local.schema, "prefix": local.prefix, "streams": local.streams}
    while line := sys.stdin.readline():  # blocks the loop on purpose: between two orders nothing may run
        figure, tokens = line.split()
        floor, ours = await measures[figure](int(tokens))
        print(floor, ours, flush=True)
    local.bare.end()


if __name__ == "__main__":
    asyncio.run(main())
