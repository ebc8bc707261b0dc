"""Sessions: whether a long one makes its requests dearer, and what those cost that no client uses."""

import asyncio

import msgspec
from bench.bars import Side
from bench.client import Answer, Connection, Expect, Target, fault
from bench.processes import BenchError
from bench.sections import CHAT, CROWD, Bench, Server, fake, say, start_ronda

REQUESTS = 205
EARLY = range(5, 15)  # around the 10th …
LATE = range(195, 205)  # … and the 200th
IDLE_SESSIONS = 5_000


class SessionTarget(Target, frozen=True):
    """A question in a session, which is the same every time: so it is said to be new."""

    session: str = ""

    def request(self) -> bytes:
        head, _, body = super().request().partition(b"\r\n\r\n")
        more = {"session_id": self.session, "session_mode": "append"}
        whole = msgspec.json.encode(msgspec.json.decode(body) | more)
        return head.replace(b"content-length: %d" % len(body), b"content-length: %d" % len(whole)) + b"\r\n\r\n" + whole


async def measure_sessions(bench: Bench) -> None:
    expect = Expect(await bench.said(fake(0), stream=False))
    servers = {side: start_ronda(bench, side, "sessions", fake(0)) for side in bench.ronda}
    say(f"sessions of {REQUESTS} requests, {bench.plan.growth_runs} times")
    for number in range(-1, bench.plan.growth_runs):  # the first only warms up
        for side, server in servers.items():
            early, late = await session_cost(server, f"long-{number}", expect)
            if number >= 0:
                bench.note("session growth", side, late - early, f" ms ({early:.3f} ms, then {late:.3f} ms)")
    for side, server in servers.items():
        await measure_idle_sessions(bench, side, server, expect)


async def session_cost(server: Server, session: str, expect: Expect) -> tuple[float, float]:
    """CPU milliseconds of a request early in a session, and late in it."""
    target = target_of(server, session)
    request = target.request()
    costs: list[float] = []
    connection = await Connection.open(target.url)
    try:
        for at in range(REQUESTS):
            if at in (EARLY.start, LATE.start):
                began = server.child.cpu_seconds()
            check(server, await connection.ask(request), expect)
            if at + 1 in (EARLY.stop, LATE.stop):
                costs.append(1000 * (server.child.cpu_seconds() - began) / len(EARLY))
    finally:
        connection.transport.close()
    early, late = costs
    return early, late


async def measure_idle_sessions(bench: Bench, side: Side, server: Server, expect: Expect) -> None:
    """What a server has in memory for sessions that no client uses now."""

    async def begin(first: int) -> None:
        connection = await Connection.open(target_of(server, "").url)
        for number in range(first, IDLE_SESSIONS, CROWD):
            check(server, await connection.ask(target_of(server, f"idle-{number}").request()), expect)
        connection.transport.close()

    before = server.child.memory_mb()
    await asyncio.gather(*[begin(first) for first in range(CROWD)])
    await asyncio.sleep(0.5)
    bench.note("session idle", side, server.child.memory_mb() - before, f" MB ({before:.1f} MB before)")


def target_of(server: Server, session: str) -> SessionTarget:
    plain = server.target(CHAT, fake(0), stream=False)
    return SessionTarget(plain.url, plain.model, session=session)


def check(server: Server, answer: Answer, expect: Expect) -> None:
    if wrong := fault(answer, expect):
        raise BenchError(f"{server.child.name}: {wrong}")
