"""Requests in the shape that widespread clients send them, and answers in the shape that those can read.

Agents and libraries that were tried against this server by hand, each with what it cannot do without. The clients
themselves are not here: what they send is written down, and where one is an official SDK it is asked.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from tests.interaction.doors import Door, Json
from tests.interaction.upstreams import Exchange, Upstream, call, completes, streams
from tests.server.messages_door import asking
from tests.server.mistral_doors import serving as serving_mistral
from tests.server.responses_door import ask, connected, items_of, output, post, text

from ronda import tool
from ronda.core.limits import Retry
from ronda.core.parts import AssistantTurn, Native, Reasoning, Text, ToolCall, ToolResult, ToolTurn, user
from ronda.providers import Where, open_provider
from ronda.testing import Call, ScriptedModel, calls, says
from ronda.wire.openai_chat import API as CHAT
from ronda.wire.openai_chat.quirks import OPENAI
from ronda.wire.openai_chat.turns import Messages

ECHO: Json = {
    "type": "function",
    "function": {"name": "echo", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}},
}


# ---- Mistral's clients, which share the address of Chat Completions -----------------------------------------------------


async def test_mistrals_sdk_reads_the_calls_of_a_streamed_answer(door: Door) -> None:
    two = calls(
        Call("echo", {"text": "a long text"}, "call_one"), Call("echo", {"text": "b"}, "call_two"), text="Wait."
    )

    async with serving_mistral(door, ScriptedModel(two)) as behind, behind.client() as client:
        stream = await client.chat.stream_async(
            model="default", messages=[{"role": "user", "content": "go"}], tools=[ECHO]
        )
        deltas = [chunk.data.choices[0].delta async for chunk in stream]

    whole = [
        (call.id, call.function.name, call.function.arguments)
        for delta in deltas
        if isinstance(delta.tool_calls, list)
        for call in delta.tool_calls
    ]
    assert whole == [("call_one", "echo", '{"text":"a long text"}'), ("call_two", "echo", '{"text":"b"}')]
    assert "".join(delta.content for delta in deltas if isinstance(delta.content, str)) == "Wait."


async def test_mistrals_clients_find_text_beside_a_call_even_if_it_is_empty(door: Door) -> None:
    async with serving_mistral(door, ScriptedModel(calls("echo"))) as behind, behind.client() as client:
        answer = await client.chat.complete_async(
            model="default", messages=[{"role": "user", "content": "go"}], tools=[ECHO]
        )

    assert answer.choices[0].message.content == ""


THOUGHT: list[Json] = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "A "}, {"type": "text", "text": "greeting."}]},
    {"type": "text", "text": "Hello"},
    {"type": "reference", "reference_ids": [1]},
    {"type": "text", "text": "!"},
]


async def test_mistrals_sdk_may_send_back_what_a_model_thought(door: Door) -> None:
    model = ScriptedModel(says("Again."))
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": THOUGHT}]

    async with serving_mistral(door, model) as behind, behind.client() as client:
        await client.chat.complete_async(model="default", messages=[*history, {"role": "user", "content": "again"}])

    said = model.heard[0][1]
    assert isinstance(said, AssistantTurn)
    assert said.parts == (Reasoning("A greeting."), Text("Hello"), Text("!"))


@pytest.mark.parametrize("thought", ["a text", [], [{"type": "text"}], ""])
async def test_a_thought_may_be_a_text_or_nothing(door: Door, thought: object) -> None:
    chunks = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": "Hello"}]
    async with door.serving(ScriptedModel(says("Again."))) as served:
        answer = await served.post(
            {"messages": [{"role": "assistant", "content": chunks}, {"role": "user", "content": "x"}]}
        )

    assert answer.status == 200


async def test_a_thought_stands_in_what_an_assistant_said_alone(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        answer = await served.post({"messages": [{"role": "user", "content": THOUGHT}]})

    assert (answer.status, answer.error["param"]) == (400, "messages[0].content[0].type")


async def test_thoughts_in_mistrals_form_go_to_an_upstream_that_thinks_so_and_never_to_openai(door: Door) -> None:
    said: dict[str, Any] = {"role": "assistant", "content": THOUGHT}
    thinks = completes(None, **said)
    async with Upstream(thinks, completes("Again.")) as upstream, door.serving(upstream.url) as served:
        for _ in range(2):
            await served.post({"messages": [said, {"role": "user", "content": "again"}]})

    assert [request["messages"][0]["content"] for request in upstream.requests] == ["Hello!", THOUGHT]
    turn = AssistantTurn(
        (Reasoning("A greeting."), Text("Hello!")), "stop", Native(CHAT, msgspec.Raw(json.dumps(said).encode()))
    )
    assert json.loads(Messages(quirks=OPENAI).write(turn)) == {"role": "assistant", "content": "Hello!"}


async def test_any_is_mistrals_word_for_required(door: Door) -> None:
    model = ScriptedModel(calls(Call("echo", {"text": "a"})))
    async with door.serving(model) as served:
        answer = await served.post(
            {"messages": [{"role": "user", "content": "go"}], "tools": [ECHO], "tool_choice": "any"}
        )

    assert (answer.status, model.requests[0].choice.mode) == (200, "required")


@pytest.mark.parametrize("said", [True, False])
async def test_calls_are_streamed_in_pieces_or_whole_as_the_stream_options_say(door: Door, said: bool) -> None:
    async with door.serving(ScriptedModel(calls(Call("echo", {"text": "a long text"})))) as served:
        answer = await served.post(
            {
                "messages": [{"role": "user", "content": "go"}],
                "tools": [ECHO],
                "stream": True,
                "stream_options": {"include_usage": True, "stream_tool_calls": said},
            }
        )

    pieces = [
        call for chunk in answer.chunks for one in chunk["choices"] for call in one["delta"].get("tool_calls", ())
    ]
    assert (len(pieces) > 1, answer.said.calls) == (said, [("call_0_0", "echo", '{"text":"a long text"}')])


async def test_a_call_in_one_piece_has_its_signature_in_it(door: Door) -> None:
    signed = {"functionCall": {"name": "echo", "args": {"text": "a"}}, "thoughtSignature": "c2lnbmVk"}
    model = "gemini-3-pro"
    said = {"candidates": [{"content": {"role": "model", "parts": [signed]}, "finishReason": "STOP"}]}
    asked = {"messages": [{"role": "user", "content": "go"}], "tools": [ECHO], "stream": True}
    async with (
        Upstream(streams(said)) as upstream,
        door.serving(open_provider(f"gemini:{model}", Where(upstream.url))) as served,
    ):
        answer = await served.post({**asked, "stream_options": {"stream_tool_calls": False}})

    (call,) = [
        call for chunk in answer.chunks for one in chunk["choices"] for call in one["delta"].get("tool_calls", ())
    ]
    assert call["function"] == {"name": "echo", "arguments": '{"text":"a"}'}
    assert call["extra_content"] == {"google": {"thought_signature": "c2lnbmVk", "model": model}}


NAMELESS = [  # LangChain's in JavaScript, and in Python where it is told to say one of Mistral's words
    ({"safe_prompt": False}, "node"),
    ({"temperature": 0.7, "top_p": 1, "random_seed": 3}, "python-httpx/0.28.1"),
    ({"temperature": 0.7, "top_p": 1, "safe_prompt": False}, "python-httpx/0.28.1"),
]


@pytest.mark.parametrize(("words", "agent"), NAMELESS)
async def test_a_client_of_mistrals_that_does_not_say_who_it_is_gets_its_shapes_all_the_same(
    door: Door, words: Json, agent: str
) -> None:
    """LangChain takes a piece of a call without an id for another call."""
    asked = {"messages": [{"role": "user", "content": "go"}], "tools": [ECHO], "stream": True, **words}
    async with door.serving(ScriptedModel(calls(Call("echo", {"text": "a long text"}, "call_1")))) as served:
        answer = await served.post(asked, headers={"user-agent": agent})

    pieces = [
        call for chunk in answer.chunks for one in chunk["choices"] for call in one["delta"].get("tool_calls", ())
    ]
    assert [piece["function"] for piece in pieces] == [{"name": "echo", "arguments": '{"text":"a long text"}'}]


async def test_a_plain_httpx_gets_a_call_in_pieces(door: Door) -> None:
    """Also one that says how to sample: that is no sign of who it is."""
    sampling = {"temperature": 0.7, "top_p": 1}
    asked = {"messages": [{"role": "user", "content": "go"}], "tools": [ECHO], "stream": True, **sampling}
    async with door.serving(ScriptedModel(calls(Call("echo", {"text": "a long text"}, "call_1")))) as served:
        answer = await served.post(asked, headers={"user-agent": "python-httpx/0.28.1"})

    assert len([one for chunk in answer.chunks for one in chunk["choices"] if "tool_calls" in one["delta"]]) > 1


@pytest.mark.parametrize("stream", [True, False])
async def test_ids_of_ours_are_what_mistrals_clients_take_for_ids(door: Door, stream: bool) -> None:
    """LangChain's makes others of those that are not nine letters and digits, and our half of the turn was not found again."""
    model = ScriptedModel(calls(Call("ours", {}, "call_1"), Call("echo", {"text": "a"}, "call_2")), says("Done."))
    asked: Json = {"messages": [{"role": "user", "content": "go"}], "tools": [ECHO], "safe_prompt": False}

    @tool
    async def ours() -> str:
        """Ours."""
        return "ran"

    async with door.serving(model, ours) as served:
        (called,) = (await served.post({**asked, "stream": stream})).said.calls
        call_id = called[0]
        said = {"role": "assistant", "content": "", "tool_calls": [_call_of_chat(*called)]}
        result = {"role": "tool", "tool_call_id": call_id, "name": "echo", "content": "a"}
        await served.post({**asked, "messages": [*asked["messages"], said, result]})

    assert re.fullmatch("[a-zA-Z0-9]{9}", call_id)
    assert [one.content for one in model.heard[1][-1].results] == ["ran", "a"]  # type: ignore[union-attr]  # the results


def _call_of_chat(id: str, name: str, arguments: str) -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


async def test_mistrals_word_for_a_seed_is_understood(door: Door) -> None:
    model = ScriptedModel(says("Hello."), says("Hello."))
    async with serving_mistral(door, model) as behind, behind.client() as client:
        asked = {"model": "default", "messages": [{"role": "user", "content": "go"}]}
        await client.chat.complete_async(**asked, random_seed=7)
        await behind.ask("POST", "/v1/chat/completions", {**asked, "random_seed": None, "seed": 8})

    assert [(request.options.seed, list(request.options.extra)) for request in model.requests] == [(7, []), (8, [])]


async def test_mistrals_sdk_lists_the_models(door: Door) -> None:
    async with serving_mistral(door, ScriptedModel(says("Hello."))) as behind, behind.client() as client:
        listed = await client.models.list_async()
        one = await client.models.retrieve_async(model_id="default")

    assert [(model.id, model.capabilities.function_calling) for model in listed.data] == [
        ("default", True),
        ("test", True),
    ]
    assert (one.id, one.capabilities.completion_chat) == ("default", True)


async def test_anthropics_sdk_lists_the_models(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hello."))), asking(door) as client:
        listed = await client.models.list()
        one = await client.models.retrieve("default")

    names = [(model.id, model.type, model.display_name) for model in listed.data]
    assert names == [("default", "model", "default"), ("test", "model", "test")]
    assert (listed.has_more, listed.first_id, listed.last_id) == (False, "default", "test")
    assert one.to_dict() == listed.data[0].to_dict()


# ---- OpenAI's SDKs of earlier years, and readers of their streams ----------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "is_named"),
    [
        ("OpenAI/Python 1.55.3", False),
        ("AsyncAzureOpenAI/Python 1.97.2", False),
        ("OpenAI/JS 4.104.0", False),
        ("OpenAI/Python 1.98.0", True),
        ("OpenAI/JS 6.49.0", True),
        ("AsyncOpenAI/Python 3.49.0", True),
        ("OpenAI/Go 1.2.3", True),
        ("OpenAI/Python 99999999999999999999.1.1", True),
    ],
)
async def test_a_client_that_misreads_events_with_names_gets_none(door: Door, agent: str, is_named: bool) -> None:
    """They hand such an event out inside another object, which has no `choices`."""

    @tool
    async def ours() -> str:
        """Ours."""
        return "ran"

    async with door.serving(ScriptedModel(calls("ours"), says("Done.")), ours) as served:
        answer = await post(served, {"messages": "go", "stream": True}, "/chat/completions", **{"user-agent": agent})

    progress = [(name, json.loads(data)) for name, data in answer.events if "agentic" in data]
    name = "agentic_tool_call_progress"
    assert [event for event, _ in progress] == [name if is_named else "message"] * 2
    assert {(said["type"], said["choices"][0]["delta"]["content"]) for _, said in progress} == {(name, "")}


async def test_an_error_inside_a_stream_is_no_chunk(door: Door) -> None:
    """Readers that know chunks by their `choices` look for an error only in what has none."""
    async with door.serving(ScriptedModel({"text": "Hello you", "cut": True}), retry=Retry(tries=1)) as served:
        answer = await served.post({"messages": "go", "stream": True})

    *_, last, error = answer.objects
    assert (last["choices"][0]["finish_reason"], "error" in last) == ("error", False)
    assert (list(error), error["error"]["type"]) == (["error"], "server_error")


# ---- Codex ------------------------------------------------------------------------------------------------------------

PATCH = '*** Begin Patch\n*** Add File: a.txt\n+say "hi"\n*** End Patch'
APPLY_PATCH: Json = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch"'},
}
EXEC: Json = {
    "type": "function",
    "name": "exec_command",
    "description": "Runs a command.",
    "strict": False,
    "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
}
SEARCHES: list[Json] = [
    {"type": "web_search", "external_web_access": False},
    {"type": "image_generation", "output_format": "png"},
]


def codex(*tools: Json, **more: Any) -> Json:
    """What Codex says in every request."""
    return {
        "tools": [EXEC, *tools],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "thread",
        "extra_body": {"client_metadata": {"thread_id": "thread", "x-codex-window-id": "thread:0"}},
        **more,
    }


@pytest.mark.parametrize("search", SEARCHES, ids=[one["type"] for one in SEARCHES])
async def test_a_hosted_tool_offered_beside_functions_is_left_out_with_a_warning(
    door: Door, stream: bool, search: Json
) -> None:
    model = ScriptedModel(says("Hello."))
    async with door.serving(model) as served:
        answer = await ask(served.client(), stream, **codex(search))

    assert [tool.name for tool in model.requests[0].tools] == ["exec_command"]
    (warning,) = answer.to_dict()["warnings"]
    assert "'tools[1]'" in warning


async def test_a_search_for_tools_with_nothing_to_find_changes_nothing(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("Hello."))
    search = {"type": "tool_search", "execution": "client", "description": "Finds.", "parameters": {"type": "object"}}
    async with door.serving(model) as served:
        answer = await ask(served.client(), stream, **codex(search))

    assert [tool.name for tool in model.requests[0].tools] == ["exec_command"]
    assert "warnings" not in answer.to_dict()


@pytest.mark.parametrize("search", SEARCHES, ids=[one["type"] for one in SEARCHES])
async def test_a_hosted_tool_that_is_all_a_request_has_is_refused_by_name(door: Door, search: Json) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        answer = await post(served, {"input": "go", "tools": [search]})

    assert (answer.status, answer.json["error"]["param"]) == (400, "tools[0].type")


async def test_what_a_client_notes_for_its_own_service_does_not_reach_other_models(door: Door) -> None:
    model = ScriptedModel(says("Hello."))
    async with door.serving(model) as served:
        await ask(served.client(), False, **codex())

    options = model.requests[0].options
    assert ("client_metadata" in options.extra, "client_metadata" in options.native) == (False, True)
    assert options.native_api == "openai-responses"


async def test_a_custom_tool_is_called_with_text(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("apply_patch", {"input": PATCH}, "call_1"), text="Wait."))
    async with door.serving(model) as served:
        answer = await ask(served.client(), stream, **codex(APPLY_PATCH))

    called = {"type": "custom_tool_call", "call_id": "call_1", "name": "apply_patch", "input": PATCH}
    assert items_of(answer)[1:] == [{**called, "status": "completed"}]
    (_, declared) = model.requests[0].tools
    told = json.loads(bytes(declared.parameters))["properties"]["input"]
    assert (declared.name, declared.description, told["type"]) == ("apply_patch", "Edits files.", "string")
    assert told["description"].endswith('this grammar (lark):\nstart: "*** Begin Patch"')


async def test_the_text_of_a_custom_call_is_streamed_as_it_is_written(door: Door) -> None:
    async with door.serving(ScriptedModel(calls(Call("apply_patch", {"input": PATCH}, "call_1")))) as served:
        answer = await post(served, {"input": "go", "tools": [APPLY_PATCH], "stream": True})

    events = [json.loads(data) for _, data in answer.events if data != "[DONE]"]
    of_it = [event for event in events if "custom_tool_call_input" in event["type"]]
    (*pieces, done) = [event.get("delta", event.get("input")) for event in of_it]
    assert ("".join(pieces), done, len(pieces)) == (PATCH, PATCH, 2)


async def test_functions_of_a_namespace_have_names_that_any_upstream_takes(door: Door, stream: bool) -> None:
    """NAMESPACE.NAME is made by Ronda; most that speak Chat Completions refuse a dot, and the caller could not help it."""
    asked: list[Json] = []

    async def answers(exchange: Exchange) -> None:
        asked.append(exchange.json)
        named = exchange.json["tools"][0]["function"]["name"]
        await completes(None, call(named, cmd="ls"))(exchange)

    space = {"type": "namespace", "name": "agents", "description": "", "tools": [EXEC]}
    async with Upstream(answers, answers) as upstream, door.serving(upstream.url) as served:
        first = await ask(served.client(), stream, tools=[space])
        (called,) = items_of(first)
        result = output("call_1", "ok")
        await ask(served.client(), stream, tools=[space], input=[result], previous_response_id=first.id)

    assert (called["namespace"], called["name"]) == ("agents", "exec_command")
    names = [asked[0]["tools"][0]["function"]["name"], asked[1]["messages"][1]["tool_calls"][0]["function"]["name"]]
    assert names == ["agents_exec_command"] * 2


@pytest.mark.parametrize("written", ["*** Begin Patch", '{"patch":"x"}', '{"input":5}', '{"input":"x","more":1}'])
async def test_a_model_that_calls_a_custom_tool_its_own_way_is_taken_at_its_word(
    door: Door, stream: bool, written: str
) -> None:
    async with door.serving(ScriptedModel(calls(Call("apply_patch", written, "call_1")))) as served:
        answer = await ask(served.client(), stream, tools=[APPLY_PATCH])

    assert [(item["type"], item["input"]) for item in items_of(answer)] == [("custom_tool_call", written)]


async def test_the_result_of_a_custom_call_goes_back_to_the_model(door: Door) -> None:
    model = ScriptedModel(calls(Call("apply_patch", {"input": PATCH}, "call_1")), says("Done."))
    async with door.serving(model) as served:
        first = await ask(served.client(), False, **codex(APPLY_PATCH))
        said = [item for item in first.to_dict()["output"] if item["type"] == "custom_tool_call"]
        result = {**output("call_1", "ok"), "type": "custom_tool_call_output"}
        asked = [{"role": "user", "content": "go"}, *said, result]
        await ask(served.client(), False, **codex(APPLY_PATCH, input=asked))

    (before, called, answered) = model.heard[1]
    assert before == user("go")
    assert called.parts == (ToolCall("call_1", "apply_patch", json.dumps({"input": PATCH}, separators=(",", ":"))),)  # type: ignore[union-attr]  # the assistant's turn
    assert answered == ToolTurn((ToolResult("call_1", "ok"),))


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "custom", "name": "apply_patch"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "apply_patch"}]},
    ],
)
async def test_a_custom_tool_can_be_chosen(door: Door, choice: Json) -> None:
    model = ScriptedModel(calls(Call("apply_patch", {"input": PATCH}, "call_1")))
    async with door.serving(model) as served:
        answer = await ask(served.client(), False, tools=[EXEC, APPLY_PATCH], tool_choice=choice)

    assert (model.requests[0].choice.mode, model.requests[0].choice.names) == ("required", ("apply_patch",))
    assert answer.to_dict()["tool_choice"] == choice


async def test_a_stored_response_shows_a_custom_call_as_one(door: Door) -> None:
    model = ScriptedModel(calls(Call("apply_patch", {"input": PATCH}, "call_1")), says("Done."))
    async with door.serving(model) as served:
        client = served.client()
        first = await ask(client, False, tools=[APPLY_PATCH])
        result = {**output("call_1", "ok"), "type": "custom_tool_call_output"}
        second = await ask(client, False, tools=[APPLY_PATCH], input=[result], previous_response_id=first.id)
        again = await client.responses.retrieve(first.id)
        went_in = [item.to_dict() async for item in client.responses.input_items.list(second.id)]

    assert again.to_dict() == first.to_dict()
    (call,) = [item for item in went_in if item["type"] == "custom_tool_call"]
    assert (call["name"], call["input"]) == ("apply_patch", PATCH)


async def test_a_message_over_a_web_socket_may_ask_for_the_stream_it_gets_anyway(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served, connected(served) as socket:
        await socket.say(model="default", input="go", stream=True)

        assert text((await socket.rest())[-1]) == "Hello."


# ---- Claude Code ------------------------------------------------------------------------------------------------------


async def test_claude_code_is_answered(door: Door) -> None:
    model = ScriptedModel(says("Hello."))
    cached = {"cache_control": {"type": "ephemeral"}}
    async with door.serving(model) as served:
        answer = await post(
            served,
            {
                "model": "default",
                "system": [
                    {"type": "text", "text": "You are an agent."},
                    {"type": "text", "text": "Be brief.", **cached},
                ],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "go", **cached}]},
                    {"role": "system", "content": [{"type": "text", "text": "It is late."}]},
                ],
                "tools": [
                    {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object", "properties": {}}}
                ],
                "metadata": {"user_id": '{"device_id":"d","session_id":"s"}'},
                "max_tokens": 32000,
                "thinking": {"type": "adaptive", "display": "updates"},
                "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
                "output_config": {"effort": "high"},
            },
            "/messages?beta=true",
            **{"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,effort-2025-11-24"},
        )

    assert (answer.status, answer.json["content"]) == (200, [{"type": "text", "text": "Hello."}])
    assert [type(turn).__name__ for turn in model.heard[0]] == ["SystemTurn", "UserTurn", "SystemTurn"]


# ---- what says nothing ------------------------------------------------------------------------------------------------


async def test_a_switch_of_mistrals_that_is_off_asks_nothing_of_other_models(door: Door) -> None:
    model = ScriptedModel(says("Hello."), says("Hello."))
    asked = {"messages": [{"role": "user", "content": "go"}]}
    async with door.serving(model) as served:
        await served.post({**asked, "safe_prompt": False})
        await served.post({**asked, "safe_prompt": True})

    assert [list(request.options.extra) for request in model.requests] == [[], ["safe_prompt"]]


# ---- names of models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aliases", "name", "status"),
    [
        ((), "gpt-5", 404),
        (("gpt-5",), "gpt-5", 200),
        (("gpt-5",), "gpt-6", 404),
        (("*",), "claude-opus-9", 200),
    ],
)
async def test_a_client_that_insists_on_a_name_gets_the_model_the_operator_means(
    door: Door, aliases: tuple[str, ...], name: str, status: int
) -> None:
    async with door.serving(ScriptedModel(says("hi")), aliases=aliases) as served:
        answer = await served.post({"model": name, "messages": [{"role": "user", "content": "hi"}]})
        async with served.http.get(f"{served.url}/models") as listed:
            names = [model["id"] for model in (await listed.json())["data"]]

    assert answer.status == status
    assert names == ["default", "test", *[alias for alias in aliases if alias != "*"]]
