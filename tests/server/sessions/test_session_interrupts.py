"""A client whose run was interrupted by another request is told so: not that the server is stopping, which it would ask again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door, Json, Served, soon
from tests.server.session_doors import DOORS, request_of

from ronda.testing import ScriptedModel, calls, says
from ronda.tools.function import FunctionTool, tool

WHY = "another request interrupted this run, because it continues the session or deletes it"


class Waiting:
    """A tool that waits until its run is ended."""

    def __init__(self) -> None:
        self.started = asyncio.Event()

        @tool
        async def wait_for_ever() -> str:
            """Wait."""
            self.started.set()
            await asyncio.Event().wait()
            return "done"

        self.tool: FunctionTool = wait_for_ever


async def send(served: Served, dialect: str, text: str, **fields: Any) -> tuple[int, str | None, str]:
    """The status, whether a client's library should ask again, and the body."""
    path, body = request_of(dialect, [("user", text)])
    sent = {"authorization": "Bearer test"}
    async with (
        soon(),
        served.http.post(f"{served.url}/{path}", json={**body, "session_id": "s", **fields}, headers=sent) as answer,
    ):
        return answer.status, answer.headers.get("x-should-retry"), await answer.text()


def error_in(dialect: str, body: Json) -> tuple[str, str | None]:
    """Its message and code, as each dialect has them."""
    if dialect == "mistral":
        return body["message"], body.get("code")
    return body["error"]["message"], body["error"].get("code")


@pytest.mark.parametrize("dialect", DOORS)
async def test_an_interrupted_client_reads_a_conflict(door: Door, dialect: str) -> None:
    waiting = Waiting()
    model = ScriptedModel(calls("wait_for_ever"), says("On we go."))
    async with door.serving(model, waiting.tool) as served:
        first = asyncio.create_task(send(served, dialect, "Wait."))
        async with soon():
            await waiting.started.wait()
        second = await send(served, dialect, "Go on.", on_busy="interrupt")
        status, retry, text = await first

    message, code = error_in(dialect, json.loads(text))
    assert second[0] == 200
    assert (status, retry, message) == (409, "false", WHY)
    assert code in ("superseded", None)  # Anthropic's errors have none


@pytest.mark.parametrize("dialect", DOORS)
async def test_an_interrupted_stream_ends_with_what_happened(door: Door, dialect: str) -> None:
    waiting = Waiting()
    model = ScriptedModel(calls("wait_for_ever"), says("On we go."))
    async with door.serving(model, waiting.tool) as served:
        first = asyncio.create_task(send(served, dialect, "Wait.", stream=True))
        async with soon():
            await waiting.started.wait()
        await send(served, dialect, "Go on.", on_busy="interrupt")
        status, _, text = await first

    assert (status, WHY in text, "stopping" in text) == (200, True, False)


async def test_a_deleted_session_ends_its_run_with_the_same_word(door: Door) -> None:
    waiting = Waiting()
    async with door.serving(ScriptedModel(calls("wait_for_ever")), waiting.tool) as served:
        first = asyncio.create_task(send(served, "chat", "Wait."))
        async with soon():
            await waiting.started.wait()
            await served.http.delete(f"{served.url}/sessions/s", headers={"authorization": "Bearer test"})
        status, _, text = await first

    assert (status, json.loads(text)["error"]["code"]) == (409, "superseded")


async def test_a_run_that_another_request_cancels_is_a_conflict_and_no_library_repeats_it(door: Door) -> None:
    waiting = Waiting()
    model = ScriptedModel(calls("wait_for_ever"))
    async with door.serving(model, waiting.tool) as served:
        client = openai.AsyncOpenAI(base_url=served.url, api_key="test", max_retries=2)
        asking = asyncio.create_task(
            client.chat.completions.create(
                model="default",
                messages=[{"role": "user", "content": "Wait."}],
                extra_headers={"x-ronda-run": "run_cancelled2"},
            )
        )
        async with soon():
            await waiting.started.wait()
            await served.http.post(f"{served.url}/runs/run_cancelled2/cancel", headers={"authorization": "Bearer test"})
            with pytest.raises(openai.ConflictError, match="the run was cancelled") as told:
                await asking
        await client.close()

    assert told.value.code == "cancelled"
    assert len(model.heard) == 1
