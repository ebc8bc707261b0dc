"""Whichever await of a store fails, once: everything ends or is told, nothing is held for ever, and no call is made twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.interaction.doors import Door, Json, Pauses, Served
from tests.server.failing_stores import Faults, FaultyCatalog, FaultyJournal, every_fault
from tests.server.services.test_leaving import Gate

from ronda import tool
from ronda.core.calls import OUTCOME_UNKNOWN
from ronda.core.events import Answered, ModelFinished, RunFinished, ToolFinished
from ronda.core.parts import UserTurn
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.host.host import LAST_SECONDS
from ronda.testing import Call, ScriptedModel, calls, says

BEFORE_AND_AFTER = pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
SECONDS = 20.0  # after which something hangs
KEY = {"authorization": "Bearer test"}


class Counts:
    """A tool that counts its calls, and one that a person has to allow."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

        @tool
        async def count(what: str) -> str:
            """Count."""
            self.counted[what] += 1
            return f"counted {what}"

        @tool(approval="ask")
        async def delete(what: str) -> str:
            """Delete."""
            self.counted[what] += 1
            return f"deleted {what}"

        self.tools = (count, delete)


class Steady:
    """A model that says the same to a client that asks the same, however often: a call first, then an answer."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        is_first = type(request.turns[-1]) is UserTurn
        line = calls(Call(self._name, {"what": "it"})) if is_first else says("over")
        return await ScriptedModel(line).call(request, show)


class Tried:
    """A server with stores that fail, and what it said."""

    def __init__(self, served: Served, faults: Faults, journal: FaultyJournal, tools: Counts, pauses: Pauses) -> None:
        self.served = served
        self.server = served.server
        self.faults = faults
        self.journal = journal
        self.tools = tools
        self.pauses = pauses

    async def ask(self, method: str, path: str, body: Json | aiohttp.FormData | None = None) -> tuple[int, Any]:
        """What is told is an answer, or an error that says that a store failed: nothing else, and never nothing."""
        how: dict[str, Any] = {"data": body} if isinstance(body, aiohttp.FormData) else {"json": body}
        async with self.served.http.request(method, f"{self.served.url}{path}", headers=KEY, **how) as answer:
            data = await answer.read()
            assert answer.status in (200, 202, 404, 409, 503), (self.faults, answer.status, data)
            if answer.status == 503:
                assert b"cannot keep or find this" in data, (self.faults, data)
            if answer.content_type != "application/json":
                return answer.status, data
            found = json.loads(data)
            return answer.status, found if answer.status < 300 else {}

    @property
    def has_unknown_outcome(self) -> bool:
        """A call was about to begin, and it is not known whether it did: then it is not made again."""
        facts = [fact for run in self.journal.runs for fact in self.journal.facts(run)]
        return any(type(fact) is ToolFinished and fact.result.content == OUTCOME_UNKNOWN for fact in facts)

    async def settle(self) -> None:
        """Until nothing is under way; then look at the results, with stores that work."""
        await self.journal.until_settled()
        self.faults.is_on = False
        for run in self.journal.waiting:  # a client that was not told about a question finds it in the list
            _, found = await self.ask("GET", "/agent/approvals")
            [question] = [one for one in found["data"] if one["run_id"] == run]
            status, _ = await self.ask("POST", f"/agent/approvals/{question['approval_id']}", {"decision": "approve"})
            assert status == 200, self.faults
        await self.journal.until_settled()
        queue = self.server.catalog.queue
        while await queue.list(0.0):  # noqa: ASYNC110  # what is looked at rings no bell
            await asyncio.sleep(0.001)
        assert (self.journal.held, self.server.runs.live) == ([], {}), self.faults
        assert all(count == 1 for count in self.tools.counted.values()), (self.faults, self.tools.counted)
        for run in self.journal.runs:
            _, shown = await self.ask("GET", f"/runs/{run}")
            assert shown["state"] in ("finished", "failed", "cancelled", "interrupted"), (self.faults, shown)


@asynccontextmanager
async def tried(door: Door, faults: Faults, name: str = "count", **config: Any) -> AsyncIterator[Tried]:
    tools, pauses = Counts(), Pauses()
    journal, catalog = FaultyJournal(faults), FaultyCatalog(faults)
    async with asyncio.timeout(SECONDS):
        async with door.serving(
            Steady(name), *tools.tools, journal=journal, catalog=catalog, sleep=pauses, **config
        ) as served:
            served.server.runs.clock = lambda: 0.0  # no lease runs out, which would hide one that nothing releases
            try:
                yield Tried(served, faults, journal, tools, pauses)
            except asyncio.CancelledError as error:
                left = {run: [type(one).__name__ for one in journal.facts(run)] for run in journal.unfinished}
                raise AssertionError(f"{faults}, and something hangs: held {journal.held}, not over {left}") from error


@BEFORE_AND_AFTER
async def test_a_background_run_ends_or_was_never_there(door: Door, is_done: bool) -> None:
    for faults in every_fault(is_done=is_done):
        async with tried(door, faults) as it:
            status, _ = await it.ask("POST", "/responses", {"input": "go", "background": True})
            await it.settle()
            ends = [end.reason for run in it.journal.runs for end in it.journal.facts(run) if type(end) is RunFinished]

        if status == 202:
            assert ends == ["stop"], (faults, ends)
            assert it.tools.counted == {"it": 1} or it.has_unknown_outcome, faults
        else:
            assert set(ends) <= {"cancelled", "stop"}, (faults, ends)


@BEFORE_AND_AFTER
@pytest.mark.parametrize("door_of", ["approvals", "chat", "runs"])
async def test_an_approval_is_in_the_journal_or_is_not_acknowledged(door: Door, is_done: bool, door_of: str) -> None:
    for faults in every_fault(is_done=is_done):
        async with tried(door, faults, "delete", approval_timeout=0.0) as it:
            asked, answer = await it.ask("POST", "/chat/completions", {"messages": "go"})
            if asked == 200:
                [approval] = answer["approvals"]
                status = await _approve(it, door_of, approval)
                if status == 200:
                    [run] = it.journal.runs
                    assert any(type(fact) is Answered for fact in it.journal.facts(run)), faults
                else:
                    again = await _approve(it, door_of, approval)
                    assert again in (200, 404, 409), (faults, again)
            await it.settle()

        assert it.tools.counted or it.has_unknown_outcome or not it.journal.runs, faults


async def _approve(it: Tried, door_of: str, approval: Json) -> int:
    approval_id = approval["approval_id"]
    match door_of:
        case "approvals":
            return (await it.ask("POST", f"/agent/approvals/{approval_id}", {"decision": "approve"}))[0]
        case "runs":
            [run] = it.journal.runs
            return (await it.ask("POST", f"/runs/{run}/answer", {"id": approval_id, "decision": "approve"}))[0]
    body = {"messages": [], "approvals": [{"id": approval_id, "decision": "approve"}]}
    return (await it.ask("POST", "/chat/completions", body))[0]


@BEFORE_AND_AFTER
async def test_a_session_is_free_again(door: Door, is_done: bool) -> None:
    for faults in every_fault(is_done=is_done):
        async with tried(door, faults) as it:
            body = {"messages": "go", "session_id": "s"}
            for more in ({}, {"stream": True}):
                await it.ask("POST", "/chat/completions", {**body, **more})
                it.tools.counted.clear()  # each request makes the call
            await it.settle()
            status, _ = await it.ask("POST", "/chat/completions", {**body, "messages": "again"})

        assert status == 200, faults


@BEFORE_AND_AFTER
async def test_a_background_run_in_a_session_leaves_it_free(door: Door, is_done: bool) -> None:
    for faults in every_fault(is_done=is_done):
        async with tried(door, faults) as it:
            await it.ask("POST", "/responses", {"input": "go", "background": True, "session_id": "s"})
            await it.settle()
            it.tools.counted.clear()
            status, _ = await it.ask("POST", "/responses", {"input": "again", "session_id": "s"})

        assert status == 200, faults


@BEFORE_AND_AFTER
async def test_a_conversation_is_free_again(door: Door, is_done: bool) -> None:
    for faults in every_fault(is_done=is_done):
        async with tried(door, faults) as it:
            status, begun = await it.ask("POST", "/conversations", {"model": "default", "inputs": "go"})
            it.tools.counted.clear()
            if status == 200:
                await it.ask("POST", f"/conversations/{begun['conversation_id']}", {"inputs": "again"})
            await it.settle()
            it.tools.counted.clear()
            if status == 200:
                status, _ = await it.ask("POST", f"/conversations/{begun['conversation_id']}", {"inputs": "and again"})
                assert status == 200, faults


@BEFORE_AND_AFTER
@pytest.mark.parametrize("more", [{}, {"stream": True}, {"stream": True, "on_disconnect": "detach"}])
async def test_of_several_choices_none_is_left(door: Door, is_done: bool, more: Json) -> None:
    for faults in every_fault(is_done=is_done):
        async with tried(door, faults) as it:
            status, _ = await it.ask("POST", "/chat/completions", {"messages": "go", "n": 2, **more})
            assert it.tools.counted["it"] <= 2, faults
            it.tools.counted.clear()  # one call for each
            await it.settle()
        assert status == 200 or faults.hit, faults


@BEFORE_AND_AFTER
async def test_an_upload_is_there_or_is_not(door: Door, is_done: bool) -> None:
    for faults in every_fault(is_done=is_done):
        async with tried(door, faults) as it:
            status, file = await it.ask("POST", "/files", _form())
            if status == 200:
                read, _ = await it.ask("GET", f"/files/{file['id']}/content")
                gone, _ = await it.ask("DELETE", f"/files/{file['id']}")
                assert (read, gone) == (200, 200) or faults.hit, faults
            faults.is_on = False
            _, listed = await it.ask("GET", "/files")
            for one in listed["data"]:
                assert await it.ask("GET", f"/files/{one['id']}/content") == (200, b"hello"), faults
                assert (await it.ask("DELETE", f"/files/{one['id']}"))[0] == 200, faults
            await it.server.files.sweep()
            again, _ = await it.ask("POST", "/files", _form())

        assert again == 200, faults


def _form() -> aiohttp.FormData:
    form = aiohttp.FormData()
    form.add_field("purpose", "user_data")
    form.add_field("file", b"hello", filename="hello.txt", content_type="text/plain")
    return form


@BEFORE_AND_AFTER
async def test_whoever_follows_a_run_is_told_how_it_ends(door: Door, is_done: bool) -> None:
    for faults in every_fault(is_done=is_done):
        async with tried(door, faults) as it:
            status, later = await it.ask("POST", "/responses", {"input": "go", "background": True})
            if status == 202:
                run = "run_" + later["id"].removeprefix("resp_")
                paths = [f"/runs/{run}/events", f"/runs/{run}/events?after=0", f"/responses/{later['id']}?stream=true"]
                followed = await asyncio.gather(*[it.ask("GET", path) for path in paths])
                for told, data in followed:
                    is_end = told != 200 or b"run_finished" in data or b"response.completed" in data or b"error" in data
                    assert is_end, (faults, data)
            await it.settle()


@BEFORE_AND_AFTER
async def test_a_server_that_ends_hands_its_runs_on(door: Door, is_done: bool) -> None:
    for faults in every_fault(is_done=is_done):
        faults.is_on = False
        gate = Gate(cares=True)
        journal, catalog = FaultyJournal(faults), FaultyCatalog(faults)
        async with asyncio.timeout(SECONDS):
            async with door.serving(
                ScriptedModel(calls("wait")), gate.tool, journal=journal, catalog=catalog, sleep=Pauses()
            ) as served:
                served.server.runs.clock = lambda: 0.0
                async with served.http.post(
                    f"{served.url}/responses", json={"input": "go", "background": True}, headers=KEY
                ) as answer:
                    assert answer.status == 202
                await gate.begun.wait()
                faults.is_on = True
                await served.server.stop(LAST_SECONDS / 10)
                await served.server.close()
                faults.is_on = False
            assert journal.held == [], faults
            async with door.serving(
                ScriptedModel(says("over")), gate.tool, journal=journal, catalog=catalog, sleep=Pauses()
            ) as served:
                served.server.runs.clock = lambda: 1000.0  # the leases of the one before have run out
                served.server.open()
                served.server.background.start()
                await journal.until_settled()
