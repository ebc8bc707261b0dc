"""What `ronda` exports is a promise: it is listed here on purpose, and importing it costs nothing."""

import subprocess
import sys

import ronda

PROMISED = [
    "Agent",
    "Answered",
    "Asked",
    "BadPrompty",
    "Cancel",
    "ChatCompletionRequest",
    "GuardrailResult",
    "Guardrails",
    "InvokerError",
    "ModelInfo",
    "PermissionRule",
    "Prompty",
    "PromptyNotFound",
    "PromptyStream",
    "Result",
    "Retry",
    "Runner",
    "Steering",
    "StructuredResult",
    "Timeouts",
    "ToolChoice",
    "ToolContext",
    "ToolOutput",
    "__version__",
    "bind_tools",
    "cast",
    "cast_async",
    "check",
    "clear_connections",
    "clear_mcp_servers",
    "clear_tool_handlers",
    "clear_tools",
    "get_connection",
    "get_tool",
    "get_tool_handler",
    "invoke",
    "invoke_agent",
    "invoke_agent_async",
    "invoke_async",
    "list_models",
    "list_models_async",
    "load",
    "load_async",
    "loads",
    "parse",
    "parse_async",
    "prepare",
    "prepare_async",
    "process",
    "process_async",
    "register_connection",
    "register_mcp_servers",
    "register_tool",
    "register_tool_handler",
    "render",
    "render_async",
    "resume_agent",
    "resume_agent_async",
    "run",
    "run_agent",
    "run_agent_async",
    "run_async",
    "stream_agent",
    "tool",
    "turn",
    "turn_async",
    "validate_inputs",
    "validate_inputs_async",
    "web_search",
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
