"""What `ronda` exports is a promise: it is listed here on purpose, and importing it costs nothing."""

import subprocess
import sys
from pathlib import Path

import ronda
import ronda.prompty

PROMISED = [
    "Agent",
    "Answered",
    "Asked",
    "BadConfig",
    "BadRequest",
    "CallDelta",
    "Cancel",
    "ChatCompletionRequest",
    "Checked",
    "Compacted",
    "Conversation",
    "Event",
    "ExecuteError",
    "GuardrailError",
    "GuardrailResult",
    "Guardrails",
    "Hooks",
    "LimitExceeded",
    "MAX_ITERATIONS",
    "ModelFailed",
    "ModelFinished",
    "ModelInterrupted",
    "ModelRetried",
    "ModelStarted",
    "PermissionRule",
    "ReasoningDelta",
    "RefusalDelta",
    "Result",
    "Retry",
    "RondaError",
    "RunCancelled",
    "RunEnded",
    "RunFinished",
    "RunStarted",
    "RunWaiting",
    "Runner",
    "Steered",
    "Steering",
    "TextDelta",
    "Timeouts",
    "ToolChoice",
    "ToolContext",
    "ToolFailed",
    "ToolFinished",
    "ToolMissing",
    "ToolOutput",
    "ToolProgressed",
    "ToolStarted",
    "Transport",
    "UpstreamError",
    "Warned",
    "__version__",
    "fetch",
    "folder",
    "invoke_agent",
    "invoke_agent_async",
    "mcp",
    "python",
    "resume_agent",
    "resume_agent_async",
    "run_agent",
    "run_agent_async",
    "shell",
    "stream_agent",
    "tool",
    "use_transport",
    "web_search",
]

# Prompty's verbs: `ronda.prompty` has them, and `ronda` lets programs import them without a warning.
PROMPTY = [
    "BadPrompty",
    "InvokerError",
    "ModelInfo",
    "Prompty",
    "PromptyNotFound",
    "PromptyStream",
    "StructuredResult",
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
    "run",
    "run_async",
    "turn",
    "turn_async",
    "validate_inputs",
    "validate_inputs_async",
]


def test_the_public_names_are_the_promised_ones() -> None:
    assert sorted(ronda.__all__) == PROMISED


def test_every_public_name_is_there() -> None:
    for name in ronda.__all__:
        assert getattr(ronda, name) is not None


def test_prompty_verbs_are_the_same_at_both_places() -> None:
    assert sorted(ronda._PROMPTY) == PROMPTY
    for name in PROMPTY:
        assert getattr(ronda, name) is getattr(ronda.prompty, name)
    assert set(PROMPTY) <= set(ronda.prompty.__all__)
    assert not set(PROMPTY) & set(ronda.__all__)


def test_every_public_event_and_error_is_in_the_docs() -> None:
    """`docs/stability.md` says what of them may change."""
    page = (Path(__file__).parent.parent / "docs" / "stability.md").read_text()
    homes = ("ronda.core.events", "ronda.errors")
    missing = [name for name, home in ronda._HOMES.items() if home in homes and f"`{name}`" not in page]
    assert missing == []


def test_importing_ronda_loads_neither_http_nor_a_server() -> None:
    code = "import ronda, sys; print([m for m in ('aiohttp', 'starlette', 'uvicorn', 'asyncio') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_an_agent_in_code_loads_no_server() -> None:
    code = "from ronda import Agent; import sys; print([m for m in ('starlette', 'uvicorn') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
