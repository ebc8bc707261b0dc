"""What people get wrong in code: an error that names the thing and the way out, before a model is called."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
import pytest

from ronda import Agent, Guardrails, Hooks, invoke_agent, resume_agent, run_agent, stream_agent, tool
from ronda.core.parts import Image, ToolResult, ToolTurn
from ronda.core.plan import PermissionRule
from ronda.errors import BadConfig, BadRequest, RunEnded
from ronda.journal.memory import MemoryJournal
from ronda.prompty.errors import PromptyNotFound
from ronda.testing import ScriptedModel, calls, says


def add(a: int, b: int) -> int:
    return a + b


class Count(pydantic.BaseModel):
    n: int


class AroundOnly:
    def around(self, run: object, provider: object) -> object:
        return provider

    def __repr__(self) -> str:
        return "AroundOnly()"


def ask(**options: Any) -> Any:
    return invoke_agent(Agent(ScriptedModel(says("3"))), "go", **options)


def agent(**fields: Any) -> Agent:
    return Agent(ScriptedModel(says("3")), **fields)


MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
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
        lambda: Agent(ScriptedModel(), tools="add"),
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
    "a path where the journal is meant": (
        lambda: ask(journal="runs.db"),
        BadRequest,
        "journal is 'runs.db'; write journal=SqliteJournal('runs.db'), from ronda.journal.sqlite",
    ),
    "a list where the journal is meant": (
        lambda: ask(journal=[]),
        BadRequest,
        "journal is []; write journal=SqliteJournal('runs.db'), from ronda.journal.sqlite",
    ),
    "no journal to resume from": (
        lambda: resume_agent("run_x", journal=None),  # type: ignore[arg-type]  # that is the mistake
        BadRequest,
        "resume_agent needs journal=…: where the run was kept from its start",
    ),
    "a path to resume from": (
        lambda: resume_agent("run_x", journal="runs.db"),  # type: ignore[arg-type]  # that is the mistake
        BadRequest,
        "journal is 'runs.db'; write journal=SqliteJournal('runs.db'), from ronda.journal.sqlite",
    ),
    "a list of guardrails": (
        lambda: ask(guardrails=[3]),
        BadRequest,
        "guardrails is [3]; write guardrails=Guardrails(tool=…)",
    ),
    "a guardrail that is no function": (
        lambda: ask(guardrails=Guardrails(tool=[add])),  # type: ignore[arg-type]  # that is the mistake
        BadRequest,
        f"the guardrail 'tool' is {[add]!r}; it has to be a function",
    ),
    "a schema that is none": (
        lambda: agent(output={"type": "objekt"}),
        BadConfig,
        'output is not a JSON Schema: /type: "objekt" is not one of "array", "boolean" or 5 other candidates',
    ),
    "an output that is no type": (
        lambda: agent(output=5),
        BadConfig,
        "output is 5; give a JSON Schema, or a type that msgspec or pydantic can read: Type '5' is not supported",
    ),
    "a number of tries": (lambda: agent(retry=3), BadConfig, "retry is 3; write retry=Retry(tries=3)"),
    "a number of tries for a run": (lambda: ask(retry=3), BadRequest, "retry is 3; write retry=Retry(tries=3)"),
    "one timeout": (
        lambda: agent(timeouts=3),
        BadConfig,
        "timeouts is 3; write timeouts=Timeouts(connect=10, first_byte=600, silence=120)",
    ),
    "instructions that are a list": (
        lambda: agent(instructions=["be brief"]),
        BadConfig,
        "instructions is ['be brief']; it is a text",
    ),
    "a key that is none, which is not shown": (
        lambda: agent(api_key=["sk-secret"]),
        BadConfig,
        "api_key is a list; it is a text",
    ),
    "a field that an agent does not have": (
        lambda: agent(instruction="be brief"),
        TypeError,
        "Agent has no field 'instruction'; did you mean 'instructions'?",
    ),
    "an option of the model as a field of an agent": (
        lambda: agent(temprature=0),
        TypeError,
        "Agent has no field 'temprature'; write options={'temperature': …}",
    ),
    "an option of a run as a field of an agent": (
        lambda: agent(max_itterations=3),
        TypeError,
        "Agent has no field 'max_itterations'; give it to the run: run_agent(agent, …, max_iterations=…)",
    ),
    "hooks that are a class": (
        lambda: ask(extensions=[Hooks]),
        BadRequest,
        "extensions is [<class 'ronda.agent.hooks.Hooks'>]; it is a list of objects with the methods 'around' and 'tap', such as "
        "[MyHooks()]",
    ),
    "an extension without a tap": (
        lambda: ask(extensions=[AroundOnly()]),
        BadRequest,
        "extensions is [AroundOnly()]; it is a list of objects with the methods 'around' and 'tap', such as [MyHooks()]",
    ),
    "a field that other libraries have": (
        lambda: agent(system_prompt="be brief"),
        TypeError,
        "Agent has no field 'system_prompt'; did you mean 'instructions'?",
    ),
    "a type of answer in the words of other libraries": (
        lambda: agent(response_format=dict),
        TypeError,
        "Agent has no field 'response_format'; did you mean 'output'?",
    ),
    "other libraries' limit as a field of an agent": (
        lambda: agent(max_turns=3),
        TypeError,
        "Agent has no field 'max_turns'; give it to the run: run_agent(agent, …, max_iterations=…)",
    ),
    "other libraries' limit of a run": (
        lambda: ask(max_turns=3),
        TypeError,
        "unknown option 'max_turns'; did you mean 'max_iterations'?",
    ),
    "an agent's field as an option of a run": (
        lambda: ask(instructions="be brief"),
        TypeError,
        "unknown option 'instructions'; it belongs to the agent: Agent(…, instructions=…)",
    ),
    "a method that other libraries have": (
        lambda: agent().run_sync("hi"),  # type: ignore[attr-defined]  # that is the mistake
        AttributeError,
        "an Agent has no attribute 'run_sync'; did you mean 'run'?",
    ),
    "the answer in the words of other libraries": (
        lambda: agent().run("go").final_output,  # type: ignore[attr-defined]  # that is the mistake
        AttributeError,
        "a Result has no attribute 'final_output'; did you mean 'output'?",
    ),
    "an attribute that is like none": (
        lambda: agent().run("go").colour,  # type: ignore[attr-defined]  # that is the mistake
        AttributeError,
        "a Result has no attribute 'colour'",
    ),
    "a field that is like none": (
        lambda: agent(colour="red"),
        TypeError,
        "Agent has no field 'colour'; there is api_key, api_version, base_url, description, instructions, model, name, options, "
        "output, retry, timeouts, tool_choice, tools, transport, vision",
    ),
    "a misspelt option of a run": (
        lambda: ask(max_itterations=3),
        TypeError,
        "unknown option 'max_itterations'; did you mean 'max_iterations'?",
    ),
    "a misspelt option of a run that is resumed": (
        lambda: resume_agent("run_x", journal=MemoryJournal(), on_events=print),  # type: ignore[call-arg]  # the mistake
        TypeError,
        "unknown option 'on_events'; did you mean 'on_event'? What a run was told to do is in its journal",
    ),
    "something to cancel with": (
        lambda: ask(cancel=True),
        BadRequest,
        "cancel is True; write cancel=Cancel(), and keep it to cancel the run",
    ),
    "an event handler that is none": (
        lambda: ask(on_event=[]),
        BadRequest,
        "on_event is []; give a function that is called with each event",
    ),
    "permissions by name": (
        lambda: ask(permissions=["ask"]),
        BadRequest,
        "permissions is ['ask']; write permissions=[PermissionRule('ask', tool='NAME')]",
    ),
    "a budget that is text": (
        lambda: ask(context_budget="9"),
        BadRequest,
        "context_budget is '9'; it is a number of characters",
    ),
    "a misspelt option of a tool": (
        lambda: tool(repeatble=True),  # type: ignore[call-overload]  # that is the mistake
        TypeError,
        "a tool has no option 'repeatble'; did you mean 'repeatable'?",
    ),
    "a timeout that is text": (
        lambda: tool(timeout="9")(add),  # type: ignore[call-overload]  # that is the mistake
        BadConfig,
        "timeout is '9'; it is a number of seconds, or None",
    ),
    "a tool without a name": (
        lambda: agent(tools=[lambda city: city]),
        BadConfig,
        "a lambda has no name for a model to call it by; write tool(name='…')(lambda …), or a function",
    ),
    "an address without http": (
        lambda: Agent("openai-chat:x", base_url="localhost:8000/v1"),
        BadConfig,
        "the model's address is 'localhost:8000/v1': it must begin with http:// or https://",
    ),
}


@pytest.mark.parametrize(("mistake", "kind", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_the_mistake_is_named(mistake: Callable[[], object], kind: type[Exception], said: str) -> None:
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


def test_events_are_read_in_an_async_loop() -> None:
    said = (
        "write `async with stream_agent(…) as events:` around what reads the events, and `async for event in events:`; "
        "without async, `for text in invoke_agent(…, stream=True):` gives the text of the answer"
    )
    events: Any = stream_agent(agent(), "go")
    with pytest.raises(TypeError) as caught:
        for _ in events:
            pass
    assert str(caught.value) == said
    with pytest.raises(TypeError, match=r"^write `async with stream_agent"), events:
        pass


def test_a_lambda_with_a_name_is_a_tool() -> None:
    double = tool(name="double")(lambda x: x * 2)
    assert run_agent(Agent(ScriptedModel(calls("double", x=2), says("4")), tools=[double]), "go").output == "4"


class Opaque:
    """Says nothing of itself."""


class Known(Opaque):
    def __str__(self) -> str:
        return "known"


@pytest.mark.parametrize("value", [Opaque(), [Opaque()], {"a": Opaque()}, [Opaque(), Image("https://a.example/b.png")]])
def test_a_result_that_tells_the_model_nothing_is_warned_of(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    def look() -> Any:
        return value

    invoke_agent(Agent(ScriptedModel(calls("look"), says("done")), tools=[look]), "go")

    [record] = caplog.records
    assert (record.name, record.levelname) == ("ronda.tools", "WARNING")
    assert record.message.startswith("the tool 'look' returned something of type 'Opaque', of which the model reads <")


def test_a_result_that_has_a_text_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    def look() -> Any:
        return [Known(), decimal.Decimal(3), Path("a"), Count(n=1)]

    invoke_agent(Agent(ScriptedModel(calls("look"), says("done")), tools=[look]), "go")

    assert caplog.records == []


def test_an_answer_may_be_a_pydantic_model() -> None:
    model = ScriptedModel(says('{"n": 1}'))
    assert invoke_agent(Agent(model, output=Count), "go") == Count(n=1)
    assert invoke_agent(Agent(ScriptedModel(says('{"value": [{"n": 1}]}')), output=list[Count]), "go") == [Count(n=1)]


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
    def leave() -> str:
        raise SystemExit(3)

    model = ScriptedModel(calls("leave"), says("It failed."))
    assert invoke_agent(Agent(model, tools=[leave]), "go") == "It failed."
    why = "Error: Tool 'leave' failed: it tried to end the program: SystemExit(3)"
    assert model.heard[1][-1] == ToolTurn((ToolResult("call_0_0", why, failed=True),))


@pytest.mark.parametrize("model", ["openai:gpt-5.5", "gpt-5.5"])
def test_a_model_in_the_place_of_an_agent_is_told_apart_from_a_file(model: str) -> None:
    with pytest.raises(PromptyNotFound, match=r"; for a model write Agent\('openai:gpt-5.5'\)$"):
        run_agent(model, "hi")
