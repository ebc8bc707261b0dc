"""A server has in memory what it needs: what it was not given, and dialects that no client has spoken, are not loaded."""

from __future__ import annotations

import subprocess
import sys

LARGE = (
    "ronda.prompty",
    "ronda.wire.anthropic.server_answer",
    "ronda.schema.lower",
    "ronda.tools.mcp",
    "ronda.sandbox.box",
)


def test_an_idle_server_has_loaded_nothing_that_it_was_not_asked_for() -> None:
    code = (
        "import sys; from ronda.server.app import App, Server; from ronda.server.config import ServerConfig; "
        "from ronda.journal.memory import MemoryJournal; "
        "App(Server(ServerConfig(model='openai-chat:any', base_url='http://127.0.0.1:1'), MemoryJournal())); "
        f"print([name for name in sys.modules if name.startswith({LARGE!r})])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)

    assert done.stdout == "[]\n", done.stdout + done.stderr
