"""Ten MCP calls in one request, 32 requests at a time: ours beside the bare `mcp` client, against the same MCP server.

The last row of `make bench`. Both sides make the same calls over streamable HTTP, in turns, in one run. The bar is 1.5 times the
bare client's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp

CALLS = 10  # in one request
CROWD = 32  # requests at a time
ROUNDS = 7  # of each side, in turns
BAR = 1.5

SERVER = """
import sys
import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("bench", log_level="ERROR")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

app = server.streamable_http_app(stateless_http=True, json_response=True)
config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="info", access_log=False)
uvicorn.Server(config).run()
"""


@contextlib.contextmanager
def started(command: list[str]) -> Iterator[str]:
    """A server, and its address as it says it."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"on (http://127\.0\.0\.1:\d+)", line):
                    yield found[1]
                    break
        finally:
            process.terminate()
            process.communicate()


async def bare(url: str) -> float:
    """One client for all, as a program has it."""
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async with Client(streamable_http_client(f"{url}/mcp")) as client:

        async def request() -> None:
            await asyncio.gather(*[client.call_tool("add", {"a": at, "b": 1}) for at in range(CALLS)])

        await request()
        began = time.perf_counter()
        await asyncio.gather(*[request() for _ in range(CROWD)])
        return time.perf_counter() - began


async def ours(url: str) -> float:
    async with aiohttp.ClientSession() as http:

        async def request() -> None:
            body = {"messages": [{"role": "user", "content": "go"}]}
            async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
                records = (await answer.json())["agentic_tool_calls"]
                assert len(records) == CALLS, records
                assert not any(record.get("failed") for record in records), records

        await request()
        began = time.perf_counter()
        await asyncio.gather(*[request() for _ in range(CROWD)])
        return time.perf_counter() - began


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, started([sys.executable, "-c", SERVER]) as mcp_url:
        calls = [{"name": "bench_add", "arguments": {"a": at, "b": 1}} for at in range(CALLS)]
        script, config = Path(folder) / "script.json", Path(folder) / "mcp.json"
        script.write_text(json.dumps([{"calls": calls}, "done"] * (ROUNDS * (CROWD + 1))))
        config.write_text(json.dumps({"mcpServers": {"bench": {"url": f"{mcp_url}/mcp", "max_calls": 1000}}}))
        command = [sys.executable, "-m", "ronda", "serve", "--port", "0", "--data-dir", folder]
        command += ["--model", f"script:{script}", "--mcp-config", str(config)]
        with started(command) as url:
            times = [(asyncio.run(bare(mcp_url)), asyncio.run(ours(url))) for _ in range(ROUNDS)]
    floor, own = (statistics.median(side) for side in zip(*times, strict=True))
    ratio = statistics.median([own / floor for floor, own in times])
    print(f"bare client {floor * 1000:.0f} ms, ours {own * 1000:.0f} ms: {ratio:.2f} times (bar {BAR})")
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
