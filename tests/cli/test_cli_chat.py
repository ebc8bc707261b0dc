"""`ronda chat`, at a real terminal: what a person types, and what is shown."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import shown
from tests.timeouts import TIMEOUT

TOOLS = '''
import asyncio
from ronda import tool

@tool(approval="ask")
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"

@tool
async def wait_for_ever() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return "done"
'''
PROMPT = ">"
_CONTROL = re.compile(rb"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])|\r")
_CLIPBOARD = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")


class Terminal:
    """A person at a terminal. What is shown is read without its colours and moves."""

    def __init__(self, primary: int, process: subprocess.Popen[bytes]) -> None:
        self._primary = primary
        self._process = process
        self._shown = b""
        self.clipboard = b""  # what programs asked the terminal to put there

    def type(self, text: str) -> None:
        os.write(self._primary, text.encode())

    def press(self, key: bytes) -> None:
        os.write(self._primary, key)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def until(self, text: str) -> str:
        """Everything that is shown up to this, and not before."""
        wanted, end = text.encode(), time.monotonic() + TIMEOUT
        while (at := self._shown.find(wanted)) < 0:
            self._read(end, f"waited for {text!r}")
        at += len(wanted)
        before, self._shown = self._shown[:at], self._shown[at:]
        return before.decode(errors="replace")

    def _read(self, end: float, why: str) -> None:
        ready, _, _ = select.select([self._primary], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{why}, and was shown {self._shown!r}"
        try:
            data = os.read(self._primary, 65536)
        except OSError:
            data = b""
        assert data, f"{why}, and the program ended: {self._shown!r}"
        if b"\x1b[6n" in data:  # where is the cursor?
            os.write(self._primary, b"\x1b[1;1R")
        self.clipboard += b"".join(_CLIPBOARD.findall(data))
        self._shown = _CONTROL.sub(b"", self._shown + data)

    def ends(self) -> int:
        """How it ends, and all that is shown until then is taken."""
        end = time.monotonic() + TIMEOUT
        while self._process.poll() is None and time.monotonic() < end:
            if select.select([self._primary], [], [], 0.05)[0]:
                try:
                    os.read(self._primary, 65536)
                except OSError:
                    break
        return self._process.wait(TIMEOUT)


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = str(folder / "data")
        self.storage = ["--data-dir", self.data]
        (folder / "tools.py").write_text(TOOLS)

    def script(self, *lines: Any, name: str = "script") -> str:
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(lines))
        return f"script:{file}"

    @contextmanager
    def chatting(self, model: str, *flags: str) -> Iterator[Terminal]:
        primary, secondary = pty.openpty()
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        asked = ["-m", model] if model else []
        command = [sys.executable, "-m", "ronda.cli.main", "chat", *asked, *self.storage, *flags]
        process = subprocess.Popen(
            command,
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        os.close(secondary)
        try:
            yield Terminal(primary, process)
        finally:
            process.kill()
            process.wait(TIMEOUT)
            os.close(primary)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def exported(capsys: pytest.CaptureFixture[str], home: Home, name: str) -> list[str]:
    code, out, err = shown(capsys, "sessions", "export", name, *home.storage)
    assert code == 0, err
    return [message["content"] for message in json.loads(out)["messages"]]


def test_a_conversation(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Streamed answers that know what was said, more than one line, and the next day goes on from there."""
    model = home.script(["Hi there."], ["Two lines."])
    with home.chatting(model, "--session", "talk") as terminal:
        terminal.until(PROMPT)
        terminal.type("Hello\r")
        terminal.until("Hi there.")
        terminal.until(PROMPT)
        terminal.type("One")
        terminal.press(b"\x1b\r")  # Alt-Enter
        terminal.type("Two\r")
        terminal.until("Two lines.")
        terminal.until(PROMPT)
        terminal.press(b"\x04")  # Ctrl-D
        assert terminal.ends() == 0
    assert exported(capsys, home, "talk") == ["Hello", "Hi there.", "One\nTwo", "Two lines."]

    with home.chatting(model, "--session", "talk") as terminal:
        assert "Two lines." in terminal.until("Two lines.")
        terminal.until(PROMPT)
        terminal.press(b"\x1b[A")  # the arrow key brings back what was asked last
        terminal.until("Two")
        terminal.press(b"\x03")  # Ctrl-C: not that
        terminal.until(PROMPT)
        terminal.type("/quit\r")
        assert terminal.ends() == 0


def test_a_conversation_goes_on_with_the_session_of_a_keys_owner(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    model, ann = home.script(["Hi, Ann."], ["Again."]), ("--session", "talk", "--owner", "ann")
    assert shown(capsys, "run", "-m", model, *ann, "Hello", *home.storage)[0] == 0
    with home.chatting(model, *ann) as terminal:
        terminal.until("Hi, Ann.")
        terminal.until(PROMPT)
        terminal.type("/session\r")
        terminal.until("talk  (2 turns)")
        terminal.until(PROMPT)
        terminal.type("More\r")
        terminal.until("Again.")
        terminal.until(PROMPT)
        terminal.type("/export\r")
        terminal.until("Again.")
        terminal.until(PROMPT)
        terminal.type("/quit\r")
        assert terminal.ends() == 0
    code, out, _ = shown(capsys, "sessions", "show", "talk", "--owner", "ann", *home.storage)
    assert (code, out.splitlines()) == (0, ["> Hello", "Hi, Ann.", "> More", "Again."])


def test_a_conversation_in_a_database(home: Home, postgres: str, capsys: pytest.CaptureFixture[str]) -> None:
    home.storage += ["--database", postgres]
    with home.chatting(home.script(["Hi there."], ["Again."]), "--session", "talk") as terminal:
        terminal.until(PROMPT)
        terminal.type("Hello\r")
        terminal.until("Hi there.")
        terminal.until(PROMPT)
        terminal.press(b"\x04")  # Ctrl-D
        assert terminal.ends() == 0
    assert exported(capsys, home, "talk") == ["Hello", "Hi there."]
    assert not (home.folder / "data" / "catalog.db").exists()


def test_commands(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = home.script("From one."), home.script("From two.", name="two")
    with home.chatting(one, "--session", "a", "--tools", str(home.folder / "tools.py")) as terminal:
        terminal.until("session 'a'")
        terminal.until(PROMPT)
        terminal.type("Who?\r")
        terminal.until("From one.")
        terminal.until(PROMPT)
        terminal.type(f"/model {two}\r")
        terminal.until("two.json\n")
        terminal.until(PROMPT)
        terminal.type("/tools\r")
        terminal.until("send_mail (asks first): Send a mail.")
        terminal.until(PROMPT)
        terminal.type("/session b\r")
        terminal.until("session 'b'\n")
        terminal.until(PROMPT)
        terminal.type("Who?\r")
        terminal.until("From two.")
        terminal.until(PROMPT)
        terminal.type("/session\r")
        terminal.until("b  (2 turns) Who?")
        terminal.until("a  (2 turns) Who?")
        terminal.until(PROMPT)
        file = home.folder / "b.json"
        terminal.type(f"/export {file}\r")
        terminal.until("written to")
        terminal.until(PROMPT)
        terminal.type("/nothing\r")
        terminal.until("there is no /nothing; there is /model")
        terminal.until(PROMPT)
        terminal.type("/model nobody:x\r")
        terminal.until("ronda: ")
        terminal.until(PROMPT)
        terminal.type("/help\r")
        terminal.until("Alt-Enter")
        terminal.until(PROMPT)
        terminal.type("/exit\r")
        assert terminal.ends() == 0
    assert [one["content"] for one in json.loads(file.read_text())["messages"]] == ["Who?", "From two."]
    assert exported(capsys, home, "a") == ["Who?", "From one."]


def test_the_last_session_is_continued(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    model = home.script("Hi there.")
    for flags in (["--session", "a"], ["--session", "b"], ["--continue"], ["-c", "--plain"]):
        with home.chatting(model, *flags) as terminal:
            terminal.until(PROMPT)
            terminal.type("Hello\r")
            terminal.until("Hi there.")
            terminal.until(PROMPT)
            terminal.type("/exit\r")
            assert terminal.ends() == 0

    assert exported(capsys, home, "a") == ["Hello", "Hi there."]
    assert exported(capsys, home, "b") == ["Hello", "Hi there."] * 3


@pytest.mark.parametrize(
    ("flags", "said"), [(["-c"], "no session to continue"), (["-c", "--session", "a"], "give one of the two")]
)
def test_what_cannot_be_continued_is_one_line(home: Home, flags: list[str], said: str) -> None:
    with home.chatting(home.script("Hi."), *flags) as terminal:
        terminal.until(said)
        assert terminal.ends() == 2


def test_the_last_answer_is_given_to_the_clipboard_of_the_terminal(home: Home) -> None:
    with home.chatting(home.script("Hi there.")) as terminal:
        terminal.until(PROMPT)
        terminal.type("/copy\r")
        terminal.until("no answer to copy yet")
        terminal.until(PROMPT)
        terminal.type("Hello\r")
        terminal.until("Hi there.")
        terminal.until(PROMPT)
        terminal.type("/copy\r")
        terminal.until("is on the clipboard")
        assert base64.b64encode(b"Hi there.") in terminal.clipboard


def test_tools_and_approvals(home: Home) -> None:
    calls = [{"name": "send_mail", "arguments": {"to": "ada"}, "id": "c1"}]
    model = home.script({"calls": calls}, "It is sent.")
    with home.chatting(model, "--tools", str(home.folder / "tools.py")) as terminal:
        terminal.until(PROMPT)
        terminal.type("Write to Ada.\r")
        terminal.until("May it run?")
        terminal.type("y\r")
        terminal.until("send_mail → sent to ada")
        terminal.until("It is sent.")
        terminal.until(PROMPT)
        terminal.press(b"\x04")
        assert terminal.ends() == 0


def test_an_answer_that_is_stopped(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    model = home.script([{"text": "Let me wait.", "calls": [{"name": "wait_for_ever", "id": "c1"}]}], ["Go on."])
    with home.chatting(model, "--session", "s", "--tools", str(home.folder / "tools.py")) as terminal:
        terminal.until(PROMPT)
        terminal.type("Wait.\r")
        terminal.until("wait_for_ever {}")
        terminal.interrupt()
        terminal.until("[stopped]")
        terminal.until(PROMPT)
        terminal.type("And now?\r")
        terminal.until("Go on.")
        terminal.until(PROMPT)
        terminal.press(b"\x04")
        assert terminal.ends() == 0
    said = exported(capsys, home, "s")
    assert said[:2] == ["Wait.", "Let me wait."]
    assert said[-2:] == ["And now?", "Go on."]


def test_what_goes_wrong_is_told_and_the_conversation_goes_on(home: Home) -> None:
    model = home.script([{"error": "no", "status": 400}], ["\x1b[31mred"])
    with home.chatting(model) as terminal:
        terminal.until(PROMPT)
        terminal.type("Hello\r")
        terminal.until("ronda: ")
        terminal.until(PROMPT)
        terminal.type("/quit\r")
        assert terminal.ends() == 0


def test_what_a_terminal_would_act_on_is_written_out(home: Home) -> None:
    with home.chatting(home.script("\x1b[2J\x07gone")) as terminal:
        terminal.until(PROMPT)
        terminal.type("Hello\r")
        terminal.until("\\x1b[2J\\x07gone")
        terminal.until(PROMPT)
        terminal.type("/quit\r")
        assert terminal.ends() == 0


def test_what_people_ask_is_private(home: Home) -> None:
    with home.chatting(home.script("Hi.")) as terminal:
        terminal.until(PROMPT)
        terminal.type("Hello\r")
        terminal.until("Hi.")
        terminal.until(PROMPT)
        terminal.type("/quit\r")
        assert terminal.ends() == 0
    file = Path(home.data) / "chat-history"
    assert "Hello" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_a_terminal_it_says_what_to_do(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = shown(capsys, "chat", "-m", home.script("Hi."), "--data-dir", home.data)
    assert (code, "ronda run --session" in err) == (2, True)


def test_without_colours_the_conversation_is_plain_text(home: Home) -> None:
    calls = [{"name": "send_mail", "arguments": {"to": "ada"}, "id": "c1"}]
    model = home.script({"calls": calls}, "It is **sent**.")
    with home.chatting(model, "--plain", "--tools", str(home.folder / "tools.py")) as terminal:
        terminal.until(PROMPT)
        terminal.type("Write to Ada.\r")
        terminal.until("May it run?")
        terminal.type("y\r")
        terminal.until("[send_mail → sent to ada]")
        terminal.until("It is **sent**.")
        terminal.until(PROMPT)
        terminal.type("exit\r")
        assert terminal.ends() == 0


def test_an_answer_is_shown_as_markdown(home: Home) -> None:
    model = home.script(
        "# Title\n\nIt is **bold**, with `code`.\n\n```python\nprint(1)\n\nprint(2)\n```\n\n- one\n- two"
    )
    with home.chatting(model) as terminal:
        terminal.until(PROMPT)
        terminal.type("Hello\r")
        shown = terminal.until("• two")
        assert "It is bold, with code." in shown
        assert "\nTitle" in shown  # at the left
        assert "**" not in shown
        assert "print(2)" in shown
        terminal.until(PROMPT)
        terminal.type("/quit\r")
        assert terminal.ends() == 0


def test_a_question_is_asked_again_in_its_place(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    model = home.script(["One."], ["Two."])
    other = home.script(["Won."], ["Better."], name="other")  # a script answers by the place in the conversation
    with home.chatting(model, "--session", "s") as terminal:
        terminal.until(PROMPT)
        terminal.type("/retry\r")
        terminal.until("nothing was asked yet")
        asked = (("First?", "One."), ("Second?", "Two."), (f"/model {other}", "other.json"), ("/retry", "Better."))
        for question, answer in asked:
            terminal.until(PROMPT)
            terminal.type(f"{question}\r")
            terminal.until(answer)
        terminal.until(PROMPT)
        terminal.type("/clear\r")
        terminal.until("the one before is kept")
        terminal.until(PROMPT)
        terminal.type("quit\r")
        assert terminal.ends() == 0
    assert exported(capsys, home, "s") == ["First?", "One.", "Second?", "Better."]


def test_a_file_goes_along_with_the_next_question(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    (home.folder / "note.txt").write_text("The sky is green.")
    with home.chatting(home.script(["I see."], ["And?"]), "--session", "s") as terminal:
        terminal.until(PROMPT)
        terminal.type(f"/attach {home.folder}/nothing.txt\r")
        terminal.until("cannot attach")
        terminal.until(PROMPT)
        terminal.type(f"/attach {home.folder}/note.txt\r")
        terminal.until("with the next question")
        for question, answer in (("What colour?", "I see."), ("More?", "And?")):
            terminal.until(PROMPT)
            terminal.type(f"{question}\r")
            terminal.until(answer)
        terminal.until(PROMPT)
        terminal.type("/usage\r")
        terminal.until("tokens in")
        terminal.until(PROMPT)
        terminal.press(b"\x04")
        assert terminal.ends() == 0
    code, out, _ = shown(capsys, "sessions", "show", "s", *home.storage)
    assert code == 0
    assert out.count("The sky is green.") == 1


def test_a_file_of_the_command_line_goes_along_with_the_first_question(home: Home) -> None:
    (home.folder / "note.txt").write_text("The sky is green.")
    with home.chatting(home.script("I see."), "--attach", str(home.folder / "note.txt")) as terminal:
        terminal.until(f"with the next question: {home.folder}/note.txt")
        terminal.until(PROMPT)
        terminal.type("What colour?\r")
        terminal.until("I see.")
        terminal.until(PROMPT)
        terminal.type("/export\r")
        terminal.until("The sky is green.")
        terminal.until(PROMPT)
        terminal.type("/attach\r")
        terminal.until("nothing is attached")
        terminal.until(PROMPT)
        terminal.type("/exit\r")
        assert terminal.ends() == 0


def test_a_prompty_file_answers(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    file = home.folder / "pirate.prompty"
    home.script(["Arr."], ["Arr again."])
    file.write_text("---\nname: pirate\nmodel: script:script.json\n---\nsystem:\nYou are a pirate.\n")
    with home.chatting("", "--session", "s", str(file)) as terminal:
        terminal.until("pirate.prompty (script:script.json)")
        for question, answer in (("Hello", "Arr."), ("More", "Arr again.")):
            terminal.until(PROMPT)
            terminal.type(f"{question}\r")
            terminal.until(answer)
        terminal.until(PROMPT)
        terminal.type("/exit\r")
        assert terminal.ends() == 0
    assert exported(capsys, home, "s") == ["Hello", "Arr.", "More", "Arr again."]


def test_an_agent_of_a_module_answers(home: Home) -> None:
    file = home.folder / "mine.py"
    file.write_text(
        "from ronda import Agent\nfrom ronda.testing import ScriptedModel\n\n"
        "agent = Agent(ScriptedModel('I am made in code.'), name='mine')\n"
    )
    with home.chatting(home.script("I am a model."), f"{file}:agent") as terminal:
        terminal.until("mine.py:agent")
        terminal.until(PROMPT)
        terminal.type("Who?\r")
        terminal.until("I am made in code.")
        terminal.until(PROMPT)
        terminal.type("/agent none\r")
        terminal.until(PROMPT)
        terminal.type("Who?\r")
        terminal.until("I am a model.")
        terminal.until(PROMPT)
        terminal.type(f"/agent {file}:agnt\r")
        terminal.until("has no Agent 'agnt'; there is agent")
        terminal.until(PROMPT)
        terminal.type("/exit\r")
        assert terminal.ends() == 0


class ListsModels(BaseHTTPRequestHandler):
    """Stands in for Ollama, as far as it lists its models."""

    def do_GET(self) -> None:
        found = self.path == "/v1/models"
        body = json.dumps({"object": "list", "data": [{"id": "qwen3:8b", "object": "model"}]} if found else {}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def ollama() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), ListsModels)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(TIMEOUT)
        server.server_close()


def test_tab_completes_commands_models_sessions_agents_and_files(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.folder / "ronda").mkdir()
    (home.folder / "ronda/config.toml").write_text('[profiles.work]\nmodel = "azure:our-gpt"\n')
    (home.folder / "pirate.prompty").write_text("---\nmodel: script:script.json\n---\nsystem:\nArr.\n")
    (home.folder / "picture-of-a-cat.txt").write_text("a cat")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.folder))
    monkeypatch.chdir(home.folder)
    with ollama() as address:
        monkeypatch.setenv("OLLAMA_HOST", address)
        with home.chatting(home.script(["Hi."]), "--session", "first talk") as terminal:
            _complete(terminal)


def _complete(terminal: Terminal) -> None:
    completed = {
        "/us": "age",
        "/model az": "zure:our-gpt",
        "/model local:smol": "lm2",
        "/model ollama:qw": "en3:8b",
        "/session fi": "rst talk",
        "/agent pi": "rate.prompty",
        "/attach pict": "ure-of-a-cat.txt",
    }
    terminal.until(PROMPT)
    terminal.type("Hello\r")
    terminal.until("Hi.")
    for typed, rest in completed.items():
        terminal.until(PROMPT)
        terminal.type(f"{typed}\t")
        terminal.until(rest)
        terminal.press(b"\x03")  # Ctrl-C: not that
    terminal.until(PROMPT)
    terminal.type("/exit\r")
    assert terminal.ends() == 0
