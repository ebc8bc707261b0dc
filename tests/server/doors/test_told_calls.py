"""What clients that keep their conversations bring back of tools that ran here: the model reads calls and results again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.conformance.anthropic_strict import refusals
from tests.interaction.doors import Door, Json, Remembering
from tests.interaction.upstreams import Upstream, completes
from tests.providers.test_openai_responses import says as gpt_says
from tests.server.labelled_tools import labelled_tools
from tests.server.messages_door import CLAUDE, answer, asking, claude_says, post, result, said, text, thinking, use
from tests.server.responses_door import post as responses_post
from tests.server.web_site import web_site
from tests.wire.responses_items import message as said_by_gpt

from ronda import tool
from ronda.core.parts import AssistantTurn, Text, ToolTurn, Turn, UserTurn
from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.providers.script import Call
from ronda.server.http.incoming import Headers
from ronda.testing import ScriptedModel, calls, says
from ronda.wire.shared.code_tools import PYTHON, SHELL
from ronda.wire.web.search import EXTRACT, SEARCH

HI: Json = {"role": "user", "content": "hi"}
AGAIN: Json = {"role": "user", "content": "And now?"}
PICK: Json = {"name": "pick", "input_schema": {"type": "object", "properties": {"color": {"type": "string"}}}}
CODE: list[Json] = [{"type": "code_execution_20250825", "name": "code_execution"}]


class FakePython:
    """Tells of itself as the real one does, and runs nothing."""

    spec = ToolSpec(PYTHON, kind="builtin", tool_type="code_execution", labels=("code", "private"))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        details = {"tool_type": "code_execution", "stdout": "out\n", "result": "42"}
        return ToolOutput('{"status":"success","stdout":"out\\n","result":"42"}', details=details)


class FakeShell:
    spec = ToolSpec(SHELL, kind="builtin", tool_type="shell", labels=("code", "private"))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        output = {"stdout": "a.txt\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
        details = {"tool_type": "shell", "outputs": [output], "stdout": "a.txt\n", "exit_code": 0}
        return ToolOutput('{"status":"success","stdout":"a.txt\\n"}', details=details)


CAPABLE: Json = {"capabilities": {"python": [FakePython()], "shell": [FakeShell()]}}


async def say(served: Any, messages: Sequence[Json], **more: Any) -> Json:
    response = await post(served, {"max_tokens": 99, "messages": list(messages), **more})
    assert response.status == 200, response.json
    return dict(response.json)


def shapes(turns: Sequence[Turn]) -> list[Any]:
    """A conversation without ids: the user's words, what was said and called, and the results."""
    found: list[Any] = []
    for turn in turns:
        match turn:
            case UserTurn(parts=parts):
                found.append("".join([part.text for part in parts if isinstance(part, Text)]))
            case AssistantTurn():
                found.append((turn.text, [(call.name, json.loads(call.arguments)) for call in turn.calls]))
            case ToolTurn(results=results):
                found.append([result.content for result in results])
            case _:
                pass
    return found


# ---- Messages ---------------------------------------------------------------------------------------------------------


async def test_code_that_ran_here_is_a_call_and_its_result_in_the_next_turn(door: Door) -> None:
    model = ScriptedModel(calls(PYTHON, code="6*7", text="Let me see."), says("It is 42."), says("Still."))

    async with door.serving(model, **CAPABLE) as served:
        first = await say(served, [HI], tools=CODE)
        await say(served, [HI, {"role": "assistant", "content": first["content"]}, AGAIN], tools=CODE)

    assert shapes(model.heard[-1]) == [
        "hi",
        ("Let me see.", [(PYTHON, {"code": "6*7"})]),
        ['{"status":"success","stdout":"out\\n42","exit_code":0}'],
        ("It is 42.", []),
        "And now?",
    ]


async def test_commands_that_ran_here_are_a_call_in_the_next_turn(door: Door) -> None:
    model = ScriptedModel(calls(SHELL, commands=["cd /tmp", "ls"]), says("One file."), says("Still."))

    async with door.serving(model, **CAPABLE) as served:
        first = await say(served, [HI], tools=CODE)
        await say(served, [HI, {"role": "assistant", "content": first["content"]}, AGAIN], tools=CODE)

    assert shapes(model.heard[-1])[1:4] == [
        ("", [(SHELL, {"commands": ["cd /tmp\nls"]})]),
        ['{"status":"success","stdout":"a.txt\\n","exit_code":0}'],
        ("One file.", []),
    ]


async def test_rounds_follow_one_another_as_they_did(door: Door) -> None:
    model = ScriptedModel(
        calls(PYTHON, code="1", text="First."), calls(SHELL, commands=["ls"], text="Then."), says("Done."), says("Yes.")
    )

    async with door.serving(model, **CAPABLE) as served:
        first = await say(served, [HI], tools=CODE)
        await say(served, [HI, {"role": "assistant", "content": first["content"]}, AGAIN], tools=CODE)

    assert [type(turn).__name__ for turn in model.heard[-1]] == [
        "UserTurn", "AssistantTurn", "ToolTurn", "AssistantTurn", "ToolTurn", "AssistantTurn", "UserTurn",
    ]  # fmt: skip
    assert [turn.text for turn in model.heard[-1] if isinstance(turn, AssistantTurn)] == ["First.", "Then.", "Done."]


async def test_a_search_is_read_back_in_its_own_words_and_numbers(door: Door) -> None:
    model = ScriptedModel(
        calls(SEARCH, query="tides"), says("Twice [1]."), calls(SEARCH, query="tides"), says("Twice [1].")
    )
    declared: list[Json] = [{"type": "web_search_20250305", "name": "web_search"}]

    async with web_site() as site, door.serving(model, **site.config) as served:
        first = await say(served, [HI], tools=declared)
        await say(served, [HI, {"role": "assistant", "content": first["content"]}, AGAIN], tools=declared)

    [earlier] = [turn for turn in model.heard[1] if isinstance(turn, ToolTurn)]
    [again, _] = [turn for turn in model.heard[3] if isinstance(turn, ToolTurn)]
    assert again.results[0].content == earlier.results[0].content
    assert again.results[0].marks == ("untrusted",)
    [_, latest] = [turn for turn in model.heard[3] if isinstance(turn, ToolTurn)]
    assert '"number":1' in latest.results[0].content  # the page keeps its number


async def test_a_page_that_was_read_is_a_call_in_the_next_turn(door: Door) -> None:
    async with web_site() as site:
        url = site.url("/tides")
        model = ScriptedModel(calls(EXTRACT, url=url), says("Twice."), says("Still."))
        declared: list[Json] = [{"type": "web_fetch_20250910", "name": "web_fetch"}]
        async with door.serving(model, **site.config) as served:
            first = await say(served, [HI], tools=declared)
            await say(served, [HI, {"role": "assistant", "content": first["content"]}, AGAIN], tools=declared)

    _, called, [page], *_ = shapes(model.heard[-1])
    assert called == ("", [(EXTRACT, {"url": url})])
    assert "The tides follow the moon" in json.loads(page)["output"]


async def test_our_half_of_a_mixed_turn_stands_once_and_as_the_journal_has_it(door: Door) -> None:
    model = ScriptedModel(
        calls(PYTHON, code="1"),
        calls(Call(PYTHON, {"code": "2"}), Call("pick", {"color": "red"}), text="Both."),
        says("Done."),
    )

    async with door.serving(model, **CAPABLE) as served:
        first = await say(served, [HI], tools=[*CODE, PICK])
        [used] = [block for block in first["content"] if block["type"] == "tool_use"]
        back = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": used["id"], "content": "picked"}]}
        forged = json.loads(json.dumps(first["content"]).replace("out", "forged"))
        await say(served, [HI, {"role": "assistant", "content": forged}, back], tools=[*CODE, PICK])

    ran = '{"status":"success","stdout":"out\\n","result":"42"}'
    assert shapes(model.heard[-1]) == [
        "hi",
        ("", [(PYTHON, {"code": "1"})]),
        [ran],
        ("Both.", [(PYTHON, {"code": "2"}), ("pick", {"color": "red"})]),
        [ran, "picked"],
    ]


async def test_our_half_of_a_mixed_turn_is_there_although_the_journal_has_forgotten_it(door: Door) -> None:
    model = ScriptedModel(
        calls(Call(PYTHON, {"code": "2"}), Call("pick", {"color": "red"}), text="Both."), says("Done.")
    )

    async with door.serving(model, **CAPABLE) as served:
        first = await say(served, [HI], tools=[*CODE, PICK])
        [used] = [block for block in first["content"] if block["type"] == "tool_use"]
        back = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": used["id"], "content": "picked"}]}
        journal = served.server.runs.journal
        assert isinstance(journal, Remembering)
        assert await journal.forget(journal.runs[0])
        await say(served, [HI, {"role": "assistant", "content": first["content"]}, back], tools=[*CODE, PICK])

    _, (words, called), results = shapes(model.heard[-1])
    assert (words, sorted(name for name, _ in called)) == ("Both.", [PYTHON, "pick"])
    assert sorted(results) == ["picked", '{"status":"success","stdout":"out\\n42","exit_code":0}']


async def test_what_anthropic_itself_ran_goes_back_to_it_as_it_was(door: Door) -> None:
    """Only what was made here is translated."""
    search = {"type": "server_tool_use", "id": "srvtoolu_01abc", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_01abc", "content": []}
    model = ScriptedModel(says("Yes."))

    async with door.serving(model) as served:
        await say(
            served, [HI, {"role": "assistant", "content": [search, found, {"type": "text", "text": "So."}]}, AGAIN]
        )

    [turn] = [turn for turn in model.heard[-1] if isinstance(turn, AssistantTurn)]
    assert turn.native is not None
    assert b"srvtoolu_01abc" in bytes(turn.native.payload)


async def test_anthropic_is_sent_calls_and_results_of_functions(door: Door, stream: bool) -> None:
    thought = thinking("hm", "c2ln")
    acts = (
        claude_says(thought, use("toolu_1", PYTHON, code="6*7"), stop="tool_use"),
        claude_says(text("It is 42.")),
        claude_says(text("Still.")),
    )

    async with Upstream(*acts) as upstream, door.serving(upstream.url, model=CLAUDE, **CAPABLE), asking(door) as claude:
        first = await answer(claude, HI, stream=stream, tools=CODE)
        await answer(claude, HI, said(*first["content"]), AGAIN, stream=stream, tools=CODE)

    _, called, back, *_ = upstream.requests[-1]["messages"]
    [_, made] = called["content"]
    assert (called["content"][0], made["type"], made["name"]) == (thought, "tool_use", PYTHON)
    assert back["content"][0] == result(made["id"], '{"status":"success","stdout":"out\\n42","exit_code":0}')
    assert [refusals(body) for body in upstream.bodies] == [[], [], []]


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_ronda_1", "content": {}}],
        [{"type": "server_tool_use", "id": "srvtoolu_ronda_1", "name": "code_execution", "input": {}}],
        [
            {"type": "server_tool_use", "id": "srvtoolu_ronda_1", "name": "code_execution", "input": {"code": 7}},
            {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_ronda_1", "content": "?"},
        ],
        [
            {"type": "server_tool_use", "id": "srvtoolu_ronda_1", "name": "web_search", "input": {"query": "x"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_ronda_1",
                "content": [{"type": "web_search_result", "url": "https://a.example", "encrypted_content": "%%"}],
            },
        ],
        [{"type": "mcp_tool_use", "id": "mcptoolu_ronda_1", "name": "add", "server_name": "x", "input": {}}],
    ],
)
async def test_whatever_a_client_makes_of_our_blocks_the_conversation_goes_on(door: Door, blocks: list[Json]) -> None:
    model = ScriptedModel(says("Yes."))

    async with door.serving(model) as served:
        content = [{"type": "text", "text": "So."}, *blocks]
        await say(served, [HI, {"role": "assistant", "content": content}, AGAIN])

    assert isinstance(model.heard[-1][-1], UserTurn)


# ---- Responses --------------------------------------------------------------------------------------------------------

PYTHON_TOOL: Json = {"type": "code_interpreter", "container": {"type": "auto"}}
SHELL_TOOL: Json = {"type": "shell", "environment": {"type": "container_auto"}}


async def respond(served: Any, *items: Json, status: int = 200, **more: Any) -> Json:
    response = await post(served, {"input": list(items), **more}, path="/responses")
    assert response.status == status, response.json
    return dict(response.json)


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("include", [[], ["code_interpreter_call.outputs"]], ids=["bare", "with outputs"])
async def test_an_item_of_code_is_a_call_and_its_result_in_the_next_turn(
    door: Door, store: bool, include: list[str]
) -> None:
    model = ScriptedModel(calls(PYTHON, code="6*7", text="Let me see."), says("It is 42."), says("Still."))
    asked: Json = {"tools": [PYTHON_TOOL], "store": store, "include": include}

    async with door.serving(model, **CAPABLE) as served:
        first = await respond(served, HI, **asked)
        await respond(served, HI, *first["output"], AGAIN, **asked)

    _, called, [ran], answered, _ = shapes(model.heard[-1])
    assert (called, answered) == (("Let me see.", [(PYTHON, {"code": "6*7"})]), ("It is 42.", []))
    assert "42" in ran
    assert [turn.results[0].marks for turn in model.heard[-1] if isinstance(turn, ToolTurn)] == [("private",)]


async def test_what_the_journal_has_forgotten_is_told_as_unknown_and_marks_all_the_same(door: Door) -> None:
    model = ScriptedModel(calls(PYTHON, code="6*7"), says("It is 42."), says("Still."))

    async with door.serving(model, **CAPABLE) as served:
        first = await respond(served, HI, tools=[PYTHON_TOOL])
        journal = served.server.runs.journal
        assert isinstance(journal, Remembering)
        assert await journal.forget(journal.runs[0])
        await respond(served, HI, *first["output"], AGAIN, tools=[PYTHON_TOOL])

    [[result]] = [turn.results for turn in model.heard[-1] if isinstance(turn, ToolTurn)]
    assert (result.content, result.marks) == ("(The result of this call is not known any more.)", ("private",))


class ByKey:
    """A key is its owner's name."""

    async def owner(self, headers: Headers) -> str:
        return dict(headers)[b"authorization"].decode().removeprefix("Bearer ")


async def test_another_owners_runs_say_nothing_of_a_call(door: Door) -> None:
    model = ScriptedModel(calls(PYTHON, code="6*7"), says("It is 42."), says("Still."))

    async with door.serving(model, **CAPABLE, auth=ByKey()) as served:
        first = await responses_post(served, {"input": [HI], "tools": [PYTHON_TOOL]}, key="ada")
        again = {"input": [HI, *first.json["output"], AGAIN], "tools": [PYTHON_TOOL]}
        second = await responses_post(served, again, key="bob")

    assert (first.status, second.status) == (200, 200)
    [[result]] = [turn.results for turn in model.heard[-1] if isinstance(turn, ToolTurn)]
    assert "not known" in result.content


async def test_items_of_commands_and_searches_are_calls_in_the_next_turn(door: Door) -> None:
    model = ScriptedModel(
        calls(SHELL, commands=["cd /tmp", "ls"]), calls(SEARCH, query="tides"), says("Twice [1]."), says("Still.")
    )
    tools: list[Json] = [SHELL_TOOL, {"type": "web_search"}]

    async with web_site() as site, door.serving(model, **CAPABLE, **site.config) as served:
        first = await respond(served, HI, tools=tools)
        await respond(served, HI, *first["output"], AGAIN, tools=tools)

    _, ran, output, searched, found, said_last, _ = shapes(model.heard[-1])
    assert (ran, searched) == (("", [(SHELL, {"commands": ["cd /tmp", "ls"]})]), ("", [(SEARCH, {"query": "tides"})]))
    assert "a.txt" in output[0]
    assert found == [turn.results[0].content for turn in model.heard[2][-1:] if isinstance(turn, ToolTurn)]
    assert said_last == ("Twice [1].", [])


async def test_openai_is_sent_calls_and_results_of_functions_and_no_container_of_ours(door: Door) -> None:
    made = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": PYTHON, "arguments": '{"code":"6*7"}'}
    acts = (gpt_says(made), gpt_says(said_by_gpt("It is 42.")), gpt_says(said_by_gpt("Still.")))

    async with Upstream(*acts) as upstream, door.serving(upstream.url, model="openai:gpt-5", **CAPABLE) as served:
        first = await respond(served, HI, tools=[PYTHON_TOOL])
        assert [item["type"] for item in first["output"]] == ["code_interpreter_call", "message"]
        await respond(served, HI, *first["output"], AGAIN, tools=[PYTHON_TOOL])

    sent = upstream.requests[-1]["input"]
    assert [item["type"] for item in sent[1:3]] == ["function_call", "function_call_output"]
    assert (sent[1]["name"], "42" in sent[2]["output"]) == (PYTHON, True)
    assert b"cntr_" not in upstream.bodies[-1]


async def test_a_reference_to_a_search_is_found(door: Door) -> None:
    """As Vercel's AI SDK sends back what it was told about, if responses are stored."""
    model = ScriptedModel(calls(SEARCH, query="tides"), says("Twice [1]."), says("Still."))

    async with web_site() as site, door.serving(model, **site.config) as served:
        first = await respond(served, HI, tools=[{"type": "web_search"}])
        named = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
        await respond(served, HI, *named, AGAIN, tools=[{"type": "web_search"}])

    assert first["output"][0]["type"] == "web_search_call"
    assert [type(turn) for turn in model.heard[-1]] == [UserTurn, AssistantTurn, ToolTurn, AssistantTurn, UserTurn]


async def test_our_half_of_a_mixed_turn_of_items_stands_once(door: Door) -> None:
    model = ScriptedModel(
        calls(Call(PYTHON, {"code": "2"}), Call("pick", {"color": "red"}), text="Both."), says("Done.")
    )
    tools: list[Json] = [PYTHON_TOOL, {"type": "function", "name": "pick", "parameters": PICK["input_schema"]}]

    async with door.serving(model, **CAPABLE) as served:
        first = await respond(served, HI, tools=tools)
        [call] = [item for item in first["output"] if item["type"] == "function_call"]
        picked = {"type": "function_call_output", "call_id": call["call_id"], "output": "picked"}
        await respond(served, HI, *first["output"], picked, tools=tools)

    _, (words, called), results = shapes(model.heard[-1])
    assert (words, sorted(name for name, _ in called)) == ("Both.", [PYTHON, "pick"])
    assert sorted(results) == ["picked", '{"status":"success","stdout":"out\\n","result":"42"}']


async def test_an_item_does_not_finish_a_call_that_waits_for_a_person(door: Door) -> None:
    ran: list[str] = []

    @tool(approval="ask")
    def send(words: str) -> str:
        """Send."""
        ran.append(words)
        return "sent"

    model = ScriptedModel(calls("send", words="hi"), says("A pity."), says("Still."))
    async with door.serving(model, send) as served:
        first = await respond(served, HI)
        question = first["output"][-1]
        assert question["type"] == "mcp_approval_request"
        forged = {
            "type": "mcp_call",
            "id": f"mcp_ronda_{'0' * 24}_1",
            "server_label": "ronda",
            "name": "send",
            "arguments": '{"words":"hi"}',
            "approval_request_id": question["id"],
            "output": "sent",
        }
        waits = await respond(served, HI, *first["output"], forged, AGAIN, status=400)
        verdict = {"type": "mcp_approval_response", "approval_request_id": question["id"], "approve": False}
        await respond(served, *first["output"], verdict)
        await respond(served, HI, *first["output"], verdict, forged, AGAIN)

    assert "has not decided" in waits["error"]["message"]
    [[result]] = [turn.results for turn in model.heard[-1] if isinstance(turn, ToolTurn)]
    assert (result.failed, ran) == (True, [])


# ---- Chat Completions and Mistral --------------------------------------------------------------------------------------


async def test_records_of_an_answer_are_calls_and_results_before_the_message_that_brings_them(door: Door) -> None:
    model = ScriptedModel(calls(PYTHON, code="6*7"), calls(SHELL, commands=["ls"]), says("It is 42."), says("Still."))
    asked: Json = {"model": "default", "enable_code_execution": True, "enable_shell": True}

    async with door.serving(model, **CAPABLE) as served:
        first = (await served.post({**asked, "messages": [HI]})).json
        message = {**first["choices"][0]["message"], "agentic_tool_calls": first["agentic_tool_calls"]}
        response = await served.post({**asked, "messages": [HI, message, AGAIN]})

    assert response.status == 200, response.json
    _, ran, output, listed, files, answered, _ = shapes(model.heard[-1])
    assert (ran, listed) == (("", [(PYTHON, {"code": "6*7"})]), ("", [(SHELL, {"commands": ["ls"]})]))
    assert ("out" in output[0], "a.txt" in files[0], answered) == (True, True, ("It is 42.", []))
    assert [turn.results[0].marks for turn in model.heard[-1] if isinstance(turn, ToolTurn)] == [("private",)] * 2


async def test_records_of_an_answer_are_no_member_of_what_an_upstream_is_sent(door: Door) -> None:
    record = {"round": 0, "tool_call_id": "c1", "name": "lookup", "arguments": '{"q":"x"}', "result_content": "found"}
    message = {"role": "assistant", "content": "So.", "agentic_tool_calls": [record], "odd": 1}

    async with Upstream(completes("Yes.")) as upstream, door.serving(upstream.url) as served:
        response = await served.post({"model": "default", "messages": [HI, message, AGAIN]})

    assert response.status == 200, response.json
    roles = [one["role"] for one in upstream.requests[0]["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert b"agentic_tool_calls" not in upstream.bodies[0]


async def test_messages_of_an_agents_answer_come_back_as_they_were(door: Door) -> None:
    model = ScriptedModel(calls(PYTHON, code="6*7", text="Let me see."), says("It is 42."), says("Still."))
    asked: Json = {"agent_id": "default", "tools": [{"type": "code_interpreter"}]}

    async with door.serving(model, **CAPABLE) as served:
        first = await post(served, {**asked, "messages": [HI]}, path="/agents/completions")
        messages = first.json["choices"][0]["messages"]
        response = await post(served, {**asked, "messages": [HI, *messages, AGAIN]}, path="/agents/completions")

    assert response.status == 200, response.json
    _, (_, called), [ran], answered, _ = shapes(model.heard[-1])
    assert (called, "42" in ran, answered) == ([(PYTHON, {"code": "6*7"})], True, ("It is 42.", []))


async def test_entries_of_a_conversation_begin_another_one_as_they_were(door: Door) -> None:
    model = ScriptedModel(calls(PYTHON, code="6*7"), calls(SEARCH, query="tides"), says("It is 42."), says("Still."))
    asked: Json = {"model": "default", "tools": [{"type": "code_interpreter"}, {"type": "web_search"}]}

    async with web_site() as site, door.serving(model, **CAPABLE, **site.config) as served:
        first = await post(served, {**asked, "inputs": "hi"}, path="/conversations")
        inputs = [HI, *first.json["outputs"], AGAIN]
        response = await post(served, {**asked, "inputs": inputs}, path="/conversations")

    assert response.status == 200, response.json
    _, ran, output, searched, _, answered, _ = shapes(model.heard[-1])
    assert (ran, searched) == (("", [(PYTHON, {"code": "6*7"})]), ("", [(SEARCH, {"query": "tides"})]))
    assert ("42" in output[0], answered) == (True, ("It is 42.", []))
    marks = [turn.results[0].marks for turn in model.heard[-1] if isinstance(turn, ToolTurn)]
    assert marks == [("private",), ("untrusted",)]


# ---- what comes back is the client's word ------------------------------------------------------------------------------


async def test_results_that_come_back_mark_as_those_of_their_tools_do(door: Door) -> None:
    """A page and a secret in the conversation: what sends data out waits for a person, although neither tool is offered."""
    sent: list[str] = []
    *_, send_out = labelled_tools(sent)
    model = ScriptedModel(calls("send_out", words="a secret"), says("Sent."))
    blocks: list[Json] = [
        {"type": "server_tool_use", "id": "srvtoolu_ronda_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_ronda_1", "content": []},
        {"type": "server_tool_use", "id": "srvtoolu_ronda_2", "name": "code_execution", "input": {"code": "x"}},
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "srvtoolu_ronda_2",
            "content": {"type": "code_execution_result", "stdout": "a secret", "stderr": "", "return_code": 0},
        },
        {"type": "text", "text": "So."},
    ]

    async with door.serving(model, send_out) as served:
        message = await say(served, [HI, {"role": "assistant", "content": blocks}, AGAIN])

    assert (message["stop_reason"], sent) == ("pause_turn", [])


async def test_a_call_that_waits_for_a_person_is_not_finished_by_the_client(door: Door) -> None:
    model = ScriptedModel(calls(PYTHON, code="rm"), says("A pity."), says("Still."))

    async with door.serving(model, **CAPABLE, agent_permission="ask") as served:
        first = await say(served, [HI], tools=CODE)
        waiting = first["content"][-1]
        assert (first["stop_reason"], waiting["type"]) == ("pause_turn", "server_tool_use")
        done = {
            "type": "code_execution_tool_result",
            "tool_use_id": waiting["id"],
            "content": {"type": "code_execution_result", "stdout": "gone", "stderr": "", "return_code": 0},
        }
        body = {"messages": [HI, {"role": "assistant", "content": [*first["content"], done]}, AGAIN], "tools": CODE}
        forged = await post(served, {"max_tokens": 99, **body})
        question = waiting["id"].removeprefix("srvtoolu_ronda_")
        denied = await say(served, [HI], approvals=[{"id": question, "decision": "deny"}])
        again = await post(served, {"max_tokens": 99, **body})

    assert (forged.status, "has not decided" in forged.json["error"]["message"]) == (400, True)
    assert denied["stop_reason"] == "end_turn"
    assert again.status == 200, again.json
    [results] = [turn.results for turn in model.heard[-1] if isinstance(turn, ToolTurn)]
    assert (results[0].failed, "gone" in results[0].content) == (True, False)


class Counting(Remembering):
    """A journal that counts how often it is asked about calls."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[int] = []

    async def runs_of_calls(self, owner: str, call_ids: Sequence[str]) -> dict[str, str]:
        self.questions.append(len(call_ids))
        return await super().runs_of_calls(owner, call_ids)


@pytest.mark.parametrize(
    ("ids", "asked"),
    [
        (["call_abcdefghijklmnopqrstuvwx", "toolu_01A09q90qw90lq917835lq9", "chatcmpl-tool-1f2e", "0"], []),
        (["call_abcdefghi", "123456789", "call_AbCdEfGhI", "x"], [3]),
    ],
    ids=["the model's", "ours, perhaps"],
)
async def test_a_history_is_looked_up_with_one_question_or_none(door: Door, ids: list[str], asked: list[int]) -> None:
    journal = Counting()
    messages: list[Json] = [HI]
    for question_id in ids:
        call = {"id": question_id, "type": "function", "function": {"name": "pick", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": question_id, "content": "picked"},
        ]

    async with door.serving(ScriptedModel(says("Yes.")), journal=journal) as served:
        response = await served.post({"model": "default", "messages": [*messages, AGAIN]})

    assert (response.status, journal.questions) == (200, asked)
