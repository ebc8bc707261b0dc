"""Secrets of a server in a process of its own: in nothing that it writes, sends, shows or lets code in a sandbox see."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.cli.serving import Served, Started
from tests.interaction.upstreams import Upstream, answers, call, completes, refuses
from tests.server.coding import require_isolation
from tests.server.coding import root as root
from tests.server.features.test_traces import collecting
from tests.timeouts import TIMEOUT

from ronda.sandbox.policy import Policy

# Each is of this shape, so that code can look for them without a word of its own that would be found.
SHAPE = "zq[a-z]+73914"
UPSTREAM, ENVIRONMENT, HEADER = "zqupstream73914", "zqenvironment73914", "zqheader73914"
MCP_ADDRESS, MCP_HEADER, MCP_ENVIRONMENT = "zqmcpaddress73914", "zqmcpheader73914", "zqmcpenvironment73914"
GIVEN = (UPSTREAM, ENVIRONMENT, HEADER, MCP_ADDRESS, MCP_HEADER, MCP_ENVIRONMENT)
TINY = Path(__file__).parents[2] / "tools" / "mcp" / "tiny.py"
CODE = f"""
import glob, os, re
open("mine.txt", "w").write("This it may read.")
seen = [repr(dict(os.environ)).encode()]
for pattern in ("/proc/[0-9]*/environ", "/proc/[0-9]*/cmdline", "*", "/etc/passwd", "FOLDER/**"):
    for path in glob.glob(pattern, recursive=True):
        try:
            seen.append(open(path, "rb").read())
        except OSError:
            pass
(len(seen) > 1, re.findall(rb"{SHAPE}", b"".join(seen)))
"""


@asynccontextmanager
async def serving(started: Started, *flags: str) -> AsyncIterator[Served]:
    """Its model and its collector are in this loop, which goes on meanwhile."""
    running = started.serving(*flags)
    served = await asyncio.to_thread(running.__enter__)
    try:
        yield served
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


@pytest.fixture
def started(root: Path, monkeypatch: pytest.MonkeyPatch) -> Started:
    require_isolation(Policy())
    monkeypatch.setenv("OPENAI_API_KEY", UPSTREAM)
    monkeypatch.setenv("A_SECRET", ENVIRONMENT)
    made = Started(root)
    gone = f"http://name:{MCP_ADDRESS}@127.0.0.1:1/mcp?key={MCP_ADDRESS}"
    servers = {
        "gone": {"url": gone, "headers": {"x-key": MCP_HEADER}},
        "tiny": {"command": sys.executable, "args": [str(TINY), ""], "env": {"TOKEN": MCP_ENVIRONMENT}},
    }
    (made.cwd / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return made


@pytest.fixture
def key(started: Started) -> str:
    words = ("create", "--owner", "ann", "--data-dir", "data", "--scope", "operate:write")
    command = (sys.executable, "-m", "ronda", "keys", *words)
    made = subprocess.run(command, env=started.env, cwd=started.cwd, capture_output=True, text=True, check=True)
    [found] = re.findall(r"rk_[\w-]+", made.stdout)
    return str(found)


async def test_no_secret_is_anywhere(started: Started, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = started.cwd / "data"
    shown: dict[str, str] = {}
    code = CODE.replace("FOLDER", str(data))
    async with (
        collecting(monkeypatch) as collector,
        Upstream(
            completes(None, call("mistralrs_execute_python", code=code)),
            completes("Done."),
            refuses(401, f"Incorrect API key provided: {UPSTREAM}."),
        ) as upstream,
        Upstream(answers(b"{}")) as hook,
        serving(
            started, "--model", "openai-chat:m", "--base-url", upstream.url, "--data-dir", "data",
            "--mcp-config", "mcp.json", "--enable-code-execution", "--metrics", "--otel", "--otel-content", "--notices",
            "--access-log-health", "--fetch-allow", "127.0.0.1",
        ) as served,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(TIMEOUT)) as http,
    ):  # fmt: skip
        auth = {"authorization": f"Bearer {key}", "x-secret": HEADER}

        async def ask(method: str, path: str, body: Any = None, **headers: str) -> aiohttp.ClientResponse:
            async with http.request(method, served.url + path, json=body, headers=headers or auth) as answer:
                shown[f"{method} {path}"] = await answer.text()
                return answer

        login = await ask("POST", "/v1/login", {"key": key}, **{"sec-fetch-site": "same-origin"})
        cookie = login.headers["set-cookie"].split("=", 1)[1].split(";")[0]
        await ask("POST", "/v1/notices", {"url": hook.url})
        secret = json.loads(shown.pop("POST /v1/notices"))["secret"].removeprefix("whsec_")
        body = {"messages": [{"role": "user", "content": "Look."}], "enable_code_execution": True}
        run = (await ask("POST", "/v1/chat/completions", body)).headers["x-ronda-run"]
        shown["the first answer"] = shown["POST /v1/chat/completions"]
        failed = await ask("POST", "/v1/chat/completions", body)
        me = {"cookie": login.headers["set-cookie"].split(";")[0], "sec-fetch-site": "same-origin"}
        assert (await ask("GET", "/v1/me", None, **me)).status == 200
        for path in (
            f"/v1/runs/{run}", f"/v1/runs/{run}/events", f"/v1/runs/{run}/cassette", f"/v1/runs/{run}/rounds/0/request",
            "/v1/runs", "/v1/tools", "/v1/mcp", "/v1/notices", "/v1/audit", "/v1/keys", "/v1/operate", "/v1/operate/errors",
            "/v1/system/info", "/v1/system/doctor", "/metrics", "/openapi.json", "/v1/models",
        ):  # fmt: skip
            assert (await ask("GET", path)).status == 200, shown[f"GET {path}"]
        ended, log = await asyncio.to_thread(served.end)

    files = [path for path in data.rglob("*") if path.is_file()]
    found = {
        **shown,
        "log": log + "".join(served.startup),
        "traces": b"".join(collector.bodies).decode("latin-1"),
        "model": b"".join(upstream.bodies).decode(),
        **{str(path.relative_to(data)): path.read_bytes().decode("latin-1") for path in files},
    }
    assert (ended, failed.status) == (0, 502), shown["POST /v1/chat/completions"]
    assert upstream.heads[0]["authorization"] == f"Bearer {UPSTREAM}"
    assert "(True, [])" in found["model"]  # what the code has seen
    assert {"catalog.db", "journal.db"} <= found.keys()
    assert collector.spans
    secrets = (*GIVEN, key, cookie, secret)
    assert [(place, one) for place, text in found.items() for one in secrets if one in text] == []
