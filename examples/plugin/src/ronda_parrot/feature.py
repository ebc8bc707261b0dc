"""`--feature parrot`: a door that streams lines of JSON, a tool for requests that ask for images, a setting, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp

from ronda import tool
from ronda.core.events import Event, RunFinished, TextDelta
from ronda.core.parts import user
from ronda.core.run import Run
from ronda.core.transcript import final_text
from ronda.drive import Tool
from ronda.errors import BadRequest
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Feature, Figure, Services
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.routing import Dialect, Route
from ronda.server.setting import Setting
from ronda.store.sql import Sql
from ronda.wire.shared.capabilities import Capability
from ronda.wire.shared.door_request import DoorRequest
from ronda.wire.shared.failures import Failure

_encode: Final = msgspec.json.encode


class ParrotSettings(Struct, frozen=True):
    """Each field is a flag, a key of the settings file, a variable of the environment, and a row in `--help`."""

    parrot_words: Annotated[
        int, Setting("parrots", "--parrot-words N", "the most words that a parrot is asked to say", least=1)
    ] = 20


class Question(Struct):
    """What a client sends."""

    say: str
    model: str = "default"
    stream: bool = True


class Lines:
    """Events → lines of JSON. Both ways are folds of the same events."""

    content_type = (b"content-type", b"application/x-ndjson")  # instead of SSE's
    keep_alive = b"\n"

    def __init__(self, runs: Sequence[Run]) -> None:
        self._run = runs[0]

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        return b"".join([line for event in batch if (line := self._line(event))])

    def _line(self, event: Event | Failure) -> bytes:
        if isinstance(event, TextDelta):
            return _encode({"text": event.text}) + b"\n"
        if isinstance(event, Failure):
            return _encode({"error": event.message}) + b"\n"
        return _encode({"end": event.reason}) + b"\n" if isinstance(event, RunFinished) else b""

    def fold(self, sibling: int, batch: Sequence[Event]) -> None:
        """The run has everything that a plain answer says."""

    def body(self) -> bytes:
        return _encode({"said": final_text(self._run)})


def write_error(failure: Failure) -> bytes:
    return _encode({"error": failure.message})


PARROT: Final = Dialect("Parrots", write_error)


@tool
def draw_parrot(prompt: str) -> str:
    """Draw a parrot."""
    return f"(o> {prompt}"


class Parrots(Feature):
    name = "parrot"
    settings = ParrotSettings
    tables = (("CREATE TABLE parrot_request (owner {text} PRIMARY KEY, count {big}){by_key}",),)

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._most = settings.part(ParrotSettings).parrot_words
        self._max_body = settings.max_body
        self._answer, self._tables = services.answer, services.catalog
        self._asked = 0

    def routes(self) -> Sequence[Route]:
        return [
            Route("POST", "/parrot", PARROT, self.speak, "run"),
            Route("GET", "/parrot", PARROT, self.count, "read"),
        ]

    def capabilities(self) -> Mapping[Capability, Sequence[Tool]]:
        return {"images": [draw_parrot]}  # what a request asks for as `image_generation`

    def figures(self) -> Sequence[Figure]:
        return [Figure("parrot_requests", self._asked, kind="counter", help="Requests since the start.")]

    async def speak(self, request: Incoming) -> ASGIApp:
        question = await request.read(self._max_body, self._read)
        owner = request.owner

        def count(db: Sql) -> None:
            statement = """INSERT INTO parrot_request (owner, count) VALUES (?, 1)
                ON CONFLICT (owner) DO UPDATE SET count = parrot_request.count + 1"""
            db.execute(statement, (owner,))

        await self._tables.write(count)
        self._asked += 1
        asked = DoorRequest(model=question.model, turns=(user(question.say),), stream=question.stream)
        return await self._answer(request, asked, Lines, write_error)

    def _read(self, body: bytes) -> Question:
        try:
            question = msgspec.json.decode(body, type=Question)
        except msgspec.MsgspecError as error:
            raise BadRequest(f"that is no question: {error}") from error
        if len(question.say.split()) > self._most:
            raise BadRequest(f"'say' has more than the {self._most} words of --parrot-words", param="say")
        return question

    async def count(self, request: Incoming) -> ASGIApp:
        def find(db: Sql) -> int:
            row = db.execute("SELECT count FROM parrot_request WHERE owner = ?", (request.owner,)).fetchone()
            return 0 if row is None else int(row[0])

        return Json(_encode({"requests": await self._tables.read(find)}))
