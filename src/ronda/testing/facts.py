"""Events for tests of stores: how a run begins and ends, and one of each kind with all that one could trip over."""

from __future__ import annotations

from msgspec import Raw

from ronda.core.events import (
    AgentFile,
    Answered,
    Asked,
    Checked,
    Compacted,
    Event,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    Recovered,
    Released,
    RunFinished,
    RunStarted,
    Steered,
    ToolFinished,
    ToolStarted,
    Warned,
)
from ronda.core.limits import Limits, Retry
from ronda.core.parts import (
    AssistantTurn,
    File,
    Image,
    Native,
    Reasoning,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Usage,
    UserTurn,
    user,
)
from ronda.core.plan import Options, Plan, ResponseFormat, ToolChoice, ToolSpec

STRANGE = "NUL \x00, ESC \x1b, a newline\n, \"quotes\", \\, 𝄞, \u2028, \ufffe, עברית, ''; DROP TABLE event; --"

SCHEMA = Raw(b'{"type": "object", "properties": {"q": {"type": "string"}}}')


FILE = AgentFile("/agents/a.prompty", "2a", {"/agents/a.prompty": STRANGE}, {"/link": "/agents/a.prompty"})


def start(run: str, *texts: str, owner: str = "", outlives: bool = False) -> RunStarted:
    """How a run begins in these tests."""
    turns = tuple([user(text) for text in texts or ("hello",)])
    return RunStarted(run, Plan("model"), turns, at=1.0, owner=owner, outlives=outlives)


def finish() -> list[Event]:
    return [ModelFinished(AssistantTurn((Text("done"),)), Usage(3, 4), at=2.0), RunFinished("stop", at=2.0)]


def every_fact(run: str) -> list[Event]:
    """One of each kind, with everything in it that a store could trip over. Not a run that could happen."""
    plan = Plan(
        "vendor:model",
        (
            ToolSpec("search", STRANGE, SCHEMA, strict=True, repeatable=True, timeout=0.1),
            ToolSpec("theirs", kind="caller"),
        ),
        ToolChoice("required", ("search",)),
        Options(
            max_tokens=2**53 + 1,
            temperature=0.1,
            stop=(STRANGE,),
            response_format=ResponseFormat("json_schema", schema=SCHEMA),
            extra={"seed": Raw(b"18446744073709551616"), STRANGE: Raw(b"[1.10, 1e400]")},
        ),
        Limits(3, seconds=1e-9),
        Retry(tries=7),
    )
    call = ToolCall("call_1", "search", '{"q": "\\u0000"}', ("fenced",), STRANGE)
    turns = (
        SystemTurn(STRANGE, "developer"),
        UserTurn((Text(""), Image("data:image/png;base64,AA=="), File(name=STRANGE)), name="Ada"),
        AssistantTurn((Reasoning("hm"), Text(STRANGE), call), "tool_calls", Native("openai", Raw(b'{ "a" : 1.0 }'))),
        ToolTurn((ToolResult("call_1", STRANGE, failed=True, attachments=(Image("https://example.org/a.png"),)),)),
    )
    return [
        RunStarted(run, plan, turns, 1.5, ("another", 7), "session", STRANGE, 2, file=FILE),
        ModelStarted(0, at=1.25),
        ModelRetried(2, 3, STRANGE, 0.5, at=1e-300),
        ModelFinished(turns[2], Usage(10**30, 2, 3, 4), Raw(b'[ {"token":"a"} ]'), at=1e300),
        ModelInterrupted(AssistantTurn((), "interrupted"), STRANGE),
        ModelFailed(STRANGE, 503, 3),
        ToolStarted("call_1"),
        ToolFinished(ToolResult("call_1", "", native=Native("mcp", Raw(b"null")))),
        ToolFinished(ToolResult("call_1", ""), details=Raw(b'{"tool_type": "shell"}'), files=(File(id="file_1"),)),
        ToolFinished(ToolResult("call_1", STRANGE, whole="file_2"), offers=(ToolSpec("read", STRANGE),)),
        Asked("ask_1", "call_1", "input", "search", '{"q": 1}', SCHEMA, STRANGE, 9.5, at=0.1),
        Answered("ask_1", "approve", '{"q": 1.10}', STRANGE, True, STRANGE, at=0.1),
        Checked(STRANGE, at=0.1),
        Checked(STRANGE, 0.1, "tool", False, STRANGE),
        Checked(None, 0.1, "input", rewrite=turns),
        Checked(None, 0.1, "output", rewrite=STRANGE),
        Steered(UserTurn((Text(STRANGE),)), at=0.2),
        Compacted(3, STRANGE, (1, 2), STRANGE, at=0.3),
        Warned(STRANGE, at=-1.0),
        Released(at=0.4),
        Recovered(at=0.5),
        RunFinished("limit", "max_tokens", STRANGE, STRANGE, at=2.0),
    ]
