"""A server for tests of the page: `python -m tests.web.page_server --data DIR [--port N] [--pace SECONDS]`.

It prints one line of JSON, `{"url": …}`, when it is up, and ends with its standard input. With `--gallery` it has a week of runs
behind it (`gallery.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import uvicorn
from msgspec import Struct
from tests.web.actor import PACKAGES, Actor
from tests.web.gallery import (
    GALLERY_BUDGETS,
    GALLERY_KEYS,
    MAIN,
    Cast,
    Stage,
    actor,
    gallery_servers,
    play,
    searching,
    staged,
    tools,
)

from ronda import tool
from ronda.cli.serve import http_settings
from ronda.sandbox.policy import Policy
from ronda.server.app import Server, create_app
from ronda.server.features.budgets.settings import BudgetLimit, BudgetOptions
from ronda.server.features.table import make_config
from ronda.server.storage import open_blobs, open_catalog, open_journal
from ronda.store.keys import new_key
from ronda.tools.function import as_tool


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}: 18,204 rows"


@tool
def calculate(expression: str) -> str:
    """Calculate."""
    left, _, right = expression.partition("*")
    return str(int(left) * int(right))


@tool
async def wait(seconds: float, note: str = "") -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return f"waited {seconds:g} s"


@tool
def always_fails() -> str:
    """Fail."""
    raise RuntimeError("timed out after 30 s")


@tool(approval="ask", labels=["egress"])
def place_order(site: str, quantity: int, deliver_by: str, carrier: Literal["road", "rail"] = "road") -> str:
    """Place an order.

    Args:
        site: The warehouse.
        quantity: How many pallets.
        deliver_by: The last day.
        carrier: How it travels.
    """
    return f"ordered {quantity} for {site} by {deliver_by}"


def search(query: str) -> list[dict[str, Any]]:
    names = [
        ("Delivery calendar 2026", "https://carrier.example/calendar"),
        ("Notices for freight customers", "https://railfreight.example/notices"),
        ("Opening hours of the port", "https://port.example/opening"),
        ("Public holidays by region", "https://calendar.example/holidays"),
        ("Pallet prices, autumn 2026", "https://timber.example/prices"),
    ]
    return [
        {"title": title, "description": f"About {query}", "url": url, "content": f"{title}: about {query}"}
        for title, url in names
    ]


KEYS = {
    "ops": ("ops", ["operate"]),
    "second": ("ops", ["operate"]),
    "guest": ("guest", []),
    "spender": ("spender", ["operate"]),
    "admin": ("admin", ["operate:write"]),
    "old": ("intern", []),
}


BUDGETS = BudgetOptions(limits=(BudgetLimit(scope="owner", per="day", rounds=500),))


def write_agents(folder: Path) -> None:
    """One that others call, one with inputs, and one that is broken."""
    folder.mkdir(exist_ok=True)
    desk = ["The carrier rests from 24 to 27 December, and its last delivery of the year is on the 19th."]
    (folder / "carrier-desk.json").write_text(json.dumps(desk))
    (folder / "carrier-desk.prompty").write_text(
        "---\nmodel: script:carrier-desk.json\ndescription: Knows when the carrier delivers.\n---\n"
        "system:\nYou know the calendar of the carrier.\n"
    )
    (folder / "weather.json").write_text(json.dumps(["It is 21 degrees in that city."]))
    (folder / "weather.prompty").write_text(
        "---\nmodel: script:weather.json\ndescription: Tells the weather in one sentence.\ninputs:\n"
        "  city: {kind: string, required: true}\n"
        "  preferred_unit: {kind: string, enumValues: [celsius, fahrenheit], default: celsius}\n---\n"
        "system:\nTell the weather of {{city}} in {{preferred_unit}}.\n"
    )
    (folder / "billing.prompty").write_text("---\nmodel: [\n---\nsystem:\nHello.\n")


def write_library(folder: Path) -> Path:
    """What `ronda page setup` would keep: a file under the name that a CDN has for it."""
    file = folder / "jquery/dist/jquery.min.js"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("window.jQuery = (id) => { document.getElementById(id).textContent = 'with its library'; };")
    return folder


class Options(Struct, frozen=True):
    data: Path
    pace: float
    code: bool
    keys: bool
    gallery: bool
    local: bool
    provider: str
    runs: int


def _model_at(url: str) -> dict[str, str]:
    return {"model": "openai-chat:far-away", "base_url": url}


def open_server(options: Options, port: int, stage: Stage | None = None) -> Server:
    """`stage`: the clock of a gallery's week, while it is played."""
    agents = options.data / "agents"
    write_agents(agents)
    has_code = options.code or options.gallery
    budgets = GALLERY_BUDGETS if options.gallery else BUDGETS if options.keys else None
    config = make_config(
        {
            "model": MAIN if options.gallery else "local:smollm2" if options.local else "script:Actor",
            "port": port,
            "enable_search": not options.local,
            "enable_code_execution": has_code,
            "enable_shell": has_code,
            "sandbox": Policy(extra_fs_read=(PACKAGES,)) if PACKAGES else Policy(),
            "agents": str(agents),
            "background_runs": options.runs,
            "page": {"folder": str(write_library(options.data / "page"))},
            "agent_tools": {} if options.local else {"default": ("carrier-desk",)},
            **({} if budgets is None else {"budgets": budgets}),
            **({"models": {"elsewhere": _model_at(options.provider)}} if options.provider else {}),
        }
    )
    own = (calculate, place_order) if options.gallery else (calculate, wait, always_fails, place_order)
    server = Server(
        config,
        open_journal(options.data, config, None),
        provider=actor(MAIN, stage, options.pace)
        if options.gallery
        else None
        if options.local
        else Actor(options.pace),
        tools=[]
        if options.local
        else [*[as_tool(one) for one in own], *(tools(stage) if options.gallery else [as_tool(read_file)])],
        catalog=open_catalog(options.data, None, config.queue),
        blobs=open_blobs(options.data, None),
        given={}
        if options.local
        else {"web": searching(search, stage), **({"mcp": gallery_servers()} if options.gallery else {})},
        data_folder=options.data,
    )
    if options.gallery:
        server.models.add(Cast(stage, options.pace))
    return server


async def add_keys(server: Server, names: Mapping[str, tuple[str, list[str]]]) -> tuple[dict[str, str], dict[str, str]]:
    """The keys by their names, and the ids of their rows."""
    keys, rows = {}, {}
    for name, (owner, scopes) in names.items():
        keys[name], row = new_key(owner, time.time(), scopes)
        rows[name] = row.id
        await server.catalog.keys.add(row)
    return keys, rows


async def play_week(options: Options) -> dict[str, str]:
    """Fill the data folder, with a server that ends before the one that pages see. The keys of its owners."""
    stage, now = Stage(), time.time()
    with staged(stage):
        stage.set(now - 8 * 86400)
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        server = open_server(options, port, stage)
        keys, _ = await add_keys(server, GALLERY_KEYS)
        serving = uvicorn.Server(http_settings(create_app(server), server.config, server.body_memory))
        task = asyncio.create_task(serving.serve([listener]))
        await play(f"http://127.0.0.1:{port}", keys, stage, now)
        serving.should_exit = True
        await task
    return keys


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.01)
    parser.add_argument("--code", action="store_true")
    parser.add_argument(
        "--keys", action="store_true", help="ask for keys, print them, and revoke one for each line 'NAME'"
    )
    parser.add_argument("--local", action="store_true", help="the small model on this machine answers")
    parser.add_argument("--provider", default="", help="where there is a model 'elsewhere', behind Chat Completions")
    parser.add_argument("--runs", type=int, default=32, help="how many are driven at a time")
    parser.add_argument("--gallery", action="store_true", help="play a week of runs first, for pictures")
    arguments = parser.parse_args()
    options = Options(
        arguments.data,
        arguments.pace,
        arguments.code,
        arguments.keys,
        arguments.gallery,
        arguments.local,
        arguments.provider,
        arguments.runs,
    )
    keys: dict[str, str] = await play_week(options) if options.gallery else {}
    rows: dict[str, str] = {}
    listener = socket.create_server(("127.0.0.1", arguments.port))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = open_server(options, listener.getsockname()[1])
    if options.keys:
        keys, rows = await add_keys(server, KEYS)
    revoking: set[asyncio.Task[Any]] = set()

    def hear() -> None:
        words = os.read(0, 100).decode()
        if not words:
            os._exit(0)
        for name in words.split():
            revoking.add(asyncio.ensure_future(server.catalog.keys.revoke(rows[name], time.time())))

    serving = uvicorn.Server(http_settings(create_app(server), server.config, server.body_memory))
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), hear)
    sys.stdout.write(json.dumps({"url": url, "keys": keys}) + "\n")
    sys.stdout.flush()
    await serving.serve([listener])


if __name__ == "__main__":
    asyncio.run(main())
