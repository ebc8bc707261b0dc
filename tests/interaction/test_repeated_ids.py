"""A server that counts its calls from 0 in every turn: the caller never gets an id twice."""

from __future__ import annotations

import json

from tests.interaction.doors import Door, declared, result, user
from tests.interaction.upstreams import Upstream, call, completes

TOOLS = [declared("look", at="string")]


async def test_a_call_whose_id_the_caller_has_seen_gets_another(door: Door, stream: bool) -> None:
    again = [completes(None, call("look", "call_0", at="b")), completes("done")]
    before = [user("go"), {"role": "assistant", "content": None, "tool_calls": [call("look", "call_0", at="a")]}]
    asked = [*before, result("call_0", "seen a")]

    async with Upstream(*again) as upstream, door.serving(upstream.url) as served:
        said = await served.ask(asked, stream=stream, tools=TOOLS)
        ((call_id, name, arguments),) = said.calls
        then = [*asked, said.message, result(call_id, "seen b")]
        await served.ask(then, stream=stream, tools=TOOLS)

    assert call_id not in ("", "call_0")
    assert (name, json.loads(arguments)) == ("look", {"at": "b"})
    sent = upstream.requests[1]["messages"]
    assert [message.get("tool_call_id") for message in sent if message["role"] == "tool"] == ["call_0", call_id]
    assert sent[-2]["tool_calls"][0]["id"] == call_id


async def test_an_id_that_is_new_stays_as_it_is(door: Door, stream: bool) -> None:
    before = [user("go"), {"role": "assistant", "content": None, "tool_calls": [call("look", "call_0", at="a")]}]

    async with Upstream(completes(None, call("look", "call_1"))) as upstream, door.serving(upstream.url) as served:
        said = await served.ask([*before, result("call_0", "seen")], stream=stream, tools=TOOLS)

    assert [call_id for call_id, _, _ in said.calls] == ["call_1"]
