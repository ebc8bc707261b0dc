"""What it costs that nothing is lost: a journal on disk, a run that is picked up again, its followers, more processes."""

import asyncio
import secrets
import shutil
import time

import msgspec
from bench.bars import Side
from bench.client import Answer, Connection, Crowd, Expect, Target, question
from bench.processes import ROOT, BenchError, python
from bench.sections import (
    CHAT,
    CROWD,
    ROUNDS,
    Bench,
    Server,
    crowds_of,
    fake,
    measure_requests,
    say,
    start_ronda,
    take_turns,
)

LONG_RUN = 500  # rounds
FOLLOWERS = 100
SHOWN = 300  # pieces of the answer that they follow, one every 2 ms
WORKERS = (1, 2)


async def measure_durable(bench: Bench) -> None:
    await measure_journal(bench)
    await measure_resume(bench)
    await measure_followers(bench)
    await measure_workers(bench)


async def measure_journal(bench: Bench) -> None:
    """The same server, with its journal in a folder and in memory."""
    model, tools = fake(ROUNDS), ("--tools", ROOT / "bench" / "tools.py")
    expect = Expect(await bench.said(fake(0), stream=False), records=ROUNDS)
    in_memory = start_ronda(bench, "ours", "in-memory", model, *tools, "--data-dir", ":memory:")
    servers: dict[Side, Server] = {"floor": in_memory}
    servers |= {side: start_ronda(bench, side, "on-disk", model, *tools) for side in bench.ronda}
    for run in range(bench.plan.runs):
        say(f"journal, run {run + 1} of {bench.plan.runs}")
        await measure_requests(bench, "journal", crowds_of(servers, CHAT, model, expect))
    for server in servers.values():
        server.child.end()


async def measure_resume(bench: Bench) -> None:
    """A run whose process was killed in its last model call, up to the moment when the model is asked again."""
    folder = bench.children.folder / "long-run"
    folder.mkdir()
    await resumed(bench, "ours", "make", folder / "made.db")
    for number in range(bench.plan.growth_runs):
        for side in bench.ronda:
            copy = folder / f"{side}-{number}.db"
            for file in folder.glob("made.db*"):
                shutil.copyfile(file, copy.with_name(copy.name + file.name.removeprefix("made.db")))
            bench.note("resume", side, await resumed(bench, side, "resume", copy), f" s ({LONG_RUN} rounds)")


async def resumed(bench: Bench, side: Side, verb: str, journal: object) -> float:
    command = python("-m", "bench.long_run", verb, str(journal), str(LONG_RUN))
    core = bench.children.cores.tested
    child = bench.children.start_talking(f"long-run-{side}", command, core=core, tree=bench.tree(side))
    try:
        return float(await asyncio.to_thread(child.hear, 60))
    finally:
        child.end()


async def measure_followers(bench: Bench) -> None:
    """CPU of the server for each event that it sends to a client that follows the run, whatever the run itself costs."""
    model = fake(0, SHOWN, gap=2)
    servers = {side: start_ronda(bench, side, "followed", model) for side in bench.ronda}
    say(f"{FOLLOWERS} followers, {bench.plan.runs} times")
    for number in range(-1, bench.plan.runs):  # the first only warms up
        for side, server in servers.items():
            alone, _, _ = await follow(server, model, 0)
            together, events, seconds = await follow(server, model, FOLLOWERS)
            if number >= 0:
                bench.note(
                    "followers", side, 1e6 * (together - alone) / events, f" µs ({events / seconds:.0f} events/s)"
                )
    for server in servers.values():
        server.child.end()


async def follow(server: Server, model: str, followers: int) -> tuple[float, int, float]:
    """CPU seconds of one run, the events that its followers saw, and how long it took."""
    run = f"run_{secrets.token_hex(16)}"
    target = server.target(CHAT, model, stream=True)
    body = msgspec.json.encode({**question(CHAT, model), "stream": True, "on_disconnect": "detach"})
    asks = http(server, f"POST {CHAT}", f"x-ronda-run: {run}", body)
    cpu, began = server.child.cpu_seconds(), time.perf_counter()
    asker = await Connection.open(target.url)
    answer = asyncio.ensure_future(asker.ask(asks))
    while asker.first is None and not answer.done():
        await asyncio.sleep(0.001)
    watching = [await Connection.open(target.url) for _ in range(followers)]
    follows = (
        f"GET /v1/runs/{run}/events HTTP/1.1\r\nhost: {server.host}\r\nauthorization: Bearer bench\r\n\r\n".encode()
    )
    seen = await asyncio.gather(*[connection.ask(follows) for connection in watching])
    check(server, [await answer, *seen])
    spent, seconds = server.child.cpu_seconds() - cpu, time.perf_counter() - began
    for connection in (asker, *watching):
        connection.transport.close()
    return spent, sum(one.body.count(b"\nid: ") + 1 for one in seen), seconds


def http(server: Server, what: str, header: str = "accept: */*", body: bytes = b"") -> bytes:
    """With a key: a run belongs to whose key began it."""
    head = f"{what} HTTP/1.1\r\nhost: {server.host}\r\nauthorization: Bearer bench\r\n{header}\r\n"
    return head.encode() + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def check(server: Server, answers: list[Answer]) -> None:
    for answer in answers:
        if answer.status != 200 or b"tok%d " % (SHOWN - 1) not in answer.body:
            raise BenchError(f"{server.child.name}: an answer without its end: {answer.status} {answer.body[-300:]!r}")


async def measure_workers(bench: Bench) -> None:
    """Requests per second of one process and of two. Who asks, and the fake model, share the same cores with them."""
    model, expect = fake(0), Expect(await bench.said(fake(0), stream=False))
    for side in bench.ronda:
        servers = {
            count: start_ronda(bench, side, f"workers-{count}", model, "--workers", str(count), on_every_core=True)
            for count in WORKERS
        }
        crowds = {
            str(count): Crowd(Target(server.target(CHAT, model, stream=False).url, model), expect, server.child)
            for count, server in servers.items()
        }
        for turn in await take_turns(crowds, CROWD, bench.plan.slices, bench.plan.seconds):
            for count, load in turn.items():
                bench.note(f"workers {count}", side, load.requests / load.wall, f" /s (busy {load.busy:.0%})")
        for server in servers.values():
            server.child.end()
