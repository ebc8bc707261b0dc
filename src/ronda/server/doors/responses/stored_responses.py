"""Responses that exist: GET one, watch one again, what it was made from, cancel it, delete it."""

from __future__ import annotations

from starlette.types import ASGIApp

from ronda.core.events import Event
from ronda.core.run import Run, rebuild
from ronda.errors import BadRequest, NotFound
from ronda.server.answering.answer import Answer
from ronda.server.answering.frames import LARGER_PIECES, STARTING_AFTER, frames_seen
from ronda.server.answering.kept_runs import KeptRuns
from ronda.server.doors.responses.create import Seals
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.query import Query
from ronda.server.services.background import Background
from ronda.server.services.runs import Runs
from ronda.wire.codec.json import encode
from ronda.wire.openai_responses.input_items import input_items
from ronda.wire.openai_responses.resource import StoredOptions, run_id, since_of
from ronda.wire.openai_responses.server_answer import SDK_LANGUAGE, ResponseAnswer, progress_type
from ronda.wire.own.background import progress
from ronda.wire.resources.pages import page_of_objects

# For docs/compatibility.md: query parameters.
FIELDS = {
    "GET /v1/responses/{id}": {
        "stream": "read",
        "starting_after": "read",
        "include_obfuscation": "read",
        "include": "ignored: a response has what was asked for when it was made",
    },
    "GET /v1/responses/{id}/input_items": {
        "after": "read",
        "limit": "read",
        "order": "read",
        "include": "ignored: an item is listed with everything it has",
    },
}


class StoredResponses:
    def __init__(self, runs: Runs, background: Background, seals: Seals) -> None:
        self._runs = runs
        self._background = background
        self._seals = seals

    async def retrieve(self, incoming: Incoming) -> ASGIApp:
        query = Query(incoming)
        response_id = incoming.places["id"]
        seen = frames_seen(incoming, 1)
        if query.truth("stream"):
            obfuscated = query.truth("include_obfuscation") if query.text("include_obfuscation") is not None else None
            after = None if seen is None else seen[0] - 1
            return await self.follow_response(incoming, response_id, after, obfuscated=obfuscated)
        if query.text(STARTING_AFTER) is not None:
            raise BadRequest(f"'{STARTING_AFTER}' goes with stream=true", param=STARTING_AFTER)
        return await self._plain(response_id, *await self.find_response(response_id, incoming.owner))

    async def follow_response(
        self,
        incoming: Incoming,
        response_id: str,
        after: int | None,
        *,
        obfuscated: bool | None = None,
        sse: bool = True,
    ) -> Answer:
        """The stream of a response, behind the event of that number."""
        events, _ = await self.find_response(response_id, incoming.owner)
        since = since_of(response_id)
        kept = await KeptRuns.of(self._runs, [events], [since])
        writer = ResponseAnswer(
            kept.runs,
            sealer=await self._seals.sealer(incoming.owner),
            sse=sse,
            after=after,
            obfuscated=obfuscated,
            progress_type=progress_type(incoming.header(SDK_LANGUAGE)),
            is_whole=kept.is_whole,
            since=since,
        )
        return kept.answer(writer, () if kept.is_whole else (LARGER_PIECES,))

    async def _plain(self, response_id: str, events: list[Event], run: Run) -> ASGIApp:
        since = since_of(response_id)
        answer = ResponseAnswer([run], since=since)
        answer.skip(0, events[1:since])
        answer.fold(0, events[max(1, since) :])
        if not StoredOptions.of(run.start).background:
            return Json(answer.body())
        position = await self._background.position(run.id, run.start.owner) if run.ended is None else None
        return Json(answer.body(progress([run], position)))

    async def delete(self, incoming: Incoming) -> ASGIApp:
        _, run = await self.find_response(incoming.places["id"], incoming.owner)
        await self._runs.forget(run.id, run.start.owner)
        return Json(encode({"id": incoming.places["id"], "object": "response", "deleted": True}))

    async def cancel(self, incoming: Incoming) -> ASGIApp:
        _, run = await self.find_response(incoming.places["id"], incoming.owner)
        await self._runs.end(run.id, run.start.owner)
        events, run = await self.find_response(incoming.places["id"], incoming.owner)
        if run.ended is None or run.ended.reason != "cancelled":
            what = "is driven by another process" if run.ended is None else "is finished already"
            raise BadRequest(f"the response '{incoming.places['id']}' {what}; it cannot be cancelled")
        return await self._plain(incoming.places["id"], events, run)

    async def list_input(self, incoming: Incoming) -> ASGIApp:
        _, run = await self.find_response(incoming.places["id"], incoming.owner)
        items = input_items(run, StoredOptions.of(run.start))
        return Json(encode(page_of_objects(items, incoming.query, 100, "an item")))

    async def find_response(self, response_id: str, owner: str) -> tuple[list[Event], Run]:
        """The response that an address names; only for its owner."""
        events = await self._runs.read(run_id(response_id), owner)
        run = rebuild(events) if events else None
        if run is None or StoredOptions.key not in run.start.about or since_of(response_id) > len(events):
            raise NotFound(f"Response with id '{response_id[:100]}' not found.", param="response_id")
        return events, run
