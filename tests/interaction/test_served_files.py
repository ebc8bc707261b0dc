"""What a prompty file asks for acts in a server as it does in the library.

Each file is run by `run_agent`, and by every door of a server that serves its folder, against the same scripted model: the
model must be sent the same, the same tools must run, and the run must say the same of itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.interaction.doors import QUICK, Door, Json, Remembering, Served, soon
from tests.interaction.every_door import PATHS, Heard, read_plain, read_stream
from tests.tools.api_server import serve
from tests.tools.mcp.serving import TINY

from ronda import run_agent_async, tool
from ronda.core.events import Event
from ronda.core.request import ModelRequest
from ronda.drive import Tool
from ronda.errors import ExecuteError, RunEnded
from ronda.prompty.connections import register_connection
from ronda.prompty.mcp import clear_mcp_servers, register_mcp_servers
from ronda.prompty.registry import clear_tool_handlers, clear_tools, register_tool, register_tool_handler
from ronda.testing import Call, Line, ScriptedModel, calls, fails, says

DOORS = ("chat", "responses", "messages")
WORDS = "How is Paris?"
MOST_TOKENS = 1_000_000
ASKS = "user:\n{{q}}\n"


@dataclass
class Case:
    """A file, and what is asked of it. `inputs` are beside the user's words, which are the input `q`."""

    front_matter: Json = field(default_factory=dict)
    body: str = f"system:\nBe nice.\n\n{ASKS}"
    lines: Sequence[Line | str] = ("Fine.",)
    inputs: Json = field(default_factory=dict)
    model: Json = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        for name, text in self.files.items():
            (folder / name).write_text(text)
        path = folder / "agent.prompty"
        path.write_text(file_of(self.front_matter, self.body, **self.model))
        return path


def file_of(front_matter: Json, body: str, **model: Any) -> str:
    made = {
        "model": {"id": "m", "connection": {"kind": "reference", "name": "scripted"}, **model},
        "inputs": {"q": {"kind": "string", "required": True}},
    }
    return f"---\n{json.dumps({**made, **front_matter})}\n---\n{body}"


ran: list[tuple[str, Json]] = []


@tool
def weather(city: str, unit: str = "kelvin") -> str:
    """The weather in a city."""
    ran.append(("weather", {"city": city, "unit": unit}))
    return f"sun in {city}, in {unit}"


@tool
def broken(city: str) -> str:
    """Fails."""
    ran.append(("broken", {"city": city}))
    raise ValueError(f"no {city}")


@pytest.fixture(autouse=True)
def nothing_registered() -> Iterator[None]:
    ran.clear()
    yield
    clear_tools()
    clear_tool_handlers()
    clear_mcp_servers()


TOOLS: Sequence[Tool] = (weather, broken)
CITY = {"name": "city", "kind": "string", "required": True}
WEATHER = {"name": "weather", "kind": "function", "description": "Look it up.", "parameters": [CITY]}
BOUND = {**WEATHER, "parameters": [CITY, {"name": "unit", "kind": "string"}], "bindings": {"unit": "unit"}}
UNIT = {"q": {"kind": "string", "required": True}, "unit": {"kind": "string", "default": "celsius"}}
ASKS_WEATHER = calls("weather", city="Paris")
NUMBER = {"outputs": {"degrees": {"kind": "integer", "required": True}}}
OPTIONS = {
    "temperature": 0.5,
    "topP": 0.9,
    "maxOutputTokens": 50,
    "seed": 7,
    "frequencyPenalty": 0.1,
    "presencePenalty": 0.2,
    "topK": 3,
    "stopSequences": ["END"],
    "allowMultipleToolCalls": False,
    "additionalProperties": {"logit_bias": {"1": 2}},
}
CHILD = file_of({"tools": [WEATHER]}, "system:\nYou help.\n\nuser:\n{{q}}")
KINDS = {
    "q": {"kind": "string", "required": True},
    "number": {"kind": "integer", "default": 3},
    "float": {"kind": "float", "default": 0.5},
    "flag": {"kind": "boolean", "default": True},
    "list": {"kind": "array", "default": ["a", "b"]},
    "object": {"kind": "object", "default": {"a": 1}},
    "given": {"kind": "string", "required": True},
    "absent": {"kind": "string"},
}
EVERY_KIND = (
    "system:\n{{number}} {{float}} {{flag}} {% for one in list %}{{one}},{% endfor %}{{object.a}} {{given}}{{absent}}\n"
)
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

CASES = {
    "a prompt": Case(),
    "names and metadata": Case({"name": "n", "displayName": "N", "description": "d", "metadata": {"a": 1}}),
    "options of OpenAI": Case(model={"provider": "openai", "options": OPTIONS}),
    "options of Anthropic": Case(model={"provider": "anthropic", "options": OPTIONS}),
    "options of Gemini": Case(model={"provider": "gemini", "options": OPTIONS}),
    "inputs of every kind": Case({"inputs": KINDS}, EVERY_KIND + ASKS, inputs={"given": "g"}),
    "an input of its own choice": Case({"inputs": KINDS}, EVERY_KIND + ASKS, inputs={"given": "g", "list": [1, 2]}),
    "an image": Case(
        {"inputs": {"q": {"kind": "string", "required": True}, "photo": {"kind": "image"}}},
        "user:\n{{q}}\n{{photo}}",
        inputs={"photo": PIXEL},
    ),
    "mustache": Case({"template": {"format": "mustache", "parser": "prompty"}}, "system:\n{{#q}}Yes{{/q}}\n\n" + ASKS),
    "several roles": Case(body="developer:\nA\n\nuser[name=Bob]:\nB\n\nassistant:\nC\n\n" + ASKS),
    "values of the environment": Case(
        {"description": "${env:RONDA_TEST_CITY}", "inputs": UNIT | {"city": "${env:RONDA_TEST_CITY}"}},
        "system:\n{{city}}\n\n" + ASKS,
    ),
    "a file brought in": Case({"metadata": {"a": "${file:more.json}"}}, files={"more.json": '{"a": 1}'}),
    "structured": Case(NUMBER, lines=['{"degrees": 24}']),
    "structured at the second try": Case(NUMBER, lines=["warm", '{"degrees": 24}']),
    "structured never": Case(NUMBER, lines=["warm", "hot"]),
    "structured, and the second try fails": Case(NUMBER, lines=["warm", fails("down", 401)]),
    "a tool": Case({"tools": [WEATHER]}, lines=[ASKS_WEATHER, "Sunny."]),
    "a strict tool": Case({"tools": [{**WEATHER, "strict": True}]}, lines=[ASKS_WEATHER, "Sunny."]),
    "a bound parameter": Case({"inputs": UNIT, "tools": [BOUND]}, lines=[ASKS_WEATHER, "Sunny."]),
    "a bound parameter from the caller": Case(
        {"inputs": UNIT, "tools": [BOUND]}, lines=[ASKS_WEATHER, "Sunny."], inputs={"unit": "kelvin"}
    ),
    "a tool that fails": Case({"tools": [{**WEATHER, "name": "broken"}]}, lines=[calls("broken", city="Paris"), "No."]),
    "arguments that cannot be read": Case(
        {"tools": [WEATHER]}, lines=[calls(Call("weather", "{city:")), ASKS_WEATHER, "Sunny."]
    ),
    "two calls at once": Case(
        {"tools": [WEATHER]}, lines=[calls(Call("weather", {"city": "A"}), Call("weather", {"city": "B"})), "Sunny."]
    ),
    "two calls, one after the other": Case(
        {"tools": [WEATHER]},
        lines=[calls(Call("weather", {"city": "A"}), Call("weather", {"city": "B"})), "Sunny."],
        model={"options": {"allowMultipleToolCalls": False}},
    ),
    "a tool and structured output": Case({**NUMBER, "tools": [WEATHER]}, lines=[ASKS_WEATHER, '{"degrees": 24}']),
    "a registered tool": Case(
        {"tools": [{**WEATHER, "name": "registered"}]}, lines=[calls("registered", city="Paris"), "Sunny."]
    ),
    "a kind of tools": Case(
        {"tools": [{"name": "mine", "kind": "my_kind", "options": {"a": 1}, "bindings": {"q": "q"}}]},
        lines=[calls("mine", x=1), "Sunny."],
    ),
    "an MCP server": Case(
        {"tools": [{"name": "files", "kind": "mcp", "serverName": "tiny"}]}, lines=[calls("tiny_pid"), "I see."]
    ),
    "an MCP server that does not start": Case(
        {"tools": [{"name": "files", "kind": "mcp", "serverName": "gone"}]}, lines=[calls("files"), "I cannot."]
    ),
    "another file, once": Case(
        {"tools": [{"name": "helper", "kind": "prompty", "path": "child.prompty"}]},
        lines=[calls("helper", q="Help"), "Child.", "Parent."],
        files={"child.prompty": CHILD},
    ),
    "another file, with its tools": Case(
        {"tools": [{"name": "helper", "kind": "prompty", "path": "child.prompty", "mode": "agentic"}]},
        lines=[calls("helper", q="Help"), ASKS_WEATHER, "Child.", "Parent."],
        files={"child.prompty": CHILD},
    ),
    "another file, bound": Case(
        {"tools": [{"name": "helper", "kind": "prompty", "path": "child.prompty", "bindings": {"q": "q"}}]},
        lines=[calls("helper"), "Child.", "Parent."],
        files={"child.prompty": CHILD},
    ),
    "a model that fails": Case(lines=[fails("no key", 401)]),
    "a model that fails and is asked again": Case(lines=[fails("busy", 429), "Fine."]),
    "an answer that is cut off": Case(lines=[says("Fi", stop="length")]),
    "a wish for a stream": Case(model={"options": {"additionalProperties": {"stream": True}}}),
}


@dataclass
class Outcome:
    requests: list[Any]
    ran: list[tuple[str, Json]]
    events: list[list[Any]]
    answer: Any


def register_all() -> None:
    def registered(city: str) -> str:
        ran.append(("registered", {"city": city}))
        return "rain"

    def my_kind(declared: Any, arguments: Json, agent: Any, inputs: Json) -> str:
        ran.append((declared.name, {"arguments": arguments, "inputs": inputs}))
        return "snow"

    for one in TOOLS:
        register_tool(one.spec.name, one)
    register_tool("registered", registered)
    register_tool_handler("my_kind", my_kind)
    register_mcp_servers({"tiny": {"command": sys.executable, "args": [TINY]}, "gone": {"command": "/no/such/program"}})


def _plain(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else repr(value)


def sent(request: ModelRequest) -> Any:
    """What of a request a model gets to see."""
    shown = msgspec.structs.replace(request, stream=False, run="", scratch={}, room=None, max_bytes=0)
    return msgspec.to_builtins(shown, enc_hook=_plain)


def facts(events: Sequence[Event]) -> list[Any]:
    """What a run says of itself, without times and names, and without what its caller decides (its plan)."""
    told: list[Any] = [msgspec.to_builtins(event, enc_hook=_plain) for event in events[1:]]
    for one in told:
        one.pop("at", None)
        one.pop("first_at", None)
        if one.get("child"):
            one["child"] = "a run"
    return told


def outcome(model: ScriptedModel, events: Sequence[Sequence[Event]], answer: Any) -> Outcome:
    called, ran[:] = list(ran), []
    return Outcome([sent(one) for one in model.requests], called, [facts(one) for one in events], answer)


async def in_library(case: Case, path: Path) -> Outcome:
    model, journal = ScriptedModel(*case.lines), Remembering()
    register_connection("scripted", model)
    inputs = {"q": WORDS, **case.inputs}
    try:
        answer = (await run_agent_async(path, inputs, journal=journal, retry=QUICK)).output
    except RunEnded as error:
        answer = type(error)
    return outcome(model, [await journal.read(run) for run in journal.runs], answer)


async def at_door(case: Case, served: Served, door: str, stream: bool) -> tuple[Outcome, Heard]:
    model = ScriptedModel(*case.lines)
    register_connection("scripted", model)
    heard = await ask(served, door, stream, case.inputs)
    await served.all_over()
    return outcome(model, await served.events, heard.text), heard


async def ask(served: Served, door: str, stream: bool, inputs: Json, **more: Any) -> Heard:
    """Say the user's words to the agent; `max_tokens` is what a client of Messages cannot leave out."""
    body: Json = {"model": "agent", "stream": stream, "inputs": inputs, **more}
    body.setdefault("input" if door == "responses" else "messages", [{"role": "user", "content": WORDS}])
    if door == "messages":
        body.setdefault("max_tokens", MOST_TOKENS)
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    data = json.dumps(body).encode()
    async with soon(), served.http.post(f"{served.url}/{PATHS[door]}", data=data, headers=headers) as answer:
        said, is_stream = await answer.read(), answer.headers["content-type"].startswith("text/event-stream")
        return read_stream(door, said) if is_stream else read_plain(door, said, answer.status)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("asked", DOORS)
async def test_a_served_file_acts_as_in_the_library(
    door: Door, asked: str, stream: bool, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RONDA_TEST_CITY", "Paris")
    case = CASES[name]
    path = case.write(tmp_path)
    register_all()
    library = await in_library(case, path)
    clear_tools()  # those of the server are its own
    register_all()

    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
        here, heard = await at_door(case, served, asked, stream)

    if asked == "messages" and "maxOutputTokens" not in case.model.get("options", {}):
        for one in here.requests:  # the client's: the file has none
            one["options"].pop("max_tokens", None)
    assert here.requests == library.requests
    assert here.ran == library.ran
    assert here.events == library.events
    if library.answer is ExecuteError:
        assert heard.end == "error"
    else:
        assert heard.text == (library.answer if isinstance(library.answer, str) else json.dumps(library.answer))


BOUND_CHILD = file_of({"inputs": UNIT, "tools": [BOUND]}, "user:\n{{q}}")
STARTS_CHILD = {"tools": [{"name": "helper", "kind": "prompty", "path": "child.prompty", "mode": "agentic"}]}
THROUGH_CHILD: Sequence[Line | str] = [calls("helper", q="Help"), ASKS_WEATHER, "Child.", "Parent."]


@pytest.mark.parametrize("by", ["callback", "address"])
@pytest.mark.parametrize(
    "case",
    [
        Case({"inputs": UNIT, "tools": [BOUND]}, lines=[ASKS_WEATHER, "Sunny."]),
        Case(STARTS_CHILD, lines=THROUGH_CHILD, files={"child.prompty": BOUND_CHILD}),
    ],
    ids=["its own", "its child's"],
)
async def test_an_operators_functions_run_what_a_file_declares_with_what_it_binds(
    door: Door, case: Case, by: str, tmp_path: Path
) -> None:
    def weather(name: str, arguments: Json) -> str:
        ran.append((name, arguments))
        return "sun"

    case.write(tmp_path)
    async with serve() as api:
        settings: Any = {"callbacks": {"weather": weather}} if by == "callback" else {"tool_dispatch_url": api.url}
        async with door.serving(ScriptedModel(), agents=str(tmp_path), **settings) as served:
            here, heard = await at_door(case, served, "chat", False)
        dispatched = [json.loads(one["body"]) for one in api.asked]

    here.ran += [(one["name"], one["arguments"]) for one in dispatched]
    assert here.ran == [("weather", {"city": "Paris", "unit": "celsius"})]
    assert (heard.text, heard.calls) == (case.lines[-1], [])


@pytest.mark.parametrize("asked", DOORS)
@pytest.mark.parametrize(("wish", "limit"), [(20, 20), (500, 50)])
async def test_a_request_may_ask_for_a_shorter_answer_than_the_file_allows_and_for_no_longer_one(
    door: Door, asked: str, wish: int, limit: int, tmp_path: Path
) -> None:
    Case(model={"provider": "openai", "options": OPTIONS}).write(tmp_path)
    model = ScriptedModel(says("Fine."))
    register_connection("scripted", model)
    name = "max_output_tokens" if asked == "responses" else "max_tokens"

    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
        await ask(served, asked, False, {}, **{name: wish})

    [request] = model.requests
    assert request.options.max_tokens == limit
    assert bytes(request.options.extra["max_completion_tokens"]) == b"%d" % limit


@pytest.mark.parametrize("asked", DOORS)
@pytest.mark.parametrize("api", ["embedding", "image"])
async def test_a_file_without_a_conversation_is_refused(door: Door, asked: str, api: str, tmp_path: Path) -> None:
    Case(model={"provider": "openai", "apiType": api}).write(tmp_path)
    register_connection("scripted", ScriptedModel(says("never")))

    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
        heard = await ask(served, asked, False, {})

    assert heard.status == 400
    assert f"the API type '{api}'" in heard.error


async def test_the_operations_of_an_api_are_called_as_in_the_library(door: Door, tmp_path: Path) -> None:
    operation = {"operationId": "look", "parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}]}
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/look": {"get": operation}}}
    async with serve() as api:
        connection = {"kind": "key", "endpoint": api.url, "apiKey": "secret"}
        declared = {"name": "api", "kind": "openapi", "specification": "api.json", "connection": connection}
        case = Case(
            {"tools": [declared | {"bindings": {"q": "q"}}]},
            lines=[calls("look"), "Seen."],
            files={"api.json": json.dumps(document)},
        )
        library = await in_library(case, case.write(tmp_path))
        async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
            here, heard = await at_door(case, served, "chat", False)

    [first, second] = api.asked
    assert first["path"] == "/look?q=How%20is%20Paris%3F"
    assert first == second
    assert (here.requests, here.events, heard.text) == (library.requests, library.events, library.answer)


@pytest.mark.parametrize("asked", DOORS)
async def test_a_conversation_takes_the_place_of_a_thread(door: Door, asked: str, tmp_path: Path) -> None:
    talk = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "And?"},
    ]
    inputs = {"inputs": {"talk": {"kind": "thread"}, "tone": "nice"}}
    case = Case(inputs, "system:\nBe {{tone}}.\n\n{{talk}}\n\nuser:\nNow answer.")
    path = case.write(tmp_path)
    model = ScriptedModel("Fine.")
    register_connection("scripted", model)
    await run_agent_async(path, {"talk": talk, "tone": "curt"})
    library, served_model = model, ScriptedModel("Fine.")
    register_connection("scripted", served_model)

    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
        body: Json = {"input" if asked == "responses" else "messages": talk}
        await ask(served, asked, False, {"tone": "curt"}, **body)

    assert served_model.heard == library.heard


async def test_a_connection_that_is_registered_anew_is_used_by_the_next_request(door: Door, tmp_path: Path) -> None:
    Case().write(tmp_path)
    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
        answers = []
        for words in ("First.", "Second."):
            register_connection("scripted", ScriptedModel(words))
            answers.append((await ask(served, "chat", False, {})).text)

    assert answers == ["First.", "Second."]
