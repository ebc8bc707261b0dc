"""Sessions over HTTP: listed, exported, imported in both forms, forked, changed, deleted."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, soon
from tests.interaction.upstreams import Exchange as Call
from tests.interaction.upstreams import Upstream
from tests.server.session_doors import looks, told, weather

from ronda.store.memory import MemoryCatalog
from ronda.store.values.sessions import NewNode
from ronda.testing import ScriptedModel


class Api:
    def __init__(self, door: Door, key: str = "ann") -> None:
        self._door = door
        self._headers = {"authorization": f"Bearer {key}"}

    async def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        url = f"{self._door.url}/{path}"
        content: Json = {"data": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
        if isinstance(body, bytes):
            content["headers"] = {"content-type": "application/json", **self._headers}
        async with (
            soon(),
            self._door.http.request(method, url, **{"headers": self._headers, **content, **more}) as answer,
        ):
            data = await answer.read()
            return answer.status, await answer.json() if data else b""

    async def ask(self, text: str, session: str = "s", **fields: Any) -> str:
        status, answer = await self("POST", "chat/completions", {"messages": text, "session_id": session, **fields})
        assert status == 200, answer
        return str(answer["choices"][0]["message"]["content"])


@asynccontextmanager
async def api_of(door: Door, model: ScriptedModel) -> AsyncIterator[Api]:
    async with door.serving(model, weather):
        yield Api(door)


async def test_an_export_is_plain_messages(door: Door) -> None:
    async with api_of(door, ScriptedModel(looks("Paris"), "Sunny.")) as api:
        await api.ask("Paris?")
        status, session = await api("GET", "sessions/s")
    assert status == 200
    assert session["messages"] == [
        {"role": "user", "content": "Paris?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny in Paris"},
        {"role": "assistant", "content": "Sunny."},
    ]
    assert (session["images"], session["videos"], session["files"]) == ([], [], [])
    assert (session["id"], session["object"], session["turns"]) == ("s", "session", 4)
    assert [branch["is_head"] for branch in session["branches"]] == [True]


async def test_export_import_and_fork_give_equal_requests(door: Door) -> None:
    """Byte for byte what the upstream is sent, with what only its own JSON says."""
    bodies: list[bytes] = []

    async def answers(call: Call) -> None:
        bodies.append(call.body)
        rounds = call.body.count(b'"role":"tool"')
        if not rounds:
            calls = [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
            ]
            message: Json = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": calls}
        else:
            message = {"role": "assistant", "content": "Sunny.", "reasoning_content": "Clear."}
        reason = "stop" if rounds else "tool_calls"
        whole = {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
        await call.answer(json.dumps(whole).encode())

    async with Upstream(*[answers] * 5) as upstream, door.serving(upstream.url, weather):
        api = Api(door)
        await api.ask("Paris?")
        _, document = await api("GET", "sessions/s")
        assert await api("PUT", "sessions/imported", document) == (200, b"")
        status, forked = await api("POST", "sessions/imported/fork", {"id": "forked"})
        assert (status, forked) == (200, {"id": "forked"})
        sent = []
        for name in ("s", "imported", "forked"):
            bodies.clear()
            await api.ask("A hat?", name)
            sent.append(bodies[0])
    assert sent[0] == sent[1] == sent[2]
    assert b"reasoning_content" in sent[0]


TAGGED: list[Json] = [
    {"role": {"Left": "system"}, "content": {"Left": "Be kind."}},
    {"role": {"Left": "user"}, "content": {"Left": "Paris?"}},
    {
        "role": {"Left": "assistant"},
        "content": {"Left": ""},
        "tool_calls": {
            "Right": [
                {"id": "weather", "type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
            ]
        },
    },
    {"role": {"Left": "tool"}, "name": {"Left": "weather"}, "content": {"Left": "sunny"}},
    {
        "role": {"Left": "assistant"},
        "content": {"Left": ""},
        "tool_calls": {
            "Right": [
                {"id": "weather", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
            ]
        },
    },
    {"role": {"Left": "tool"}, "name": {"Left": "weather"}, "content": {"Left": "rainy"}},
]


def untagged(message: Json) -> Json:
    return {name: next(iter(value.values())) for name, value in message.items()}


@pytest.mark.parametrize(
    "messages", [TAGGED, [untagged(one) for one in TAGGED], [TAGGED[0], *[untagged(one) for one in TAGGED[1:]]]]
)
async def test_both_forms_are_imported_also_mixed(door: Door, messages: list[Json]) -> None:
    model = ScriptedModel("Paris, then.")
    async with api_of(door, model) as api:
        assert await api("PUT", "sessions/s", {"messages": messages}) == (200, b"")
        await api.ask("Where to?")
    assert told(model.heard[0]) == [
        "user: Paris?",
        'calls: weather({"city":"Paris"})',
        "result: sunny",
        'calls: weather({"city":"Rome"})',
        "result: rainy",
        "user: Where to?",
    ]
    ids = [call.id for turn in model.heard[0] for call in getattr(turn, "calls", ())]
    assert len(set(ids)) == 2


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 8).decode()


async def test_images_beside_the_messages_go_where_they_belong(door: Door) -> None:
    model = ScriptedModel("A dot.")
    parts = [{"type": "image"}, {"type": "text", "text": "What is this?"}]
    document = {"messages": [{"role": {"Left": "user"}, "content": {"Right": parts}}], "images": [PNG]}
    async with api_of(door, model) as api:
        assert (await api("PUT", "sessions/s", document))[0] == 200
        await api.ask("Well?")
        _, exported = await api("GET", "sessions/s")
    [image] = [part for part in exported["messages"][0]["content"] if part["type"] == "image_url"]
    assert image["image_url"]["url"] == f"data:image/png;base64,{PNG}"


@pytest.mark.parametrize(
    ("document", "param"),
    [
        ({}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": "x"}], "images": ["?"]}, "images[0]"),
        ({"messages": [{"role": "user", "content": "x"}], "images": ["aGVsbG8="]}, "images[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}], "images": []}, "images"),
        ({"messages": [], "images": [PNG]}, "images"),
        ({"messages": [], "videos": [{"fps": 1}]}, "videos"),
        ({"messages": [], "title": "x" * 501}, "title"),
        ({"messages": [], "metadata": {"x": "y" * 20_000}}, "metadata"),
    ],
)
async def test_a_document_that_makes_no_sense_is_refused_by_name(door: Door, document: Json, param: str) -> None:
    async with api_of(door, ScriptedModel()) as api:
        status, answer = await api("PUT", "sessions/s", document)
        assert (status, answer["error"]["param"]) == (400, param)
        assert (await api("GET", "sessions/s"))[0] == 404


async def test_a_document_may_be_edited(door: Door) -> None:
    model = ScriptedModel(looks("Paris"), "Sunny.", "Fine.")
    async with api_of(door, model) as api:
        await api.ask("Paris?")
        _, document = await api("GET", "sessions/s")
        document["messages"][-1]["content"] = "Cloudy."
        await api("PUT", "sessions/s", document)
        await api.ask("So?")
    assert told(model.heard[2])[-2:] == ["assistant: Cloudy.", "user: So?"]


async def test_an_unknown_session(door: Door) -> None:
    async with api_of(door, ScriptedModel()) as api:
        status, answer = await api("GET", "sessions/nothing")
        assert (status, answer["error"]["message"]) == (404, "Session nothing not found")
        assert (await api("POST", "sessions/nothing/fork", {}))[0] == 404
        assert (await api("PATCH", "sessions/nothing", {"title": "x"}))[0] == 404
        assert await api("DELETE", "sessions/nothing") == (200, b"")


async def test_a_session_is_its_owners(door: Door) -> None:
    async with api_of(door, ScriptedModel("Hi.")) as api:
        await api.ask("Hello")
        bob = Api(door, "bob")
        assert (await bob("GET", "sessions/s"))[0] == 404
        assert (await bob("POST", "sessions/s/fork", {}))[0] == 404
        assert (await bob("DELETE", "sessions/s"))[0] == 200
        assert (await bob("GET", "sessions"))[1]["data"] == []
        assert (await api("GET", "sessions/s"))[0] == 200


async def test_a_deleted_session_begins_anew(door: Door) -> None:
    model = ScriptedModel("Hi.", "Hi again.")
    async with api_of(door, model) as api:
        await api.ask("Hello")
        for _ in range(2):
            assert await api("DELETE", "sessions/s") == (200, b"")
        await api.ask("Hello?")
    assert told(model.heard[1]) == ["user: Hello?"]


async def test_names_with_anything_in_them(door: Door) -> None:
    async with api_of(door, ScriptedModel("Hi.")) as api:
        await api.ask("Hello", "a/b é?")
        status, session = await api("GET", "sessions/a%2Fb%20%C3%A9%3F")
        assert (status, session["id"]) == (200, "a/b é?")
        assert (await api("POST", "sessions/a%2Fb%20%C3%A9%3F/fork", {"id": "c"}))[0] == 200


async def test_sessions_are_listed_page_by_page(door: Door) -> None:
    async with api_of(door, ScriptedModel(*["Hi."] * 5)) as api:
        for name in "abcde":
            await api.ask("Hello", name)
        names, before = [], ""
        for _ in range(3):
            _, page = await api("GET", "sessions", params={"limit": "2", **({"before": before} if before else {})})
            names += [one["id"] for one in page["data"]]
            before = page["next"]
        assert names == ["e", "d", "c", "b", "a"]
        assert (page["has_more"], page["next"]) == (False, None)
        assert (await api("GET", "sessions?before=x"))[0] == 400


async def test_a_fork_up_to_an_answer_and_up_to_a_round(door: Door) -> None:
    model = ScriptedModel(looks("Paris"), looks("Rome", "c2"), "Paris.", "A hat.", *["Yes."] * 4)
    async with api_of(door, model) as api:
        _, first = await api("POST", "chat/completions", {"messages": "Where?", "session_id": "s"})
        await api.ask("And?")
        [run, _] = [one["id"] for one in (await api("GET", "runs?session=s"))[1]["data"]][::-1]
        assert first["session_id"] == "s"
        wishes: list[Json] = [{"num_turns": 1}, {"num_turns": 9}, {"run": run, "round": 0}, {"run": run}]
        for at, wish in enumerate(wishes):
            status, made = await api("POST", "sessions/s/fork", {"id": f"f{at}", **wish})
            assert (status, made) == (200, {"id": f"f{at}"})
            await api.ask("So?", f"f{at}")
        heard = [told(turns) for turns in model.heard[4:]]
        status, made = await api("POST", "sessions/s/fork", {})
        assert (await api("GET", f"sessions/{made['id']}"))[1]["turns"] == 8
        assert (await api("POST", "sessions/s/fork", {"id": "f0"}))[0] == 409
        for wrong, param in (
            ({"run": "run_x"}, "run"),
            ({"run": run, "round": 3}, "round"),
            ({"round": 1}, "round"),
            ({"run": run, "num_turns": 1}, "num_turns"),
            ({"num_turns": 0}, "num_turns"),
            ({"id": ""}, "id"),
        ):
            status, answer = await api("POST", "sessions/s/fork", wrong)
            assert (status in (400, 404), answer["error"]["param"]) == (True, param)
    assert heard[0][-2:] == ["assistant: Paris.", "user: So?"]
    assert heard[1][-2:] == ["assistant: A hat.", "user: So?"]
    assert heard[2][-2:] == ["result: sunny in Paris", "user: So?"]
    assert heard[3] == heard[0]


async def test_a_session_goes_on_with_another_branch(door: Door) -> None:
    model = ScriptedModel("Hi.", "Bonjour.", "On.", "Off.")
    async with api_of(door, model) as api:
        await api.ask("Hello")
        await api.ask("Salut", session_mode="replace")
        _, session = await api("GET", "sessions/s")
        assert [branch["is_head"] for branch in session["branches"]] == [False, True]
        other = session["branches"][0]["id"]
        _, shown = await api("GET", f"sessions/s?branch={other}")
        assert [one["content"] for one in shown["messages"]] == ["Hello", "Hi."]
        status, changed = await api(
            "PATCH", "sessions/s", {"branch": other, "title": "greetings", "metadata": {"a": 1}}
        )
        assert (status, changed["branch"], changed["title"], changed["metadata"]) == (200, other, "greetings", {"a": 1})
        await api.ask("Go on.")
        status, answer = await api("PATCH", "sessions/s", {"branch": "99"})
        assert (status, answer["error"]["param"]) == (404, "branch")
        assert (await api("PATCH", "sessions/s", {"title": None}))[1]["title"] is None
    assert told(model.heard[2]) == ["user: Hello", "assistant: Hi.", "user: Go on."]


async def test_the_session_of_an_answer_that_named_none_is_there_too(door: Door) -> None:
    async with api_of(door, ScriptedModel("Hi.")) as api:
        _, answer = await api("POST", "chat/completions", {"messages": "Hello"})
        status, session = await api("GET", f"sessions/{answer['session_id']}")
    assert (status, [one["content"] for one in session["messages"]]) == (200, ["Hello", "Hi."])


async def test_sessions_are_kept_within_what_the_operator_says(door: Door) -> None:
    """Those that were unused for the longest time go first."""
    catalog = MemoryCatalog()
    for at in range(5):
        await catalog.sessions.add("ann", f"old-{at}", NewNode(0, 0, b"[]", 0, 0), time.time() - 90 + at, stood_at=0)
    await catalog.sessions.add("ann", "ancient", NewNode(0, 0, b"[]", 0, 0), time.time() - 3 * 86400, stood_at=0)
    async with door.serving(ScriptedModel("Hi."), catalog=catalog, session_max_count=3, session_max_days=2):
        answer = await door.http.post(f"{door.url}/chat/completions", json={"messages": "Hello", "session_id": "new"})
        assert answer.status == 200
    rows = [*(await catalog.sessions.page("ann", 10)).sessions, *(await catalog.sessions.page("", 10)).sessions]
    assert [row.name for row in rows] == ["old-4", "old-3", "new"]


async def test_a_compacted_conversation_is_no_part_of_a_session(door: Door) -> None:
    async with api_of(door, ScriptedModel("Hi.", "A summary.")) as api:
        await api.ask("Hello")
        status, _ = await api("POST", "responses/compact", {"model": "default", "input": "x", "session_id": "s"})
        _, session = await api("GET", "sessions/s")
    assert [one["content"] for one in session["messages"]] == ["Hello", "Hi."], status
