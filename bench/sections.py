"""What is done to get the figures: four sections, each alternating between floor and ours, into `Samples`."""

import asyncio
import importlib.util
import sys
import time
from functools import cached_property
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
from bench.bars import Samples, Side
from bench.client import Crowd, Expect, Load, Target, ask_once, fault, plain_text, stream_text
from bench.processes import ROOT, BenchError, Child, Children, free_port, python

ROUNDS = 10
CHUNKS = 20
GROWTH_ROUNDS = 200
CROWD = 32
CHAT = "/v1/chat/completions"


class Plan(msgspec.Struct, frozen=True):
    """How much is measured: in each run, floor and ours take turns for `slices` times `seconds`."""

    runs: int
    slices: int
    seconds: float
    starts: int
    growth_runs: int
    paced_chunks: int
    local_runs: int
    local_seconds: float
    local_streamed: int  # tokens of each of the eight streams


FULL = Plan(
    runs=3,
    slices=4,
    seconds=0.5,
    starts=7,
    growth_runs=8,
    paced_chunks=100,
    local_runs=5,
    local_seconds=90,
    local_streamed=64,
)
QUICK = Plan(
    runs=1,
    slices=2,
    seconds=0.25,
    starts=3,
    growth_runs=4,
    paced_chunks=50,
    local_runs=3,
    local_seconds=32,
    local_streamed=24,
)


class Bench:
    """One benchmark run: the fake model, the children, and the samples so far."""

    def __init__(self, plan: Plan, children: Children, upstream: str | None = None, before: Path | None = None) -> None:
        self.plan = plan
        self.children = children
        self.samples = Samples()
        self.before = before  # the checkout to compare with, where there is one
        self.ronda: tuple[Side, ...] = ("ours",) if before is None else ("ours", "before")
        self.sides: tuple[Side, ...] = ("floor", *self.ronda)
        self._given = upstream

    @cached_property
    def upstream(self) -> str:
        """Started when it is first asked for: not while the local model is measured."""
        return self._given or start_upstream(self.children)

    def tree(self, side: Side) -> Path:
        """The checkout whose Ronda this side runs. The floor is always measured by the present benchmark."""
        return self.before if side == "before" and self.before is not None else ROOT

    async def said(self, model: str, stream: bool) -> str:
        """What the model says when it is asked directly: what every answer is compared with."""
        answer = await ask_once(Target(self.upstream + "/chat/completions", model, stream))
        text = "".join(stream_text(answer.body)) if stream else plain_text(answer.body)
        if not text:
            raise BenchError(f"the fake model at {self.upstream} says nothing: {answer.body[:300]!r}")
        return text

    def note(self, key: str, side: Side, value: float, remark: str = "") -> None:
        self.samples.add(key, side, value)
        say(f"  {key}, {side}: {value:.3f}{remark}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def fake(rounds: int, chunks: int = CHUNKS, gap: int = 0) -> str:
    return f"fake-r{rounds}-n{chunks}" + (f"-g{gap}" if gap else "")


def start_upstream(children: Children) -> str:
    port = free_port()
    child = children.start("upstream", python("-m", "bench.upstream", str(port)), core=children.cores.rest)
    child.wait_for_http(f"http://127.0.0.1:{port}/v1/models")
    return f"http://127.0.0.1:{port}/v1"


# Local model

LOCAL_FIGURES = ("decode", "schema", "streams", "prefix")  # the prefix last: it takes longest, and gets what is left
LOCAL_TOKENS = 64
LOCAL_ROUND_TOKENS = 8


def local_missing() -> str:
    """Why the local model cannot be measured, if it cannot."""
    from ronda.local.files import default_path

    if importlib.util.find_spec("xllamacpp") is None:
        return "the engine is not installed; 'pip install xllamacpp' gets it"
    if default_path() is None:
        return "the default model is not installed; 'ronda models pull' gets it"
    return ""


def measure_local(bench: Bench) -> None:
    """Each figure has its share of the seconds that are left, and at least one turn."""
    plan = bench.plan
    loaded = {side: start_local(bench, side) for side in bench.ronda}
    end = time.monotonic() + plan.local_seconds
    tokens = {"streams": plan.local_streamed, "prefix": LOCAL_ROUND_TOKENS}
    for number, figure in enumerate(LOCAL_FIGURES):
        began = time.monotonic()
        share = (end - began) / (len(LOCAL_FIGURES) - number)
        command = f"{figure} {tokens.get(figure, LOCAL_TOKENS)}"
        if figure != "prefix":  # whose first round must be new
            for child in loaded.values():
                exchange(child, f"{figure} 8")  # warm up
        for turn in range(plan.local_runs):
            started = time.monotonic()
            for side, child in loaded.items():
                floor, ours = exchange(child, command)
                bench.note(f"local {figure}", side, ours)
                if side == "ours":
                    bench.note(f"local {figure}", "floor", floor)
            now = time.monotonic()
            if turn + 1 < plan.local_runs and now - began + now - started > share:
                say(f"  local {figure}: no time for more than {turn + 1} of {plan.local_runs} turns")
                break
    for child in loaded.values():
        child.end()


def start_local(bench: Bench, side: Side) -> Child:
    """It goes inside the engine's module, so each side is measured by the benchmark of its own commit."""
    tree = bench.tree(side)
    child = bench.children.start_talking(f"local-{side}", python("-m", "bench.local"), core=None, tree=tree, cwd=tree)
    say(f"{side}: {child.hear(120)}")
    return child


def exchange(child: Child, what: str) -> tuple[float, float]:
    child.tell(what)
    floor, ours = child.hear(180).split()
    return float(floor), float(ours)


# Library


def measure_library(bench: Bench) -> None:
    for run in range(bench.plan.runs):
        say(f"library, run {run + 1} of {bench.plan.runs}")
        measure_rounds(bench, "plain")
        measure_rounds(bench, "stream")
        measure_growth(bench)


def measure_rounds(bench: Bench, mode: str) -> None:
    plan = bench.plan
    loops = {side: start_loop(bench, side, ROUNDS, mode) for side in bench.sides}
    for side in bench.sides:
        order(loops[side], f"cost 1 {plan.seconds}")  # warm up
    for concurrency in (1, CROWD):
        for _ in range(plan.slices):
            for side in bench.sides:
                cost = order(loops[side], f"cost {concurrency} {plan.seconds}")
                bench.note(f"library {mode} c={concurrency}", side, cost)
    for child in loops.values():
        child.end()


def measure_growth(bench: Bench) -> None:
    loops = {side: start_loop(bench, side, GROWTH_ROUNDS, "plain") for side in bench.ronda}
    for loop in loops.values():
        order(loop, "growth")  # warm up
    for _ in range(bench.plan.growth_runs):
        for side, loop in loops.items():
            bench.note("growth", side, order(loop, "growth"))
    for loop in loops.values():
        loop.end()


# Wires

WIRES = ("openai", "anthropic", "mistral", "gemini")


def measure_wires(bench: Bench) -> None:
    """The same loop through each provider's wire, beside the one through Chat Completions."""
    for run in range(bench.plan.runs):
        say(f"wires, run {run + 1} of {bench.plan.runs}")
        for mode in ("plain", "stream"):
            chat = start_loop(bench, "ours", ROUNDS, mode)
            loops = {
                (wire, side): start_loop(bench, side, ROUNDS, mode, wire) for wire in WIRES for side in bench.ronda
            }
            for loop in (chat, *loops.values()):
                order(loop, f"cost 1 {bench.plan.seconds}")  # warm up
            for _ in range(bench.plan.slices):
                for wire in WIRES:
                    for side in bench.sides:
                        loop = chat if side == "floor" else loops[wire, side]
                        bench.note(f"wire {wire} {mode}", side, order(loop, f"cost {CROWD} {bench.plan.seconds / 2}"))
            for loop in (chat, *loops.values()):
                loop.end()


def start_loop(bench: Bench, side: Side, rounds: int, mode: str, wire: str = "openai-chat") -> Child:
    command = loop_command(bench, side, rounds, mode, wire)
    core = bench.children.cores.tested
    return bench.children.start_talking(f"library-{side}", command, core=core, tree=bench.tree(side))


def loop_command(bench: Bench, side: Side, rounds: int, mode: str, wire: str = "openai-chat") -> list[str | Path]:
    url = bench.upstream.removesuffix("/v1") if wire == "anthropic" else bench.upstream
    text = asyncio.run(bench.said(fake(0), stream=mode == "stream"))
    loop = "floor" if side == "floor" else "ours"
    command = python("-m", "bench.library", loop, "--url", url, "--wire", wire, "--model", fake(rounds))
    return [*command, "--rounds", str(rounds), "--expect", text, *(["--stream"] if mode == "stream" else [])]


def order(loop: Child, what: str) -> float:
    loop.tell(what)
    return float(loop.hear())


# Start


def measure_start(bench: Bench) -> None:
    expect = asyncio.run(bench.said(fake(0), stream=False))
    say(f"start, {bench.plan.starts} times")
    for side in bench.sides:
        start_once(bench, side, expect)  # fills the caches of compiled modules and of the disk
    for _ in range(bench.plan.starts):
        for side in bench.sides:
            wall, cpu, peak = start_once(bench, side, expect)
            bench.note("start", side, wall, f" s ({cpu:.3f} s CPU, {peak:.1f} MB)")
            bench.samples.add("start CPU", side, cpu)
            bench.samples.add("start memory", side, peak)


def start_once(bench: Bench, side: Side, expect: str) -> tuple[float, float, float]:
    """Wall and CPU seconds from the start of the process to its answer, and its peak memory by then."""
    script = ROOT / "bench" / ("start_floor.py" if side == "floor" else "start_ours.py")
    command = python(script, bench.upstream, fake(0))
    started = time.perf_counter()
    core = bench.children.cores.tested
    child = bench.children.start_talking(f"start-{side}", command, core=core, tree=bench.tree(side))
    text = child.hear()
    wall = time.perf_counter() - started
    if text != expect.strip():
        raise BenchError(f"{script.name} answered {text!r}")
    cpu, peak = child.cpu_seconds(), child.peak_mb()
    child.end()
    return wall, cpu, peak


# Server


class Server:
    """A server under test."""

    def __init__(self, child: Child, port: int) -> None:
        self.child = child
        self.host = f"127.0.0.1:{port}"
        self._url = f"http://{self.host}"

    def target(self, path: str, model: str, stream: bool) -> Target:
        return Target(self._url + path, model, stream)

    def crowd(self, path: str, model: str, expect: Expect) -> Crowd:
        return Crowd(self.target(path, model, expect.streamed), expect, self.child)


async def measure_server(bench: Bench) -> None:
    """Three servers of ours: each serves one model, and the one whose memory is measured has no tools."""
    plan = bench.plan
    paced = fake(0, plan.paced_chunks, gap=10)
    plain = Expect(await bench.said(fake(0), stream=False))
    looped = Expect(plain.text, records=ROUNDS)
    streamed = Expect(await bench.said(fake(0), stream=True), streamed=True)
    unhurried = Expect(await bench.said(paced, stream=True), streamed=True, pieces=plan.paced_chunks)

    tools = ("--tools", ROOT / "bench" / "tools.py")
    floor = start_floor_server(bench)
    await measure_idle(bench, "floor", floor, plain)
    once: dict[Side, Server] = {"floor": floor}
    looping: dict[Side, Server] = {}
    pacing: dict[Side, Server] = {}
    for side in bench.ronda:
        once[side] = start_ronda(bench, side, "plain", fake(0))
        await measure_idle(bench, side, once[side], plain)
        looping[side] = start_ronda(bench, side, "loop", fake(ROUNDS), *tools)
        pacing[side] = start_ronda(bench, side, "paced", paced)

    for run in range(plan.runs):
        say(f"server, run {run + 1} of {plan.runs}")
        await measure_requests(bench, "server plain", crowds_of(once, CHAT, fake(0), plain))
        crowds: Crowds = {"floor": floor.crowd("/agent", fake(ROUNDS), plain)}
        await measure_requests(bench, "server loop", crowds | crowds_of(looping, CHAT, fake(ROUNDS), looped))
        crowds = crowds_of(once, CHAT, fake(0), streamed)
        await measure_requests(bench, "server stream", crowds)
        direct = Crowd(Target(bench.upstream + "/chat/completions", fake(0), stream=True), streamed)
        await measure_first(bench, direct, crowds)
        crowds = {"floor": floor.crowd("/rewrite", paced, unhurried)}
        await measure_paced(bench, crowds | crowds_of(pacing, CHAT, paced, unhurried))


Crowds: TypeAlias = dict[Side, Crowd]


def crowds_of(servers: dict[Side, Server], path: str, model: str, expect: Expect) -> Crowds:
    return {side: server.crowd(path, model, expect) for side, server in servers.items()}


# Each door, and what its plain answers and its streams end with.
DOORS = {
    "responses": ("/v1/responses", b'"status":"completed"', b"event: response.completed"),
    "messages": ("/v1/messages", b'"stop_reason":"end_turn"', b"event: message_stop"),
    "mistral": ("/v1/agents/completions", b'"finish_reason":"stop"', b"data: [DONE]"),
}


async def measure_doors(bench: Bench) -> None:
    """The same loop through each door, beside Chat's."""
    plan = bench.plan
    model = fake(ROUNDS)
    text = await bench.said(fake(0), stream=False)
    tools = ("--tools", ROOT / "bench" / "tools.py")
    servers = {side: start_ronda(bench, side, "doors", model, *tools) for side in bench.ronda}
    chat = servers["ours"]
    for run in range(plan.runs):
        say(f"doors, run {run + 1} of {plan.runs}")
        for door, (path, plain_end, stream_end) in DOORS.items():
            crowds: Crowds = {"floor": chat.crowd(CHAT, model, Expect(text, records=ROUNDS))}
            crowds |= crowds_of(servers, path, model, Expect(text, end=plain_end))
            await measure_requests(bench, f"door {door} plain", crowds)
            crowds = {"floor": chat.crowd(CHAT, model, Expect(text, streamed=True))}
            crowds |= crowds_of(servers, path, model, Expect(text, streamed=True, end=stream_end))
            await measure_requests(bench, f"door {door} stream", crowds)


async def measure_idle(bench: Bench, side: Side, server: Server, expect: Expect) -> None:
    answer = await ask_once(server.target(CHAT, fake(0), stream=False))
    if wrong := fault(answer, expect):
        raise BenchError(f"{server.child.name}: {wrong}")
    await asyncio.sleep(0.5)
    bench.note("server idle", side, server.child.memory_mb(), " MB")


async def measure_requests(bench: Bench, key: str, crowds: Crowds) -> None:
    for turn in await take_turns(crowds, CROWD, bench.plan.slices, bench.plan.seconds):
        for side, load in turn.items():
            bench.note(key, side, load.cpu_ms, f" ms (busy {load.busy:.0%})")


async def measure_first(bench: Bench, model: Crowd, crowds: Crowds) -> None:
    """The wait for the first word through a server, minus the wait when the model is asked directly."""
    for turn in await take_turns({"direct": model, **crowds}, 1, bench.plan.slices, bench.plan.seconds):
        direct = turn["direct"].first_ms
        for side in crowds:
            bench.note("server first", side, turn[side].first_ms - direct, f" ms (directly {direct:.3f} ms)")


async def measure_paced(bench: Bench, crowds: Crowds) -> None:
    """One stream per connection and turn. The events are the model's, so that leaving some out looks no cheaper."""
    for turn in await take_turns(crowds, CROWD, bench.plan.slices, 0):
        for side, load in turn.items():
            cost = 1000 * load.cpu_ms / bench.plan.paced_chunks
            bench.note("server paced", side, cost, f" µs (busy {load.busy:.0%})")


Name = TypeVar("Name", bound=str)


async def take_turns(crowds: dict[Name, Crowd], size: int, turns: int, seconds: float) -> list[dict[Name, Load]]:
    """Let each crowd ask in its turn, again and again; the first turn only warms up."""
    try:
        for crowd in crowds.values():
            await crowd.open(size)
            await crowd.load(seconds / 2)
        return [{name: await crowd.load(seconds) for name, crowd in crowds.items()} for _ in range(turns)]
    finally:
        for crowd in crowds.values():
            crowd.close()


def start_floor_server(bench: Bench) -> Server:
    port = free_port()
    command = python("-m", "uvicorn", "bench.floor_server:app", "--host", "127.0.0.1", "--port", str(port))
    command += ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
    return start_server(bench, "floor-server", command, port)


def start_ronda(
    bench: Bench, side: Side, name: str, model: str, *flags: str | Path, on_every_core: bool = False
) -> Server:
    """`ronda serve` as it comes, with its default journal, in a folder of its own."""
    port = free_port()
    name = f"ronda-{name}-{side}"
    command = serve_command(bench, name, model, port, *flags)
    return start_server(bench, name, command, port, bench.tree(side), on_every_core=on_every_core)


def serve_command(bench: Bench, name: str, model: str, port: int, *flags: str | Path) -> list[str | Path]:
    folder = bench.children.folder / f"data-{name}"
    folder.mkdir()
    command: list[str | Path] = [sys.executable, Path(sys.executable).parent / "ronda", "serve"]
    command += ["--model", f"openai-chat:{model}", "--base-url", bench.upstream]
    return [*command, "--host", "127.0.0.1", "--port", str(port), "--data-dir", folder, *flags]


def start_server(
    bench: Bench,
    name: str,
    command: list[str | Path],
    port: int,
    tree: Path = ROOT,
    seconds: float = 20,
    *,
    on_every_core: bool = False,
) -> Server:
    env = {"BENCH_UPSTREAM": bench.upstream}
    core = None if on_every_core else bench.children.cores.tested
    child = bench.children.start(name, command, core=core, env=env, tree=tree)
    child.wait_for_http(f"http://127.0.0.1:{port}/health", seconds)
    return Server(child, port)
