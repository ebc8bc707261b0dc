"""The public compliance cases of Open Responses, written anew from its OpenAPI document: 17, by their names there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Served
from tests.server.responses_door import (
    code,
    connected,
    events_of,
    function,
    needs_schemas,
    output,
    post,
    schemas,
    text,
)

from ronda.core.parts import AssistantTurn, Image, SystemTurn, Text, UserTurn, user
from ronda.providers.script import Call, Line, ScriptedModel, calls, says

HEART = "data:image/png;base64,iVBORw0KGgo="


def message(role: str, content: Any, **more: Any) -> Json:
    return {"type": "message", "role": role, "content": content, **more}


async def created(served: Served, **request: Any) -> Json:
    """A plain answer, after request and answer were found to be of their schemas."""
    body = {"model": "default", **request}
    schemas().check(body, "CreateResponseBody")
    answer = await post(served, body)
    assert answer.status == 200, answer.body
    schemas().check(answer.json, "ResponseResource")
    response: Json = answer.json
    return response


async def basic_response(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hello to you."))) as served:
        response = await created(served, input=[message("user", "Say hello in three words.")])

    assert (response["status"], len(response["output"])) == ("completed", 1)


async def assistant_phase(door: Door) -> None:
    model = ScriptedModel(says("42"))
    async with door.serving(model) as served:
        said = [
            message("user", "What is six times seven?"),
            message("assistant", [{"type": "output_text", "text": "Let me think."}], phase="commentary"),
            message("assistant", [{"type": "output_text", "text": "It is 42."}], phase="final_answer"),
            message("user", "Again?"),
        ]
        response = await created(served, input=said)

    assert response["status"] == "completed"
    assert [turn.text for turn in model.heard[0] if isinstance(turn, AssistantTurn)] == ["Let me think.", "It is 42."]


async def response_output_phase_schema(door: Door) -> None:
    lines = (Line(text="One moment.", calls=(Call("get_weather", {"city": "Bern"}, "c1"),)), says("Sunny."))
    async with door.serving(ScriptedModel(*lines)) as served:
        tools = [function("get_weather", city="string")]
        first = await created(served, input="How is Bern?", tools=tools)
        second = await created(served, input=[output("c1", "sun")], previous_response_id=first["id"], tools=tools)

    phases = [item["phase"] for response in (first, second) for item in response["output"] if item["type"] == "message"]
    assert phases == ["commentary", "final_answer"]


async def streaming_response(door: Door) -> None:
    async with door.serving(ScriptedModel(says("1 2 3 4 5"))) as served:
        answer = await post(served, {"model": "default", "input": [message("user", "Count to 5.")], "stream": True})
    events = events_of(answer)
    schemas().check(events[-1]["response"], "ResponseResource")

    assert (events[-1]["type"], events[-1]["response"]["status"]) == ("response.completed", "completed")


async def system_prompt(door: Door) -> None:
    model = ScriptedModel(says("Ahoy."))
    async with door.serving(model) as served:
        response = await created(served, input=[message("system", "You are a pirate."), message("user", "Say hello.")])

    assert response["status"] == "completed"
    assert model.heard == [[SystemTurn("You are a pirate."), user("Say hello.")]]


async def tool_calling(door: Door) -> None:
    async with door.serving(ScriptedModel(calls("get_weather", location="San Francisco"))) as served:
        tool = {name: value for name, value in function("get_weather", location="string").items() if name != "strict"}
        response = await created(served, input=[message("user", "How is the weather in San Francisco?")], tools=[tool])

    (item,) = response["output"]
    assert (item["type"], item["name"], item["arguments"]) == (
        "function_call",
        "get_weather",
        '{"location":"San Francisco"}',
    )


async def image_input(door: Door) -> None:
    model = ScriptedModel(says("A red heart."))
    async with door.serving(model) as served:
        content = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": HEART}]
        response = await created(served, input=[message("user", content)])

    assert response["status"] == "completed"
    assert model.heard == [[UserTurn((Text("What is this?"), Image(HEART)))]]


async def multi_turn(door: Door) -> None:
    model = ScriptedModel(says("Alice."))
    async with door.serving(model) as served:
        said = [message("user", "I am Alice."), message("assistant", "Hello Alice!"), message("user", "Who am I?")]
        response = await created(served, input=said)

    assert response["status"] == "completed"
    assert model.heard == [[user("I am Alice."), AssistantTurn((Text("Hello Alice!"),)), user("Who am I?")]]


async def compact_response(door: Door) -> None:
    body = {"model": "default", "input": [message("user", "Plan a trip."), message("assistant", "To Bern.")]}
    schemas().check(body, "CompactResponseMethodPublicBody")
    async with door.serving(ScriptedModel(says("A trip to Bern is planned."))) as served:
        answer = await post(served, body, "/responses/compact")
    schemas().check(answer.json, "CompactResource")

    assert [item["type"] for item in answer.json["output"]] == ["message", "compaction"]
    assert answer.json["output"][-1]["encrypted_content"]


async def compact_missing_model(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        answer = await post(served, {"input": "Plan a trip."}, "/responses/compact")

    assert (answer.status, answer.error["param"]) == (400, "model")


async def websocket_response(door: Door) -> None:
    async with door.serving(ScriptedModel(says("1 2 3"))) as served, connected(served) as socket:
        last = await socket.turn(input=[message("user", "Count to 3.")])

    assert text(last) == "1 2 3"


async def websocket_sequential_responses(door: Door) -> None:
    async with door.serving(ScriptedModel(says("first"), says("second"))) as served, connected(served) as socket:
        turns = [await socket.turn(store=False, input=f"Say {word}.") for word in ("first", "second")]

    assert list(map(text, turns)) == ["first", "second"]


async def websocket_continuation(door: Door) -> None:
    model = ScriptedModel(says("OK"), says("cobalt"))
    async with door.serving(model) as served, connected(served) as socket:
        first = await socket.turn(store=False, input="The code word is cobalt.")
        second = await socket.turn(store=False, input="Which?", previous_response_id=first["response"]["id"])

    assert text(second) == "cobalt"
    assert model.heard[1][0] == user("The code word is cobalt.")


async def websocket_reconnect_store_false_recovery(door: Door) -> None:
    async with door.serving(ScriptedModel(says("OK"), says("amber"))) as served:
        async with connected(served) as socket:
            first = await socket.turn(store=False, input="The code word is amber.")
        async with connected(served) as socket:
            lost = await socket.turn(store=False, input="Which?", previous_response_id=first["response"]["id"])
            said = [message("user", "The code word is amber."), message("assistant", "OK"), message("user", "Which?")]
            found = await socket.turn(store=False, input=said)

    assert (code(lost), text(found)) == ("previous_response_not_found", "amber")


async def websocket_previous_response_not_found(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served, connected(served) as socket:
        lost = await socket.turn(store=False, input="And?", previous_response_id="resp_openresponses_missing")

    assert code(lost) == "previous_response_not_found"


async def websocket_failed_continuation_evicts_cache(door: Door) -> None:
    async with door.serving(ScriptedModel(says("OK"), says("stale"))) as served, connected(served) as socket:
        response_id = (await socket.turn(store=False, input="The code word is ember."))["response"]["id"]
        failed = await socket.turn(
            store=False, input=[output("call_missing", "nothing")], previous_response_id=response_id
        )
        retried = await socket.turn(store=False, input="Go on.", previous_response_id=response_id)

    assert failed["type"] == "error"
    assert code(retried) == "previous_response_not_found"


async def websocket_compact_new_chain(door: Door) -> None:
    model = ScriptedModel(says("The code word is jade."), says("jade"))
    async with door.serving(model) as served, connected(served) as socket:
        compacted = await post(served, {"model": "default", "input": "The code word is jade."}, "/responses/compact")
        base = compacted.json["output"]
        last = await socket.turn(store=False, previous_response_id=None, input=[*base, message("user", "Which?")])

    assert text(last) == "jade"


CASES: list[Callable[[Door], Awaitable[None]]] = [
    basic_response,
    assistant_phase,
    response_output_phase_schema,
    streaming_response,
    system_prompt,
    tool_calling,
    image_input,
    multi_turn,
    compact_response,
    compact_missing_model,
    websocket_response,
    websocket_sequential_responses,
    websocket_continuation,
    websocket_reconnect_store_false_recovery,
    websocket_previous_response_not_found,
    websocket_failed_continuation_evicts_cache,
    websocket_compact_new_chain,
]


@needs_schemas
@pytest.mark.parametrize("case", CASES, ids=[case.__name__.replace("_", "-") for case in CASES])
async def test_a_compliance_case_passes(door: Door, case: Callable[[Door], Awaitable[None]]) -> None:
    await case(door)
