"""What would become of a conversation on its way to a model: told before anything is sent, by the code that would send it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conformance import anthropic_strict, mistral_strict, responses_strict
from tests.interaction.doors import Door, Json, Raw, Served, soon, user

from ronda.testing import ScriptedModel

LONG = "call_" + "x" * 60


async def check(served: Served, body: Json | bytes) -> Raw:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    async with soon(), served.http.post(f"{served.url}/transcripts/check", data=data, headers=headers) as answer:
        received = {name.lower(): said for name, said in answer.headers.items()}
        return Raw(answer.status, received, await answer.read())


async def checked(door: Door, model: str, *messages: Json, **fields: Any) -> Any:
    async with door.serving(ScriptedModel()) as served:
        answer = await check(served, {"model": model, "messages": list(messages), **fields})
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def places(said: Any) -> list[tuple[str, str]]:
    return [(change["at"], change["kind"]) for change in said["changes"]]


def asks(id: str) -> Json:
    call = {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def result(id: str, content: str) -> Json:
    return {"role": "tool", "tool_call_id": id, "content": content}


async def test_a_conversation_that_fits_is_not_changed(door: Door) -> None:
    said = await checked(door, "openai-chat:gpt-5", user("Hi"), asks("call_1"), result("call_1", "ok"))

    assert (said["object"], said["model"], said["accepted"]) == ("transcript.check", "openai-chat:gpt-5", True)
    assert (said["changes"], said["warnings"]) == ([], [])
    assert said["request"]["messages"] == [user("Hi"), asks("call_1"), result("call_1", "ok")]


async def test_a_spec_means_that_model_also_where_the_server_answers_to_any_name(door: Door) -> None:
    async with door.serving(ScriptedModel(), aliases=("*",)) as served:
        spec = await check(served, {"model": "anthropic:claude-test", "messages": [user("Hi")]})
        name = await check(served, {"model": "claude-test", "messages": [user("Hi")]})

    assert (spec.json["model"], name.json["model"]) == ("anthropic:claude-test", "script:test")


async def test_ids_are_said_to_become_others(door: Door) -> None:
    said = await checked(door, "mistral:mistral-large-latest", user("Hi"), asks("call_1"), result("call_1", "ok"))

    (change,) = said["changes"]
    made = said["request"]["messages"][1]["tool_calls"][0]["id"]
    assert change == {
        "at": "messages[1]",
        "kind": "id_rewritten",
        "what": f"the id 'call_1' of a call becomes '{made}'",
        "why": "ids have nine letters or digits here, and no two are the same in a message",
    }
    assert mistral_strict.refusals(said["request"]) == []


async def test_what_was_never_answered_and_what_nobody_asked_are_put_right(door: Door) -> None:
    said = await checked(
        door,
        "anthropic:claude-sonnet-4-5",
        user("Hi"),
        asks("call_1"),
        user("Still there?"),
        asks("call_2"),
        result("call_2", "ok"),
        result("call_9", "who asked?"),
    )

    assert places(said) == [("messages[1]", "result_added"), ("messages[5]", "result_dropped")]
    assert anthropic_strict.refusals(json.dumps(said["request"]).encode()) == []


async def test_changed_roles_and_dropped_thoughts_are_told(door: Door) -> None:
    thinks = {"role": "assistant", "content": "So.", "reasoning_content": "hm"}
    told = {"role": "system", "content": "Be brief."}
    said = await checked(
        door, "mistral:m", user("a"), thinks, user("b"), asks("abcdefghi"), result("abcdefghi", "ok"), user("c"), told
    )

    assert places(said) == [
        ("messages[1]", "reasoning_dropped"),
        ("messages[6]", "role_changed"),
    ]


async def test_pictures_for_who_cannot_see_and_options_nobody_hears_are_warned_of(door: Door) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
    seen = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}

    blind = await checked(door, "mistral:codestral-latest", seen, logit_bias={"1": 2})

    assert places(blind) == [("request", "option_unsent"), ("messages[0]", "media_noted")]
    assert blind["warnings"] == [
        "'logit_bias' is not sent: Mistral has no equivalent",
        "an image is only mentioned to the model: this model cannot see",
    ]
    assert blind["request"]["messages"][0]["content"][1] == {
        "type": "text",
        "text": "[an image was attached here, which you cannot see]",
    }


async def test_what_an_api_refuses_by_name_is_a_refusal_and_not_an_error(door: Door) -> None:
    said = await checked(door, "openai:gpt-5", user("Hi"), stop=["x"])

    assert (said["accepted"], said["request"], said["refusal"]["param"]) == (False, None, "stop")
    sampled = await checked(door, "anthropic:claude-sonnet-4-5", user("Hi"), temperature=0.5)
    assert sampled["accepted"]
    assert [change["kind"] for change in sampled["changes"]] == ["option_unsent"]


async def test_ids_too_long_and_thoughts_that_cannot_be_looked_up_are_left_behind(door: Door) -> None:
    said = await checked(door, "openai:gpt-5", user("Hi"), asks(LONG + "y" * 10), result(LONG + "y" * 10, "ok"))

    assert places(said) == [("messages[1]", "id_rewritten")]
    assert responses_strict.refusals(said["request"]) == []


async def test_a_model_of_the_server_s_own_is_a_target_too(door: Door) -> None:
    said = await checked(door, "default", user("Hi"), asks("call_1"))

    assert places(said) == [("messages[1]", "result_added")]
    assert said["request"] is None  # it speaks no wire


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"model": "default"}, 400, "messages"),
        ({"model": "nobody", "messages": [user("hi")]}, 404, "model"),
        ({"model": "script:/etc/passwd", "messages": [user("hi")]}, 404, "model"),
        ({"model": "local:/etc/passwd", "messages": [user("hi")]}, 404, "model"),
        ({"model": "anthropic:", "messages": [user("hi")]}, 404, "model"),
        (b"{", 400, None),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(
    door: Door, body: Json | bytes, status: int, param: str | None
) -> None:
    async with door.serving(ScriptedModel()) as served:
        answer = await check(served, body)

    assert (answer.status, answer.error["param"], answer.error["type"]) == (status, param, "invalid_request_error")
