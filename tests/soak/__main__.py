"""`make soak`: mixed traffic at half of what the server can do; ends with 0 only if nothing grew and no run was lost.

The first half of the time fills what is kept in memory, which has bounds: above all the streams of finished runs, which can be
replayed (`--keep-previews-bytes`, with a low bound here, so that it is reached in the first minutes). In the second half the
memory may change by 5 %. When no request is under way, no more descriptors are open at its end than were at its beginning.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
from tests.chaos.load import Model, Process

CLIENTS: Final = 16  # connections, in the measurement of what the server can do as well as later
CAPACITY_SECONDS: Final = 10.0
SAMPLE_SECONDS: Final = 5.0
REST_SECONDS: Final = 3.0
MAY_CHANGE: Final = 0.05  # of the memory, in the second half
LOOKED_UP: Final = 2000  # runs, at the end
KEPT_PREVIEWS: Final = 2 << 20  # bytes
TURNS_OF_A_SESSION: Final = 20

TOOLS: Final = '''
from ronda import tool

@tool
async def count(what: str) -> str:
    """Count."""
    return f"counted {what}"
'''


class Sample(NamedTuple):
    minute: float
    megabytes: float
    descriptors: int
    threads: int
    requests: int


class Traffic:
    """Requests of every kind, each of which is read to its end. `runs` are those that were begun."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url = url
        self._http = http
        self._numbers = itertools.count(1)
        self.kinds: tuple[Callable[[int], Awaitable[None]], ...] = (
            self._chat,
            self._chat_stream,
            self._in_session,
            self._responses,
            self._responses_stream,
            self._messages,
            self._background,
            self._file,
            self._lists,
        )
        self.runs: list[str] = []
        self.done: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()

    async def ask_one(self) -> None:
        number = next(self._numbers)
        kind = self.kinds[number % len(self.kinds)]
        try:
            await kind(number)
        except (aiohttp.ClientError, TimeoutError, AssertionError, KeyError) as error:
            self.problems[f"{kind.__name__.strip('_')}: {type(error).__name__} {error}"[:200]] += 1
        else:
            self.done[kind.__name__.strip("_")] += 1

    async def _send(self, path: str, body: dict[str, Any], end: bytes) -> bytes:
        """Raises AssertionError for an answer that is not complete."""
        async with self._http.post(f"{self._url}{path}", json=body) as answer:
            data = await answer.read()
            assert answer.status in (200, 202), f"{answer.status}: {data[:100]!r}"
            assert end in data, f"an answer without {end!r}"
            self.runs.append(answer.headers["x-ronda-run"])
            return data

    async def _chat(self, number: int) -> None:
        await self._send("/chat/completions", {"messages": _say(f"n{number}")}, b"It is done")

    async def _chat_stream(self, number: int) -> None:
        await self._send("/chat/completions", {"messages": _say(f"n{number}"), "stream": True}, b"[DONE]")

    async def _in_session(self, number: int) -> None:
        session = f"soak-{number // len(self.kinds) // TURNS_OF_A_SESSION}"
        await self._send("/chat/completions", {"messages": _say(f"n{number}"), "session_id": session}, b"It is done")

    async def _responses(self, number: int) -> None:
        await self._send("/responses", {"input": f"n{number}"}, b'"completed"')

    async def _responses_stream(self, number: int) -> None:
        await self._send("/responses", {"input": f"n{number}", "stream": True}, b"response.completed")

    async def _messages(self, number: int) -> None:
        body = {"model": "m", "max_tokens": 100, "messages": _say(f"n{number}")}
        await self._send("/messages", body, b"end_turn")

    async def _background(self, number: int) -> None:
        await self._send("/responses", {"input": f"n{number}", "background": True}, b"resp_")
        run = self.runs[-1]
        async with self._http.get(f"{self._url}/runs/{run}/events") as events:  # to its end
            assert b"run_finished" in await events.read(), f"{run} has no end"

    async def _file(self, number: int) -> None:
        form = aiohttp.FormData({"purpose": "user_data"})
        form.add_field("file", b"%d " % number * 1000, filename=f"{number}.txt")
        async with self._http.post(f"{self._url}/files", data=form) as answer:
            assert answer.status == 200, f"{answer.status}: {await answer.text()}"
            name = (await answer.json())["id"]
        async with self._http.delete(f"{self._url}/files/{name}") as answer:
            assert answer.status == 200, f"{answer.status}: {await answer.text()}"

    async def _lists(self, number: int) -> None:
        for path in ("/runs?limit=20", "/sessions?limit=20", "/models"):
            async with self._http.get(f"{self._url}{path}") as answer:
                assert answer.status == 200, f"{path}: {answer.status}"
                await answer.read()

    async def lost(self) -> list[str]:
        """Of the runs that were begun, or of some thousands of them, those that are not finished."""
        found: list[str] = []
        for run in random.sample(self.runs, min(len(self.runs), LOOKED_UP)):
            async with self._http.get(f"{self._url}/runs/{run}") as answer:
                state = (await answer.json()).get("state") if answer.status == 200 else answer.status
            if state != "finished":
                found.append(f"{run}: {state}")
        return found


def _say(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def look(pid: int, began: float, requests: int) -> Sample:
    place = Path(f"/proc/{pid}")
    pages = int((place / "statm").read_text().split()[1])
    descriptors = len(list((place / "fd").iterdir()))
    threads = len(list((place / "task").iterdir()))
    return Sample((time.monotonic() - began) / 60, pages * 4096 / 1e6, descriptors, threads, requests)


async def look_at_rest(pid: int, began: float) -> Sample:
    """When no request is under way, and what was begun for the last ones is over."""
    await asyncio.sleep(REST_SECONDS)
    return look(pid, began, 0)


async def at_full_load(traffic: Traffic, seconds: float) -> float:
    """Requests a second, as many as the clients can make."""
    until = time.monotonic() + seconds

    async def client() -> None:
        while time.monotonic() < until:
            await traffic.ask_one()

    before = traffic.done.total()
    began = time.monotonic()
    await asyncio.gather(*[client() for _ in range(CLIENTS)])
    return (traffic.done.total() - before) / (time.monotonic() - began)


async def at_rate(traffic: Traffic, rate: float, seconds: float, pid: int, first: float) -> list[Sample]:
    """Requests at their times, whether or not those before are answered. Minutes are counted from `first` on."""
    began = time.monotonic()
    samples: list[Sample] = []
    under_way: set[asyncio.Task[None]] = set()
    for number in itertools.count():
        now = time.monotonic() - began
        if now >= seconds:
            break
        if now >= len(samples) * SAMPLE_SECONDS:
            samples.append(look(pid, first, traffic.done.total()))
        if (pause := number / rate - now) > 0:
            await asyncio.sleep(pause)
        task = asyncio.create_task(traffic.ask_one())
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    return samples


def verdict(samples: list[Sample], at_rest: list[Sample], traffic: Traffic, lost: list[str]) -> list[str]:
    """What is wrong."""
    second = samples[len(samples) // 2 :]
    middle = statistics.median([one.megabytes for one in second])
    third = max(1, len(second) // 3)  # the noise of one moment is no growth
    change = statistics.median([one.megabytes for one in second[-third:]]) / statistics.median(
        [one.megabytes for one in second[:third]]
    )
    wrong = [f"{count} × {problem}" for problem, count in traffic.problems.most_common()]
    if abs(change - 1) > MAY_CHANGE:
        wrong.append(f"memory changed by {change - 1:+.1%} in the second half, around {middle:.0f} MB")
    halfway, last = [one.descriptors for one in at_rest]
    if last > halfway:
        wrong.append(f"{last} descriptors were open at the end, and {halfway} after half of the time")
    return [*wrong, *[f"lost: {one}" for one in lost]]


def table(samples: list[Sample]) -> str:
    """A line for each minute, or each sample of a short one."""
    step = max(1, len(samples) // 30)
    lines = ["minute  memory  descriptors  threads  requests"]
    lines += [
        f"{one.minute:6.1f} {one.megabytes:5.0f} MB {one.descriptors:12} {one.threads:8} {one.requests:9}"
        for one in [*samples[::step], samples[-1]]
    ]
    return "\n".join(lines)


async def soak(minutes: float) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="ronda-soak-", ignore_cleanup_errors=True) as name,
        Model().serving() as model,
    ):
        folder = Path(name)
        (folder / "tools.py").write_text(TOOLS)
        server = Process(folder, model.flags, "--keep-previews-bytes", str(KEPT_PREVIEWS))
        server.start()
        limit = aiohttp.TCPConnector(limit=CLIENTS)
        try:
            async with aiohttp.ClientSession(connector=limit, timeout=aiohttp.ClientTimeout(60)) as http:
                traffic = Traffic(server.url, http)
                full = await at_full_load(traffic, CAPACITY_SECONDS)
                began = time.monotonic()
                print(f"full load: {full:.0f} requests/s; half of it for {minutes:g} minutes", flush=True)
                samples: list[Sample] = []
                at_rest: list[Sample] = []
                for _ in ("first", "second"):
                    samples += await at_rate(traffic, full / 2, minutes * 30, server.pid, began)
                    at_rest.append(await look_at_rest(server.pid, began))
                lost = await traffic.lost()
        finally:
            server.kill()
    print(table(samples))
    print(", ".join([f"{count} {kind}" for kind, count in traffic.done.most_common()]))
    wrong = verdict(samples, at_rest, traffic, lost)
    halfway, last = [one.descriptors for one in at_rest]
    print(f"descriptors without a request under way: {halfway} after half of the time, {last} at the end")
    print(f"{len(traffic.runs)} runs, {len(lost)} lost; " + ("; ".join(wrong[:20]) or "nothing grew"))
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long it takes, beside the start (30)")
    return asyncio.run(soak(parser.parse_args().minutes))


if __name__ == "__main__":
    sys.exit(main())
