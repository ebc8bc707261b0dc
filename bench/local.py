"""The process under test of the local model's figures: orders on stdin, `FLOOR OURS` for each on stdout.

Everything is asked of one engine in this one process, with the model that comes with Ronda. Rates are tokens per second
of wall time, from the call to its end, with prompts that the engine has in its cache: so what is done around the
decoding counts, too. Every order measures floor and ours right after each other.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from ronda.core.events import ModelFinished, Preview, TextDelta
from ronda.core.parts import SystemTurn, Turn, user
from ronda.core.plan import AUTO, Options, ResponseFormat
from ronda.core.request import ModelRequest
from ronda.providers.local.calls import Completion, Piece, Take
from ronda.providers.local.engine import Engine
from ronda.providers.local.files import DEFAULT, find_model
from ronda.providers.local.provider import LocalModel

STREAMS = 8
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

    async def complete(self, body: dict[str, Any], take: Take) -> Completion:
        self.body = body
        return await super().complete(body, take)


class Local:
    def __init__(self) -> None:
        self._engine = Overheard(find_model(DEFAULT))
        self._model = LocalModel(self._engine)
        self._numbers = itertools.count(time.time_ns())

    async def load(self) -> str:
        return await self._model.load()

    async def decode(self, tokens: int) -> tuple[float, float]:
        """The bare engine, and the model through Ronda, streaming."""
        await self._free(STORY, 1)  # its prompt into the cache, its body into our hands
        body = self._engine.body | {"n_predict": tokens}
        pieces: list[Piece] = []
        start = time.perf_counter()
        done = await self._engine.complete(body, pieces.extend)
        floor = done.completion / (time.perf_counter() - start)
        check_count(done.completion, tokens)
        return floor, await self._rate(tokens)

    async def schema(self, tokens: int) -> tuple[float, float]:
        """Free, and held to a schema."""
        await self._bound(1)  # the first time, the engine also makes sure that it can read the grammar
        return await self._rate(tokens), await self._rate(tokens, bound=True)

    async def prefix(self, tokens: int) -> tuple[float, float]:
        """Seconds for the prompt of a first round, and of the second; no two conversations begin alike."""
        shelves = " ".join(f"Shelf {number} holds red boxes and blue maps." for number in range(10, 10 + SHELVES))
        turns: list[Turn] = [
            SystemTurn(f"{next(self._numbers)} is the archive. {shelves}"),
            user("Where are the maps?"),
        ]
        first = await self._ask(turns, Options(max_tokens=tokens, temperature=0))
        turns += [first.turn, user("And the boxes?")]
        second = await self._ask(turns, Options(max_tokens=tokens, temperature=0))
        if not 800 <= first.usage.input <= 1200 or first.usage.cached > 100:
            raise SystemExit(f"the first prompt has {first.usage.input} tokens, {first.usage.cached} of them known")
        return first.usage.prompt_seconds, second.usage.prompt_seconds

    async def streams(self, tokens: int) -> tuple[float, float]:
        """One stream, and eight at once. The first time, the prompts are not in the cache yet."""
        prompts = [f"Tell a long story about a {place}." for place in PLACES[:STREAMS]]
        rates = []
        for chosen in (prompts[:1], prompts):
            start = time.perf_counter()
            answers = await asyncio.gather(*(self._free(prompt, tokens) for prompt in chosen))
            rates.append(sum(answer.usage.output for answer in answers) / (time.perf_counter() - start))
        return rates[0], rates[1]

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


if __name__ == "__main__":
    asyncio.run(main())
