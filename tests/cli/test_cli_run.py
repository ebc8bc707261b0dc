"""`ronda run`, and what all commands share: versions, help, errors that say what to do."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import script, shown
from tests.timeouts import TIMEOUT

import ronda
from ronda.cli.commands import COMMANDS
from ronda.cli.main import parse
from ronda.cli.settings import read_config

TOOLS = '''
from ronda import tool

@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"

@tool
def broken() -> str:
    """Fail."""
    raise ValueError("no luck")
'''


@pytest.fixture
def tools(tmp_path: Path) -> str:
    file = tmp_path / "my_tools.py"
    file.write_text(TOOLS)
    return str(file)


# ---- help ------------------------------------------------------------------------------------------------------------


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--version") == (0, f"ronda {ronda.__version__}\n", "")


def test_the_installed_command_is_the_same() -> None:
    command = Path(sys.executable).parent / "ronda"
    for start in ([str(command)], [sys.executable, "-m", "ronda"]):
        done = subprocess.run([*start, "--version"], capture_output=True, text=True, timeout=TIMEOUT, check=True)
        assert done.stdout == f"ronda {ronda.__version__}\n"


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, "--help")

    assert code == 0
    assert "serve" in out
    assert "run" in out


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (
            "serve",
            ["--model", "--base-url", "--host", "--port", "--tools", "--tool-dispatch-url", "--max-tool-rounds",
             "--max-tool-rounds-ceiling", "--tool-calls", "--data-dir", "--config"],
        ),
        ("run", ["--model", "--base-url", "--tools", "--stream", "prompt"]),
    ],
)  # fmt: skip
def test_help_of_a_command_names_its_flags(capsys: pytest.CaptureFixture[str], command: str, flags: list[str]) -> None:
    code, out, _ = shown(capsys, command, "--help")

    assert code == 0
    assert [flag for flag in flags if flag not in out] == []


@pytest.mark.parametrize("command", [one.name for one in COMMANDS])
def test_help_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = shown(capsys, command, "--help")
    assert [line for line in out.splitlines() if len(line) > 80] == []


def test_no_command_at_all_is_exit_2_with_what_can_be_done(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys)

    assert (code, out) == (2, "")
    assert "usage: ronda" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dance"], "there is no command 'dance'; 'ronda --help' lists them"),
        (["run", "--dance"], "there is no flag '--dance'; 'ronda run --help' lists them"),
        (
            ["serve", "--port", "many"],
            "--port is 'many'; it is a whole number; 'ronda serve --help' says what it takes",
        ),
        (["keys"], "'ronda keys' needs a word behind it: create, list, revoke, audit"),
        (["sessions"], "'ronda sessions' needs a word behind it: list, show, export, import, fork, delete"),
        (
            ["validate"],
            "'ronda validate' needs FILE.prompty|FILE.eval.yaml; 'ronda validate --help' says what it takes",
        ),
    ],
)
def test_a_wrong_command_line_is_exit_2_with_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert shown(capsys, *arguments) == (2, "", f"ronda: {said}\n")


# ---- run -------------------------------------------------------------------------------------------------------------


def test_the_answer_is_printed_and_what_was_done_beside_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tools: str
) -> None:
    model = script(tmp_path, {"calls": [{"name": "lookup", "arguments": {"q": "x"}}]}, "It is there.")

    code, out, err = shown(capsys, "run", "--model", model, "--tools", tools, "where?")

    assert (code, out) == (0, "It is there.\n")
    assert err == '[lookup {"q":"x"}]\n[lookup → found x]\n'


def test_a_stream_prints_the_answer_as_it_comes_and_tools_beside_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tools: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    model = script(
        tmp_path,
        {"calls": [{"name": "lookup", "arguments": {"q": "x"}}]},
        {"calls": [{"name": "broken"}]},
        "It is there.",
    )

    code, out, err = shown(capsys, "run", "--model", model, "--tools", tools, "--stream", "where?")

    assert (code, out) == (0, "It is there.\n")
    assert err.splitlines() == [
        '[lookup {"q":"x"}]',
        "[lookup → found x]",
        "[broken {}]",
        f"[tracebacks are in {tmp_path / 'ronda' / 'ronda.log'}]",
        "[broken failed: ValueError: no luck]",
    ]


@pytest.mark.parametrize("prompt", [[], ["-"]], ids=["left out", "-"])
def test_the_prompt_may_come_from_standard_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompt: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("where?\n"))

    assert shown(capsys, "run", *prompt, "--model", script(tmp_path, "There."))[:2] == (0, "There.\n")


def test_a_file_that_is_piped_in_is_asked_with_the_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.txt"
    report.write_text("Sales were up by a third.\n")
    with answering() as (address, bodies):
        command = [sys.executable, "-m", "ronda", "run", "Sum this up", "-m", "openai-chat:m", "--base-url", address]
        piped = subprocess.run(command, input=report.read_bytes(), capture_output=True, timeout=TIMEOUT, check=False)
        with report.open("rb") as file:
            redirected = subprocess.run(command, stdin=file, capture_output=True, timeout=TIMEOUT, check=False)
        nothing = subprocess.run(command, input=b"", capture_output=True, timeout=TIMEOUT, check=False)
        command[4] = "-"
        alone = subprocess.run(command, input=report.read_bytes(), capture_output=True, timeout=TIMEOUT, check=False)

    assert [done.stdout for done in (piped, redirected, nothing, alone)] == [b"Yes.\n"] * 4
    both = "Sum this up\n\nSales were up by a third.\n"
    assert [body["messages"][-1]["content"] for body in bodies] == [
        both,
        both,
        "Sum this up",
        "Sales were up by a third.\n",
    ]


def test_standard_input_that_is_nothing_to_read_is_left_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unread(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            raise AssertionError("it might never end")

    monkeypatch.setattr("sys.stdin", Unread())

    assert shown(capsys, "run", "hi", "--model", script(tmp_path)) == (0, "Hello.\n", "")


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_nothing_to_ask_is_a_clear_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompt: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(prompt))
    code, out, err = shown(capsys, "run", "--model", script(tmp_path, "There."))

    assert (code, out) == (2, "")
    assert "nothing to ask" in err


@pytest.mark.parametrize(
    ("model", "named"),
    [("gpt-5", "gpt-5"), ("nobody:gpt-5", "nobody:gpt-5"), ("script:/no/such.json", "/no/such.json")],
)
def test_a_model_that_is_none_is_a_clear_error(capsys: pytest.CaptureFixture[str], model: str, named: str) -> None:
    code, out, err = shown(capsys, "run", "--model", model, "hi")

    assert (code, out) == (2, "")
    assert named in err


BAD_TOOLS: dict[str, tuple[str | None, str]] = {
    "missing": (None, "there is no tools file"),
    "syntax": ("def (:", "SyntaxError"),
    "import": ("import no_such_module", "no_such_module"),
    "raises": ("raise ValueError('no luck')", "no luck"),
    "no tools": ("x = 1", "has no tools"),
    "no schema": ("from ronda import tool\n@tool(bindings={'x': 'y'})\ndef f() -> str: ...", "binds 'x'"),
}


@pytest.mark.parametrize(("text", "reason"), BAD_TOOLS.values(), ids=BAD_TOOLS.keys())
def test_a_bad_tools_file_is_a_clear_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str | None, reason: str
) -> None:
    file = tmp_path / "bad_tools.py"
    if text is not None:
        file.write_text(text)
    code, out, err = shown(capsys, "run", "--model", script(tmp_path, "hi"), "--tools", str(file), "hi")

    assert (code, out) == (2, "")
    assert "bad_tools.py" in err
    assert reason in err


def test_a_run_without_an_answer_is_exit_1_and_says_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tools: str
) -> None:
    model = script(tmp_path, {"error": "the model is on fire", "status": 400})

    for how in ([], ["--stream"]):
        code, out, err = shown(capsys, "run", "--model", model, *how, "hi")
        assert (code, out.strip()) == (1, "")
        assert "the model is on fire" in err


def test_a_limit_is_exit_1_and_says_which(capsys: pytest.CaptureFixture[str], tmp_path: Path, tools: str) -> None:
    model = script(tmp_path, {"calls": [{"name": "lookup", "arguments": {"q": "x"}}]})

    code, _, err = shown(capsys, "run", "--model", model, "--tools", tools, "--max-iterations", "2", "hi")

    assert code == 1
    assert "Agent loop exceeded 2 iterations" in err


def test_instructions_are_heard(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert shown(capsys, "run", "--model", script(tmp_path, "Yes."), "--instructions", "Be brief.", "hi")[0] == 0


def test_an_answer_that_was_cut_off_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Once upon a", "stop": "length"})

    assert shown(capsys, "run", "--model", model, "A story!") == (
        0,
        "Once upon a\n",
        "ronda: the answer was cut off at the model's limit of tokens; --max-tokens N sets another\n",
    )


def test_a_model_that_fails_again_and_again_says_how_often_it_was_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    busy = {"error": "busy", "status": 503, "retry_after": 0}

    code, out, err = shown(capsys, "run", "--model", script(tmp_path, busy, busy, busy), "Hi!")

    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "[busy; trying again in 0 s (2 of 3)]",
        "[busy; trying again in 0 s (3 of 3)]",
        "ronda: the model was asked 3 times, and failed each time: busy",
    ]


@contextmanager
def answering() -> Iterator[tuple[str, list[Any]]]:
    """A server that says yes to everything, and keeps what it was asked."""
    bodies: list[Any] = []

    class Yes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            said = {"choices": [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]}
            answer = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Yes) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
        server.shutdown()
        thread.join()


def test_the_tokens_of_an_answer_can_be_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    with answering() as (address, bodies):
        code, out, _ = shown(
            capsys, "run", "hi", "--model", "openai-chat:m", "--base-url", address, "--max-tokens", "7"
        )

    assert (code, out, bodies[0]["max_tokens"]) == (0, "Yes.\n", 7)


def test_the_environment_may_name_the_model_and_its_address(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "nameless.prompty"
    file.write_text("---\nname: nameless\n---\nuser:\nhi")
    with answering() as (address, bodies):
        monkeypatch.setenv("RONDA_MODEL", "openai-chat:usual")
        monkeypatch.setenv("RONDA_BASE_URL", address)
        usual = shown(capsys, "run", "hi")
        another = shown(capsys, "run", "hi", "--model", "openai-chat:another")
        a_file = shown(capsys, "run", str(file))
        local = shown(capsys, "run", "hi", "--model", script(tmp_path))

    assert [said[:2] for said in (usual, another, a_file)] == [(0, "Yes.\n")] * 3
    assert [body["model"] for body in bodies] == ["usual", "another", "usual"]
    assert local == (0, "Hello.\n", "")


def test_the_address_of_the_environment_is_not_for_models_of_another_provider(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be sent that provider's key."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RONDA_MODEL", "openai-chat:usual")
    monkeypatch.setenv("RONDA_BASE_URL", "http://127.0.0.1:1/v1")

    code, _, err = shown(capsys, "run", "hi", "--model", "anthropic:claude")

    assert (code, "anthropic:claude needs a key: set ANTHROPIC_API_KEY" in err) == (2, True)
    assert read_config(parse(["serve", "--model", "local:other"])).base_url is None
    assert read_config(parse(["serve"])).base_url == "http://127.0.0.1:1/v1"


def test_the_model_has_a_short_flag(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert shown(capsys, "run", "hi", "-m", script(tmp_path)) == (0, "Hello.\n", "")
    assert parse(["serve", "-m", "local:other"]).model == "local:other"


NOISY = """
import asyncio, os, subprocess, sys, threading
from ronda import tool

print("loaded")

@tool
def plain() -> str:
    print("plain")
    sys.stdout.write("without an end")
    return "1"

@tool
async def awaited() -> str:
    print("awaited")
    await asyncio.create_subprocess_exec("echo", "its program")
    return "2"

@tool
def others() -> str:
    thread = threading.Thread(target=print, args=("a thread",))
    thread.start()
    thread.join()
    subprocess.run(["echo", "a program"], check=True)
    os.write(1, b"the file descriptor\\n")
    return "3"
"""


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_what_tools_print_goes_to_standard_error(tmp_path: Path, stream: list[str]) -> None:
    tools = tmp_path / "noisy.py"
    tools.write_text(NOISY)
    names = ["plain", "awaited", "others"]
    model = script(tmp_path, {"calls": [{"name": name} for name in names]}, "The answer.")

    command = [sys.executable, "-m", "ronda", "run", "hi", *stream, "--model", model, "--tools", str(tools)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)

    assert (done.returncode, done.stdout) == (0, "The answer.\n")
    for text in ("loaded", "plain", "without an end", "awaited", "a thread", "a program", "the file descriptor"):
        assert text in done.stderr


LOUD = """
import asyncio, logging
from ronda import tool

@tool
async def loud() -> str:
    print("a line of the tool", end={end!r})
    raise ValueError("no luck")

@tool
async def half() -> str:
    print("half a line", end="")
    return "it"
"""


def test_half_a_line_of_a_tool_is_a_line_of_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tools = tmp_path / "half.py"
    tools.write_text(LOUD.format(end="\n"))
    model = script(tmp_path, {"calls": [{"name": "half"}]}, "Done.")

    code, out, err = shown(capsys, "run", "hi", "--model", model, "--tools", str(tools))

    assert (code, out, err.splitlines()) == (0, "Done.\n", ["[half {}]", "half a line", "[half → it]"])


@pytest.mark.parametrize("end", ["\n", ""])
def test_what_a_tool_prints_comes_after_the_text_before_it_and_its_traceback_goes_to_a_file(
    tmp_path: Path, end: str
) -> None:
    """A tool is started while the terminal is still behind with the text."""
    tools = tmp_path / "loud.py"
    tools.write_text(LOUD.format(end=end))
    model = script(tmp_path, {"text": "I will look into it.", "calls": [{"name": "loud"}]}, "Done.")

    command = [sys.executable, "-m", "ronda", "run", "hi", "--stream", "--model", model, "--tools", str(tools)]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True, timeout=TIMEOUT, check=False
    )

    log = tmp_path / "state" / "ronda" / "ronda.log"
    assert done.stdout.splitlines() == [
        "I will look into it.",
        "[loud {}]",
        "a line of the tool",
        f"[tracebacks are in {log}]",
        "[loud failed: ValueError: no luck]",
        "Done.",
    ]
    assert [line for line in log.read_text().splitlines() if "File" in line] == [
        f'  File "{tools}", line 8, in loud'  # and none of Ronda's own
    ]


def test_what_tools_print_goes_to_standard_error_where_there_is_no_file_behind_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tools = tmp_path / "noisy.py"
    tools.write_text("from ronda import tool\n\n@tool\ndef plain() -> str:\n    print('plain')\n    return '1'\n")
    model = script(tmp_path, {"calls": [{"name": "plain"}]}, "The answer.")

    code, out, err = shown(capsys, "run", "hi", "--model", model, "--tools", str(tools))

    assert (code, out) == (0, "The answer.\n")
    assert "plain\n" in err


def test_a_model_searches_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "tea.md").write_text("# Tea\n\nGreen tea needs eighty degrees.\n")
    calls = {"calls": [{"name": "mistralrs_search_the_web", "arguments": {"query": "green tea"}}]}
    model = script(tmp_path, calls, "At eighty degrees [1].")

    code, out, err = shown(
        capsys, "run", "--model", model, "--search-folder", str(tmp_path / "handbook"), "--stream", "How hot?"
    )

    assert (code, out) == (0, "At eighty degrees [1].\n"), err
    assert "mistralrs_search_the_web" in err


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys, "run", "--model", script(tmp_path, "hi"), "--search-folder", "/not/there", "go")

    assert (code, out) == (2, "")
    assert "'/not/there', is not there" in err


# ---- for people and for programs --------------------------------------------------------------------------------------


def test_json_is_one_object_with_what_it_took(capsys: pytest.CaptureFixture[str], tmp_path: Path, tools: str) -> None:
    model = script(tmp_path, {"calls": [{"name": "lookup", "arguments": {"q": "x"}}]}, "It is there.")

    code, out, err = shown(capsys, "run", "-m", model, "--tools", tools, "--json", "-q", "where?")

    assert (code, err) == (0, "")
    report = json.loads(out)
    assert (report["output"], report["model"], report["cost"]) == ("It is there.", model, None)
    assert [(one["name"], one["arguments"], one["content"]) for one in report["tool_calls"]] == [
        ("lookup", {"q": "x"}, "found x")
    ]


def test_quiet_is_the_answer_alone_and_usage_is_said_at_the_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tools: str
) -> None:
    model = script(tmp_path, {"calls": [{"name": "lookup", "arguments": {"q": "x"}}]}, "It is there.")
    assert shown(capsys, "run", "-m", model, "--tools", tools, "-q", "where?") == (0, "It is there.\n", "")

    code, out, err = shown(capsys, "run", "-m", model, "--tools", tools, "-q", "-u", "where?")
    assert (code, out) == (0, "It is there.\n")
    assert "tokens in" in err


def test_files_go_along_with_the_prompt(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("The sky is green.")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\nrest")
    cassette = tmp_path / "run.jsonl"
    files = ["-a", str(tmp_path / "note.txt"), "-a", str(tmp_path / "dot.png")]

    done = shown(capsys, "record", "-m", script(tmp_path), *files, "What is it?", "-o", str(cassette))
    assert done == (0, "Hello.\n", "")

    parts = json.loads(cassette.read_text().splitlines()[0])["start"]["turns"][0]["parts"]
    assert [part["type"] for part in parts] == ["text", "image", "text"]
    assert "The sky is green." in parts[0]["text"]


@pytest.mark.parametrize(
    ("name", "why"), [("none.txt", "No such file"), ("", "it is a folder"), ("empty", "it is empty")]
)
def test_a_file_that_cannot_go_along_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / "empty").write_bytes(b"")
    code, out, err = shown(capsys, "run", "-m", script(tmp_path), "-a", str(tmp_path / name), "hi")
    assert (code, out) == (2, "")
    assert err.startswith(f"ronda: cannot attach {tmp_path}")
    assert why in err
