"""Sessions as a page shows them: titles of their own, how each stands, found by words, and conversations page by page."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.interaction.doors import Door, Served, soon
from tests.server.runs_door import HI, Deleting, ask, asked_of, get, post, post_quietly

from ronda import tool
from ronda.core.parts import Usage
from ronda.testing import ScriptedModel, calls, says


@tool
async def look(city: str) -> str:
    """Look at the weather."""
    return f"cold in {city}"


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def sessions(served: Served, query: str = "", key: str = "test") -> list[Any]:
    status, page = await get(served, f"/sessions{query}", key=key)
    assert status == 200, page
    return list(page["data"])


async def patch(served: Served, session: str, **labels: object) -> None:
    sent = {"authorization": "Bearer test"}
    async with soon(), served.http.patch(f"{served.url}/sessions/{session}", json=labels, headers=sent) as answer:
        assert answer.status == 200


async def test_a_session_has_its_first_words_for_a_title_until_a_person_gives_another(door: Door) -> None:
    async with door.serving(ScriptedModel(*[says("A.")] * 4)) as served:
        await ask(served, session_id="s1", messages=said("What is\nthe weather? " + "x" * 200))
        [first] = await sessions(served)
        await patch(served, "s1", title="Mine")
        await ask(served, session_id="s1", messages=said("And now?"))
        [second] = await sessions(served)
        await patch(served, "s1", title=None)
        await ask(served, session_id="s1", messages=said("And then?"))
        [third] = await sessions(served)

    assert first["title"].startswith("What is the weather? xxx")
    assert first["title"].endswith("x…")
    assert len(first["title"]) == 80
    assert (second["title"], third["title"]) == ("Mine", None)


async def test_a_list_tells_how_sessions_stand(door: Door) -> None:
    deleting = Deleting()
    model = ScriptedModel(says("A."), calls("delete", path="x"), says("Done."))
    async with door.serving(model, deleting.tool) as served, soon():
        await ask(served, session_id="s1")
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "session_id": "s1"}))
        run, question = await asked_of(served)
        while (row := (await sessions(served))[0])["state"] != "waiting":
            pass
        _, page = await get(served, "/sessions/s1?limit=1")
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        await asking
        [after] = await sessions(served)

    assert (row["run"], page["state"], page["run"]) == (run, "waiting", run)
    assert (after["state"], after["run"]) == ("finished", None)


async def test_sessions_are_found_by_titles_and_words(door: Door) -> None:
    async with door.serving(ScriptedModel(*[says("A.")] * 4)) as served:
        await ask(served, session_id="s1", messages=said("The weather"))
        await ask(served, session_id="s1", messages=said("And in Oslo?"))
        await ask(served, session_id="s2", messages=said("The news"))
        await patch(served, "s2", title="Über the News")
        await ask(served, key="bob", session_id="s3", messages=said("Oslo"))
        found = {
            words: [row["id"] for row in await sessions(served, f"?q={words}")]
            for words in ("oslo", "über", "s2", "nothing", "the")
        }
        _, page = await get(served, "/sessions?q=the&limit=1")
        _, rest = await get(served, f"/sessions?q=the&limit=1&before={page['next']}")

    assert found == {"oslo": ["s1"], "über": ["s2"], "s2": ["s2"], "nothing": [], "the": ["s2", "s1"]}
    assert [row["id"] for row in (*page["data"], *rest["data"])] == ["s2", "s1"]


async def test_each_branch_of_a_session_comes_in_pages(door: Door) -> None:
    async with door.serving(ScriptedModel(says("One."), says("Two."), says("Three."))) as served:
        first = await ask(served, session_id="s1", messages=said("Hi"))
        edited = await ask(served, session_id="s1", messages=said("Hello"), session_mode="replace")
        _, page = await get(served, "/sessions/s1?limit=1")
        [old, new] = page["branches"]
        _, branch = await get(served, f"/sessions/s1?limit=1&branch={old['id']}")
        _, before = await get(served, f"/sessions/s1?limit=1&branch={old['id']}&before={branch['next']}")
        unknown, refused = await get(served, "/sessions/s1?limit=1&branch=99")

    assert [(one["run"], one["is_head"]) for one in (old, new)] == [(first, False), (edited, True)]
    assert (page["branch"], branch["branch"]) == (new["id"], old["id"])
    told = [(turn["run"], turn["messages"][0]["content"]) for one in (page, branch, before) for turn in one["data"]]
    assert told == [(edited, "Two."), (first, "One."), (first, "Hi")]
    assert (unknown, refused["error"]["code"]) == (404, "branch_not_found")


async def test_a_conversation_comes_from_its_end_with_runs_and_rounds(door: Door) -> None:
    model = ScriptedModel(says("One."), calls("look", city="Oslo"), says("Cold.", usage=Usage(7, 3, cost=0.5)))
    async with door.serving(model, look) as served:
        first = await ask(served, session_id="s1", messages=said("Hi"))
        second = await ask(served, session_id="s1", messages=said("Oslo?"))
        _, page = await get(served, "/sessions/s1?limit=4")
        _, before = await get(served, f"/sessions/s1?limit=4&before={page['next']}")
        _, run = await get(served, f"/runs/{second}")
        others, _ = await get(served, "/sessions/s1?limit=4", key="bob")

    told = [(turn["index"], turn["run"], turn["round"], turn["messages"][0]["role"]) for turn in page["data"]]
    assert told == [
        (2, second, None, "user"),
        (3, second, 0, "assistant"),
        (4, second, 0, "tool"),
        (5, second, 1, "assistant"),
    ]
    assert [(turn["index"], turn["run"], turn["round"]) for turn in before["data"]] == [(0, first, None), (1, first, 0)]
    assert (page["has_more"], page["next"], before["has_more"], before["next"]) == (True, "2", False, None)
    assert page["data"][3]["usage"] == {
        "input_tokens": 7,
        "output_tokens": 3,
        "cached_tokens": 0,
        "reasoning_tokens": 0,
        "cost": 0.5,
    }
    times = [turn["at"] for turn in page["data"]]
    assert times == sorted(times)
    assert run["created_at"] == times[0]
    assert (page["state"], page["run"], others) == ("finished", None, 404)


async def test_a_page_has_what_messages_do_not_say(door: Door) -> None:
    thinks = says("Cold.", reasoning="Let me see.")
    async with door.serving(ScriptedModel(calls("look", town="Oslo"), thinks), look) as served:
        await ask(served, session_id="s1", messages=said("Oslo?"))
        _, page = await get(served, "/sessions/s1?limit=10")

    told = [turn.get("turn") for turn in page["data"]]
    assert (told[:2], told[2]["results"][0]["failed"]) == ([None, None], True)
    assert told[3]["parts"][0] == {"type": "reasoning", "text": "Let me see."}


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "limit=5&before=x"])
async def test_a_page_that_cannot_be_is_refused(door: Door, query: str) -> None:
    async with door.serving(ScriptedModel(says("A."))) as served:
        await ask(served, session_id="s1")
        status, body = await get(served, f"/sessions/s1?{query}")

    assert (status, body["error"]["param"]) == (400, query.rpartition("&")[2].partition("=")[0])
