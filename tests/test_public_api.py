"""What `ronda` exports is a promise: it is listed here on purpose, and importing it costs nothing."""

import subprocess
import sys

import ronda

PROMISED = [
    "Agent",
    "Cancel",
    "Retry",
    "Timeouts",
    "ToolContext",
    "ToolOutput",
    "__version__",
    "invoke_agent",
    "invoke_agent_async",
    "stream_agent",
    "tool",
]


def test_the_public_names_are_the_promised_ones() -> None:
    assert sorted(ronda.__all__) == PROMISED


def test_every_public_name_is_there() -> None:
    for name in ronda.__all__:
        assert getattr(ronda, name) is not None


def test_importing_ronda_loads_neither_http_nor_a_server() -> None:
    code = "import ronda, sys; print([m for m in ('aiohttp', 'starlette', 'uvicorn', 'asyncio') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_an_agent_in_code_loads_no_server() -> None:
    code = "from ronda import Agent; import sys; print([m for m in ('starlette', 'uvicorn') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
