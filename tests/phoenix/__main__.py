"""`make phoenix`: traces of a server of ours, received by one that we have not written (arize-phoenix, in a folder of its own).

    python -m tests.phoenix build/phoenix/bin/phoenix

Phoenix is started, and then a server with `--otel`, whose model asks for a tool. Ends with 0 where Phoenix shows the run, its
model calls and its tool as one trace, with their kinds, tokens and session.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

PATIENCE: Final = 120.0  # seconds: Phoenix makes a database first
TOOLS: Final = '''
from ronda import tool

@tool
async def look(city: str) -> str:
    """Look outside."""
    return f"rain in {city}"
'''
SCRIPT: Final = [{"calls": [{"name": "look", "arguments": {"city": "Rome"}}]}, "It rains."]
# What stands under what: (kind, name, tokens).
EXPECTED: Final = [
    ("AGENT", "invoke_agent", 30),
    ("LLM", "chat", 15),
    ("LLM", "chat", 15),
    ("TOOL", "execute_tool look", None),
]


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as sockets:
        bound = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in bound:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in bound]


@contextlib.contextmanager
def process(*command: str, env: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log.open("wb") as out,
        subprocess.Popen(command, env={**os.environ, **env}, stdout=out, stderr=out) as started,
    ):
        try:
            yield started
        finally:
            started.send_signal(signal.SIGTERM)
            try:
                started.wait(30)
            except subprocess.TimeoutExpired:
                started.kill()


def ask(url: str, body: Any = None) -> Any:
    """The JSON of an answer; None where nothing answers yet."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())
    except (urllib.error.URLError, OSError):
        return None


def until(look: Any) -> Any:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        if (found := look()) is not None:
            return found
        time.sleep(0.5)
    return None


def received(phoenix: str, folder: Path) -> list[dict[str, Any]]:
    """The spans that Phoenix shows of one request."""
    http, grpc, admin = free_ports(3)
    url = f"http://127.0.0.1:{http}"
    env = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(http),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    ours = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_METRICS_EXPORTER": "none",  # Phoenix takes traces only
        "XDG_STATE_HOME": str(folder / "state"),
    }
    (folder / "tools.py").write_text(TOOLS)
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    flags = ("--model", f"script:{script}", "--tools", str(folder / "tools.py"), "--port", str(admin), "--otel")
    with process(phoenix, "serve", env=env, log=folder / "phoenix.log"):
        if until(lambda: ask(f"{url}/v1/projects")) is None:
            raise SystemExit(f"phoenix does not answer:\n{(folder / 'phoenix.log').read_text()[-2000:]}")
        with process(sys.executable, "-m", "ronda", "serve", *flags, env=ours, log=folder / "ronda.log"):
            body = {"messages": [{"role": "user", "content": "How is Rome?"}], "session_id": "trip"}
            answer = until(lambda: ask(f"http://127.0.0.1:{admin}/v1/chat/completions", body))
            if answer is None:
                raise SystemExit(f"ronda does not answer:\n{(folder / 'ronda.log').read_text()[-2000:]}")
        # The server has ended, and has sent what there was.
        if failed := re.findall(".*[Ff]ailed to export.*", (folder / "ronda.log").read_text()):
            raise SystemExit("\n".join(failed))

        def all_spans() -> list[dict[str, Any]] | None:
            found = ask(f"{url}/v1/projects/default/spans?limit=50")
            return found["data"] if found is not None and len(found["data"]) >= len(EXPECTED) else None

        spans: list[dict[str, Any]] | None = until(all_spans)
    if spans is None:
        raise SystemExit("phoenix has not received the spans")
    return spans


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ronda-phoenix-", ignore_cleanup_errors=True) as name:
        spans = received(sys.argv[1], Path(name))
    rows = [
        (one["span_kind"], one["name"].split(" /")[0], one["attributes"].get("llm.token_count.total")) for one in spans
    ]
    [root] = [one for one in spans if one["parent_id"] is None]
    problems = []
    if sorted(rows, key=str) != sorted(EXPECTED, key=str):
        problems.append(f"these are the spans: {rows}")
    if {one["context"]["trace_id"] for one in spans} != {root["context"]["trace_id"]}:
        problems.append("they are not one trace")
    if {one["parent_id"] for one in spans if one is not root} != {root["context"]["span_id"]}:
        problems.append("model calls and tools are not inside the run")
    if root["attributes"].get("session.id") != "trip":
        problems.append("the session is not known")
    if "Rome" in json.dumps(spans):
        problems.append("words are told though nothing asks for them")
    sys.stdout.write("\n".join([*map(str, rows), *problems, f"{len(spans)} spans, {len(problems)} problems", ""]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
