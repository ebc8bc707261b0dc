"""What a run has read before it begins (`core.taint`) → `RunStarted.marks`; and what a run leaves of it for those after it.

What turns carry needs nothing of this. Here is what they cannot say: that the code in a session's folder had read a stranger's
page, that a file was made by such a run, that a client which sends its whole conversation leaves out what our tools gave. All
doors come by here (`exchange.opening`), so that none has to think of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from ronda.core.events import Event
from ronda.core.parts import ToolTurn, Turn, files_in
from ronda.core.splice import Exchange, exchanges, last_exchanges
from ronda.core.taint import CLEAN, PRIVATE, UNTRUSTED, marks_by_name, marks_of, marks_of_file
from ronda.drive.offload import aside, is_heavy
from ronda.errors import NotFound
from ronda.store import StoreError
from ronda.store.marks import of_answer, of_run, of_session
from ronda.wire.shared.code_tools import LIST_FILES, PYTHON, READ_FILE, SHELL
from ronda.wire.web.search import EXTRACT, SEARCH

if TYPE_CHECKING:
    from ronda.core.run import Run
    from ronda.files.file_store import FileStore
    from ronda.host.run import BeforeEnd, LiveRun
    from ronda.store.catalog import Catalog
    from ronda.wire.shared.door_request import DoorRequest

log = logging.getLogger("ronda.server")

_SECRET_NAME: Final = "answers"  # of what answers are hashed with: a reader of the row cannot try out what was said


# Of tools that have the same names on every server: a conversation may be of another, or of one that was started with them.
USUAL_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys((SEARCH, EXTRACT), (UNTRUSTED,)),
    **dict.fromkeys((PYTHON, SHELL, READ_FILE, LIST_FILES), (PRIVATE,)),
}


class RunMarks:
    """What the runs of a server have read, in its catalog."""

    def __init__(self, catalog: Catalog, files: FileStore, clock: Callable[[], float]) -> None:
        self._catalog = catalog
        self._files = files
        self._clock = clock
        self._key: bytes | None = None

    async def inherited(
        self,
        owner: str,
        request: DoorRequest,
        turns: Sequence[Turn],
        parent: tuple[str, int] | None,
        session: str,
        labels: Mapping[str, Sequence[str]],
    ) -> tuple[str, ...]:
        """Of a run that could send data out.

        `turns` are the conversation that it begins with, of which its client has sent those in the `request`; `session` is the
        one that it continues, "" where it is a new one; `labels` are those of all tools of this server, by their names.
        """
        marks = marks_by_name(turns, labels) | _brought_by_results(request.turns)
        files = [*[file.id for file in files_in(request.turns) if file.id], *request.container.file_ids]
        sessions = [*([session] if session else ()), *await self._sessions_of(owner, files)]
        sources = [of_session(name) for name in sessions]
        if parent is not None:
            sources.append(of_run(parent[0]))
        if len(request.turns) > 1 and self._catalog.is_there:
            sources += await self._sources_of(await _aside_if_heavy(exchanges, request.turns))
        if sources:
            marks |= marks_of(await self._catalog.marks.find(owner, sources, self._clock()))
        return tuple(sorted(marks))

    async def _sessions_of(self, owner: str, files: Iterable[str]) -> list[str]:
        """The sessions in which these files were made: what is in one, a run there may have read."""
        sessions: list[str] = []
        for file_id in dict.fromkeys(files):
            try:
                file = await self._files.find(owner, file_id)
            except NotFound:  # it is one of the model's own service, say
                continue
            if file.session:
                sessions.append(file.session)
        return sessions

    async def _sources_of(self, found: Iterable[Exchange]) -> list[str]:
        if self._key is None:
            self._key = await self._catalog.secret(_SECRET_NAME)
        return [of_answer(_digest(self._key, exchange)) for exchange in found]

    def follow(self, live: LiveRun) -> None:
        """Note what a run has read as soon as it has: others may continue its session, and its folder, meanwhile."""
        noting = _Noting(self, live.run)
        live.add_tap(noting.take)
        live.before_end = partial(noting.before_end, live.before_end)
        noting.take(())

    async def note(self, run: Run, sources: Sequence[str]) -> None:
        try:
            await self._catalog.marks.add(run.start.owner, sources, run.marks, self._clock())
        except StoreError as error:
            log.error("what run %s has read is not kept: %s", run.id, error)

    async def note_answer(self, run: Run) -> None:
        """Before a client is shown the end of it."""
        found = await _aside_if_heavy(last_exchanges, run.turns, len(run.start.turns))
        if found:
            await self.note(run, await self._sources_of(found))


class _Noting:
    """What is noted of one run, while it is driven."""

    def __init__(self, marks: RunMarks, run: Run) -> None:
        self._marks = marks
        self._run = run
        self._noted = CLEAN
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, batch: Sequence[Event]) -> None:
        if self._run.marks != self._noted:
            self._noted, start = self._run.marks, self._run.start
            sources = [of_run(start.run), *([of_session(start.session)] if start.session else ())]
            task = asyncio.get_running_loop().create_task(self._marks.note(self._run, sources))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def before_end(self, then: BeforeEnd | None, live: LiveRun) -> None:
        try:
            if self._noted:
                await asyncio.gather(*self._tasks)
                await self._marks.note_answer(self._run)
        finally:
            if then is not None:
                await then(live)


def _brought_by_results(turns: Sequence[Turn]) -> frozenset[str]:
    """What a client's own tools gave, if it is a file, is a file of the request, too."""
    results = [result for turn in turns if type(turn) is ToolTurn for result in turn.results]
    return CLEAN.union(*[marks_of_file(part) for result in results for part in result.attachments])


async def _aside_if_heavy(
    find: Callable[..., Iterable[Exchange]], turns: Sequence[Turn], *more: int
) -> Sequence[Exchange]:
    def listed() -> list[Exchange]:
        return list(find(turns, *more))

    return await aside(listed) if is_heavy(turns) else listed()


def _digest(key: bytes, exchange: Exchange) -> str:
    digest = blake2b(key=key, digest_size=16)
    for text in exchange:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(data), data))
    return digest.hexdigest()
