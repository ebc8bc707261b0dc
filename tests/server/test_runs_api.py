"""Runs over HTTP in our own words: which there are, what became of one, what happened in it, and an end to it."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Remembering, Served, soon

from ronda import tool
from ronda.core.events import Asked, ModelFinished, ModelStarted, RunFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text, user
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks
from ronda.wire.events import read, shown, write

CALLERS = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object", "properties": {}}}}
HI = [{"role": "user", "content": "go"}]


@tool
async def look(city: str) -> str:
    """Look at the sky."""
    return f"sky over {city}"


async def get(served: Served, path: str, key: str = "test", **headers: str) -> tuple[int, Any]:
    sent = {"authorization": f"Bearer {key}", **headers}
    async with soon(), served.http.get(f"{served.url}{path}", headers=sent) as answer:
        body = await answer.read()
        return answer.status, json.loads(body) if answer.content_type == "application/json" else body


async def post(served: Served, path: str, body: Any = None, key: str = "test") -> tuple[int, Any]:
    sent = {"authorization": f"Bearer {key}"}
    async with soon(), served.http.post(f"{served.url}{path}", headers=sent, json=body) as answer:
        return answer.status, json.loads(await answer.read())


async def ask(served: Served, key: str = "test", **more: Any) -> str:
    """Ask something; the run that it became."""
    sent = {"authorization": f"Bearer {key}"}
    body = {"messages": HI, **more}
    async with soon(), served.http.post(f"{served.url}/chat/completions", json=body, headers=sent) as answer:
        assert answer.status == 200, await answer.text()
        await answer.read()
        return answer.headers["x-ronda-run"]


def frames(body: bytes) -> list[tuple[str, str, Json]]:
    """The id, the kind and the data of every event."""
    found = []
    for block in body.decode().removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


# ---- every door says which runs ---------------------------------------------------------------------------------------

DOORS: dict[str, tuple[str, Json]] = {
    "chat": ("/chat/completions", {"messages": HI}),
    "responses": ("/responses", {"input": "go"}),
    "messages": ("/messages", {"messages": HI, "max_tokens": 9}),
    "agents": ("/agents/completions", {"agent_id": "default", "messages": HI}),
    "conversations": ("/conversations", {"model": "default", "inputs": "go"}),
}


@pytest.mark.parametrize(("path", "body"), DOORS.values(), ids=DOORS.keys())
async def test_every_door_names_its_run(door: Door, path: str, body: Json, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served, soon():
        sent = {"authorization": "Bearer test"}
        async with served.http.post(f"{served.url}{path}", json={**body, "stream": stream}, headers=sent) as answer:
            await answer.read()
        status, run = await get(served, f"/runs/{answer.headers['x-ronda-run']}")

    assert (status, run["state"], run["result"]["text"]) == (200, "finished", "Hello.")


async def test_a_door_names_all_its_runs(door: Door) -> None:
    async with door.serving(ScriptedModel(says("A."), says("B."))) as served:
        named = (await ask(served, n=2)).split(", ")
        found = [(await get(served, f"/runs/{id}"))[1]["result"]["text"] for id in named]

    assert sorted(found) == ["A.", "B."]


# ---- one --------------------------------------------------------------------------------------------------------------


async def test_a_run_is_shown_with_its_result_and_its_usage(door: Door) -> None:
    model = ScriptedModel(asks("look", city="Oslo"), says("Cold."))

    async with door.serving(model, look) as served:
        id = await ask(served, session_id="s1")
        status, run = await get(served, f"/runs/{id}")
        [events] = await served.events

    created, ended = run.pop("created_at"), run.pop("ended_at")
    assert created <= ended
    usage = run.pop("usage")
    assert (usage["tool_calls"], usage["output_tokens"] > 0) == (1, True)
    assert status == 200
    assert run == {
        "object": "run",
        "id": id,
        "state": "finished",
        "model": "script:test",
        "agent": None,
        "session": "s1",
        "parent": None,
        "position": str(len(events) - 1),
        "questions": [],
        "result": {"text": "Cold.", "tool_calls": []},
        "end": {"reason": "stop", "limit": None, "message": None, "code": None},
    }


async def test_what_the_caller_is_to_run_is_part_of_the_result(door: Door) -> None:
    async with door.serving(ScriptedModel(asks("mine"))) as served:
        id = await ask(served, tools=[CALLERS])
        _, run = await get(served, f"/runs/{id}")

    [call] = run["result"]["tool_calls"]
    assert (run["state"], call["name"], call["arguments"]) == ("finished", "mine", "{}")


async def test_a_run_that_failed_says_why(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, _ = await post(served, "/chat/completions", {"messages": HI})
        _, page = await get(served, "/runs")
        [listed] = page["data"]
        _, run = await get(served, f"/runs/{listed['id']}")

    assert status >= 500
    assert (run["state"], run["result"], run["end"]["reason"]) == ("failed", None, "failed")
    assert run["end"]["message"]


# ---- whose ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("GET", "/events"), ("POST", "/cancel")])
async def test_another_owners_run_is_not_there(door: Door, method: str, path: str) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        id = await ask(served, key="ann")
        answers = []
        for named in (id, "run_nothing"):
            sent = {"authorization": "Bearer bob"}
            async with served.http.request(method, f"{served.url}/runs/{named}{path}", headers=sent) as answer:
                answers.append((answer.status, (await answer.text()).replace(named, "ID")))
        _, page = await get(served, "/runs", key="bob")

    assert answers[0] == answers[1]
    assert answers[0][0] == 404
    assert page["data"] == []


# ---- all --------------------------------------------------------------------------------------------------------------


async def test_runs_are_listed_page_by_page_the_newest_first(door: Door) -> None:
    async with door.serving(ScriptedModel(*[says(str(n)) for n in range(5)])) as served:
        asked = [await ask(served) for _ in range(5)]
        pages = [(await get(served, "/runs?limit=2"))[1]]
        while (after := pages[-1]["next"]) is not None:
            pages.append((await get(served, f"/runs?limit=2&before={after}"))[1])

    assert [[run["id"] for run in page["data"]] for page in pages] == [asked[:2:-1], asked[2:0:-1], asked[:1]]
    assert [page["has_more"] for page in pages] == [True, True, False]


async def test_runs_are_listed_by_state_session_and_agent(door: Door) -> None:
    async with door.serving(ScriptedModel(says("A."), says("B."))) as served:
        _, agent = await post(served, "/agents", {"model": "default", "name": "helper", "instructions": "Help."})
        first = await ask(served, session_id="s1")
        second = await ask(served, session_id="s2", model=agent["id"])
        await post(served, "/chat/completions", {"messages": HI})
        found = {}
        for query in ("session=s1", "session=s2", "state=finished", "state=failed", f"agent={agent['id']}", "agent=x"):
            _, page = await get(served, f"/runs?{query}")
            found[query.replace(agent["id"], "helper")] = [run["id"] for run in page["data"]]

    assert found.pop("state=failed") not in ([], [first], [second])
    assert found == {
        "session=s1": [first],
        "session=s2": [second],
        "state=finished": [second, first],
        "agent=helper": [second],
        "agent=x": [],
    }


@pytest.mark.parametrize("query", ["state=asleep", "limit=0", "limit=101", "limit=x", "before=x", "before=-1"])
async def test_a_list_that_cannot_be_is_refused_by_name(door: Door, query: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, body = await get(served, f"/runs?{query}")

    assert (status, body["error"]["param"]) == (400, query.partition("=")[0])


# ---- what happened ----------------------------------------------------------------------------------------------------


async def test_the_events_of_a_run_are_those_of_its_journal(door: Door) -> None:
    async with door.serving(ScriptedModel(asks("look", city="Oslo"), says("Cold.")), look) as served:
        id = await ask(served)
        status, body = await get(served, f"/runs/{id}/events")
        [events] = await served.events

    found = frames(body)
    expected = [json.loads(write(said)) for event in events if (said := shown(event)) is not None]
    assert status == 200
    assert [data for _, _, data in found] == expected
    assert [id for id, _, _ in found] == [str(number) for number in range(len(events))]
    assert [kind for _, kind, _ in found] == [data["type"] for data in expected]
    assert read(json.dumps(found[-1][2]).encode()) == events[-1]


@pytest.mark.parametrize("how", ["after", "header", "both"])
async def test_whoever_comes_back_sees_what_came_after(door: Door, how: str) -> None:
    async with door.serving(ScriptedModel(asks("look", city="Oslo"), says("Cold.")), look) as served:
        id = await ask(served)
        _, body = await get(served, f"/runs/{id}/events")
        whole = frames(body)
        for at, (position, _, _) in enumerate(whole):
            query = {"after": f"?after={position}", "header": "", "both": "?after=0"}[how]
            headers = {} if how == "after" else {"last-event-id": position}
            status, rest = await get(served, f"/runs/{id}/events{query}", **headers)
            if at == len(whole) - 1:
                assert (status, rest) == (204, b"")  # an EventSource does not come again then
            else:
                assert (status, frames(rest)) == (200, whole[at + 1 :])


@pytest.mark.parametrize("position", ["x", "1.x", "-1", "1.2.3"])
async def test_what_is_no_position_is_a_400(door: Door, position: str) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served:
        id = await ask(served)
        status, body = await get(served, f"/runs/{id}/events?after={position}")

    assert (status, body["error"]["param"]) == (400, "after")


# ---- its end ----------------------------------------------------------------------------------------------------------


async def test_a_run_under_way_is_cancelled(door: Door, stream: bool) -> None:
    started, never = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await never.wait()
        return ""

    async with door.serving(ScriptedModel(asks("wait")), wait) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": stream}))
        await started.wait()
        _, page = await get(served, "/runs?state=running")
        [running] = page["data"]
        _, before = await get(served, f"/runs/{running['id']}")
        status, run = await post(served, f"/runs/{running['id']}/cancel")
        again, refused = await post(served, f"/runs/{running['id']}/cancel")
        await asking
        [events] = await served.events

    assert (before["state"], before["ended_at"], before["result"]) == ("running", None, None)
    assert (status, run["state"], run["end"]["reason"]) == (200, "cancelled", "cancelled")
    assert (again, refused["error"]["code"]) == (409, "run_is_over")
    assert isinstance(events[-1], RunFinished)


async def post_quietly(served: Served, body: Json) -> None:
    sent = {"authorization": "Bearer test"}
    async with served.http.post(f"{served.url}/chat/completions", json=body, headers=sent) as answer:
        await answer.read()


# ---- while it happens -------------------------------------------------------------------------------------------------


class Stepwise:
    """A model that says a word when it is told to."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self._go_on = asyncio.Semaphore(0)
        self.said = 0

    def step(self) -> None:
        self._go_on.release()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        for word in self._words:
            await self._go_on.acquire()
            show([TextDelta(word)])
            self.said += 1
        await self._go_on.acquire()
        return ModelFinished(AssistantTurn((Text("".join(self._words)),)))


async def under_way(served: Served) -> str:
    """The run, when its model is being asked."""
    journal = served.server.runs.journal
    assert isinstance(journal, Remembering)
    await journal.until(ModelStarted)
    return journal.runs[-1]


class Follower:
    """Reads a run's events until it is over, or has enough of them."""

    def __init__(self, served: Served, run: str, after: str | None = None) -> None:
        self.served, self.run, self.after = served, run, after
        self.body = b""
        self.begun = asyncio.Event()

    async def read(self, most: int | None = None) -> Follower:
        """`most`: frames after which it goes away."""
        query = "" if self.after is None else f"?after={self.after}"
        sent = {"authorization": "Bearer test"}
        url = f"{self.served.url}/runs/{self.run}/events{query}"
        async with self.served.http.get(url, headers=sent) as answer:
            assert answer.status in (200, 204), await answer.text()
            self.begun.set()
            async for piece in answer.content.iter_any():
                self.body += piece
                if most is not None and self.body.count(b"\n\n") >= most:
                    self.body = b"".join([one + b"\n\n" for one in self.body.split(b"\n\n")[:most]])
                    break
        return self

    @property
    def last(self) -> str | None:
        """The last position it has seen."""
        return frames(self.body)[-1][0] if self.body else self.after


async def test_three_hundred_followers_see_the_same_each_from_its_own_start(door: Door) -> None:
    """Joining and leaving at random, and coming back where they left: what they see joins without a seam."""
    chance = Random(7)
    words = [f"word {n} " for n in range(40)]
    model = Stepwise(*words)
    async with door.serving(model) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": True}))
        run = await under_way(served)
        whole = Follower(served, run)
        first = asyncio.create_task(whole.read())
        followers: list[asyncio.Task[Follower]] = []
        for _ in words:
            model.step()
            for _ in range(8 if len(followers) < 300 else 0):
                follower = Follower(served, run)
                followers.append(asyncio.create_task(follower.read(chance.choice([None, 1, 3, 9]))))
            await asyncio.sleep(0)
        model.step()
        seen = await asyncio.gather(*followers)
        again = await asyncio.gather(*[Follower(served, run, one.last).read() for one in seen])
        await first
        await asking

    assert len(seen) >= 300
    assert [data["text"] for _, kind, data in frames(whole.body) if kind == "text_delta"] == words
    for before, after in zip(seen, again, strict=True):
        assert before.body + after.body == whole.body


async def test_a_run_is_followed_from_the_middle_of_an_answer(door: Door) -> None:
    model = Stepwise("One ", "two ", "three.")
    async with door.serving(model) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "stream": True}))
        run = await under_way(served)
        model.step()
        early = await Follower(served, run).read(most=3)
        assert early.last is not None
        rest = Follower(served, run, early.last)
        reading = asyncio.create_task(rest.read())
        await rest.begun.wait()
        _, running = await get(served, f"/runs/{run}")
        for _ in range(3):
            model.step()
        await reading
        await asking

    assert [(id, kind) for id, kind, _ in frames(early.body)] == [
        ("0", "run_started"),
        ("1", "model_started"),
        ("1.1", "text_delta"),
    ]
    assert [(id, kind) for id, kind, _ in frames(rest.body)] == [
        ("1.2", "text_delta"),
        ("1.3", "text_delta"),
        ("2", "model_finished"),
        ("3", "run_finished"),
    ]
    assert (running["state"], running["position"]) == ("running", "1")


async def test_a_follower_that_leaves_leaves_the_run_alone(door: Door) -> None:
    model = Stepwise("One ", "two.")
    async with door.serving(model) as served, soon():
        asking = asyncio.create_task(served.ask(stream=True))
        run = await under_way(served)
        model.step()
        await Follower(served, run).read(most=3)
        model.step()
        model.step()
        said = await asking

    assert (said.content, said.finish_reason) == ("One two.", "stop")


async def test_what_was_only_shown_may_be_gone_and_the_facts_are_left(door: Door) -> None:
    model = Stepwise("One ", "two.")
    async with door.serving(model) as served, soon():
        for _ in range(3):
            model.step()
        run = await ask(served, stream=True)
        _, before = await get(served, f"/runs/{run}/events?after=1.1")
        served.server.runs.logs.forget(run)
        _, after = await get(served, f"/runs/{run}/events?after=1.1")

    assert [id for id, _, _ in frames(before)] == ["1.2", "2", "3"]
    assert frames(after) == frames(before)[1:]


# ---- a say in it ------------------------------------------------------------------------------------------------------


class Deleting:
    """A tool that a person has to allow, and what it was called with."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

        @tool(approval="ask")
        async def delete(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            return f"deleted {path}"

        self.tool = delete


async def asked_of(served: Served) -> tuple[str, Json]:
    """The run that waits, and its first question."""
    journal = served.server.runs.journal
    assert isinstance(journal, Remembering)
    await journal.until(Asked)
    run = journal.runs[-1]
    while not (found := (await get(served, f"/runs/{run}"))[1])["questions"]:
        pass
    return run, found["questions"][0]


ANSWERS: dict[str, tuple[Json, list[str], str]] = {
    "approved": ({"decision": "approve"}, ["/a"], "deleted /a"),
    "denied": ({"decision": "deny", "message": "Not that one."}, [], "Not that one."),
    "edited": ({"decision": "approve", "arguments": {"path": "/b"}}, ["/b"], "deleted /b"),
}


@pytest.mark.parametrize(("answer", "deleted", "heard"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_a_call_waits_for_an_answer(
    door: Door, stream: bool, answer: Json, deleted: list[str], heard: str
) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), says("Well."))
    async with door.serving(model, files.tool) as served, soon():
        asking = asyncio.create_task(served.ask(stream=stream))
        run, question = await asked_of(served)
        _, waiting = await get(served, f"/runs/{run}")
        assert files.deleted == []
        status, _ = await post(served, f"/runs/{run}/answer", {"id": question["id"], **answer})
        said = await asking
        again, refused = await post(served, f"/runs/{run}/answer", {"id": question["id"], **answer})
        _, body = await get(served, f"/runs/{run}/events")

    assert (waiting["state"], question["kind"], question["tool"]) == ("waiting", "approval", "delete")
    assert json.loads(question["arguments"]) == {"path": "/a"}
    assert (status, said.content, files.deleted) == (200, "Well.", deleted)
    assert heard in str(model.heard[1][-1])
    assert (again, refused["error"]["code"]) == (409, "run_is_over")
    assert [kind for _, kind, _ in frames(body) if kind in ("asked", "answered")] == ["asked", "answered"]


async def test_what_is_remembered_is_not_asked_again(door: Door) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), asks("delete", path="/b"), says("Done."))
    async with door.serving(model, files.tool) as served, soon():
        asking = asyncio.create_task(served.ask(stream=False))
        run, question = await asked_of(served)
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve", "remember": True})
        await asking

    assert files.deleted == ["/a", "/b"]


async def test_a_question_that_nobody_answers_counts_as_a_no(door: Door) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), says("Well."))
    async with door.serving(model, files.tool, approval_timeout=0.01) as served, soon():
        said = await served.ask(stream=False)

    assert (said.content, files.deleted) == ("Well.", [])


WRONG_ANSWERS: dict[str, tuple[Json, int, str | None]] = {
    "no id": ({"decision": "approve"}, 400, "id"),
    "no decision": ({"id": "QUESTION"}, 400, "decision"),
    "another decision": ({"id": "QUESTION", "decision": "perhaps"}, 400, "decision"),
    "another question": ({"id": "ask_nothing", "decision": "approve"}, 404, "id"),
    "arguments that do not fit": (
        {"id": "QUESTION", "decision": "approve", "arguments": {"path": 5}},
        400,
        "arguments",
    ),
}


@pytest.mark.parametrize(("answer", "status", "param"), WRONG_ANSWERS.values(), ids=WRONG_ANSWERS.keys())
async def test_an_answer_that_cannot_be_taken_leaves_the_question_open(
    door: Door, answer: Json, status: int, param: str | None
) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), says("Well."))
    async with door.serving(model, files.tool) as served, soon():
        asking = asyncio.create_task(served.ask(stream=False))
        run, question = await asked_of(served)
        filled = {name: question["id"] if value == "QUESTION" else value for name, value in answer.items()}
        got, body = await post(served, f"/runs/{run}/answer", filled)
        stranger, _ = await post(
            served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"}, key="eve"
        )
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        await asking

    assert (got, body["error"]["param"]) == (status, param)
    assert stranger == 404
    assert files.deleted == ["/a"]


async def test_a_run_that_waits_can_be_cancelled(door: Door) -> None:
    files = Deleting()
    async with door.serving(ScriptedModel(asks("delete", path="/a")), files.tool) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI}))
        run, _ = await asked_of(served)
        status, cancelled = await post(served, f"/runs/{run}/cancel")
        await asking

    assert (status, cancelled["state"], files.deleted) == (200, "cancelled", [])


async def test_an_answer_goes_on_with_a_run_whose_process_is_gone(door: Door) -> None:
    files = Deleting()
    model = ScriptedModel(asks("delete", path="/a"), says("Done."))
    async with door.serving(model, files.tool) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI}))
        run, question = await asked_of(served)
        [events] = await served.events
        await post(served, f"/runs/{run}/cancel")
        await asking
    left = Remembering()
    left.append(run, events)
    left.release(run, waiting=True)

    async with door.serving(model, files.tool, journal=left) as served, soon():
        _, waiting = await get(served, f"/runs/{run}")
        _, page = await get(served, "/runs?state=waiting")
        wrong, _ = await post(served, f"/runs/{run}/answer", {"id": "ask_nothing", "decision": "approve"})
        status, _ = await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        await Follower(served, run).read()
        _, ended = await get(served, f"/runs/{run}")

    assert (waiting["state"], [one["id"] for one in page["data"]]) == ("waiting", [run])
    assert (wrong, status, files.deleted) == (404, 200, ["/a"])
    assert (ended["state"], ended["result"]["text"]) == ("finished", "Done.")


async def test_a_run_is_steered(door: Door) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await go_on.wait()
        return "waited"

    model = ScriptedModel(asks("wait"), says("Shorter."))
    async with door.serving(model, wait) as served, soon():
        asking = asyncio.create_task(served.ask(stream=False))
        await started.wait()
        [run] = served.server.runs.live
        empty, refused = await post(served, f"/runs/{run}/steer", {})
        status, _ = await post(served, f"/runs/{run}/steer", {"text": "Make it short."})
        go_on.set()
        await asking
        over, _ = await post(served, f"/runs/{run}/steer", {"text": "Too late."})

    assert (empty, refused["error"]["param"]) == (400, "text")
    assert (status, over) == (200, 409)
    assert model.heard[1][-1] == user("Make it short.")
