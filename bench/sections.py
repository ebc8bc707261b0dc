"""What is done to get the figures: four sections, each alternating between floor and ours, into `Samples`."""

import asyncio
import importlib.util
import sys
import time
from functools import cached_property
from pathlib import Path

import msgspec
from bench.bars import Samples, Side
from bench.client import Crowd, Expect, Load, Target, ask_once, fault, plain_text, stream_text
from bench.processes import ROOT, BenchError, Child, Children, free_port, python

SIDES: tuple[Side, ...] = ("floor", "ours")
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

    def __init__(self, plan: Plan, children: Children, upstream: str | None = None) -> None:
        self.plan = plan
        self.children = children
        self.samples = Samples()
        self._given = upstream

    @cached_property
    def upstream(self) -> str:
        """Started when it is first asked for: not while the local model is measured."""
        return self._given or start_upstream(self.children)

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
    from ronda.providers.local.files import default_path

    if importlib.util.find_spec("xllamacpp") is None:
        return "the engine is not installed; 'pip install xllamacpp' gets it"
    if default_path() is None:
        return "the default model is not installed; 'ronda models pull' gets it"
    return ""


def measure_local(bench: Bench) -> None:
    """Each figure has its share of the seconds that are left, and at least one turn."""
    plan = bench.plan
    child = bench.children.start_talking("local", python("-m", "bench.local"), core=None)
    say(child.hear(120))
    end = time.monotonic() + plan.local_seconds
    tokens = {"streams": plan.local_streamed, "prefix": LOCAL_ROUND_TOKENS}
    for number, figure in enumerate(LOCAL_FIGURES):
        began = time.monotonic()
        share = (end - began) / (len(LOCAL_FIGURES) - number)
        command = f"{figure} {tokens.get(figure, LOCAL_TOKENS)}"
        if figure != "prefix":  # whose first round must be new
            exchange(child, f"{figure} 8")  # warm up
        for turn in range(plan.local_runs):
            started = time.monotonic()
            floor, ours = exchange(child, command)
            bench.note(f"local {figure}", "floor", floor)
            bench.note(f"local {figure}", "ours", ours)
            now = time.monotonic()
            if turn + 1 < plan.local_runs and now - began + now - started > share:
                say(f"  local {figure}: no time for more than {turn + 1} of {plan.local_runs} turns")
                break
    child.end()


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
    loops = {side: start_loop(bench, side, ROUNDS, mode) for side in SIDES}
    for side in SIDES:
        order(loops[side], f"cost 1 {plan.seconds}")  # warm up
    for concurrency in (1, CROWD):
        for _ in range(plan.slices):
            for side in SIDES:
                cost = order(loops[side], f"cost {concurrency} {plan.seconds}")
                bench.note(f"library {mode} c={concurrency}", side, cost)
    for child in loops.values():
        child.end()


def measure_growth(bench: Bench) -> None:
    loop = start_loop(bench, "ours", GROWTH_ROUNDS, "plain")
    order(loop, "growth")  # warm up
    for _ in range(bench.plan.growth_runs):
        bench.note("growth", "ours", order(loop, "growth"))
    loop.end()


# Wires

WIRES = ("openai", "anthropic", "mistral", "gemini")


def measure_wires(bench: Bench) -> None:
    """The same loop through each provider's wire, beside the one through Chat Completions."""
    for run in range(bench.plan.runs):
        say(f"wires, run {run + 1} of {bench.plan.runs}")
        for mode in ("plain", "stream"):
            chat = start_loop(bench, "ours", ROUNDS, mode)
            loops = {wire: start_loop(bench, "ours", ROUNDS, mode, wire) for wire in WIRES}
            for loop in (chat, *loops.values()):
                order(loop, f"cost 1 {bench.plan.seconds}")  # warm up
            for _ in range(bench.plan.slices):
                for wire, loop in loops.items():
                    for side, child in (("floor", chat), ("ours", loop)):
                        cost = order(child, f"cost {CROWD} {bench.plan.seconds / 2}")
                        bench.note(f"wire {wire} {mode}", side, cost)  # type: ignore[arg-type]  # one of the two, as just said
            for loop in (chat, *loops.values()):
                loop.end()


def start_loop(bench: Bench, side: Side, rounds: int, mode: str, wire: str = "openai-chat") -> Child:
    url = bench.upstream.removesuffix("/v1") if wire == "anthropic" else bench.upstream
    text = asyncio.run(bench.said(fake(0), stream=mode == "stream"))
    command = python("-m", "bench.library", side, "--url", url, "--wire", wire, "--model", fake(rounds))
    command += ["--rounds", str(rounds), "--expect", text, *(["--stream"] if mode == "stream" else [])]
    return bench.children.start_talking(f"library-{side}", command, core=bench.children.cores.tested)


def order(loop: Child, what: str) -> float:
    loop.tell(what)
    return float(loop.hear())


# Start


def measure_start(bench: Bench) -> None:
    expect = asyncio.run(bench.said(fake(0), stream=False))
    say(f"start, {bench.plan.starts} times")
    for side in SIDES:
        start_once(bench, side, expect)  # fills the caches of compiled modules and of the disk
    for _ in range(bench.plan.starts):
        for side in SIDES:
            wall, cpu, peak = start_once(bench, side, expect)
            bench.note("start", side, wall, f" s ({cpu:.3f} s CPU, {peak:.1f} MB)")
            bench.samples.add("start CPU", side, cpu)
            bench.samples.add("start memory", side, peak)


def start_once(bench: Bench, side: Side, expect: str) -> tuple[float, float, float]:
    """Wall and CPU seconds from the start of the process to its answer, and its peak memory by then."""
    script = ROOT / "bench" / f"start_{side}.py"
    command = python(script, bench.upstream, fake(0))
    started = time.perf_counter()
    child = bench.children.start_talking(f"start-{side}", command, core=bench.children.cores.tested)
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
        self._url = f"http://127.0.0.1:{port}"

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

    floor = start_floor_server(bench)
    ours = start_ronda(bench, "plain", fake(0))
    await measure_idle(bench, "floor", floor, plain)
    await measure_idle(bench, "ours", ours, plain)
    looping = start_ronda(bench, "loop", fake(ROUNDS), "--tools", ROOT / "bench" / "tools.py")
    pacing = start_ronda(bench, "paced", paced)

    for run in range(plan.runs):
        say(f"server, run {run + 1} of {plan.runs}")
        crowds = {"floor": floor.crowd(CHAT, fake(0), plain), "ours": ours.crowd(CHAT, fake(0), plain)}
        await measure_requests(bench, "server plain", crowds)
        crowds = {
            "floor": floor.crowd("/agent", fake(ROUNDS), plain),
            "ours": looping.crowd(CHAT, fake(ROUNDS), looped),
        }
        await measure_requests(bench, "server loop", crowds)
        crowds = {"floor": floor.crowd(CHAT, fake(0), streamed), "ours": ours.crowd(CHAT, fake(0), streamed)}
        await measure_requests(bench, "server stream", crowds)
        direct = Target(bench.upstream + "/chat/completions", fake(0), stream=True)
        crowds = {"direct": Crowd(direct, streamed), **crowds}
        await measure_first(bench, crowds)
        crowds = {"floor": floor.crowd("/rewrite", paced, unhurried), "ours": pacing.crowd(CHAT, paced, unhurried)}
        await measure_paced(bench, crowds)


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
    server = start_ronda(bench, "doors", model, "--tools", ROOT / "bench" / "tools.py")
    for run in range(plan.runs):
        say(f"doors, run {run + 1} of {plan.runs}")
        for door, (path, plain_end, stream_end) in DOORS.items():
            crowds = {
                "floor": server.crowd(CHAT, model, Expect(text, records=ROUNDS)),
                "ours": server.crowd(path, model, Expect(text, end=plain_end)),
            }
            await measure_requests(bench, f"door {door} plain", crowds)
            crowds = {
                "floor": server.crowd(CHAT, model, Expect(text, streamed=True)),
                "ours": server.crowd(path, model, Expect(text, streamed=True, end=stream_end)),
            }
            await measure_requests(bench, f"door {door} stream", crowds)


async def measure_idle(bench: Bench, side: Side, server: Server, expect: Expect) -> None:
    answer = await ask_once(server.target(CHAT, fake(0), stream=False))
    if wrong := fault(answer, expect):
        raise BenchError(f"{server.child.name}: {wrong}")
    await asyncio.sleep(0.5)
    bench.note("server idle", side, server.child.memory_mb(), " MB")


async def measure_requests(bench: Bench, key: str, crowds: dict[str, Crowd]) -> None:
    for turn in await take_turns(crowds, CROWD, bench.plan.slices, bench.plan.seconds):
        for side in SIDES:
            bench.note(key, side, turn[side].cpu_ms, f" ms (busy {turn[side].busy:.0%})")


async def measure_first(bench: Bench, crowds: dict[str, Crowd]) -> None:
    """The wait for the first word through a server, minus the wait when the model is asked directly."""
    for turn in await take_turns(crowds, 1, bench.plan.slices, bench.plan.seconds):
        direct = turn["direct"].first_ms
        for side in SIDES:
            bench.note("server first", side, turn[side].first_ms - direct, f" ms (directly {direct:.3f} ms)")


async def measure_paced(bench: Bench, crowds: dict[str, Crowd]) -> None:
    """One stream per connection and turn. The events are the model's, so that leaving some out looks no cheaper."""
    for turn in await take_turns(crowds, CROWD, bench.plan.slices, 0):
        for side in SIDES:
            cost = 1000 * turn[side].cpu_ms / bench.plan.paced_chunks
            bench.note("server paced", side, cost, f" µs (busy {turn[side].busy:.0%})")


async def take_turns(crowds: dict[str, Crowd], size: int, turns: int, seconds: float) -> list[dict[str, Load]]:
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


def start_ronda(bench: Bench, name: str, model: str, *flags: str | Path) -> Server:
    """`ronda serve` as it comes, with its default journal, in a folder of its own."""
    port = free_port()
    folder = bench.children.folder / f"data-{name}"
    folder.mkdir()
    command: list[str | Path] = [Path(sys.executable).parent / "ronda", "serve", "--model", f"openai-chat:{model}"]
    command += ["--base-url", bench.upstream, "--host", "127.0.0.1", "--port", str(port), "--data-dir", folder, *flags]
    return start_server(bench, f"ronda-{name}", command, port)


def start_server(bench: Bench, name: str, command: list[str | Path], port: int) -> Server:
    env = {"BENCH_UPSTREAM": bench.upstream}
    child = bench.children.start(name, command, core=bench.children.cores.tested, env=env)
    child.wait_for_http(f"http://127.0.0.1:{port}/health")
    return Server(child, port)
