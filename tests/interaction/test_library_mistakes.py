"""What people get wrong in code: an error that names the thing and the way out, before a model is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pydantic
import pytest

from ronda import Agent, invoke_agent, stream_agent
from ronda.core.parts import ToolResult, ToolTurn
from ronda.core.plan import PermissionRule
from ronda.errors import BadConfig, BadRequest, RondaError, RunEnded
from ronda.testing import ScriptedModel, calls, says


def add(a: int, b: int) -> int:
    return a + b


class Count(pydantic.BaseModel):
    n: int


def ask(**options: Any) -> Any:
    return invoke_agent(Agent(ScriptedModel(says("3"))), "go", **options)


MISTAKES: dict[str, tuple[Callable[[], object], type[RondaError], str]] = {
    "no model": (
        lambda: Agent(model=None),  # type: ignore[arg-type]  # that is the mistake
        BadConfig,
        "None is no model; give a spec such as 'openai-chat:NAME', or an object with `async def call(request, show)`",
    ),
    "one tool that is no list": (
        lambda: Agent(ScriptedModel(), tools=add),  # type: ignore[arg-type]  # that is the mistake
        BadConfig,
        "tools are a list of functions; write tools=[add]",
    ),
    "one tool for the run that is no list": (
        lambda: ask(tools=add),
        BadConfig,
        "tools are a list of functions; write tools=[add]",
    ),
    "a name where the tool is meant": (
        lambda: Agent(ScriptedModel(), tools="add"),  # type: ignore[arg-type]  # that is the mistake
        BadConfig,
        "tools are a list of functions, not 'add'",
    ),
    "a number where the message is meant": (
        lambda: invoke_agent(Agent(ScriptedModel(says("3"))), 3),  # type: ignore[arg-type]  # that is the mistake
        BadRequest,
        "inputs are the user's message, a mapping with 'input', or a list of messages, {'role': …, 'content': …}",
    ),
    "messages that are none": (
        lambda: invoke_agent(Agent(ScriptedModel(says("3"))), ["go"]),  # type: ignore[list-item]  # that is the mistake
        BadRequest,
        "inputs is a list of messages, {'role': …, 'content': …}, or of turns; 'go' is neither",
    ),
    "a limit that is text": (
        lambda: ask(max_iterations="3"),
        BadRequest,
        "max_iterations is '3'; it is a number, and not below 0",
    ),
    "a limit below nothing": (
        lambda: ask(max_tokens=-1),
        BadRequest,
        "max_tokens is -1; it is a number, and not below 0",
    ),
    "a time that is none": (
        lambda: ask(max_seconds=-1),
        BadRequest,
        "max_seconds is -1; it is a number, and not below 0",
    ),
    "a misspelt choice": (
        lambda: ask(on_limit="anser"),
        BadRequest,
        "on_limit is 'anser'; it can be 'error' or 'answer'",
    ),
    "another misspelt choice": (
        lambda: ask(on_unknown_tool="ignore"),
        BadRequest,
        "on_unknown_tool is 'ignore'; it can be 'raise' or 'tell'",
    ),
    "a permission of no mode": (
        lambda: ask(permissions=[PermissionRule("maybe")]),  # type: ignore[arg-type]  # that is the mistake
        BadConfig,
        "permission 1: 'mode' is 'maybe'; it can be 'auto', 'ask' or 'deny'",
    ),
    "a permission for no pattern": (
        lambda: ask(permissions=[PermissionRule("ask", arguments={"/url": "("})]),
        BadConfig,
        "permission 1: '(' is no regular expression: missing ), unterminated subpattern at position 0",
    ),
    "an address without http": (
        lambda: Agent("openai-chat:x", base_url="localhost:8000/v1"),
        BadConfig,
        "the model's address is 'localhost:8000/v1': it must begin with http:// or https://",
    ),
}


@pytest.mark.parametrize(("mistake", "kind", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_the_mistake_is_named(mistake: Callable[[], object], kind: type[RondaError], said: str) -> None:
    with pytest.raises(kind) as caught:
        mistake()
    assert str(caught.value) == said


async def test_events_need_their_block() -> None:
    events = stream_agent(Agent(ScriptedModel(says("3"))), "go")
    for look in (lambda: events.result, lambda: events.run):
        with pytest.raises(RuntimeError, match=r"^write `async with stream_agent"):
            look()
    with pytest.raises(RuntimeError, match=r"^write `async with stream_agent"):
        async for _ in events:
            pass


def test_an_answer_may_be_a_pydantic_model() -> None:
    model = ScriptedModel(says('{"n": 1}'))
    assert invoke_agent(Agent(model, output=Count), "go") == Count(n=1)
    assert invoke_agent(Agent(ScriptedModel(says('[{"n": 1}]')), output=list[Count]), "go") == [Count(n=1)]


def test_an_answer_that_only_pydantic_refuses_is_an_error_with_the_conversation() -> None:
    class Even(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def is_even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("odd")
            return n

    with pytest.raises(RunEnded, match="odd") as caught:
        invoke_agent(Agent(ScriptedModel(says('{"n": 1}')), output=Even), "go")
    assert len(caught.value.messages) == 2


def test_tools_of_a_program_may_end_as_programs_do() -> None:
    def quit() -> str:
        raise SystemExit(3)

    model = ScriptedModel(calls("quit"), says("It failed."))
    assert invoke_agent(Agent(model, tools=[quit]), "go") == "It failed."
    why = "Error: Tool 'quit' failed: it tried to end the program: SystemExit(3)"
    assert model.heard[1][-1] == ToolTurn((ToolResult("call_0_0", why, failed=True),))
