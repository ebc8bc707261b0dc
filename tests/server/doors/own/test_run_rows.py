"""GET /v1/runs and /v1/runs/summary: what a list tells of each run, how it is chosen from, and how runs are counted."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.interaction.doors import Door, Served, soon
from tests.server.runs_door import HI, Deleting, ask, asked_of, get, post, post_quietly

from ronda import tool
from ronda.core.events import Event
from ronda.core.parts import Usage
from ronda.journal.memory import MemoryJournal
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks


@tool
async def look(city: str) -> str:
    """Look at the weather."""
    return f"cold in {city}"


async def listed(served: Served, query: str = "", key: str = "test") -> list[Any]:
    status, page = await get(served, f"/runs{query}", key=key)
    assert status == 200, page
    return list(page["data"])


async def test_a_row_tells_what_was_asked_and_what_came_of_it(door: Door) -> None:
    first = msgspec.structs.replace(asks("look", city="Oslo"), usage=Usage(10, 5, cost=0.25))
    model = ScriptedModel(first, says("Cold.", usage=Usage(40, 8, 10, 2, cost=0.5)))
    async with door.serving(model, look) as served:
        run = await ask(served, session_id="s1", messages=[{"role": "user", "content": "What  is it\nlike in Oslo?"}])
        [row] = await listed(served)
        _, whole = await get(served, f"/runs/{run}")

    assert {**row, "created_at": 0, "ended_at": 0} == {
        "object": "run",
        "id": run,
        "state": "finished",
        "agent": None,
        "session": "s1",
        "created_at": 0,
        "ended_at": 0,
        "model": whole["model"],
        "input": "What is it like in Oslo?",
        "parent": None,
        "group": None,
        "kept": False,
        "rounds": 2,
        "tool_calls": 1,
        "usage": {"input_tokens": 50, "output_tokens": 13, "cached_tokens": 10, "reasoning_tokens": 2},
        "cost": 0.75,
        "end": {"reason": "stop", "limit": None, "code": None},
        "questions": [],
    }
    assert (whole["usage"]["rounds"], whole["usage"]["tool_calls"]) == (2, 1)


async def test_an_unknown_price_is_null_and_a_failure_has_its_code(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        await post(served, "/chat/completions", {"messages": HI})
        [row] = await listed(served)

    assert (row["state"], row["cost"], row["end"]) == (
        "failed",
        None,
        {"reason": "failed", "limit": None, "code": "model_failed"},
    )


async def test_a_row_has_the_open_questions_without_their_arguments(door: Door) -> None:
    deleting = Deleting()
    async with door.serving(ScriptedModel(asks("delete", path="x"), says("Done.")), deleting.tool) as served, soon():
        asking = asyncio.create_task(post_quietly(served, {"messages": HI, "session_id": "s"}))
        run, question = await asked_of(served)
        while not (rows := await listed(served, "?state=waiting,failed")):
            pass
        [row] = rows
        await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
        await asking
        [after] = await listed(served)

    [told] = row["questions"]
    assert (told["id"], told["kind"], told["tool"]) == (question["id"], "approval", "delete")
    assert sorted(told) == ["asked_at", "id", "kind", "tool"]
    assert (after["state"], after["questions"]) == ("finished", [])


async def test_rows_are_chosen_by_words_model_time_and_cost(door: Door) -> None:
    spent = Usage(1, 1, cost=0.5)
    async with door.serving(ScriptedModel(says("A.", usage=spent), says("B."))) as served:
        first = await ask(served, messages=[{"role": "user", "content": "The Weather"}])
        second = await ask(served, messages=[{"role": "user", "content": "The news"}])
        [row, _] = await listed(served)
        found = {
            query: [run["id"] for run in await listed(served, f"?{query}")]
            for query in (
                "q=weather",
                f"q={second}",
                "min_cost=0.5",
                "min_cost=1",
                f"model={row['model']}&model=other",
                "model=other",
                "since=2001-01-01T00:00:00Z",
                "until=2001-01-01",
                "since=99999999999",
                "state=finished&state=failed",
                "state=failed,waiting",
                "children=false",
                f"parent={first}",
                f"root={first}",
                "q=%00",
            )
        }
        others = await listed(served, f"?root={first}", key="bob")

    both = [second, first]
    assert list(found.values()) == [
        [first],
        [second],
        [first],
        [],
        both,
        [],
        both,
        [],
        [],
        both,
        [],
        both,
        [],
        [first],
        [],
    ]
    assert others == []


async def test_runs_that_go_on_from_another_are_found_by_it(door: Door) -> None:
    async with door.serving(ScriptedModel(*[says(str(number)) for number in range(3)])) as served:
        first = await ask(served)
        runs = [first]
        for _ in range(2):
            _, group = await post(served, "/runs", {"input": "On.", "parent": runs[-1]})
            [row] = group["data"]
            assert (row["state"], row["input"], row["parent"]) == ("queued", "On.", {"run": runs[-1], "call": None})
            runs.append(row["id"])
            await get(served, f"/runs/{row['id']}/events")
        line = [run["id"] for run in await listed(served, f"?root={first}")]
        after = [run["id"] for run in await listed(served, f"?parent={first}")]

    assert line == runs[::-1]
    assert after == [runs[1]]


async def test_a_run_is_marked_as_the_one_that_was_kept(door: Door) -> None:
    sent = {"authorization": "Bearer test"}
    async with door.serving(ScriptedModel(says("A."), says("B."))) as served:
        first, second = await ask(served), await ask(served)

        async def mark(body: object, run: str = first) -> tuple[int, Any]:
            async with soon(), served.http.patch(f"{served.url}/runs/{run}", json=body, headers=sent) as answer:
                return answer.status, await answer.json()

        status, row = await mark({"kept": True})
        kept = [one["id"] for one in await listed(served, "?kept=true")]
        rest = [one["id"] for one in await listed(served, "?kept=false")]
        wrong: list[object] = [{}, {"kept": "yes"}, {"state": "failed"}, []]
        refused = [(await mark(body))[0] for body in wrong]
        unknown, _ = await mark({"kept": True}, "run_nothing")
        await mark({"kept": False})
        after = await listed(served, "?kept=true")

    assert (status, row["id"], row["kept"], row["state"]) == (200, first, True, "finished")
    assert (kept, rest, after) == ([first], [second], [])
    assert (refused, unknown) == ([400, 400, 400, 400], 404)


async def test_runs_are_counted_by_state_and_time(door: Door) -> None:
    async with door.serving(ScriptedModel(says("A."))) as served:
        await ask(served)
        await post(served, "/chat/completions", {"messages": HI})
        status, counts = await get(served, "/runs/summary?span=1h&pieces=6")
        _, chosen = await get(served, "/runs/summary?q=nothing")
        _, others = await get(served, "/runs/summary", key="bob")

    assert (status, counts["states"]["finished"], counts["states"]["failed"], counts["step"]) == (200, 1, 1, 600.0)
    assert [piece["states"] for piece in counts["histogram"]] == [{}] * 5 + [{"finished": 1, "failed": 1}]
    assert counts["histogram"][0]["at"] == counts["since"] == counts["until"] - 3600
    assert set(chosen["states"].values()) == set(others["states"].values()) == {0}
    assert len(chosen["histogram"]) == 48


@pytest.mark.parametrize(
    "query",
    [
        "since=x",
        "until=",
        "min_cost=-1",
        "min_cost=nan",
        "children=maybe",
        "state=running,asleep",
        "span=9y",
        "pieces=0",
    ],
)
async def test_what_cannot_be_is_refused_by_name(door: Door, query: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, body = await get(served, f"/runs/summary?{query}")

    assert (status, body["error"]["param"]) == (400, query.partition("=")[0])


class CountsReads(MemoryJournal):
    reads = 0

    async def read(self, run: str) -> list[Event]:
        self.reads += 1
        return await super().read(run)


async def test_a_list_reads_no_events(door: Door) -> None:
    journal = CountsReads()
    async with door.serving(ScriptedModel(*[says("A.")] * 5), journal=journal) as served:
        for _ in range(5):
            await ask(served)
        before = journal.reads
        rows = await listed(served)
        await get(served, "/runs/summary")

    assert (len(rows), journal.reads) == (5, before)
