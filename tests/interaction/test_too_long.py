"""A conversation that is more than the model can take: told by its code, or cut where the client says it may be."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.interaction.doors import Door, Json, declared, soon, user
from tests.interaction.upstreams import Upstream, completes, refuses

from ronda.core.events import Compacted, ModelFailed, Warned

TOO_LONG = refuses(
    400, "This model's maximum context length is 100 tokens. However, your messages resulted in 400 tokens."
)
TALK: list[Json] = [
    {"role": "system", "content": "Be brief."},
    user("one " * 100),
    {"role": "assistant", "content": "two " * 100},
    user("three " * 100),
    {"role": "assistant", "content": "four " * 100},
    user("five?"),
]


def heard(upstream: Upstream) -> list[list[str]]:
    """The first word of each message, call by call."""
    return [
        [str(message["content"]).split()[0] for message in body["messages"]]
        for body in map(msgspec.json.decode, upstream.bodies)
    ]


async def test_it_is_an_error_with_the_code_that_clients_know(door: Door, stream: bool) -> None:
    async with Upstream(TOO_LONG) as upstream, door.serving(upstream.url) as served:
        answer = await served.post({"messages": TALK, "stream": stream})

    assert answer.error["code"] == "context_length_exceeded"
    assert "maximum context length is 100 tokens" in answer.error["message"]
    assert (answer.status, len(upstream.bodies)) == (400, 1)


@pytest.mark.parametrize("path", ["/agents/completions", "/conversations"])
async def test_mistrals_doors_read_that_it_may_be_cut(door: Door, path: str) -> None:
    asked = (
        {"agent_id": "default", "messages": TALK} if "completions" in path else {"model": "default", "inputs": TALK[1:]}
    )
    async with Upstream(TOO_LONG, completes("six")) as upstream, door.serving(upstream.url) as served:
        body = json.dumps({**asked, "truncate_sequence": True}).encode()
        headers = {"content-type": "application/json"}
        async with soon(), served.http.post(served.url + path, data=body, headers=headers) as answer:
            assert (answer.status, "six" in await answer.text()) == (200, True)

    assert heard(upstream)[1][-1] == "five?"
    assert len(heard(upstream)[1]) < len(heard(upstream)[0])


async def test_the_oldest_turns_go_until_the_rest_fits(door: Door, stream: bool) -> None:
    async with Upstream(TOO_LONG, TOO_LONG, completes("six")) as upstream, door.serving(upstream.url) as served:
        said = await served.ask(TALK, stream=stream, truncate_sequence=True)
        [events] = await served.events

    assert said.content == "six"
    assert heard(upstream) == [
        ["Be", "one", "two", "three", "four", "five?"],
        ["Be", "three", "four", "five?"],
        ["Be", "five?"],  # the answer goes with its question
    ]
    assert [type(event) for event in events if isinstance(event, (ModelFailed, Compacted))] == [
        ModelFailed, Compacted, ModelFailed, Compacted,
    ]  # fmt: skip
    assert [event.message for event in events if isinstance(event, Warned)] == [
        "the conversation is too long for the model: 2 turns were left out",
    ] * 2
    assert "too long for the model" in said.warnings[0]


async def test_what_cannot_be_cut_is_an_error_all_the_same(door: Door, stream: bool) -> None:
    async with Upstream(TOO_LONG) as upstream, door.serving(upstream.url) as served:
        asked = {"messages": [TALK[0], user("word " * 1000)], "stream": stream, "truncate_sequence": True}
        answer = await served.post(asked)

    assert answer.error["code"] == "context_length_exceeded"
    assert len(upstream.bodies) == 1


async def test_what_the_answer_owes_it_still_owes(door: Door) -> None:
    async with Upstream(TOO_LONG, completes("no call")) as upstream, door.serving(upstream.url) as served:
        await served.post(
            {
                "messages": TALK,
                "truncate_sequence": True,
                "tools": [declared("find", q="string")],
                "tool_choice": "required",
            }
        )

    assert [body["tool_choice"] for body in map(msgspec.json.decode, upstream.bodies[:2])] == ["required", "required"]


async def test_it_is_not_sent_on(door: Door) -> None:
    async with Upstream(completes("hi")) as upstream, door.serving(upstream.url) as served:
        await served.ask([user("hi")], stream=False, truncate_sequence=True)

    assert b"truncate_sequence" not in upstream.bodies[0]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/responses", {"input": TALK, "truncation": "auto"}),
        ("/responses", {"input": TALK, "truncate_sequence": True}),
        ("/messages", {"system": "Be brief.", "messages": TALK[1:], "max_tokens": 50, "truncate_sequence": True}),
    ],
    ids=["truncation auto", "responses", "messages"],
)
async def test_other_doors_have_words_for_it_too(door: Door, path: str, asked: dict[str, Any]) -> None:
    async with (
        Upstream(TOO_LONG, completes("six")) as upstream,
        door.serving(upstream.url) as served,
        served.http.post(f"{served.url}{path}", json={"model": "default", **asked}) as answer,
    ):
        said = await answer.text()

    assert answer.status == 200
    assert "six" in said
    assert heard(upstream)[1] == ["Be", "three", "four", "five?"]


async def test_without_a_word_nothing_is_cut(door: Door) -> None:
    async with (
        Upstream(TOO_LONG) as upstream,
        door.serving(upstream.url) as served,
        served.http.post(f"{served.url}/responses", json={"model": "default", "input": TALK}) as answer,
    ):
        said = await answer.json()

    assert len(upstream.bodies) == 1
    assert said["error"]["code"] == "context_length_exceeded"


async def test_clients_of_messages_read_the_words_they_look_for(door: Door) -> None:
    asked = {"model": "default", "messages": TALK[1:], "max_tokens": 50}
    async with (
        Upstream(TOO_LONG) as upstream,
        door.serving(upstream.url) as served,
        served.http.post(f"{served.url}/messages", json=asked) as answer,
    ):
        error = (await answer.json())["error"]

    assert (answer.status, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith("prompt is too long: ")
