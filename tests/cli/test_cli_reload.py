"""SIGHUP: a server reads settings, tools and certificates again. Where its terminal was closed, SIGHUP ends it."""

from __future__ import annotations

import json
import os
import pty
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serving import USER, Served, Started
from tests.cli.test_cli_tls import ask, make_pair
from tests.timeouts import TIMEOUT

TOOL = '''
from ronda import tool

@tool
def {name}() -> str:
    """Say what this file says."""
    return "{text}"
'''


def hang_up(served: Served, lines: int = 1) -> list[str]:
    """What the server says of it."""
    assert served.process.stderr is not None
    served.process.send_signal(signal.SIGHUP)
    return [served.process.stderr.readline() for _ in range(lines)]


def settings(start: Started, text: str = "", **values: Any) -> list[str]:
    file = start.cwd / "ronda.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    file.write_text("\n".join([*lines, text, ""]))
    return ["--config", str(file)]


def call(served: Served) -> str:
    """One request: the script calls the tool, and its result comes with the answer."""
    create: Any = served.client.chat.completions.create
    answer = create(model="default", messages=[USER])
    [made] = answer.agentic_tool_calls
    return str(made["result_content"])


@pytest.fixture
def calls_it(start: Started) -> Started:
    start.script.write_text(json.dumps([{"calls": [{"name": "look"}]}, "done"]))
    start.tools.write_text(TOOL.format(name="look", text="before"))
    return start


@pytest.mark.parametrize("workers", [1, 2])
def test_tools_are_taken_up_again(calls_it: Started, workers: int) -> None:
    start = calls_it
    flags = settings(start, model=f"script:{start.script}", tools=[str(start.tools)], workers=workers)
    with start.serving(*flags) as served:
        before = {call(served) for _ in range(4)}
        start.tools.write_text(TOOL.format(name="look", text="after"))
        said = hang_up(served)
        after = call(served) if workers == 1 else ""
        code, err = served.end()

    assert before == {"before"}
    assert said == ["ronda: settings were read again: none has changed; tools look\n"]
    assert after in ("after", "")  # of two workers, one may still be reading
    assert (code, err) == (0, "")


def test_a_mistake_changes_nothing_and_is_named(calls_it: Started) -> None:
    start = calls_it
    flags = settings(start, model=f"script:{start.script}", tools=[str(start.tools)])
    with start.serving(*flags) as served:
        start.tools.write_text("def look(:")
        [broken_tools] = hang_up(served)
        still = call(served)
        start.tools.write_text(TOOL.format(name="look", text="after"))
        settings(start, model=f"script:{start.script}", tools=[str(start.tools)], max_runn_seconds=3)
        [broken_settings] = hang_up(served)
        still_2 = call(served)
        code, err = served.end()

    assert broken_tools.startswith(f"ronda: nothing was changed: the tools file '{start.tools}:1' cannot be loaded: ")
    assert "has no use for 'max_runn_seconds'; did you mean 'max_run_seconds'?" in broken_settings
    assert (still, still_2) == ("before", "before")
    assert (code, err) == (0, "")


def origin_is_allowed(served: Served) -> bool:
    asked = urllib.request.Request(f"{served.url}/v1/models", headers={"Origin": "http://ours.example"})
    try:
        with urllib.request.urlopen(asked, timeout=TIMEOUT) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()  # Python 3.14 warns of one that is left open
        return False


def test_settings_are_taken_up_and_what_needs_a_restart_is_named(calls_it: Started) -> None:
    start = calls_it
    same: dict[str, Any] = {"model": f"script:{start.script}", "tools": [str(start.tools)]}
    with start.serving(*settings(start, **same), "--port", "0") as served:
        first = origin_is_allowed(served)
        settings(start, **same, allow_origins=["http://ours.example"], agent_permission="deny", max_upload=1_000_000)
        said = hang_up(served, 3)
        second = origin_is_allowed(served)
        refused = call(served)
        code, err = served.end()

    assert (first, second) == (False, True)
    assert said == [
        "pages from http://ours.example may not use this server; its operator can let them with --allow-origin\n",
        "ronda: settings were read again: allow_origins, agent_permission; tools look\n",
        "ronda: WARNING: a restart is needed for max_upload\n",
    ]
    assert "before" not in refused
    assert (code, err) == (0, "")


def test_a_renewed_certificate_is_taken_up(start: Started, tmp_path: Path) -> None:
    old = make_pair(tmp_path)
    start.script.write_text('["Hello."]')
    flags = ("--tls-cert", str(old.cert), "--tls-key", str(old.key))
    with start.serving(*start.model, *flags) as served:
        assert ask(served.url, old) == "Hello."
        renewed = make_pair(tmp_path, "renewed")
        old.key.write_bytes(renewed.key.read_bytes())
        old.cert.write_bytes(renewed.cert.read_bytes())
        hang_up(served)
        host, port = served.url.removeprefix("https://").split(":")
        now = ssl.get_server_certificate((host, int(port)), timeout=TIMEOUT)
        assert ask(served.url, renewed) == "Hello."
        code, err = served.end()

    assert ssl.PEM_cert_to_DER_cert(now) == ssl.PEM_cert_to_DER_cert(renewed.cert.read_text())
    assert (code, err) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_terminal_that_is_closed_ends_it(start: Started, workers: str) -> None:
    leader, follower = pty.openpty()
    become = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
    )
    command = [sys.executable, "-c", become, *start.command("--port", "0", "--workers", workers, *start.model)]
    process = subprocess.Popen(
        command, cwd=start.cwd, env=start.env, stdin=follower, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    os.close(follower)
    try:
        Served(process, start.cwd, start.state).client.close()  # it says that it is up
        os.close(leader)  # the kernel sends SIGHUP
        _, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)

    assert (process.returncode, err) == (0, "")
