"""What a program loads that uses the library: little of Ronda, and none of what a server, a page or a template needs."""

from __future__ import annotations

import subprocess
import sys

from tests.timeouts import TIMEOUT

MOST_MODULES = 80  # of Ronda's
HEAVY = ("aiohttp", "starlette", "uvicorn", "lxml", "xllamacpp", "jinja2", "yaml", "mcp", "sqlite3")

PROGRAM = f"""
import sys
from ronda import Agent, run_agent, tool
from ronda.core.events import ModelFinished
from ronda.core.parts import AssistantTurn, Text, ToolCall

class Model:
    "A program's own model: it asks for a tool, then answers."
    async def call(self, request, show):
        if len(request.turns) == 1:
            return ModelFinished(AssistantTurn((ToolCall("a", "add", '{{"a": 1, "b": 2}}'),), "tool_calls"))
        return ModelFinished(AssistantTurn((Text("three"),)))

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

result = run_agent(Agent(Model(), tools=[add]), "add")
assert (result.output, result.tool_calls[0].content) == ("three", "3"), result
print(" ".join(sorted(name for name in sys.modules if name.split(".")[0] == "ronda")))
print(" ".join(sorted(set(sys.modules) & set({HEAVY}))))
"""


def test_an_agent_with_a_tool_loads_few_modules_and_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=TIMEOUT, check=False)

    assert done.returncode == 0, done.stderr
    ours, heavy = done.stdout.split("\n")[:2]
    assert heavy == ""
    assert len(ours.split()) <= MOST_MODULES, ours
