"""What holds of budgets, whatever happens: no more is spent than a limit allows, and what keys spent is what runs cost."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import threading
import time
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.interaction.doors import Door
from tests.interaction.every_door import NAMES
from tests.server.features.spender import open_place
from tests.server.features.test_budgets import (
    ANN,
    ANN_2,
    BOB,
    PRICES,
    add_keys,
    ledger_of,
    look,
    post,
    reserved,
    settled,
)
from tests.server.restarts import Folder, Serving
from tests.timeouts import TIMEOUT

from ronda import Agent
from ronda.core.events import Event, ModelFinished, RunStarted
from ronda.core.parts import Usage
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.server.features.budgets.ledger import TABLES, Account, Ledger
from ronda.tools.function import as_tool

# ---- keys and runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
async def test_what_keys_spent_is_what_their_runs_cost(door: Door, seed: int) -> None:
    """At every door, streamed and plain, with rounds of tools, children, failures, and calls whose usage is not told."""
    chance = random.Random(seed)

    def usage() -> Usage:
        return Usage(chance.randrange(1, 900), chance.randrange(1, 90))

    turns: list[Any] = []
    asked = []
    for _ in range(12):
        rounds: list[Any] = [replace(calls("look"), usage=usage()) for _ in range(chance.randrange(3))]
        if chance.random() < 0.4:
            rounds.append(replace(calls(Call("poet", {"input": "rain"}, "p")), usage=usage()))
        turns += [*rounds, says("done", usage=usage())]
        asked.append((chance.choice(NAMES), chance.random() < 0.5, chance.choice([ANN, ANN_2, BOB])))
    poet = Agent(
        ScriptedModel(
            *[turn for _ in range(12) for turn in (replace(calls("look"), usage=usage()), says("poem", usage=usage()))]
        ),
        name="poet",
        tools=[as_tool(look)],
    )
    settings: Any = {"prices": PRICES, "budgets": {"enabled": True}}
    async with door.serving(ScriptedModel(*turns), as_tool(look), poet.as_tool(), **settings) as served:
        await add_keys(served)
        statuses = [(await post(served, name, stream, key))[0] for name, stream, key in asked]
        await settled(served)
        spent = {
            f"key_{number}": await ledger_of(served).spent(Account("key", f"key_{number}"), "total")
            for number in range(3)
        }
        owners = [await ledger_of(served).spent(Account("owner", owner), "total") for owner in ("ann", "bob")]
        runs = await served.events
        left = await reserved(served)

    assert (statuses, left) == ([200] * 12, 0)
    cost = {key: sum_of([events for events in runs if key_of(events, runs) == key]) for key in spent}
    assert {key: (round(one.usd, 9), one.tokens, one.rounds) for key, one in spent.items()} == cost
    assert sum([one.tokens for one in owners]) == sum([one.tokens for one in spent.values()])
    assert round(sum([one.usd for one in owners]) - sum([one.usd for one in spent.values()]), 9) == 0


def key_of(events: list[Event], runs: list[list[Event]]) -> str:
    """The key that a run, or the run that it is a call of, was asked with."""
    start = events[0]
    assert isinstance(start, RunStarted)
    if not start.call or start.parent is None:
        return start.key
    return next(key_of(one, runs) for one in runs if one[0].run == start.parent[0])  # type: ignore[union-attr]


def sum_of(runs: list[list[Event]]) -> tuple[float, int, int]:
    used = [fact.usage for events in runs for fact in events if isinstance(fact, ModelFinished)]
    return round(sum([one.cost or 0.0 for one in used]), 9), sum([one.total for one in used]), len(used)


# ---- replicas, of which one is killed --------------------------------------------------------------------------------

LIMIT = 40_000
HOLD = "hold me"


class Meter:
    """A model's server that counts what it answers: as many tokens as it was allowed to. It has each run ask the helper. The
    first call of a helper that is told to HOLD is never answered."""

    def __init__(self) -> None:
        self.answered: list[int] = []
        self.is_held = threading.Event()
        meter = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if HOLD in str(body["messages"]) and not body.get("tools") and not meter.is_held.is_set():
                    meter.is_held.set()
                    self.connection.recv(1)  # until the other side is gone
                    return
                self._answer(body)

            def _answer(self, body: dict[str, Any]) -> None:
                most = body.get("max_completion_tokens") or body.get("max_tokens") or 4096
                usage = {"prompt_tokens": 1, "completion_tokens": most, "total_tokens": most + 1}
                wants = body.get("tools") and not any(one["role"] == "tool" for one in body["messages"])
                asked = body["messages"][-1]["content"]
                function = {"name": "helper", "arguments": json.dumps({"input": str(asked)})}
                call = {"index": 0, "id": "c1", "type": "function", "function": function}
                message = {"role": "assistant", **({"tool_calls": [call]} if wants else {"content": "done"})}
                reason = "tool_calls" if wants else "stop"
                is_stream = bool(body.get("stream"))
                choice = {"index": 0, "delta" if is_stream else "message": message, "finish_reason": reason}
                said = json.dumps({"choices": [choice], "usage": usage}).encode()
                data = b"data: %b\n\ndata: [DONE]\n\n" % said if is_stream else said
                self.send_response(200)
                self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(data)
                meter.answered.append(most + 1)

            def log_message(self, format: str, *arguments: Any) -> None:  # named by its base
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    @contextlib.contextmanager
    def serving(self) -> Iterator[Meter]:
        thread = threading.Thread(target=self._http.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


HELPER = """---
name: helper
description: Helps.
model: openai-chat:m
inputs:
  input: {kind: string}
---
user:
{{input}}
"""


async def test_replicas_spend_no_more_than_the_limit_though_one_is_killed_in_a_call(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path / "server")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "helper.prompty").write_text(HELPER)
    settings = tmp_path / "ronda.toml"
    settings.write_text(
        'agents = "agents"\n[agent_tools]\ndefault = ["helper"]\n'
        f'[budgets]\nlimits = [{{scope = "owner", tokens = {LIMIT}}}]\n'
    )
    with Meter().serving() as meter:
        monkeypatch.setenv("OPENAI_BASE_URL", meter.url)
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        flags = ("--model", "openai-chat:m", "--base-url", meter.url, "--config", str(settings), "--database", postgres)
        with folder.serving(*flags) as first, folder.serving(*flags) as second:
            begun = [begin(second), begin(first), begin(first, HOLD), begin(second)]
            assert meter.is_held.wait(TIMEOUT)
            first.end(signal.SIGKILL)
            begun += [begin(second) for _ in range(14)]
            ends = [ended(second, one) for one in begun if one is not None]
            second.end(signal.SIGTERM)
    catalog, _ = open_place(postgres)
    catalog.add_tables("budgets", TABLES)
    ledger = Ledger(catalog, (), "UTC", time.time)
    spent = await ledger.spent(Account("owner", ""), "total")
    left = await catalog.read(lambda db: db.execute("SELECT count(*) FROM reservation WHERE call <> 'last'").fetchone())
    await catalog.close()

    assert sum(meter.answered) <= spent.tokens <= LIMIT  # of the call that was lost, what it had reserved
    assert spent.tokens > LIMIT // 2
    assert left[0] == 0
    assert "completed" in ends
    # Each run wants three calls, and all of them together are twice the limit. Which ones are refused is a matter of timing: a
    # run before it starts, its helper, or its next round.
    assert len(meter.answered) < 3 * len(begun)


def begin(serving: Serving, text: str = "go") -> str | None:
    """The id of a response that this server drives, and that goes on without its client; None where the budget allows none."""
    try:
        return serving.ask(on_disconnect="detach", input=text, max_output_tokens=300)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 402:
            raise
        return None


def ended(serving: Serving, response: str) -> str:
    found = serving.ended(response)
    assert found is not None
    return str(found["status"])
