"""What the tests of /v1/runs share: requests to it, a model that goes on step by step, followers, and a tool that asks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.interaction.doors import Json, Remembering, Served, soon

from ronda import tool
from ronda.core.events import Asked, ModelFinished, ModelStarted, TextDelta
from ronda.core.parts import AssistantTurn, Text
from ronda.core.request import ModelRequest
from ronda.drive import Show

CALLERS = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object", "properties": {}}}}
HI = [{"role": "user", "content": "go"}]


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


async def post_quietly(served: Served, body: Json) -> None:
    sent = {"authorization": "Bearer test"}
    async with served.http.post(f"{served.url}/chat/completions", json=body, headers=sent) as answer:
        await answer.read()


class Stepwise:
    """A model that says a word when it is told to."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self._go_on = asyncio.Semaphore(0)
        self.is_asked = asyncio.Event()
        self.said = 0

    def step(self) -> None:
        self._go_on.release()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.is_asked.set()
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
        sent = {"authorization": "Bearer test"}
        async with self.served.http.get(self.served.url + self.address, headers=sent) as answer:
            assert answer.status in (200, 204), await answer.text()
            self.begun.set()
            async for piece in answer.content.iter_any():
                self.body += piece
                if most is not None and self.body.count(b"\n\n") >= most:
                    self.body = b"".join([one + b"\n\n" for one in self.body.split(b"\n\n")[:most]])
                    break
        return self

    @property
    def address(self) -> str:
        return f"/runs/{self.run}/events" + ("" if self.after is None else f"?after={self.after}")

    @property
    def last(self) -> str | None:
        """The last position it has seen."""
        return frames(self.body)[-1][0] if self.body else self.after


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
