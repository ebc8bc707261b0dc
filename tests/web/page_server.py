"""A server for tests of the page: `python -m tests.web.page_server --data DIR [--port N] [--pace SECONDS]`.

It prints one line of JSON, `{"url": …}`, when it is up, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from tests.web.actor import PACKAGES, Actor

from ronda import tool
from ronda.cli.serve import http_settings
from ronda.sandbox.policy import Policy
from ronda.server.app import Server
from ronda.server.config import ServerConfig
from ronda.server.features.budgets.settings import BudgetLimit, BudgetOptions, BudgetSettings
from ronda.server.features.code.code_tools import code_opener
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
def place_order(site: str, quantity: int, deliver_by: str) -> str:
    """Place an order.

    Args:
        site: The warehouse.
        quantity: How many pallets.
        deliver_by: The last day.
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


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.01)
    parser.add_argument("--code", action="store_true")
    parser.add_argument(
        "--keys", action="store_true", help="ask for keys, print them, and revoke one for each line 'NAME'"
    )
    arguments = parser.parse_args()
    agents = arguments.data / "agents"
    write_agents(agents)
    listener = socket.create_server(("127.0.0.1", arguments.port))
    config = ServerConfig(
        model="script:Actor",
        port=listener.getsockname()[1],
        enable_search=True,
        enable_code_execution=arguments.code,
        enable_shell=arguments.code,
        sandbox=Policy(extra_fs_read=(PACKAGES,)) if PACKAGES else Policy(),
        agents=str(agents),
        agent_tools={"default": ("carrier-desk",)},
        parts={BudgetSettings: BudgetSettings(BUDGETS)} if arguments.keys else {},
    )
    server = Server(
        config,
        open_journal(arguments.data, config, None),
        provider=Actor(arguments.pace),
        tools=[as_tool(one) for one in (read_file, calculate, wait, always_fails, place_order)],
        catalog=open_catalog(arguments.data, None, config.queue),
        blobs=open_blobs(arguments.data, None),
        open_code=code_opener(config, arguments.data),
        search_callback=search,
        data_folder=arguments.data,
    )
    import uvicorn

    keys: dict[str, str] = {}
    rows: dict[str, str] = {}
    if arguments.keys:
        for name, (owner, scopes) in KEYS.items():
            keys[name], row = new_key(owner, time.time(), scopes)
            rows[name] = row.id
            await server.catalog.keys.add(row)
    revoking: set[asyncio.Task[Any]] = set()

    def hear() -> None:
        words = os.read(0, 100).decode()
        if not words:
            os._exit(0)
        for name in words.split():
            revoking.add(asyncio.ensure_future(server.catalog.keys.revoke(rows[name], time.time())))

    serving = uvicorn.Server(http_settings(server))
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), hear)
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{config.port}", "keys": keys}) + "\n")
    sys.stdout.flush()
    await serving.serve([listener])


if __name__ == "__main__":
    asyncio.run(main())
