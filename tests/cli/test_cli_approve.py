"""`ronda run` asks at the terminal before a call runs that needs an approval."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import script, shown
from tests.timeouts import TIMEOUT

from ronda.cli.approve import TerminalApproval
from ronda.core.events import Asked

TOOLS = '''
from ronda import tool

@tool(approval="ask")
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"
'''


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def mails(*people: str) -> list[object]:
    calls = [{"name": "send_mail", "arguments": {"to": one}} for one in people]
    return [{"calls": calls}, "done"]


def tools(folder: Path) -> str:
    file = folder / "tools.py"
    file.write_text(TOOLS)
    return str(file)


@pytest.mark.parametrize(
    ("typed", "people", "notes"),
    [
        ("y\n", ["ada"], ["send_mail → sent to ada"]),
        ("n\n", ["ada"], []),
        ("what?\n\nyes\n", ["ada"], ["send_mail → sent to ada"]),
        ('e\n{"to": "eve"}\n', ["ada"], ['send_mail {"to":"eve"}', "send_mail → sent to eve"]),
        ('e\n{"to": 7}\ne\n[]\ne\n{"to": "bob"}\n', ["ada"], ["send_mail → sent to bob"]),
        ("a\n", ["ada", "eve"], ["send_mail → sent to ada", "send_mail → sent to eve"]),
        ("", ["ada"], []),
    ],
    ids=["yes", "no", "anything else", "edit", "edit that does not fit", "always", "end of input"],
)
def test_a_person_decides(
    typed: str,
    people: list[str],
    notes: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    model = script(tmp_path, *mails(*people))
    code, out, err = shown(capsys, "run", "--model", model, "--tools", tools(tmp_path), "go")
    assert (code, out) == (0, "done\n")
    assert "May it run? [y]es, [n]o, [e]dit its arguments, [a]lways in this run: " in err
    for note in notes:
        assert f"[{note}]" in err
    assert err.count("→ sent") == len([note for note in notes if "→" in note])


def test_without_a_terminal_nothing_is_approved_and_a_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    model = script(tmp_path, *mails("ada"))
    code, out, err = shown(capsys, "run", "--model", model, "--tools", tools(tmp_path), "go")
    assert (code, out) == (0, "done\n")
    assert err == "ronda: 'send_mail' needs an approval, and there is no terminal to ask at: it is not run\n"


def test_what_is_approved_is_what_is_seen() -> None:
    out = io.StringIO()
    hidden = '{"to":"eve\\u001b[2K\u202eada\u009b"}'
    TerminalApproval(Terminal("y\n"), out)(Asked("q", "c", tool="send_mail", arguments=hidden))
    assert out.getvalue().startswith('send_mail {\n  "to": "eve\\u001b[2K\\u202eada\\u009b"\n}\n')


def test_at_a_real_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ronda", "run", "--model", script(tmp_path, *mails("ada"))]
    with subprocess.Popen(
        [*command, "--tools", tools(tmp_path), "go"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        os.close(theirs)
        os.write(ours, b"y\n")
        out, err = process.communicate(timeout=TIMEOUT)
        os.close(ours)
    assert (process.returncode, out) == (0, b"done\n")
    assert "[send_mail → sent to ada]" in err.decode()
