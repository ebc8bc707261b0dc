"""Who runs a tool that a file declares: the run's own handlers, the registries, the kinds; and what each of them is given."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from datetime import date
from typing import Any

import msgspec
import pytest

from ronda import ToolContext, ToolOutput, invoke_agent, tool
from ronda.core.parts import ToolResult, ToolTurn
from ronda.core.plan import ToolSpec
from ronda.drive import Tool
from ronda.errors import BadConfig, ToolMissing
from ronda.prompty import Prompty, clear_connections, loads, register_connection
from ronda.prompty.model import CustomTool, FunctionTool
from ronda.prompty.registry import (
    bind_tools,
    clear_tool_handlers,
    clear_tools,
    get_tool,
    get_tool_handler,
    register_tool,
    register_tool_handler,
)
from ronda.prompty.tool_kinds import tools_of
from ronda.providers.script import Call, ScriptedModel, calls, says

CONTEXT = ToolContext("run", "", 0, "call")


@pytest.fixture(autouse=True)
def nothing_registered() -> Iterator[None]:
    yield
    clear_connections()
    clear_tools()
    clear_tool_handlers()


def agent(tools: str, inputs: str = "{}") -> Prompty:
    front = f"model: {{id: m, connection: {{kind: reference, name: model}}}}\ninputs: {inputs}\ntools: {tools}"
    return loads(f"---\n{front}\n---\nuser:\ngo\n")


def asked(prompty: Prompty, name: str, tools: Any = None, arguments: Any = None, **inputs: Any) -> ToolResult:
    """What the model reads of one call, through the door that users use."""
    model = ScriptedModel(calls(Call(name, arguments or {}, "c1")), says("done"))
    register_connection("model", model)
    assert invoke_agent(prompty, inputs, tools) == "done"
    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    return turn.results[0]


WEATHER = "[{name: weather, kind: function, parameters: {city: {kind: string, required: true}, unit: {kind: string}}}]"
BOUND = WEATHER.replace("}]", ", bindings: {unit: unit}}]")


def schema_of(made: Tool) -> Any:
    return msgspec.json.decode(made.spec.parameters)


# ---- who runs it -------------------------------------------------------------------------------------------------------


def test_the_run_s_handler_comes_before_the_name_s_and_that_before_the_kind_s() -> None:
    prompty = agent(WEATHER)
    register_tool_handler("function", lambda tool, args, agent, inputs: "kind")
    assert asked(prompty, "weather", None, {"city": "x"}).content == "kind"
    register_tool("weather", lambda city: "name")
    assert asked(prompty, "weather", None, {"city": "x"}).content == "name"
    assert asked(prompty, "weather", {"weather": lambda city: "run"}, {"city": "x"}).content == "run"
    assert asked(prompty, "weather", None, {"city": "x"}).content == "name"  # neither was changed


def test_functions_can_be_given_by_themselves() -> None:
    def weather(city: str) -> str:
        return f"sun in {city}"

    assert asked(agent(WEATHER), "weather", [weather], {"city": "Rome"}).content == "sun in Rome"


def test_a_declared_tool_that_nobody_runs_ends_the_run() -> None:
    register_connection("model", ScriptedModel(calls("weather", city="x"), says("never")))

    with pytest.raises(ToolMissing) as missing:
        invoke_agent(agent(WEATHER))
    assert isinstance(missing.value, ValueError)
    assert str(missing.value) == "No handler registered for tool: weather (kind: function)"


def test_a_kind_that_nobody_knows_is_named_when_it_is_called() -> None:
    register_connection("model", ScriptedModel(calls("mine"), says("never")))

    with pytest.raises(ValueError, match=r"^No handler registered for tool: mine \(kind: my_kind\)$"):
        invoke_agent(agent("[{name: mine, kind: my_kind}]"))


def test_a_tool_that_is_not_declared_ends_the_run() -> None:
    register_connection("model", ScriptedModel(calls("unknown"), says("never")))
    register_tool("unknown", lambda: "a registered name alone declares nothing")

    with pytest.raises(ValueError, match=r"^Tool not registered: unknown$"):
        invoke_agent(agent(WEATHER), tools={"weather": lambda city: city})


def test_a_tool_that_is_missing_does_no_harm_while_nobody_calls_it() -> None:
    register_connection("model", ScriptedModel(says("done")))

    assert invoke_agent(agent("[{name: mine, kind: my_kind}]")) == "done"


async def test_what_is_given_to_a_run_and_not_declared_is_a_tool_as_its_signature_says() -> None:
    def more(n: int) -> str:
        """Say more."""
        return "more" * n

    made = await tools_of(agent(WEATHER), [more])

    assert list(made) == ["weather", "more"]
    assert made["more"].spec.description == "Say more."
    assert await made["more"].run({"n": 2}, CONTEXT) == ToolOutput("moremore")
    assert list(await tools_of(loads("hi"), {"again": more})) == ["again"]


def test_two_functions_of_one_name_are_refused() -> None:
    def weather(city: str) -> str:
        return city

    register_connection("model", ScriptedModel(says("never")))
    with pytest.raises(BadConfig, match="two tools are named 'weather'"):
        invoke_agent(agent(WEATHER), tools=[weather, tool(weather)])


# ---- what a handler is given -------------------------------------------------------------------------------------------


async def test_the_model_sees_what_the_file_says_not_what_the_function_says() -> None:
    @tool(repeatable=True, timeout=5, exclusive="key")
    def weather(city: str, unit: str = "kelvin", secret: int = 3) -> str:
        """Something else."""
        return city

    file = agent(WEATHER.replace("kind: function", "kind: function, description: The weather."))
    spec = (await tools_of(file, [weather]))["weather"].spec

    assert spec == ToolSpec(
        name="weather",
        description="The weather.",
        parameters=spec.parameters,
        repeatable=True,
        exclusive="key",
        timeout=5,
    )
    assert msgspec.json.decode(spec.parameters) == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
        "required": ["city"],
    }


def test_arguments_come_as_the_types_that_the_function_asks_for() -> None:
    seen: list[Any] = []

    def book(day: date, context: ToolContext) -> str:
        seen.append((day, context.call_id))
        return "booked"

    file = agent("[{name: book, kind: function, parameters: {day: {kind: string}}}]")
    assert asked(file, "book", [book], {"day": "2026-05-06"}).content == "booked"
    assert seen == [(date(2026, 5, 6), "c1")]


async def test_a_handler_may_be_plain_async_or_take_all_arguments_together() -> None:
    async def wait(city: str) -> str:
        await asyncio.sleep(0)
        return f"async {city}"

    async def all_async(args: dict[str, Any]) -> str:
        return f"async {args}"

    class Callable:
        def __call__(self, city: str) -> str:
            return f"object {city}"

    handlers: list[tuple[Any, str]] = [
        (lambda city: f"plain {city}", "plain x"),
        (lambda **kw: f"named {kw}", "named {'city': 'x'}"),
        (lambda args: f"all {args}", "all {'city': 'x'}"),
        (wait, "async x"),
        (all_async, "async {'city': 'x'}"),
        (Callable(), "object x"),
        (tool(wait), "async x"),
    ]
    for handler, said in handlers:
        made = await tools_of(agent(WEATHER), {"weather": handler})
        assert (await made["weather"].run({"city": "x"}, CONTEXT)).content == said


def test_what_a_handler_raises_is_news_for_the_model() -> None:
    def weather(city: str) -> str:
        raise OSError("no network")

    assert asked(agent(WEATHER), "weather", [weather], {"city": "x"}) == ToolResult(
        "c1", "Error: Tool 'weather' failed: OSError: no network", failed=True
    )


def test_a_strict_tool_s_null_for_something_optional_is_nothing() -> None:
    file = agent(WEATHER.replace("kind: function", "kind: function, strict: true"))

    def weather(city: str, unit: str = "kelvin") -> str:
        return f"{city} in {unit}"

    assert asked(file, "weather", [weather], {"city": "x", "unit": None}).content == "x in kelvin"


# ---- bindings ----------------------------------------------------------------------------------------------------------


def test_a_bound_parameter_is_filled_in_whatever_the_model_writes() -> None:
    def weather(city: str, unit: str = "kelvin") -> str:
        return f"{city} in {unit}"

    file = agent(BOUND, "{unit: celsius}")
    for arguments in ({"city": "x"}, {"city": "x", "unit": "rankine"}):
        assert asked(file, "weather", [weather], arguments).content == "x in celsius"
    assert asked(file, "weather", [weather], {"city": "x"}, unit="réaumur").content == "x in réaumur"


def test_a_binding_whose_input_is_absent_leaves_what_the_model_wrote() -> None:
    def weather(city: str, unit: str = "kelvin") -> str:
        return f"{city} in {unit}"

    assert asked(agent(BOUND), "weather", [weather], {"city": "x", "unit": "rankine"}).content == "x in rankine"
    assert asked(agent(BOUND), "weather", [weather], {"city": "x"}).content == "x in kelvin"


def test_a_kind_s_handler_is_given_what_the_model_wrote_for_an_input_that_is_absent() -> None:
    seen: list[Any] = []
    register_tool_handler("sql", lambda declared, arguments, agent, inputs: seen.append(arguments))

    asked(agent("[{name: query, kind: sql, bindings: {user: who}}]"), "query", None, {"where": "x", "user": "eve"})
    assert seen == [{"where": "x", "user": "eve"}]


async def test_the_model_does_not_see_a_bound_parameter() -> None:
    made = await tools_of(agent(BOUND.replace("unit: {kind: string}", "unit: {kind: string, required: true}")))

    assert schema_of(made["weather"]) == {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    assert made["weather"].spec.bound == ()  # there is no such input
    given = await tools_of(agent(BOUND), None, {"unit": "celsius"})
    assert given["weather"].spec.bound == ("unit",)


async def test_a_bound_value_comes_as_it_is() -> None:
    class Connection:
        """Nothing that JSON could say."""

    connection = Connection()
    seen: list[Any] = []

    def weather(city: str, unit: Connection) -> str:
        seen.append(unit)
        return city

    for handler in (weather, tool(bindings={"unit": "other"})(weather)):
        made = await tools_of(agent(BOUND), {"weather": handler}, {"unit": connection, "other": "not this"})
        await made["weather"].run({"city": "x"}, CONTEXT)
    assert seen == [connection, connection]


async def test_what_a_function_binds_itself_is_filled_in_too() -> None:
    @tool(bindings={"unit": "preferred"})
    def weather(city: str, unit: str) -> str:
        return f"{city} in {unit}"

    made = await tools_of(agent(WEATHER), [weather], {"preferred": "celsius"})

    assert made["weather"].spec.bound == ("unit",)
    assert (await made["weather"].run({"city": "x"}, CONTEXT)).content == "x in celsius"


# ---- kinds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_kind_s_handler_is_given_tool_arguments_agent_and_inputs(is_async: bool) -> None:
    seen: list[Any] = []

    def handle(*given: Any) -> dict[str, int]:
        seen.append(given)
        return {"rows": 2}

    async def handle_later(*given: Any) -> dict[str, int]:
        await asyncio.sleep(0)
        return handle(*given)

    register_tool_handler("sql", handle_later if is_async else handle)
    file = agent("[{name: query, kind: sql, options: {table: pets}, bindings: {user: who}}]", "{who: ada}")

    assert asked(file, "query", None, {"where": "x", "user": "eve"}).content == '{"rows":2}'
    assert seen == [(file.tools[0], {"where": "x", "user": "ada"}, file, {"who": "ada"})]
    assert isinstance(file.tools[0], CustomTool)


async def test_a_kind_s_handler_or_the_file_says_what_the_model_sees() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]}

    def handle(*given: Any) -> str:
        return "ok"

    register_tool_handler("sql", handle)
    options = "options: {parameters: {type: object, properties: {a: {type: string}, b: {}}, required: [a, b]}}"
    from_file = await tools_of(agent(f"[{{name: q, kind: sql, {options}, bindings: {{b: i}}}}]"))
    handle.parameters = schema  # type: ignore[attr-defined]  # as the one who registers it may do
    from_handler = await tools_of(agent("[{name: q, kind: sql, bindings: {b: i}}]"))

    for made in (from_file, from_handler):
        assert schema_of(made["q"]) == {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": ["a"],
        }


def test_an_object_that_executes_tools_is_a_handler_too() -> None:
    class Handler:
        def execute_tool(self, tool: Any, args: Any, agent: Any, inputs: Any) -> str:
            return f"{tool.name}: {args}"

    register_tool_handler("sql", Handler())

    assert asked(agent("[{name: q, kind: sql}]"), "q", None, {"a": 1}).content == "q: {'a': 1}"


def test_a_handler_for_every_kind_takes_those_that_nobody_knows_and_no_others() -> None:
    register_tool_handler("*", lambda tool, args, agent, inputs: f"any {tool.kind}")

    assert asked(agent("[{name: q, kind: sql}]"), "q").content == "any sql"
    register_connection("model", ScriptedModel(calls("weather", city="x")))
    with pytest.raises(ToolMissing):
        invoke_agent(agent(WEATHER))


@pytest.mark.parametrize("kind", ["mcp, serverName: s", "prompty, path: nowhere.prompty", "openapi, specification: x"])
def test_a_registered_handler_replaces_a_built_in_kind(kind: str) -> None:
    register_tool_handler(kind.split(",")[0], lambda tool, args, agent, inputs: f"mine: {args}")

    assert asked(agent(f"[{{name: t, kind: {kind}}}]"), "t", None, {"a": 1}).content == "mine: {'a': 1}"


@pytest.mark.parametrize("kind", ["mcp, serverName: s", "prompty, path: nowhere.prompty", "openapi, specification: x"])
async def test_a_handler_of_the_name_replaces_a_tool_of_any_kind(kind: str) -> None:
    def handle(a: int, user: str = "nobody") -> str:
        """Handle it."""
        return f"{a} for {user}"

    made = await tools_of(agent(f"[{{name: t, kind: {kind}, bindings: {{user: who}}}}]"), {"t": handle}, {"who": "ada"})

    assert list(schema_of(made["t"])["properties"]) == ["a"]
    assert (await made["t"].run({"a": 1}, CONTEXT)).content == "1 for ada"


# ---- the registries ----------------------------------------------------------------------------------------------------


def test_what_is_registered_can_be_asked_for_and_forgotten() -> None:
    def handle(*given: Any) -> str:
        return "ok"

    register_tool("t", handle)
    register_tool_handler("k", handle)
    assert (get_tool("t"), get_tool_handler("k")) == (handle, handle)
    clear_tools()
    clear_tool_handlers()
    assert (get_tool("t"), get_tool_handler("k")) == (None, None)


def test_something_that_cannot_be_called_is_not_registered() -> None:
    with pytest.raises(BadConfig, match="the handler of tool 't' cannot be called"):
        register_tool("t", 3)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(BadConfig, match="the handler of kind 'k' cannot be called"):
        register_tool_handler("k", 3)


TWO = agent("[{name: one, kind: function}, {name: two, kind: function}, {name: other, kind: sql}]")


def one() -> str:
    return "1"


def two() -> str:
    return "2"


def test_functions_are_bound_to_what_an_agent_declares() -> None:
    before = msgspec.structs.replace(TWO)

    assert bind_tools(TWO, [one, two]) == {"one": one, "two": two}
    assert before == TWO
    assert get_tool("one") is None


def test_a_function_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Duplicate tool handler: one$"):
        bind_tools(TWO, [one, tool(one), two])


def test_a_function_that_is_not_declared_is_refused() -> None:
    def other() -> str:
        return "declared, but as no function"

    text = "Tool handler 'other' has no matching declaration in agent.tools. Declared function tools: one, two"
    with pytest.raises(ValueError, match=f"^{text}$"):
        bind_tools(TWO, [one, two, other])
    with pytest.raises(ValueError, match=r"Declared function tools: \(none\)$"):
        bind_tools(loads("hi"), [one])


def test_a_declared_function_without_a_handler_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="'two' is declared in agent.tools but has no handler"):
        assert bind_tools(TWO, [one]) == {"one": one}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bind_tools(TWO, [one, two])


def test_a_declaration_in_code_is_as_good_as_one_in_a_file() -> None:
    made = Prompty(tools=(FunctionTool(name="one"),))

    assert bind_tools(made, [one]) == {"one": one}
