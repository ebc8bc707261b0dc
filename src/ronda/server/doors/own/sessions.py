"""Sessions over HTTP: which there are, what was said in one, and copies.

A session is its owner's: to other owners it does not exist.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw
from starlette.types import ASGIApp

from ronda.errors import BadRequest, NotFound
from ronda.host import session_documents
from ronda.host.leases import Key
from ronda.host.session_pages import write_page
from ronda.journal import ListedState, RunQuery, RunSummary
from ronda.server.http.incoming import Incoming, Json, Whole
from ronda.server.http.query import Query
from ronda.server.services.feed import Feed
from ronda.server.services.run_states import queued_runs
from ronda.server.services.runs import Runs
from ronda.server.services.whole_sessions import WholeSessions
from ronda.store.catalog import Catalog
from ronda.store.values.sessions import Cursor, SessionPage, SessionRow
from ronda.wire.codec.json import decode_or, encode
from ronda.wire.own.session_fields import LONGEST_NAME, is_name
from ronda.wire.own.sessions import Labels, read_document, read_labels
from ronda.wire.shared.fields import bad, field, read_bounded, read_fields

_PAGE: Final = 20
_LONGEST_PAGE: Final = 100
_MOST_SEARCHED: Final = 1000  # sessions, or runs: of one owner more than a person looks for by words
_NEWEST: Final = 100  # runs, which tell how their sessions stand
_MOST_TURNS: Final = 200  # of a page of a conversation


class SessionsDoor:
    def __init__(self, sessions: WholeSessions, runs: Runs, catalog: Catalog, feed: Feed, max_body: int) -> None:
        self._queue = catalog.queue
        self._approved = catalog.approved_tools
        self._feed = feed
        self._sessions = sessions
        self._runs = runs
        self._max_body = max_body

    async def list_sessions(self, incoming: Incoming) -> ASGIApp:
        query = Query(incoming)
        limit = query.whole("limit", _PAGE, 1, _LONGEST_PAGE) or _PAGE
        before = _read_cursor(query.text("before"))
        if words := (query.text("q") or "").strip():
            page = await self._search(incoming.owner, words, limit, before)
        else:
            page = await self._runs.sessions.store.page(incoming.owner, limit, before)
        after = None if page.before is None else f"{page.before[0]!r}:{page.before[1]}"
        stands = await self._newest_runs(incoming.owner)
        rows = [{**session_documents.summary_of(row), **_stand(stands.get(row.name))} for row in page.sessions]
        return Json(encode({"object": "list", "data": rows, "has_more": after is not None, "next": after}))

    async def _search(self, owner: str, words: str, limit: int, before: Cursor | None) -> SessionPage:
        """Sessions whose title or name has these words, or one of whose runs was asked with them: the first words of each run are
        looked at."""
        asked = await self._runs.journal.list_runs(RunQuery(owner, words=words, limit=_MOST_SEARCHED))
        names, searched = {one.session for one in asked.runs if one.session}, words.casefold()
        found: list[SessionRow] = []
        for _ in range(_MOST_SEARCHED // _LONGEST_PAGE):
            page = await self._runs.sessions.store.page(owner, _LONGEST_PAGE, before)
            for row in page.sessions:
                title = session_documents.title_of(row) or ""
                if row.name in names or searched in title.casefold() or searched in row.name.casefold():
                    if len(found) == limit:
                        return SessionPage(found, (found[-1].updated, found[-1].name))
                    found.append(row)
            before = page.before
            if before is None:
                break
        return SessionPage(found, before if len(found) == limit else None)

    async def _newest_runs(self, owner: str) -> dict[str, RunSummary]:
        """By session: the run that is under way in it, or else the last of those that were begun lately."""
        list_runs = self._runs.journal.list_runs
        queued = tuple(await queued_runs(self._queue, self._runs, owner))
        open_states: tuple[ListedState, ...] = ("queued", "running", "waiting")
        under_way = await list_runs(RunQuery(owner, open_states, children=False, limit=_NEWEST, queued=queued))
        lately = await list_runs(RunQuery(owner, children=False, limit=_NEWEST, queued=queued))
        found: dict[str, RunSummary] = {}
        for one in (*under_way.runs, *lately.runs):
            if one.session:
                found.setdefault(one.session, one)
        return found

    async def get_session(self, incoming: Incoming) -> ASGIApp:
        query = Query(incoming)
        branch = query.text("branch")
        limit = query.whole("limit", None, 1, _MOST_TURNS)
        if limit is not None:
            return await self._page(_key(incoming), limit, query.whole("before", None, 0, None), branch)
        return Json(await self._sessions.export(_key(incoming), branch))

    async def _page(self, key: Key, limit: int, before: int | None, branch: str | None) -> ASGIApp:
        sessions = self._runs.sessions
        page = await write_page(sessions, key, limit, before, branch, lambda run: self._runs.read(run, key[0]))
        newest = await self._runs.journal.list_runs(RunQuery(key[0], session=key[1], children=False, limit=1))
        return Json(encode({**page, **_stand(newest.runs[0] if newest.runs else None)}))

    async def list_approved(self, incoming: Incoming) -> ASGIApp:
        """What was approved for the whole session, and is not asked about again in it."""
        key = _key(incoming)
        if not (found := await self._approved_in(key)):
            await session_documents.find(self._runs.sessions, key)  # which raises NotFound
        return Json(encode({"object": "list", "data": found, "has_more": False}))

    async def take_back_approved(self, incoming: Incoming) -> ASGIApp:
        """One tool (`?tool=`), or all: its next call is asked about again. Runs under way keep what they were told."""
        key, tool = _key(incoming), Query(incoming).text("tool")
        if tool is None:
            await self._approved.forget(*key)
        elif not await self._approved.take_back(*key, tool):
            raise NotFound(f"'{tool[:100]}' is not approved in the session '{key[1]}'", param="tool")
        return Json(encode({"object": "list", "data": await self._approved_in(key), "has_more": False}))

    async def _approved_in(self, key: Key) -> list[dict[str, object]]:
        now = self._runs.sessions.now()
        tools, sends = await self._approved.list(*key, now), await self._approved.sends.list(*key, now)
        return [
            *[{"kind": "tool", "tool": name, "expires_at": until} for name, until in tools],
            *[{"kind": "send", "tool": name, "expires_at": until} for name, until in sends],
        ]

    async def put_session(self, incoming: Incoming) -> ASGIApp:
        key = _key(incoming)
        document = await incoming.read(self._max_body, read_document)
        await self._sessions.put(key, document)
        self._feed.session_changed(incoming.owner)
        return Whole(b"")

    async def patch_session(self, incoming: Incoming) -> ASGIApp:
        labels, given, branch = await incoming.read(self._max_body, _read_change)
        row = await session_documents.change(self._runs.sessions, _key(incoming), labels, given, branch)
        self._feed.session_changed(incoming.owner)
        return Json(encode(session_documents.summary_of(row)))

    async def delete_session(self, incoming: Incoming) -> ASGIApp:
        await self._sessions.delete(_key(incoming))
        self._feed.session_changed(incoming.owner)
        return Whole(b"")

    async def fork_session(self, incoming: Incoming) -> ASGIApp:
        name, num_turns, run, round_index = await incoming.read(self._max_body, _read_fork)
        made = await self._sessions.fork(_key(incoming), name, num_turns=num_turns, run=run, round_index=round_index)
        self._feed.session_changed(incoming.owner)
        return Json(encode({"id": made}))


def _stand(newest: RunSummary | None) -> dict[str, str | None]:
    """`run` is that which is under way."""
    is_open = newest is not None and newest.ended is None
    return {
        "state": None if newest is None else newest.state,
        "run": newest.run if newest is not None and is_open else None,
    }


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
    num_turns, round_index = read_bounded(fields, "num_turns", 1), read_bounded(fields, "round", 0)
    if run is not None and num_turns is not None:
        raise bad("num_turns", "does not go with 'run'")
    if round_index is not None and run is None:
        raise bad("round", "is of a run; say which with 'run'")
    return name, num_turns, run, round_index
