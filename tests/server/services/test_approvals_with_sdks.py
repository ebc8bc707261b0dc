"""Approvals through the official clients, unchanged: every shape is read without an error, plain and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, soon
from tests.server.approval_doors import EVENT, post_decision
from tests.server.messages_door import asking
from tests.server.mistral_doors import serving
from tests.server.runs_door import Deleting

from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks

A_MOMENT = 0.01  # seconds: a time that is over at once
HI: Any = [{"role": "user", "content": "go"}]


def script() -> ScriptedModel:
    return ScriptedModel(asks("delete", path="/a", text="Let me see."), says("It is gone."), says("You are welcome."))


async def test_chat_plain(door: Door) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool) as served, soon():
        create = served.client().chat.completions.create
        first = await create(model="default", messages=HI)
        extra = first.model_extra or {}
        decided = [{"id": one["approval_id"], "decision": "approve"} for one in extra["approvals"]]
        second = await create(model="default", messages=[], extra_body={"approvals": decided})

    assert (extra["status"], first.choices[0].finish_reason) == ("requires_action", "stop")
    assert (first.choices[0].message.content, second.choices[0].message.content) == ("Let me see.", "It is gone.")
    assert files.deleted == ["/a"]


async def test_chat_streamed_and_decided_meanwhile(door: Door) -> None:
    files, text = Deleting(), ""
    async with door.serving(script(), files.tool) as served, soon():
        stream = await served.client().chat.completions.create(model="default", messages=HI, stream=True)
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
            extra: Any = chunk.model_extra or {}
            if extra.get("type") == EVENT:
                await post_decision(served, extra["approval_id"])

    assert (text, files.deleted) == ("Let me see.\n\nIt is gone.", ["/a"])


async def test_chat_added_up_by_the_clients_helper(door: Door) -> None:
    async with (
        door.serving(script(), Deleting().tool, approval_timeout=A_MOMENT) as served,
        soon(),
        served.client().chat.completions.stream(model="default", messages=HI) as stream,
    ):
        async for _ in stream:
            pass
        answer = await stream.get_final_completion()

    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Let me see.", "stop")


async def test_responses_plain(door: Door) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool) as served, soon():
        create = served.client().responses.create
        first = await create(model="default", input="go")
        request = first.output[-1]
        assert request.type == "mcp_approval_request"
        answer: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
        second = await create(model="default", previous_response_id=first.id, input=[answer])
        stored = await served.client().responses.retrieve(second.id)
        third = await create(model="default", previous_response_id=second.id, input="thanks")

    assert (first.status, request.name, json.loads(request.arguments)) == ("completed", "delete", {"path": "/a"})
    call = second.output[0]
    assert call.type == "mcp_call"
    assert (call.approval_request_id, call.output, second.output_text) == (request.id, "deleted /a", "It is gone.")
    assert (stored.id, stored.output_text, second.previous_response_id) == (second.id, "It is gone.", first.id)
    assert (files.deleted, third.status) == (["/a"], "completed")


async def test_responses_without_a_stored_conversation(door: Door) -> None:
    """Who keeps the conversation sends all of it again, with the decision at its end, and goes on later in the same way."""
    files, model = Deleting(), ScriptedModel(asks("delete", path="/a"), says("It is gone."), says("Bye."))
    async with door.serving(model, files.tool) as served, soon():
        create = served.client().responses.create
        items: list[Any] = [{"role": "user", "content": "go"}]
        first = await create(model="default", input=items)
        items += [item.to_dict() for item in first.output]
        items.append({"type": "mcp_approval_response", "approval_request_id": first.output[-1].id, "approve": True})
        second = await create(model="default", input=items)
        items += [*[item.to_dict() for item in second.output], {"role": "user", "content": "bye"}]
        third = await create(model="default", input=items)

    assert (second.output_text, third.output_text, files.deleted) == ("It is gone.", "Bye.", ["/a"])
    assert "appr_" not in str(model.heard[-1][:1])


@pytest.mark.parametrize("is_decided", [False, True], ids=["paused", "decided"])
async def test_responses_streamed_through_the_clients_helper(door: Door, is_decided: bool) -> None:
    files = Deleting()
    timeout = 600.0 if is_decided else A_MOMENT
    async with (
        door.serving(script(), files.tool, approval_timeout=timeout) as served,
        soon(),
        served.client().responses.stream(model="default", input="go") as stream,
    ):
        async for event in stream:
            seen: Any = event
            if is_decided and getattr(seen, "type", None) == EVENT:
                await post_decision(served, seen.approval_id)
        answer = await stream.get_final_response()

    types = [item.type for item in answer.output]
    assert types == (["message", "mcp_call", "message"] if is_decided else ["message", "mcp_approval_request"])
    assert files.deleted == (["/a"] if is_decided else [])


async def test_messages(door: Door, stream: bool) -> None:
    files = Deleting()
    async with door.serving(script(), files.tool, approval_timeout=A_MOMENT), asking(door) as client:
        first = await message(client, stream, messages=HI)
        extra = first.model_extra or {}
        approvals = [{"id": one["approval_id"], "decision": "approve"} for one in extra.get("approvals", ())]
        back = [*HI, {"role": "assistant", "content": [block.to_dict() for block in first.content]}]
        if stream:  # the SDK's helper drops members that it does not know; the blocks say it, too
            approvals = [{"id": first.content[-1].id.removeprefix("srvtoolu_ronda_"), "decision": "approve"}]
        second = await message(client, stream, messages=back, extra_body={"approvals": approvals})

    assert (first.stop_reason, [block.type for block in first.content]) == ("pause_turn", ["text", "server_tool_use"])
    assert (second.stop_reason, second.content[-1].text, files.deleted) == ("end_turn", "It is gone.", ["/a"])


async def message(client: Any, stream: bool, **request: Any) -> Any:
    request = {"model": "default", "max_tokens": 99, **request}
    if not stream:
        return await client.messages.create(**request)
    async with client.messages.stream(**request) as events:
        return await events.get_final_message()


async def test_messages_streamed_and_decided_meanwhile(door: Door) -> None:
    files = Deleting()
    async with (
        door.serving(script(), files.tool) as served,
        asking(door) as client,
        client.messages.stream(model="default", max_tokens=99, messages=HI) as events,
    ):
        async for event in events:
            seen: Any = event
            if seen.type == EVENT:
                await post_decision(served, seen.approval_id)
        answer = await events.get_final_message()

    assert (answer.stop_reason, answer.content[-1].to_dict()["text"]) == ("end_turn", "It is gone.")
    assert files.deleted == ["/a"]


async def test_mistrals_conversations(door: Door, stream: bool) -> None:
    files = Deleting()
    async with serving(door, script(), files.tool, approval_timeout=A_MOMENT) as served, served.client() as client:
        talk = client.beta.conversations
        if stream:
            events = [event.data async for event in await talk.start_stream_async(model="default", inputs="go")]
            [pending] = [event for event in events if event.type == "function.call.delta"]
            conversation_id = events[0].conversation_id
        else:
            first = await talk.start_async(model="default", inputs="go")
            [pending] = [entry for entry in first.outputs if entry.type == "function.call"]
            conversation_id = first.conversation_id
        words = [{"tool_call_id": pending.tool_call_id, "confirmation": "allow"}]
        if stream:
            rest = [
                e.data
                async for e in await talk.append_stream_async(conversation_id=conversation_id, tool_confirmations=words)
            ]
            text = "".join([event.content for event in rest if event.type == "message.output.delta"])
        else:
            second = await talk.append_async(conversation_id=conversation_id, tool_confirmations=words)
            text = second.outputs[-1].content
        third = await talk.append_async(conversation_id=conversation_id, inputs="thanks")

    assert (pending.confirmation_status, pending.name) == ("pending", "delete")
    assert (text, files.deleted) == ("It is gone.", ["/a"])
    assert third.outputs


async def test_the_loop_of_mistrals_client_takes_a_waiting_call_for_one_to_be_confirmed(door: Door) -> None:
    """`run_async` asks these two, and sends no inputs with what it confirms. (It needs packages that are not installed here.)"""
    from mistralai.client.models import ToolCallConfirmation
    from mistralai.extra.run.deferred import _is_server_deferred

    files = Deleting()
    async with serving(door, script(), files.tool) as served, served.client() as client:
        talk = client.beta.conversations
        first = await talk.start_async(model="default", inputs="go")
        calls = [entry for entry in first.outputs if entry.type == "function.call"]
        are_deferred = [_is_server_deferred(call) for call in calls]
        words = [ToolCallConfirmation(tool_call_id=call.tool_call_id, confirmation="deny") for call in calls]
        again = await talk.append_async(conversation_id=first.conversation_id, inputs=[], tool_confirmations=words)

    assert are_deferred == [True]
    assert [entry.type for entry in again.outputs] == ["tool.execution", "message.output"]
    assert files.deleted == []


async def test_mistrals_completions(door: Door, stream: bool) -> None:
    files = Deleting()
    async with serving(door, script(), files.tool, approval_timeout=A_MOMENT) as served, served.client() as client:
        said: Json = {"agent_id": "default", "messages": HI}
        if stream:
            chunks = [event.data async for event in await client.agents.stream_async(**said)]
            text = "".join([chunk.choices[0].delta.content or "" for chunk in chunks])
            end = chunks[-1].choices[0].finish_reason
        else:
            answer = await client.agents.complete_async(**said)
            text, end = answer.choices[0].message.content, answer.choices[0].finish_reason

    assert (text, end, files.deleted) == ("Let me see.", "stop", [])
