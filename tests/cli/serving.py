"""`ronda serve` as a process of its own: how tests start it, talk to it and end it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
from tests.cli.commands import startup
from tests.timeouts import TIMEOUT

TOOLS = '''
import asyncio
from ronda import tool

there = {"left": asyncio.Event(), "right": asyncio.Event()}

@tool
async def left() -> str:
    """Wait for the right one."""
    there["left"].set()
    await there["right"].wait()
    return "L"

@tool
async def right() -> str:
    """Wait for the left one."""
    there["right"].set()
    await there["left"].wait()
    return "R"

@tool
async def endless() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return "never"
'''

MIXED = [
    {"text": "Let me see.", "calls": [
        {"name": "left", "id": "l"}, {"name": "ask_user", "id": "u", "arguments": {"q": "why?"}}, {"name": "right", "id": "r"},
    ]},
    "All three are here.",
]  # fmt: skip
ASK: Any = {
    "type": "function",
    "function": {
        "name": "ask_user",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    },
}


class Served:
    """A server that runs, and the folder it was started in."""

    def __init__(self, process: subprocess.Popen[str], cwd: Path, state: Path) -> None:
        self.process = process
        self.cwd = cwd
        self.state = state
        self.startup = startup(process)
        banner = [line for line in self.startup if " on http" in line]
        assert banner, self.startup
        self.banner = banner[0]
        self.url = self.banner.split(" on ")[1].split()[0]
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="test", max_retries=0, timeout=TIMEOUT)

    def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Ask it to end; its exit code and what it said since it was up."""
        self.client.close()
        self.process.send_signal(how)
        _, err = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, err


class Started:
    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "work"
        self.state = folder / "state"
        self.cwd.mkdir()
        self.script = folder / "script.json"
        self.tools = folder / "the_tools.py"
        self.script.write_text(json.dumps(MIXED))
        self.tools.write_text(TOOLS)

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
        return kept | {"XDG_STATE_HOME": str(self.state), "PYTHONDONTWRITEBYTECODE": "1"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ronda", "serve", *arguments]

    @contextmanager
    def serving(self, *arguments: str) -> Iterator[Served]:
        process = subprocess.Popen(
            self.command("--port", "0", *arguments),
            cwd=self.cwd, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        served = None
        try:
            served = Served(process, self.cwd, self.state)
            yield served
        finally:
            if served is not None:
                served.client.close()
            process.kill()
            process.communicate(timeout=TIMEOUT)

    def fails(self, *arguments: str) -> tuple[int, str]:
        """What a server that cannot start says. One that starts all the same is ended."""
        process = subprocess.Popen(
            self.command(*arguments),
            cwd=self.cwd,
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = "".join(startup(process))  # an error, or that it serves
        if " on http" in said:
            process.kill()
        _, rest = process.communicate(timeout=TIMEOUT)
        return process.returncode, said + rest

    @property
    def model(self) -> list[str]:
        return ["--model", f"script:{self.script}", "--tools", str(self.tools)]


def turn(served: Served, stream: bool, messages: list[Any]) -> tuple[str, list[tuple[str, str, str]], str | None]:
    """Text, the caller's calls and why it stopped, through the official SDK."""
    create: Any = served.client.chat.completions.create
    if not stream:
        choice = create(model="default", messages=messages, tools=[ASK]).choices[0]
        found = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
        return choice.message.content or "", found, choice.finish_reason
    text, finish = "", None
    calls: list[list[str]] = []
    for chunk in create(model="default", messages=messages, tools=[ASK], stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for call in choice.delta.tool_calls or []:
                if call.id is not None:
                    calls.append([call.id, call.function.name, ""])
                calls[call.index][2] += call.function.arguments
    return text, [(call_id, name, arguments) for call_id, name, arguments in calls], finish


USER = {"role": "user", "content": "go"}
