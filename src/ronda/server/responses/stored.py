"""Responses that exist: GET one, watch one again, what it was made from, cancel it, delete it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp

from ronda.core.events import Event
from ronda.core.run import Run, rebuild
from ronda.errors import BadRequest, NotFound
from ronda.host.run import LiveRun
from ronda.server.follow import EventStream
from ronda.server.incoming import Incoming, Json
from ronda.server.responses.query import Query
from ronda.wire.failures import Failure, why_unended
from ronda.wire.json import encode
from ronda.wire.openai_responses.listed import input_items
from ronda.wire.openai_responses.resource import Kept, run_id
from ronda.wire.openai_responses.server_answer import SDK_LANGUAGE, ResponseAnswer, progress_type

if TYPE_CHECKING:
    from ronda.server.app import Server

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
_PAGE = 20
_LONGEST_PAGE = 100


async def retrieve(server: Server, request: Incoming) -> ASGIApp:
    query = Query(request)
    sealer = await server.responses.sealer(request.owner)
    events, run = await _found(server, request)
    after = query.whole("starting_after", None, 0, None)
    if not query.truth("stream"):
        if after is not None:
            raise BadRequest("'starting_after' goes with stream=true", param="starting_after")
        answer = ResponseAnswer([run])
        answer.fold(0, events[1:])
        return Json(answer.body())
    live = server.runs.live.get(run.id)
    # What is said of its end is read from the run itself, which must be the one that comes to it.
    obfuscated = query.truth("include_obfuscation") if query.text("include_obfuscation") is not None else None
    progress = progress_type(request.header(SDK_LANGUAGE))
    writer = ResponseAnswer(
        [run if live is None else live.run],
        sealer=sealer,
        after=after,
        obfuscated=obfuscated,
        progress_type=progress,
    )
    return EventStream([server.runs.follow(events)], writer, is_open=True, why_unended=partial(_why_unended, run, live))


def _why_unended(run: Run, live: LiveRun | None, sibling: int) -> Failure | None:
    return why_unended(run, None) if live is None else why_unended(live.run, live.error)


async def delete(server: Server, request: Incoming) -> ASGIApp:
    _, run = await _found(server, request)
    await server.runs.end(run.id, run.start.owner)
    server.runs.logs.forget(run.id)
    await server.runs.journal.forget(run.id)
    return Json(encode({"id": request.places["id"], "object": "response", "deleted": True}))


async def cancel(server: Server, request: Incoming) -> ASGIApp:
    _, run = await _found(server, request)
    await server.runs.end(run.id, run.start.owner)
    events, run = await _found(server, request)
    if run.ended is None or run.ended.reason != "cancelled":
        what = "is driven by another process" if run.ended is None else "is finished already"
        raise BadRequest(f"the response '{request.places['id']}' {what}; it cannot be cancelled")
    answer = ResponseAnswer([run])
    answer.fold(0, events[1:])
    return Json(answer.body())


async def list_input(server: Server, request: Incoming) -> ASGIApp:
    query = Query(request)
    _, run = await _found(server, request)
    items = input_items(run, Kept.of(run.start))
    limit = query.whole("limit", _PAGE, 1, _LONGEST_PAGE) or _PAGE
    if query.word("order", "desc", ("asc", "desc")) == "desc":
        items.reverse()
    if (after := query.text("after")) is not None:
        at = next((at for at, item in enumerate(items) if item["id"] == after), None)
        if at is None:
            raise BadRequest(f"'after' names the item '{after[:100]}', which is not in this list", param="after")
        items = items[at + 1 :]
    return Json(encode(_page(items[:limit], has_more=len(items) > limit)))


async def _found(server: Server, request: Incoming) -> tuple[list[Event], Run]:
    """The response that an address names; nobody's but its owner's."""
    id: str = request.places["id"]
    events = await server.runs.read(run_id(id), request.owner)
    run = rebuild(events) if events else None
    if run is None or Kept.key not in run.start.about:
        raise NotFound(f"Response with id '{id[:100]}' not found.", param="response_id")
    return events, run


def _page(items: list[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
    return {"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": has_more}
