"""`make mcp-conformance`: the public suite against our client and our server, in both eras, with counts; and what does not apply.

Ends with 1 if a scenario that applies fails.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
NODE = HERE / "node_modules" / ".bin" / "node"
SUITE = HERE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
ERAS = ("2025-11-25", "2026-07-28")
SECONDS = 300  # of one scenario: it takes one or two, and far more where the machine has much else to do

# Scenarios of the client that need no authorization, by the eras that have them.
CLIENT: dict[str, tuple[str, ...]] = {
    "initialize": ERAS[:1],
    "tools_call": ERAS,
    "elicitation-sep1034-client-defaults": ERAS[:1],
    "sse-retry": ERAS[:1],
    "request-metadata": ERAS[1:],
    "sep-2322-client-request-state": ERAS[1:],
    "http-standard-headers": ERAS[1:],
    "http-custom-headers": ERAS[1:],
    "http-invalid-tool-headers": ERAS[1:],
    "json-schema-ref-no-deref": ERAS[1:],
    "json-schema-2020-12-preservation": ERAS,
}
# With a person who consents at once: `ronda mcp login`, and then the calls.
LOGIN = {
    **dict.fromkeys(
        [
            *[f"metadata-{name}" for name in ("default", "var1", "var2", "var3")],
            *[f"scope-{name}" for name in ("from-www-authenticate", "from-scopes-supported", "omitted-when-undefined")],
            *("scope-retry-limit", "basic-cimd", "pre-registration"),
            *[f"token-endpoint-auth-{name}" for name in ("basic", "post", "none")],
        ],
        ERAS,
    ),
    **dict.fromkeys(
        [
            *("resource-mismatch", "offline-access-scope", "offline-access-not-supported"),
            *("authorization-server-migration", "metadata-issuer-mismatch"),
            *[f"iss-{name}" for name in ("supported", "not-advertised", "supported-missing", "wrong-issuer")],
            *("iss-unexpected", "iss-normalized"),
        ],
        ERAS[1:],
    ),
}
CLIENT |= {f"auth/{name}": eras for name, eras in LOGIN.items()}
SERVER: dict[str, tuple[str, ...]] = {
    "server-initialize": ERAS[:1],
    "server-session-lifecycle": ERAS[:1],
    "ping": ERAS[:1],
    "tools-list": ERAS,
    "tools-call-simple-text": ERAS,
    "tools-call-error": ERAS,
    "tools-call-with-progress": ERAS,
    "server-sse-multiple-streams": ERAS,
    "dns-rebinding-protection": ERAS,
    "http-header-validation": ERAS[1:],
    "input-required-result-missing-input-response": ERAS[1:],
    "input-required-result-unsupported-methods": ERAS[1:],
    "input-required-result-ignore-extra-params": ERAS[1:],
    "input-required-result-validate-input": ERAS[1:],
    "sep-2164-resource-not-found": ERAS[1:],
}
NOT_APPLICABLE = {
    "client auth/scope-step-up": "a call that needs more rights fails, and names the command: no person is there to consent",
    "client auth/client-credentials-*, -dpop*, -wif*, -enterprise*": "extensions of OAuth for machines",
    "client sep-2640-*": "an extension: skills over MCP",
    "server-stateless": "four of its 25 checks want diagnostic tools that only a test server has; the other 21 pass",
    "server resources-*, prompts-*, completion-*, logging-*": "our server has tools alone",
    "server caching": "its checks of prompts and resources: our server has none",
    "server tools-call-image, -audio, -embedded-resource, -mixed-content": "an agent's answer is text",
    "server tools-call-sampling, -elicitation, elicitation-*, input-required-result-*": "our server asks its client nothing",
    "server json-schema-2020-12, http-custom-header-server-validation": "want a tool of the test server",
    "server-sse-polling, tasks-*": "an option, and an extension, that our server does not have",
}


TOOLS = """
from ronda import register_connection, tool
from ronda.testing import ScriptedModel, calls, fails, says

TURNS = {
    "test_simple_text": [says("This is a simple text response for testing.")],
    "test_error_handling": [fails("This tool intentionally returns an error for testing", 400)],
    "test_tool_with_progress": [calls("step"), calls("step"), says("done")],
}
for name, turns in TURNS.items():
    register_connection(name, ScriptedModel(*turns * 20))


@tool
def step() -> str:
    \"\"\"One step.\"\"\"
    return "ok"
"""
AGENT = """---
model: {id: m, connection: {kind: reference, name: NAME}}
tools: [{name: step, kind: function}]
---
user:
go
"""


def write_agents(folder: Path) -> None:
    """Agents under the names that the suite calls, each answering as the suite expects."""
    agents = folder / "agents"
    agents.mkdir()
    for name in ("test_simple_text", "test_error_handling", "test_tool_with_progress"):
        (agents / f"{name}.prompty").write_text(AGENT.replace("NAME", name))
    (folder / "tools.py").write_text(TOOLS)
    (folder / "model.json").write_text(json.dumps(["hello"] * 50))


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    write_agents(folder)
    model, tools = f"script:{folder / 'model.json'}", str(folder / "tools.py")
    command = [sys.executable, "-m", "ronda", "serve", "--port", "0", "--data-dir", ":memory:", "--model", model]
    command += ["--tools", tools, "--agents", str(folder / "agents")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"on (http://\S+)", line):
                    yield f"{found[1]}/mcp"
                    break
            else:
                raise SystemExit("our server did not start")
        finally:
            process.terminate()
            process.stderr.read()


def run(*arguments: str) -> tuple[int, int, str]:
    """Checks that passed and failed, and what the suite says."""
    try:
        done = subprocess.run(
            [str(NODE), str(SUITE), *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return 0, 1, f"Error: no end within {SECONDS} seconds"
    text = done.stdout + done.stderr
    found = re.search(r"Passed: (\d+)/(\d+), (\d+) failed", text)
    return (int(found[1]), int(found[3]), text) if found is not None else (0, 1, text)


def main() -> int:
    if not SUITE.exists():
        print("the suite is not installed: make mcp-conformance installs it with npm")
        return 1
    failed: list[str] = []
    counts = {"client": [0, 0], "server": [0, 0]}
    client = f"{sys.executable} -m tests.mcp_npm.client"
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as url:
        sides = {"client": (CLIENT, ["--command", client]), "server": (SERVER, ["--url", url])}
        for side, (scenarios, how) in sides.items():
            for name, eras in scenarios.items():
                for era in eras:
                    passed, wrong, text = run(side, *how, "--scenario", name, "--spec-version", era)
                    counts[side][0] += passed
                    counts[side][1] += wrong
                    print(
                        f"{'ok  ' if not wrong else 'FAIL'} {side} {era} {name}: {passed} checks passed, {wrong} failed"
                    )
                    if wrong:
                        failed.append(f"{side} {name} {era}")
                        print("\n".join(line for line in text.splitlines() if "FAILURE" in line or "Error:" in line))
    print("\nwhat does not apply:")
    for name, why in NOT_APPLICABLE.items():
        print(f"  {name}: {why}")
    for side, (passed, wrong) in counts.items():
        print(f"{side}: {passed} checks passed, {wrong} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
