"""POST /v1/runs: variants are sibling runs of one group, each of which is its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Served, soon
from tests.server.app_door import PAGE, PageModel, Parts, call, create, results_of
from tests.server.runs_door import get, post

from ronda.core.events import ModelFinished
from ronda.core.parts import Text, UserTurn
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import UpstreamError
from ronda.journal.sqlite import SqliteJournal
from ronda.store.sqlite_catalog import SqliteCatalog


async def ended(served: Served, run: str) -> Json:
    """A run, when it is over: its events end then."""
    await get(served, f"/runs/{run}/events")
    return dict((await get(served, f"/runs/{run}"))[1])


async def start(served: Served, **body: Any) -> tuple[str, list[str]]:
    status, group = await post(served, "/runs", body)
    assert status == 202, group
    return group["id"], [run["id"] for run in group["data"]]


async def test_variants_are_runs_of_one_group(door: Door) -> None:
    pages = [PAGE, PAGE.replace("Hello", "Hi")]

    def turns(variant: int, round: int) -> Parts:
        return [Text("Done.")] if round else [create(pages[variant])]

    async with door.serving(PageModel(of_variant=turns)) as served:
        group, runs = await start(served, variants=2, input="A page.", files={})
        over = [await ended(served, run) for run in runs]
        _, listed = await get(served, f"/runs?group={group}")
        others = await get(served, f"/runs?group={group}", key="other")

    assert sorted(run["files"]["index.html"] for run in over) == sorted(pages)
    assert [run["group"] for run in over] == [group, group]
    assert [(run["id"], run["state"]) for run in listed["data"]] == [(run, "finished") for run in runs]
    assert others == (200, {"object": "list", "data": [], "has_more": False, "next": None})


async def test_a_variant_is_written_by_one_of_several_models(door: Door, tmp_path: Path) -> None:
    script = tmp_path / "other.json"
    content = {"path": "index.html", "content": PAGE}
    script.write_text(json.dumps([{"calls": [{"name": "create_file", "arguments": content}]}, "Done."]))
    models = {"other": {"model": f"script:{script}"}}
    async with door.serving(PageModel([create()]), models=models) as served:
        _, runs = await start(served, variants=2, model=["default", "other"], input="A page.", files={})
        over = [await ended(served, run) for run in runs]

    assert [(run["state"], run["files"]["index.html"]) for run in over] == [("finished", PAGE)] * 2


async def test_the_answer_names_its_runs_and_says_where_they_are_listed(door: Door) -> None:
    async with door.serving(PageModel()) as served:
        body, headers = {"variants": 2, "input": "A page.", "files": {}}, {"authorization": "Bearer test"}
        async with soon(), served.http.post(f"{served.url}/runs", json=body, headers=headers) as answer:
            started = [run["id"] for run in (await answer.json())["data"]]
        _, listed = await get(served, answer.headers["location"].removeprefix("/v1"))

        async with soon(), served.http.post(f"{served.url}/runs", json={"input": "Hi."}, headers=headers) as one:
            [alone] = (await one.json())["data"]

    assert one.headers["location"] == f"/v1/runs/{alone['id']}"
    assert answer.headers["x-ronda-run"] == ", ".join(started)
    assert sorted(run["id"] for run in listed["data"]) == sorted(started)


async def test_one_that_fails_leaves_the_others_alone(door: Door) -> None:
    class Failing(PageModel):
        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            if self.variant_of(request) == 1:
                raise UpstreamError("no", status=400, retryable=False)
            return await super().call(request, show)

    async with door.serving(Failing([create()])) as served:
        _, runs = await start(served, variants=3, input="A page.", files={})
        states = [(await ended(served, run))["state"] for run in runs]

    assert sorted(states) == ["failed", "finished", "finished"]


async def test_one_is_cancelled_and_another_read(door: Door) -> None:
    """A variant reads the page of a sibling, as it stands."""

    class Reading(PageModel):
        go = asyncio.Event()
        begun = asyncio.Event()

        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            if self.variant_of(request) == 1 and not request.round:
                self.begun.set()
                await self.go.wait()
            return await super().call(request, show)

    def turns(variant: int, round: int) -> Parts:
        if variant == 0:
            return [Text("Done.")] if round else [create()]
        second: list[Parts] = [
            [call("retrieve_option", option_number=1)],
            [create(PAGE + "<!-- too -->")],
            [Text("Done.")],
        ]
        return second[round]

    model = Reading(of_variant=turns)
    async with door.serving(model, background_per_owner=1) as served, soon():
        _, runs = await start(served, variants=3, input="A page.", files={})
        await ended(served, runs[0])
        await model.begun.wait()
        status, last = await post(served, f"/runs/{runs[2]}/cancel")
        model.go.set()
        second = await ended(served, runs[1])

    assert (status, last["state"]) == (200, "cancelled")
    assert second["files"]["index.html"].endswith("<!-- too -->")
    (read,) = [results_of(request) for request in model.requests if request.run == runs[1] and request.round == 1]
    assert read == [{"option_number": 1, "code": PAGE}]


async def test_a_run_is_gone_on_with(door: Door) -> None:
    def turns(variant: int, round: int) -> Parts:
        if round:
            return [Text("Done.")]
        return [create()] if variant == 0 else [call("edit_file", old_text="Hello", new_text="Good evening")]

    model = PageModel(of_variant=turns)
    async with door.serving(model) as served:
        _, (first,) = await start(served, input="A page.", files={}, instructions="Be brief.")
        await ended(served, first)
        _, (second,) = await start(served, parent=first, input="Wish a good evening.")
        run = await ended(served, second)

    assert run["parent"]["run"] == first
    assert run["group"] is None
    assert run["files"]["index.html"] == PAGE.replace("Hello", "Good evening")
    kinds = [type(turn).__name__ for turn in model.requests[2].turns]
    assert kinds == ["SystemTurn", "UserTurn", "AssistantTurn", "ToolTurn", "AssistantTurn", "UserTurn"]


async def test_without_files_it_is_a_run_as_any_other(door: Door) -> None:
    model = PageModel([Text("Oslo is cold.")])
    async with door.serving(model) as served:
        _, runs = await start(served, input=[{"role": "user", "content": "How is Oslo?"}], variants=2, model="default")
        over = [await ended(served, run) for run in runs]

    assert [run["result"]["text"] for run in over] == ["Oslo is cold."] * 2
    assert "files" not in over[0]
    assert [request.tools for request in model.requests] == [(), ()]
    assert model.requests[0].turns == (UserTurn((Text("How is Oslo?"),)),)


async def test_a_page_goes_on_in_the_next_server(door: Door, tmp_path: Path) -> None:
    """What was written before its server ended is there after that."""

    class Stopping(PageModel):
        waiting = asyncio.Event()

        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            if request.round:
                self.waiting.set()
                await asyncio.Event().wait()
            return await super().call(request, show)

    first = Stopping([create()])
    # Two rounds were begun before: the second counts, though nothing came of it.
    then = PageModel([], [], [call("edit_file", id="c2", old_text="Hello", new_text="Still here")], [Text("Done.")])
    journal, catalog = SqliteJournal(str(tmp_path / "j.db")), SqliteCatalog(str(tmp_path / "c.db"))
    async with door.serving(first, journal=journal, catalog=catalog) as served, soon():
        _, (run,) = await start(served, input="A page.", files={})
        await first.waiting.wait()
    journal, catalog = SqliteJournal(str(tmp_path / "j.db")), SqliteCatalog(str(tmp_path / "c.db"))
    async with door.serving(then, journal=journal, catalog=catalog) as served, soon():
        served.server.background.start()
        found = await ended(served, run)

    assert found["state"] == "finished"
    assert found["files"]["index.html"] == PAGE.replace("Hello", "Still here")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": "x", "variants": 0}, "variants"),
        ({"input": "x", "variants": 9}, "variants"),
        ({"input": "x", "files": {"../x": "y"}}, "files"),
        ({"input": "x", "files": {str(n): "" for n in range(101)}}, "files"),
        ({"input": "x", "model": "absent"}, "model"),
        ({"input": "x", "parent": "run_absent"}, "parent"),
        ({"input": "x", "colour": "red"}, "colour"),
        ({"input": 7}, "input"),
    ],
)
async def test_what_cannot_be_run_is_refused_by_name(door: Door, body: Json, param: str) -> None:
    async with door.serving(PageModel()) as served:
        status, answer = await post(served, "/runs", body)
        _, listed = await get(served, "/runs")

    assert status in (400, 404)
    assert answer["error"]["param"] == param
    assert listed["data"] == []
