"""Sessions over HTTP: which there are, what was said in one, and copies.

A session is its owner's: to anybody else it does not exist.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw
from starlette.types import ASGIApp

from ronda.errors import BadRequest
from ronda.host import session_documents
from ronda.host.leases import Key
from ronda.server.http.incoming import Incoming, Json, Whole
from ronda.server.http.query import Query
from ronda.server.services.runs import Runs
from ronda.server.services.whole_sessions import WholeSessions
from ronda.store.sessions import Cursor
from ronda.wire.fields import bad, field, read_bounded, read_fields
from ronda.wire.json import decode_or, encode
from ronda.wire.session_fields import LONGEST_NAME, is_name
from ronda.wire.sessions import Labels, read_document, read_labels

_PAGE: Final = 20
_LONGEST_PAGE: Final = 100


class SessionsDoor:
    def __init__(self, sessions: WholeSessions, runs: Runs, max_body: int) -> None:
        self._sessions = sessions
        self._runs = runs
        self._max_body = max_body

    async def list_sessions(self, incoming: Incoming) -> ASGIApp:
        query = Query(incoming)
        limit = query.whole("limit", _PAGE, 1, _LONGEST_PAGE) or _PAGE
        page = await self._runs.sessions.store.page(incoming.owner, limit, _read_cursor(query.text("before")))
        after = None if page.before is None else f"{page.before[0]!r}:{page.before[1]}"
        rows = [session_documents.summary_of(row) for row in page.sessions]
        return Json(encode({"object": "list", "data": rows, "has_more": after is not None, "next": after}))

    async def get_session(self, incoming: Incoming) -> ASGIApp:
        branch = Query(incoming).text("branch")
        return Json(await self._sessions.export(_key(incoming), branch))

    async def put_session(self, incoming: Incoming) -> ASGIApp:
        key = _key(incoming)
        document = await incoming.read(self._max_body, read_document)
        await self._sessions.put(key, document)
        return Whole(b"")

    async def patch_session(self, incoming: Incoming) -> ASGIApp:
        labels, given, branch = await incoming.read(self._max_body, _read_change)
        row = await session_documents.change(self._runs.sessions, _key(incoming), labels, given, branch)
        return Json(encode(session_documents.summary_of(row)))

    async def delete_session(self, incoming: Incoming) -> ASGIApp:
        await self._sessions.delete(_key(incoming))
        return Whole(b"")

    async def fork_session(self, incoming: Incoming) -> ASGIApp:
        name, num_turns, run, round = await incoming.read(self._max_body, _read_fork)
        made = await self._sessions.fork(_key(incoming), name, num_turns=num_turns, run=run, round=round)
        return Json(encode({"id": made}))


def _key(incoming: Incoming) -> Key:
    name = incoming.places["id"]
    if not is_name(name):
        raise BadRequest(f"a session's name is 1 to {LONGEST_NAME} printable characters", param="id")
    return incoming.owner, name


def _read_cursor(text: str | None) -> Cursor | None:
    if text is None:
        return None
    time, _, name = text.partition(":")
    try:
        return float(time), name
    except ValueError:
        raise bad("before", "is no 'next' of a page") from None


def _read_change(body: bytes) -> tuple[Labels, list[str], str | None]:
    """A label that is null is taken away."""
    members: dict[str, Raw] = decode_or({}, dict[str, Raw], body)
    named: list[str] = [name for name in ("title", "metadata") if name in members]
    fields = read_fields(body)
    branch: str | None = field(fields, "branch", str, None)
    return read_labels(fields), named, branch


def _read_fork(body: bytes) -> tuple[str | None, int | None, str | None, int | None]:
    fields = read_fields(body or b"{}")
    name: str | None = field(fields, "id", str, None)
    if name is not None and not is_name(name):
        raise bad("id", f"must be 1 to {LONGEST_NAME} printable characters")
    run: str | None = field(fields, "run", str, None)
    num_turns, round = read_bounded(fields, "num_turns", 1), read_bounded(fields, "round", 0)
    if run is not None and num_turns is not None:
        raise bad("num_turns", "does not go with 'run'")
    if round is not None and run is None:
        raise bad("round", "is of a run; say which with 'run'")
    return name, num_turns, run, round
