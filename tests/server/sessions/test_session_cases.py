"""A request continues a session, on every door: what the upstream sees in each of the four cases, and by each mode."""

from __future__ import annotations

import pytest
from tests.interaction.doors import Door
from tests.server.session_doors import DOORS, looks, sessions_at, told

from ronda.testing import ScriptedModel

pytestmark = pytest.mark.parametrize("dialect", DOORS)

ROUND = ["user: Paris?", "assistant: Let me look.", 'calls: weather({"city":"Paris"})', "result: sunny in Paris"]


async def test_a_request_that_begins_with_all_of_a_session_goes_on(door: Door, dialect: str) -> None:
    model = ScriptedModel(looks("Paris"), "Sunny.", "Take a hat.")
    async with sessions_at(door, dialect, model) as sessions:
        text = await sessions.ask(("user", "Paris?"), session_id="s")
        await sessions.ask(("user", "Paris?"), ("assistant", text), ("user", "A hat?"), session_id="s")
    assert text.endswith("Sunny.")
    assert told(model.heard[2]) == [*ROUND, "assistant: Sunny.", "user: A hat?"]


async def test_a_request_that_differs_after_a_beginning_branches_there(door: Door, dialect: str) -> None:
    model = ScriptedModel(looks("Paris"), "Sunny.", looks("Rome", "c2"), "Take a hat.", "No coat.", "Well, a hat.")
    async with sessions_at(door, dialect, model) as sessions:
        text = await sessions.ask(("user", "Paris?"), session_id="s")
        seen = [("user", "Paris?"), ("assistant", text)]
        hat = await sessions.ask(*seen, ("user", "A hat?"), session_id="s")
        await sessions.ask(*seen, ("user", "A coat?"), session_id="s")
        # What followed there is a branch, which can be continued, too.
        await sessions.ask(*seen, ("user", "A hat?"), ("assistant", hat), ("user", "Sure?"), session_id="s")
    assert told(model.heard[4]) == [*ROUND, "assistant: Sunny.", "user: A coat?"]
    assert told(model.heard[5]) == [
        *ROUND,
        "assistant: Sunny.",
        "user: A hat?",
        "assistant: Let me look.",
        'calls: weather({"city":"Rome"})',
        "result: sunny in Rome",
        "assistant: Take a hat.",
        "user: Sure?",
    ]


async def test_a_request_that_is_a_beginning_is_answered_again(door: Door, dialect: str) -> None:
    model = ScriptedModel(looks("Paris"), "Sunny.", "Take a hat.", "No hat.")
    async with sessions_at(door, dialect, model) as sessions:
        text = await sessions.ask(("user", "Paris?"), session_id="s")
        seen = [("user", "Paris?"), ("assistant", text), ("user", "A hat?")]
        await sessions.ask(*seen, session_id="s")
        await sessions.ask(*seen, session_id="s")
    assert told(model.heard[3]) == told(model.heard[2])


async def test_a_request_that_brings_only_what_is_new_is_appended(door: Door, dialect: str) -> None:
    model = ScriptedModel(looks("Paris"), "Sunny.", "Take a hat.", "Bye.")
    async with sessions_at(door, dialect, model) as sessions:
        await sessions.ask(("user", "Paris?"), session_id="s")
        await sessions.ask(("user", "A hat?"), session_id="s")
        await sessions.ask(("user", "Thanks."), session_id="s")
    assert told(model.heard[2]) == [*ROUND, "assistant: Sunny.", "user: A hat?"]
    assert told(model.heard[3]) == [*told(model.heard[2]), "assistant: Take a hat.", "user: Thanks."]


async def test_a_request_with_another_conversation_is_that_conversation(door: Door, dialect: str) -> None:
    model = ScriptedModel(looks("Paris"), "Sunny.", "Rainy.", "An umbrella.")
    async with sessions_at(door, dialect, model) as sessions:
        await sessions.ask(("user", "Paris?"), session_id="s")
        other = [("user", "Rome?"), ("assistant", "I do not know."), ("user", "Look!")]
        await sessions.ask(*other, session_id="s")
        await sessions.ask(("user", "So?"), session_id="s")
    assert told(model.heard[2]) == ["user: Rome?", "assistant: I do not know.", "user: Look!"]
    assert told(model.heard[3]) == [*told(model.heard[2]), "assistant: Rainy.", "user: So?"]


async def test_appending_compares_nothing(door: Door, dialect: str) -> None:
    model = ScriptedModel("Yes?", "Yes!")
    async with sessions_at(door, dialect, model) as sessions:
        await sessions.ask(("user", "Hello"), session_id="s")
        await sessions.ask(("user", "Hello"), session_id="s", session_mode="append")
    assert told(model.heard[1]) == ["user: Hello", "assistant: Yes?", "user: Hello"]


async def test_replacing_compares_nothing(door: Door, dialect: str) -> None:
    model = ScriptedModel("Yes?", "Yes!", "Well.")
    async with sessions_at(door, dialect, model) as sessions:
        await sessions.ask(("user", "Hello"), session_id="s")
        await sessions.ask(("user", "Bonjour"), session_id="s", session_mode="replace")
        await sessions.ask(("user", "So?"), session_id="s")
    assert told(model.heard[1]) == ["user: Bonjour"]
    assert told(model.heard[2]) == ["user: Bonjour", "assistant: Yes!", "user: So?"]


async def test_instructions_are_the_requests(door: Door, dialect: str) -> None:
    model = ScriptedModel("Yes?", "Yes!", "Well.")
    async with sessions_at(door, dialect, model) as sessions:
        await sessions.ask(("system", "Be kind."), ("user", "Hello"), session_id="s")
        await sessions.ask(("system", "Be short."), ("user", "And?"), session_id="s")
        await sessions.ask(("user", "So?"), session_id="s")
    assert told(model.heard[1]) == ["system: Be short.", "user: Hello", "assistant: Yes?", "user: And?"]
    assert told(model.heard[2])[0] == "user: Hello"


async def test_a_session_is_its_owners(door: Door, dialect: str) -> None:
    model = ScriptedModel("Yes?", "Who?")
    async with sessions_at(door, dialect, model) as sessions:
        await sessions.ask(("user", "Hello"), session_id="s", key="ann")
        await sessions.ask(("user", "What did I say?"), session_id="s", key="bob")
    assert told(model.heard[1]) == ["user: What did I say?"]


async def test_the_session_that_an_answer_names_can_be_gone_on_with(door: Door, dialect: str) -> None:
    model = ScriptedModel(looks("Paris"), "Sunny.", "Take a hat.")
    async with sessions_at(door, dialect, model) as sessions:
        _, first = await sessions.send(("user", "Paris?"))
        await sessions.ask(("user", "A hat?"), session_id=first["session_id"])
    assert told(model.heard[2]) == [*ROUND, "assistant: Sunny.", "user: A hat?"]


async def test_without_a_session_nothing_is_matched(door: Door, dialect: str) -> None:
    model = ScriptedModel(looks("Paris"), "Sunny.", "Take a hat.")
    async with sessions_at(door, dialect, model) as sessions:
        text = await sessions.ask(("user", "Paris?"), session_id="s")
        await sessions.ask(("user", "Paris?"), ("assistant", text), ("user", "A hat?"))
    assert len(model.heard[2]) == 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"session_mode": "append"}, "session_mode"),
        ({"on_busy": "queue"}, "on_busy"),
        ({"session_id": "s", "session_mode": "guess"}, "session_mode"),
        ({"session_id": "s", "on_busy": "wait"}, "on_busy"),
        ({"session_id": ""}, "session_id"),
        ({"session_id": "a\nb"}, "session_id"),
        ({"session_id": "x" * 257}, "session_id"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(
    door: Door, dialect: str, fields: dict[str, str], param: str
) -> None:
    model = ScriptedModel("never")
    async with sessions_at(door, dialect, model) as sessions:
        status, answer = await sessions.send(("user", "Hello"), **fields)
    assert status in (400, 422)
    assert param in str(answer)
    assert model.heard == []
