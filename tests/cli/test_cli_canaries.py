"""Secrets that a server is given, with all on that watches it: in no file, log, trace, figure, event, cassette or sandbox."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from tests.cli.commands import shown
from tests.cli.serving import Started
from tests.timeouts import TIMEOUT
from tests.tools.mcp.serving import PROGRAM

from ronda.errors import BadConfig
from ronda.sandbox.layers import choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.wire.shared.code_tools import PYTHON

GIVEN = {
    "upstream": "sk-canary-upstream-01",
    "environment": "canary-environment-02",
    "header": "canary-header-03",
    "mcp password": "canary-mcp-password-04",
    "mcp query": "canary-mcp-query-05",
    "mcp header": "canary-mcp-header-06",
    "mcp variable": "canary-mcp-variable-07",
    "mcp token": "canary-mcp-token-08",
}
# Code that looks for what the server was given: its own variables, those of every process that it can see, and the disk.
SPYING = """
import os, glob
print("looked", sorted(os.environ))
for path in ["/proc/self/environ", *glob.glob("/proc/*/environ"), *glob.glob("/proc/*/cmdline")]:
    try:
        print(open(path, "rb").read())
    except OSError as error:
        print(path, error.strerror)
"""


OF_A_RUN = ("", "/events", "/cassette", "/rounds/0/request")
LISTS = (
    "/models",
    "/tools",
    "/mcp",
    "/operate",
    "/operate/errors",
    "/me",
    "/keys",
    "/audit",
    "/notices",
    "/runs",
    "/sessions",
)


def read(http: httpx.Client, path: str) -> str:
    answer = http.get(path)
    assert answer.status_code == 200, (path, answer.text)
    return answer.text


class Recorder:
    """A model, a collector of traces and the receiver of notices: what each was sent."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {}
        self.authorization: list[str] = []
        self.calls = 0
        self.has_notice = threading.Event()  # a server that ends leaves what it has not delivered to the next

    def answer(self, path: str, authorization: str, body: bytes) -> tuple[int, Any]:
        self.bodies.setdefault(path, []).append(body)
        if path == "/hook":
            self.has_notice.set()
        if not path.endswith("/chat/completions"):
            return 200, {}
        self.calls += 1
        self.authorization.append(authorization)
        if self.calls == 1:
            call = {"name": PYTHON, "arguments": json.dumps({"code": SPYING})}
            message: Any = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": call}]}
            return 200, {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
        if self.calls == 2:
            return 200, {"choices": [{"message": {"role": "assistant", "content": "Seen."}, "finish_reason": "stop"}]}
        return 401, {"error": {"message": f"the key {authorization.removeprefix('Bearer ')} was revoked"}}


@contextmanager
def recording() -> Iterator[tuple[Recorder, str]]:
    recorder = Recorder()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, said = recorder.answer(self.path, self.headers.get("authorization") or "", body)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield recorder, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(TIMEOUT)


def settings(tmp_path: Path, url: str) -> list[str]:
    servers = {
        "gone": {
            "url": f"http://name:{GIVEN['mcp password']}@127.0.0.1:1/mcp?key={GIVEN['mcp query']}",
            "headers": {"x-api-key": GIVEN["mcp header"]},
        },
        "refused": {"url": f"{url}/mcp", "headers": {"authorization": f"Bearer {GIVEN['mcp token']}"}},
        "own": {"command": sys.executable, "args": [str(PROGRAM)], "env": {"SECRET": GIVEN["mcp variable"]}},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return [
        "--model", "openai-chat:fake", "--base-url", f"{url}/v1", "--mcp-config", str(tmp_path / "mcp.json"),
        "--enable-code-execution", "--notices", "--metrics", "--otel", "--otel-content", "--access-log",
        "--fetch-allow", "127.0.0.1", "--data-dir", str(tmp_path / "data"),
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def isolated() -> None:
    try:
        choose_layer(Policy(), find_layers())
    except BadConfig as error:
        pytest.skip(str(error))


def test_no_secret_leaves_the_place_that_it_is_for(
    start: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = shown(
        capsys, "keys", "create", "--owner", "ann", "--scope", "operate:write", "--data-dir", str(tmp_path / "data")
    )[1].strip()
    with recording() as (recorder, url):
        monkeypatch.setenv("OPENAI_API_KEY", GIVEN["upstream"])
        monkeypatch.setenv("HOUSE_TOKEN", GIVEN["environment"])
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        with start.serving(*settings(tmp_path, url)) as server:
            base: Any = {"base_url": f"{server.url}/v1", "timeout": TIMEOUT, "trust_env": False}
            sent = {"authorization": f"Bearer {key}", "x-secret": GIVEN["header"]}
            answers: list[str] = []
            with httpx.Client(**base, headers=sent) as http:
                hook = http.post(
                    "/notices", json={"url": f"{url}/hook", "events": ["run.finished", "run.failed"]}
                ).json()
                said = [{"role": "user", "content": "go"}]
                for body in ({"messages": said, "enable_code_execution": True}, {"messages": said}):
                    answer = http.post("/chat/completions", json=body)
                    answers.append(answer.text)
                    run = answer.headers["x-ronda-run"]
                    answers += [read(http, f"/runs/{run}{path}") for path in OF_A_RUN]
                answers += [read(http, path) for path in LISTS]
                answers.append(httpx.get(f"{server.url}/metrics", headers=sent, trust_env=False).text)
            with httpx.Client(**base, headers={"sec-fetch-site": "same-origin"}) as browser:
                signed_in = browser.post("/login", json={"key": key})
                assert signed_in.status_code == 200, signed_in.text
                cookie = next(iter(browser.cookies.values()))
                answers += [signed_in.text, browser.get("/me").text, browser.get("/runs").text]
            assert recorder.has_notice.wait(TIMEOUT)
            _, err = server.end()
            log = "".join(server.startup) + err

    kept = {str(path): path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
    looked = {
        "answers": "\n".join(answers).encode(),
        "log": log.encode(),
        **{f"sent to {path}": b"".join(bodies) for path, bodies in recorder.bodies.items()},
        **kept,
    }
    secrets = {**GIVEN, "key": key, "cookie": cookie, "webhook": hook["secret"].removeprefix("whsec_")}
    assert recorder.authorization[0] == f"Bearer {GIVEN['upstream']}"
    assert "looked" in answers[0]
    assert {"/v1/traces", "/hook"} <= recorder.bodies.keys()
    assert [
        (name, place) for place, text in looked.items() for name, one in secrets.items() if one.encode() in text
    ] == []
