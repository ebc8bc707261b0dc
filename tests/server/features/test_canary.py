"""Secrets that a server is given, with everything on that watches it: in no trace, no log, no figure and no row."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from tests.interaction.doors import Door, Remembering, soon, user
from tests.interaction.upstreams import Exchange, Upstream, call, completes
from tests.server.features.test_traces import collecting
from tests.tools.mcp.serving import http

from ronda.server.features.metrics.settings import MetricsOptions
from ronda.store.memory import MemoryCatalog
from ronda.tools.function import as_tool

UPSTREAM_KEY = "sk-canary-upstream-0123456789"
CLIENT_KEY = "rk-canary-client-0123456789"
HEADER = "canary-header-0123456789"
MCP = "canary-mcp-0123456789"
ON: Any = {
    "metrics": MetricsOptions(enabled=True),
    "otel": True,
    "otel_content": True,
    "notices": True,
    "access_log": True,
    "fetch_allow": ("127.0.0.1",),
}


def look() -> str:
    """Look."""
    return "seen"


async def test_no_secret_is_found_by_those_who_watch(
    door: Door,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", UPSTREAM_KEY)
    caplog.set_level(logging.DEBUG)
    catalog, journal = MemoryCatalog(), Remembering()
    told = asyncio.Event()

    async def refuse(exchange: Exchange) -> None:
        await exchange.answer(b"{}", 503)
        told.set()

    async with (
        collecting(monkeypatch) as collector,
        Upstream(completes(None, call("look")), completes("Done.")) as upstream,
        Upstream(refuse) as hook,
    ):
        gone = http(f"http://name:{MCP}@127.0.0.1:1/mcp?key={MCP}")
        async with door.serving(
            upstream.url, as_tool(look), mcp=[gone], catalog=catalog, journal=journal, **ON
        ) as served:
            await served.server.start()
            headers = {"authorization": f"Bearer {CLIENT_KEY}", "x-secret": HEADER}
            url = served.url.removesuffix("/v1")
            async with served.http.post(f"{url}/v1/notices", json={"url": hook.url}, headers=headers) as answer:
                secret = (await answer.json())["secret"].removeprefix("whsec_")
            asked = await served.post({"messages": [user("Hi")]}, headers=headers)
            for feature in served.server.features.all:
                await feature.runs_ended()
            notices: Any = served.server.features.find("notices")
            async with soon():  # the server may have begun to send it by itself
                await asyncio.gather(*await notices.send_due())
                await told.wait()
            async with served.http.get(f"{url}/metrics") as answer:
                figures = await answer.text()
            events = json.dumps([str(one) for one in await served.events])
            names = await catalog.read(
                lambda db: [
                    row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
                ]
            )
            rows = await catalog.read(
                lambda db: [tuple(row) for name in names for row in db.execute(f'SELECT * FROM "{name}"').fetchall()]
            )

    assert (asked.status, len(hook.bodies)) == (200, 1), asked.body
    assert UPSTREAM_KEY in json.dumps(upstream.heads)
    assert "notice" in names
    assert collector.named("execute_tool look")
    captured = capfd.readouterr()
    found = {
        "traces": b"".join(collector.bodies).decode("latin-1"),
        "logs": caplog.text + captured.out + captured.err,
        "figures": figures,
        "journal": events,
        "rows": str(rows),
        "answer": asked.body.decode(),
        "models": b"".join(upstream.bodies).decode(),
        "notices": b"".join(hook.bodies).decode(),
    }
    secrets = (UPSTREAM_KEY, CLIENT_KEY, HEADER, MCP, secret)
    assert [(place, one) for place, text in found.items() for one in secrets if one in text] == []
