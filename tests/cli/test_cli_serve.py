"""`ronda serve` as a process of its own, with the official SDK in front of it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from tests.cli.serving import TOOLS, USER, Served, Started, turn
from tests.timeouts import TIMEOUT

from ronda.cli.process import CANCEL_SECONDS, CONNECTION_SECONDS
from ronda.cli.serve import http_settings
from ronda.host.host import LAST_SECONDS
from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.testing import ScriptedModel

# Asked to end and did; Ctrl-C, which ends the script around us, too.
ENDS = {signal.SIGTERM: 0, signal.SIGINT: 130}
BECAUSE = {"role": "tool", "tool_call_id": "u", "content": "because"}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_two_parallel_tools_and_one_of_the_callers_through_the_official_sdk(start: Started, stream: bool) -> None:
    with start.serving(*start.model) as served:
        first = turn(served, stream, [USER])
        ((call_id, name, arguments),) = first[1]
        second = turn(served, stream, [{**BECAUSE, "tool_call_id": call_id}])
        code, err = served.end()

    assert (first[0], name, arguments, first[2]) == ("Let me see.", "ask_user", '{"q":"why?"}', "tool_calls")
    assert second == ("All three are here.", [], "stop")
    assert "Traceback" not in err
    assert code == 0


# What a server is without, whose requests use none of it: time to start, and memory.
UNUSED = re.compile(
    r"\|\s+(yaml|ctypes|pydantic|httpx2|mcp|jinja2|psycopg|minio|PIL|xllamacpp|playwright|"
    r"starlette\.responses|python_multipart|anyio|websockets|"
    r"ronda\.(sandbox\.(?!policy$)\w+|tools\.(code|fetch|search|mcp|files|openapi|find)|providers\.(anthropic|gemini|local|mistral)|"
    r"server\.resources\.(code_tools|supplies|input_files|web_search|named_servers)|"
    r"server\.(doors\.mcp\.door|features\.app_stream\.(socket|state|variants))|tools\.page|wire\.app_stream))$",
    re.MULTILINE,
)


def test_a_server_imports_nothing_that_nobody_uses(start: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # tells of every import
    with start.serving(*start.model) as served:
        turn(served, False, [USER])
        _, err = served.end()

    told = "\n".join(served.startup) + err
    assert "ronda.server.doors.chat" in told
    assert [found[1] for found in UNUSED.finditer(told)] == []


def test_our_half_is_found_after_a_restart(start: Started) -> None:
    with start.serving(*start.model) as served:
        first = turn(served, False, [USER])
        served.end()
    with start.serving(*start.model) as served:
        second = turn(served, False, [{**BECAUSE, "tool_call_id": first[1][0][0]}])

    assert first[2] == "tool_calls"
    assert second == ("All three are here.", [], "stop")


def test_the_working_directory_stays_as_it_was_and_the_journal_is_in_the_state_folder(start: Started) -> None:
    with start.serving(*start.model) as served:
        turn(served, False, [USER])
        served.end()

    assert list(start.cwd.iterdir()) == []
    assert (start.state / "ronda" / "journal.db").is_file()


def test_memory_keeps_nothing(start: Started) -> None:
    with start.serving(*start.model, "--data-dir", ":memory:") as served:
        turn(served, False, [USER])
        served.end()

    assert list(start.cwd.iterdir()) == []
    assert not start.state.exists()


def test_a_data_dir_is_made_where_it_is_said(start: Started, tmp_path: Path) -> None:
    with start.serving(*start.model, "--data-dir", str(tmp_path / "a" / "b")) as served:
        turn(served, False, [USER])
        served.end()

    assert (tmp_path / "a" / "b" / "journal.db").is_file()
    assert not start.state.exists()


@pytest.mark.parametrize("how", list(ENDS))
def test_a_signal_ends_it_cleanly(start: Started, how: signal.Signals) -> None:
    with start.serving(*start.model) as served:
        code, err = served.end(how)

    assert err == ""
    assert code == ENDS[how]


def test_a_terminal_that_is_closed_does_not_end_what_nohup_started(start: Started) -> None:
    start.tools.write_text(f"{TOOLS}\nimport os, signal\nos.kill(os.getpid(), signal.SIGHUP)\n")
    nohup = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    command = [sys.executable, "-c", nohup, *start.command("--port", "0", *start.model)]
    with subprocess.Popen(command, cwd=start.cwd, env=start.env, stderr=subprocess.PIPE, text=True) as process:
        served = Served(process, start.cwd, start.state)  # which means that it says it is up
        process.send_signal(signal.SIGHUP)
        first = turn(served, False, [USER])
        code, err = served.end()

    assert (first[0], code, err) == ("Let me see.", 0, "")


def test_what_does_not_end_when_it_is_cancelled_does_not_keep_the_process() -> None:
    program = """
import asyncio
from ronda.cli.process import end_all

async def stubborn():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

async def main():
    kept = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end_all(3, timeout=0)

asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT)

    assert ended.stderr == "ronda: ended without 1 calls that did not end when they were cancelled\n"
    assert ended.returncode == 3


def test_everything_is_over_five_seconds_after_a_signal() -> None:
    """Each step has its bound, also where a tool does not care; none is taken twice."""
    for_runs = ServerConfig("script:x").shutdown_seconds + LAST_SECONDS
    assert for_runs + CONNECTION_SECONDS + CANCEL_SECONDS < 4.8


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_starts_ends_it_cleanly(start: Started, how: signal.Signals) -> None:
    start.tools.write_text(f"{TOOLS}\nimport os\nos.kill(os.getpid(), {how:d})\n")
    code, err = start.fails(*start.model, "--port", "0")

    assert err == ""
    assert code == ENDS[how]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_middle_of_a_stream_ends_the_stream_and_says_so_in_the_journal(
    start: Started, how: signal.Signals
) -> None:
    start.script.write_text(json.dumps([{"calls": [{"name": "endless", "id": "e"}]}]))
    phases: list[str] = []
    began = threading.Event()
    errors: list[str] = []

    with start.serving(*start.model) as served:

        def read() -> None:
            create: Any = served.client.chat.completions.create
            try:
                for chunk in create(model="default", messages=[USER], stream=True):
                    phases.append(getattr(chunk, "phase", ""))
                    began.set()
            except openai.APIError as error:
                errors.append(str(error))

        reader = threading.Thread(target=read)
        reader.start()
        assert began.wait(TIMEOUT)
        served.process.send_signal(how)
        reader.join(TIMEOUT)
        _, err = served.process.communicate(timeout=TIMEOUT)

    with closing(sqlite3.connect(start.state / "ronda" / "journal.db")) as database:
        kept = " ".join(str(row) for table in _tables(database) for row in database.execute(f"select * from {table}"))
    database.close()
    assert "the run was interrupted" in kept
    assert not reader.is_alive()
    assert phases[0] == "calling"
    assert errors == ["the run was interrupted: the server is stopping"]
    assert "Traceback" not in err
    assert served.process.returncode == ENDS[how]


def _tables(database: sqlite3.Connection) -> list[str]:
    return [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]


def test_it_can_be_reached_as_soon_as_it_says_so(start: Started) -> None:
    with start.serving(*start.model) as served:
        said = said_to(served, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")

    assert said.startswith(b"HTTP/1.1 200 ")


def test_the_first_line_says_where_it_is_and_what_it_has(start: Started) -> None:
    with start.serving(*start.model) as served:
        banner = served.banner

    assert f"script:{start.script}" in banner
    assert "left, right, endless" in banner


def test_it_says_where_conversations_are_kept_and_for_how_long(start: Started, tmp_path: Path) -> None:
    (tmp_path / "ronda.toml").write_text("journal_max_days = 7\n")

    with start.serving(*start.model) as served:
        usual = served.startup[1]
    with start.serving(*start.model, "--config", str(tmp_path / "ronda.toml"), "--data-dir", str(tmp_path)) as served:
        chosen = served.startup[1]
    with start.serving(*start.model, "--data-dir", ":memory:") as served:
        nowhere = served.startup[1]

    assert f"{start.state / 'ronda'} for 30 days" in usual
    assert f"{tmp_path} for 7 days" in chosen
    assert "in memory, until the server ends" in nowhere


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_it_says_how_to_ask_a_first_question(start: Started, host: str) -> None:
    start.script.write_text(json.dumps(["Hello to you."]))
    with start.serving(*start.model, "--host", host, "--insecure") as served:
        command = served.startup[-1]
        asked = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=TIMEOUT, check=True)

    assert json.loads(asked.stdout)["choices"][0]["message"]["content"] == "Hello to you."
    assert len(served.startup) == (5 if host == "127.0.0.1" else 6)


def said_to(served: Served, *sent: bytes) -> bytes:
    """All that the server says to these bytes, until it hangs up."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT) as connection:
        said = b""
        try:
            for data in sent:
                connection.sendall(data)
            while data := connection.recv(65536):
                said += data
        except ConnectionError:  # it hung up while we were still talking
            pass
    return said


def test_a_head_without_end_is_refused_and_a_large_one_is_not(start: Started) -> None:
    get = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: "
    with start.serving(*start.model) as served:
        fine = said_to(served, get + b"x" * 30_000 + b"\r\n\r\n")
        endless = said_to(served, get + b"x" * 65_536)
        many = said_to(served, get, *[b"x\r\nX: "] * 20_000)
        code, err = served.end()

    assert fine.startswith(b"HTTP/1.1 200 ")
    assert endless.startswith(b"HTTP/1.1 431 ")
    assert b"the request's headers are larger than 65536 bytes" in endless
    assert many.startswith(b"HTTP/1.1 431 ") or not many  # what was said may be lost with what was still under way
    assert (code, err) == (0, "")


def test_a_server_without_file_descriptors_says_so_once(start: Started) -> None:
    """libuv closes what it cannot accept without a word."""
    import resource

    with start.serving(*start.model) as served:
        open_now = len(os.listdir(f"/proc/{served.process.pid}/fd"))
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (open_now + 10, open_now + 10))
        host, port = served.url.removeprefix("http://").split(":")
        connections = [socket.create_connection((host, int(port)), timeout=TIMEOUT) for _ in range(30)]
        assert served.process.stderr is not None
        lines = iter(served.process.stderr.readline, "")  # the first may be about the journal, which is opened just now
        line = next((line for line in lines if not line.startswith("runs left without an end")), "")
        for connection in connections:
            connection.close()
        get = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        end = time.monotonic() + TIMEOUT
        while not (fine := said_to(served, get)) and time.monotonic() < end:
            pass  # until the server has seen that the others have left
        code, err = served.end()

    assert line.startswith("no file descriptor is left, so new connections are closed at once")
    assert fine.startswith(b"HTTP/1.1 200 ")
    assert (code, err) == (0, "")


# ---- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_a_clear_error(start: Started) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, err = start.fails(*start.model, "--port", str(port))

    assert code == 2
    assert err == f"ronda: cannot listen on 127.0.0.1:{port}: Address already in use; choose another port with --port\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "script:/no/such.json"], "/no/such.json"),
        (["--model", "gpt-5"], "gpt-5"),
        (["--tools", "/no/such.py"], "/no/such.py"),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
        (["--max-tool-rounds", "-1"], "--max-tool-rounds"),
        (["--data-dir", "/dev/null/x"], "--data-dir"),
        (["--config", "/no/such.toml"], "/no/such.toml"),
    ],
)
def test_a_bad_flag_is_a_clear_error(start: Started, arguments: list[str], said: str) -> None:
    code, err = start.fails(*start.model, "--port", "0", *arguments)

    assert code == 2, err
    assert said in err
    assert "Traceback" not in err


async def test_no_client_keeps_an_idle_connection_for_longer_than_the_server() -> None:
    """Else a request could meet the end of its connection."""
    server = Server(ServerConfig(model="script:x"), MemoryJournal(), provider=ScriptedModel())
    async with aiohttp.ClientSession() as session:
        assert session.connector is not None
        theirs = {
            "openai": openai.DEFAULT_CONNECTION_LIMITS.keepalive_expiry,
            "anthropic": anthropic.DEFAULT_CONNECTION_LIMITS.keepalive_expiry,
            "aiohttp": session.connector._keepalive_timeout,
        }

    assert all(
        seconds and seconds < http_settings(create_app(server), server.config, server.body_memory).timeout_keep_alive
        for seconds in theirs.values()
    ), theirs
