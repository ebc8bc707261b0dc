"""Responses that exist: retrieved, watched again, listed, cancelled, deleted; by their owner and no other owner."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door, Json, Served, soon
from tests.server.responses_door import ask, events_of, function, items_of, message, output, post, schemas, send

from ronda import tool
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.journal.sqlite import SqliteJournal
from ronda.providers.script import Call, Line, ScriptedModel, says

PICK = function("pick", color="string")


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


LOOKS = (Line(text="Looking.", reasoning="Hm.", calls=(Call("lookup", {"q": "a"}, "c1"),)), says("It is a."))


# ---- retrieve --------------------------------------------------------------------------------------------------------


async def test_a_response_is_there_to_be_asked_for_again_streamed_or_not(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(*LOOKS), lookup) as served:
        client = served.client()
        made = await ask(client, stream, metadata={"a": "b"}, instructions="Be brief.", tools=[PICK], temperature=0.5)
        raw = await send(served, "GET", f"/responses/{made.id}")
        again = await client.responses.retrieve(made.id)
    schemas().check(raw.json, "ResponseResource")

    assert again.to_dict() == _without_parsed(made)
    assert (again.metadata, again.instructions, again.temperature) == ({"a": "b"}, "Be brief.", 0.5)


async def test_a_response_that_failed_says_why(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        with pytest.raises(openai.InternalServerError):
            await ask(served.client(), False)
        (events,) = await served.events
        response_id = "resp_" + events[0].run.removeprefix("run_")  # type: ignore[union-attr]  # a run begins with its start
        response = await served.client().responses.retrieve(response_id)

    assert (response.status, response.error and response.error.code) == ("failed", "server_error")


async def test_what_is_not_stored_is_not_there(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("Hi."))) as served:
        client = served.client()
        made = await ask(client, stream, store=False)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(made.id)


@pytest.mark.parametrize(
    ("method", "rest"), [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")]
)
async def test_nobody_elses_response_is_there(door: Door, method: str, rest: str) -> None:
    async with door.serving(ScriptedModel(says("Hi."))) as served:
        made = await ask(served.client("ada"), False)
        answers = [
            await send(served, method, f"/responses/{made.id}{rest}", "eve"),
            await send(served, method, f"/responses/resp_nothing{rest}", "ada"),
            await send(served, method, f"/responses/%00{rest}", "ada"),
        ]
        still = await send(served, "GET", f"/responses/{made.id}", "ada")

    assert [answer.status for answer in answers] == [404, 404, 404]
    assert [answer.error["type"] for answer in answers] == ["invalid_request_error"] * 3
    assert still.status == 200


@pytest.mark.parametrize(
    "query", ["stream=maybe", "stream=true&starting_after=-1", "stream=true&starting_after=x", "starting_after=1"]
)
async def test_an_address_that_makes_no_sense_is_a_400(door: Door, query: str) -> None:
    async with door.serving(ScriptedModel(says("Hi."))) as served:
        made = await ask(served.client(), False)
        refused = await send(served, "GET", f"/responses/{made.id}?{query}")

    assert (refused.status, refused.error["param"]) == (400, query.split("&")[-1].split("=")[0])


async def test_places_that_take_other_methods_say_so(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        answers = [
            await send(served, "GET", "/responses"),
            await send(served, "PUT", "/responses/resp_1"),
            await send(served, "GET", "/responses/compact"),
            await send(served, "GET", "/responses/resp_1/cancel"),
        ]

    assert [answer.status for answer in answers] == [405] * 4
    assert all(answer.error["message"] for answer in answers)


# ---- watched again ---------------------------------------------------------------------------------------------------


async def test_a_stream_can_be_watched_again_from_any_event_on(door: Door) -> None:
    async with door.serving(ScriptedModel(*LOOKS), lookup) as served:
        live = await post(served, {"input": "go", "stream": True})
        response_id = events_of(live)[0]["response"]["id"]
        again = [
            await send(served, "GET", f"/responses/{response_id}?stream=true&starting_after={n}") for n in range(-0, 8)
        ]
        whole = await send(served, "GET", f"/responses/{response_id}?stream=true")

    assert whole.body == live.body
    frames = live.body.split(b"\n\n")
    assert [raw.body.split(b"\n\n") for raw in again] == [frames[n + 1 :] for n in range(8)]


async def test_the_sdk_takes_a_stream_up_where_it_left_it(door: Door) -> None:
    async with door.serving(ScriptedModel(says("one two three"))) as served, soon():
        client = served.client()
        first = await client.responses.create(model="default", input="go", stream=True)
        seen: list[Any] = [event async for event in first]
        response_id = seen[0].response.id
        async with client.responses.stream(response_id=response_id, starting_after=4) as events:
            rest = [event async for event in events]
            final = await events.get_final_response()

    assert [event.sequence_number for event in rest] == list(range(5, len(seen)))
    assert final.output_text == "one two three"


async def test_a_stream_watched_again_after_a_restart_says_the_same_in_fewer_pieces(door: Door, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with door.serving(ScriptedModel(*LOOKS), lookup, journal=SqliteJournal(path)) as served:
        live = events_of(await post(served, {"input": "go", "stream": True}))
    response_id = live[0]["response"]["id"]
    async with door.serving(ScriptedModel(), lookup, journal=SqliteJournal(path)) as served:
        again = events_of(await send(served, "GET", f"/responses/{response_id}?stream=true"))
        late = await send(served, "GET", f"/responses/{response_id}?stream=true&starting_after=500")

    assert again[-1]["response"] == live[-1]["response"]
    assert [event["type"] for event in again] == _once([event["type"] for event in live])
    (last,) = events_of(late)
    assert (last["type"], last["sequence_number"]) == ("response.completed", 501)


async def test_a_response_under_way_can_be_watched_by_others(door: Door) -> None:
    model = Waiting()
    async with door.serving(model) as served, soon():
        first = asyncio.create_task(post(served, {"input": "go", "stream": True}))
        await model.begun.wait()
        (response_id,) = [f"resp_{run.removeprefix('run_')}" for run in served.server.runs.live]
        under_way = (await send(served, "GET", f"/responses/{response_id}")).json
        second = asyncio.create_task(send(served, "GET", f"/responses/{response_id}?stream=true"))
        third = asyncio.create_task(send(served, "GET", f"/responses/{response_id}?stream=true&starting_after=3"))
        await _watched(served, 2)
        model.go_on.set()
        one, two, rest = await first, await second, await third
    schemas().check(under_way, "ResponseResource")

    assert (under_way["status"], under_way["output"], under_way["usage"]) == ("in_progress", [], None)
    assert one.body == two.body
    assert one.body.endswith(rest.body)
    assert events_of(rest)[0]["sequence_number"] == 4


async def test_somebody_who_watches_may_leave_without_ending_it(door: Door) -> None:
    model = Waiting()
    async with door.serving(model) as served, soon():
        first = asyncio.create_task(post(served, {"input": "go", "stream": True}))
        await model.begun.wait()
        (run,) = served.server.runs.live
        async with served.http.get(
            f"{served.url}/responses/resp_{run[4:]}?stream=true", headers={"authorization": "Bearer test"}
        ) as watching:
            await watching.content.readany()
        await _watched(served, 0)
        model.go_on.set()
        body = (await first).body

    assert b"response.completed" in body


# ---- cancel ----------------------------------------------------------------------------------------------------------


async def test_a_response_under_way_is_cancelled_and_stays_so(door: Door, stream: bool) -> None:
    model = Waiting()
    async with door.serving(model) as served, soon():
        client = served.client()
        asked = asyncio.create_task(post(served, {"input": "go", "stream": stream}))
        await model.begun.wait()
        (run,) = served.server.runs.live
        cancelled = await client.responses.cancel(f"resp_{run[4:]}")
        again = await client.responses.cancel(f"resp_{run[4:]}")
        answer = await asked
        model.go_on.set()
        kept = await client.responses.retrieve(f"resp_{run[4:]}")
        (end,) = await served.ends

    assert [response.status for response in (cancelled, again, kept)] == ["cancelled"] * 3
    assert (end.reason, model.finished) == ("cancelled", False)
    if stream:
        last = events_of(answer)[-1]
        assert (last["type"], last["response"]["status"]) == ("response.incomplete", "cancelled")
        assert items_of(kept) == [{**message("So ", status="incomplete"), "phase": None}] or items_of(kept) == [
            _no_phase("So ")
        ]
    else:
        assert (answer.status, answer.json["status"]) == (200, "cancelled")


async def test_what_is_finished_cannot_be_cancelled(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hi."))) as served:
        client = served.client()
        made = await ask(client, False)
        with pytest.raises(openai.BadRequestError, match="finished already"):
            await client.responses.cancel(made.id)
        assert (await client.responses.retrieve(made.id)).status == "completed"


# ---- delete ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_deleted_response_is_gone_but_not_what_went_on_from_it(door: Door, kind: str, tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db") if kind == "sqlite" else None
    model = ScriptedModel(says("One."), says("Two."), says("Three."))
    async with door.serving(model, journal=journal) as served:
        client = served.client()
        first = await ask(client, True)
        second = await ask(client, True, previous_response_id=first.id)
        raw = await send(served, "DELETE", f"/responses/{first.id}")
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError):
            await ask(client, False, previous_response_id=first.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.delete(first.id)
        stream = await send(served, "GET", f"/responses/{first.id}?stream=true")
        third = await ask(client, False, previous_response_id=second.id)
        await client.responses.delete(second.id)

    assert raw.json == {"id": first.id, "object": "response", "deleted": True}
    assert (stream.status, third.output_text) == (404, "Three.")
    assert len(model.heard[2]) == 5


async def test_deleting_what_is_under_way_ends_it(door: Door) -> None:
    model = Waiting()
    async with door.serving(model) as served, soon():
        asked = asyncio.create_task(post(served, {"input": "go", "stream": True}))
        await model.begun.wait()
        (run,) = served.server.runs.live
        gone = await send(served, "DELETE", f"/responses/resp_{run[4:]}")
        await asked
        after = await send(served, "GET", f"/responses/resp_{run[4:]}")

    assert (gone.status, after.status, model.finished) == (200, 404, False)


# ---- input items -----------------------------------------------------------------------------------------------------


async def test_input_items_are_listed_in_pages_both_ways(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hi."))) as served:
        client = served.client()
        said = [{"role": "user", "content": f"{n}"} for n in range(5)]
        made = await ask(client, False, input=said, instructions="Be brief.")
        newest = await client.responses.input_items.list(made.id)
        by_two = await client.responses.input_items.list(made.id, order="asc", limit=2)
        all_of_them = [item async for item in by_two]
        raw = (await send(served, "GET", f"/responses/{made.id}/input_items?limit=2&order=asc")).json
        odd = await send(served, "GET", f"/responses/{made.id}/input_items?after=nothing")
        long = await send(served, "GET", f"/responses/{made.id}/input_items?limit=101")

    assert [_text(item) for item in newest.data] == ["4", "3", "2", "1", "0"]
    assert [_text(item) for item in all_of_them] == ["0", "1", "2", "3", "4"]
    assert (raw["object"], raw["has_more"], raw["first_id"], raw["last_id"]) == (
        "list",
        True,
        all_of_them[0].id,
        all_of_them[1].id,
    )
    assert (odd.status, odd.error["param"], long.status, long.error["param"]) == (400, "after", 400, "limit")


async def test_input_items_are_all_that_the_model_was_given(door: Door) -> None:
    async with door.serving(ScriptedModel(*LOOKS, says("Ok.")), lookup) as served:
        client = served.client()
        first = await ask(
            client, False, input=[{"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}]
        )
        second = await ask(client, False, input="and?", previous_response_id=first.id)
        listed = (await send(served, "GET", f"/responses/{second.id}/input_items?order=asc")).json["data"]
        typed = await client.responses.input_items.list(second.id, order="asc")
    check = schemas().check

    assert [{name: value for name, value in item.items() if name not in ("id", "status")} for item in listed] == [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_image", "image_url": "data:x", "detail": "auto"}],
        },
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [_output_text("Looking.")]},
        {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": '{"q":"a"}'},
        output("c1", "found a"),
        {"type": "message", "role": "assistant", "content": [_output_text("It is a.")]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and?"}]},
    ]
    assert len({item["id"] for item in listed}) == len(listed) == len(typed.data)
    for item in listed:
        check(item, "ItemField")


# ---- how long an input is --------------------------------------------------------------------------------------------


async def test_an_input_is_counted_without_calling_a_model(door: Door) -> None:
    model = ScriptedModel(says("Hi."))
    async with door.serving(model) as served:
        client = served.client()
        made = await ask(client, False, input="hello")
        short = await client.responses.input_tokens.count(model="default", input="hello")
        count: Any = client.responses.input_tokens.count
        longer = await count(
            model="default", input="hello", instructions="Be brief.", tools=[PICK], previous_response_id=made.id
        )

    assert short.object == "response.input_tokens"
    assert 0 < short.input_tokens < longer.input_tokens
    assert len(model.heard) == 1


# ---- shared ----------------------------------------------------------------------------------------------------------


class Waiting:
    """A model that says the beginning, and the rest when it is let."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.finished = False

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if request.stream:
            show([TextDelta("So ")])
        self.begun.set()
        await self.go_on.wait()
        self.finished = True
        if request.stream:
            show([TextDelta("on.")])
        return ModelFinished(AssistantTurn((Text("So on."),)))


async def _watched(served: Served, by: int) -> None:
    """Wait until so many others watch the one response that is under way."""
    (live,) = served.server.runs.live.values()
    while live.followers != by + 1:  # noqa: ASYNC110  # a number has no event to wait for
        await asyncio.sleep(0)


def _no_phase(text: str) -> Json:
    return {name: value for name, value in message(text, status="incomplete").items() if name != "phase"}


def _without_parsed(response: Any) -> Json:
    said: Json = response.to_dict()
    for item in said["output"]:
        for part in item.get("content", []):
            part.pop("parsed", None)
    return said


def _once(kinds: list[str]) -> list[str]:
    """A text in one piece."""
    return [kind for at, kind in enumerate(kinds) if not kind.endswith(".delta") or kinds[at - 1] != kind]


def _text(item: Any) -> str:
    return str(item.content[0].text)


def _output_text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


@pytest.mark.parametrize("said", [{"authorization": "bearer mine"}, {"x-api-key": "mine"}])
async def test_a_key_is_the_same_however_it_is_said(door: Door, said: dict[str, str]) -> None:
    async with door.serving(ScriptedModel(says("Mine."))) as served:
        made = await ask(served.client("mine"), False)
        async with soon(), served.http.get(f"{served.url}/responses/{made.id}", headers=said) as answer:
            assert answer.status == 200
