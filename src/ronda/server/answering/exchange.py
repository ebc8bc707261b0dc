"""What all doors share: a request that was read → new runs, side by side → their answer, plain or streamed.

A door is a dialect's reader (bytes → `DoorRequest`), its writer (events → bytes) and its way to say what went wrong. It knows
nothing of models, tools or journals; this knows nothing of any dialect.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, TypeVar

from starlette.types import ASGIApp

from ronda.core.events import WITHOUT_ANSWER
from ronda.core.run import Run
from ronda.drive.offload import LIGHT_TURNS
from ronda.errors import BadRequest, RondaError
from ronda.host.run import LiveRun
from ronda.host.sessions import Visit
from ronda.server.answering.answer import Answer, PausingWriter, Source, StreamWriter
from ronda.server.answering.answer import Writer as Writer
from ronda.server.answering.chain import Chain, ChainWriter
from ronda.server.answering.frames import number_frames
from ronda.server.answering.kept_runs import KeptRuns
from ronda.server.answering.opening import Group, Job, Opening
from ronda.server.http.failure import ErrorWriter, failure_of, run_error_answer
from ronda.server.http.incoming import Header, Incoming, Json, Watch
from ronda.server.services.admission import check_background, check_detach, check_name
from ronda.server.services.answers import Answers
from ronda.server.services.background import Background
from ronda.server.services.other_processes import OtherProcesses
from ronda.server.services.runs import new_id
from ronda.store import StoreError
from ronda.wire.shared.door_request import SessionWish
from ronda.wire.shared.failures import BROKE_DOWN, Failure, failure_of_run, is_superseded, why_unended

T = TypeVar("T")


# The runs, one per choice. What else a writer must know is kept with them; how a run ended it reads when it has.
MakeWriter: TypeAlias = Callable[[Sequence[Run]], Writer]
MakeStreamWriter: TypeAlias = Callable[[Sequence[Run]], StreamWriter]


class LaterDoor(Protocol):
    """Where the answers of a door are found that run in the background."""

    def location(self, run: str) -> Header: ...

    def later(self, writer: Any, runs: Sequence[Run], position: int | None) -> bytes:
        """The door's own object of runs that have not begun."""


BrokeDown: TypeAlias = Callable[[LiveRun, BaseException], None]


class Answering:
    """What answers are made with: runs that are opened, driven here or queued, and told what people decide. `broke_down` is told
    of a run in which something of ours broke."""

    def __init__(
        self, opening: Opening, background: Background, answers: Answers, others: OtherProcesses, broke_down: BrokeDown
    ) -> None:
        self.opening = opening
        self.runs = opening.runs
        self.settings = opening.setups.settings
        self.background = background
        self.answers = answers
        self.others = others
        self.broke_down = broke_down

    def answer(
        self,
        incoming: Incoming,
        job: Job,
        make_writer: MakeWriter,
        write_error: ErrorWriter,
        *,
        door: LaterDoor | None = None,
    ) -> Awaitable[ASGIApp]:
        return Exchange(self, incoming, job, make_writer, write_error, door=door).answer()


class Exchange(Source):
    """One request and its answer.

    `outlives`: the ids it shows must be found again after a crash, so they are journaled before they are shown.
    `may_be_cancelled`: through another request, and that is an answer, too. `door`: where it is found later. A door that only
    says where its runs are found has no writer. The jobs of a group are alike in whether they are streamed, stored or queued.
    """

    def __init__(
        self,
        answering: Answering,
        incoming: Incoming,
        asked: Job | Group,
        make_writer: MakeWriter | MakeStreamWriter | None,
        write_error: ErrorWriter,
        *,
        outlives: bool = False,
        may_be_cancelled: bool = False,
        door: LaterDoor | None = None,
    ) -> None:
        self._answering = answering
        self._runs = answering.runs
        self._incoming = incoming
        self._group = asked if isinstance(asked, Group) else None
        job = asked if isinstance(asked, Job) else asked.jobs[0]
        self._job = job
        self._make_writer = make_writer
        self._write_error = write_error
        self._outlives = outlives
        self._lingers = job.request.lingers
        self._may_be_cancelled = may_be_cancelled
        self._door = door
        self._lives: Sequence[LiveRun | Chain] = ()
        self._writer: Any = None  # a Writer, or a StreamWriter of a door whose answers are streams
        self._client_left = False
        self._visit: Visit | None = None  # of the session that its runs continue

    async def answer(self) -> ASGIApp:
        await self._open()
        lives, request = self._lives, self._job.request
        run_id = lives[0].run.id.encode()
        ids = run_id if len(lives) == 1 else b", ".join([live.run.id.encode() for live in lives])
        # The second is what Anthropic's SDKs read, the third names all choices.
        headers = [(b"x-request-id", run_id), (b"request-id", run_id), (b"x-ronda-run", ids)]
        if request.background:
            return await self._answer_later(headers)
        if request.stream:
            stream = self._stream(headers)
            for live in lives:
                live.start(self._finished)
            return stream
        watch = Watch(self._incoming.receive, self.client_left)
        try:
            if len(lives) == 1:  # driven right here
                await lives[0].drive()
            else:
                await self._drive_side_by_side()
        except asyncio.CancelledError:
            if not self._client_left and not self._runs.stopping and not self._cancelled_by_request():
                raise
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        except Exception as error:
            broken = next((live for live in lives if live.error is error), lives[0])
            raise self._broken(error, broken) from error
        finally:
            watch.stop()
            if self._visit is not None and not self._is_let_go():  # nearly always it is over by now
                await self._visit.leave()
        return self._plain(headers)

    async def _answer_later(self, headers: list[Header]) -> ASGIApp:
        """The runs are queued: the client is told where to find them, or watches them and may leave."""
        background, door = self._answering.background, self._door
        assert door is not None
        runs, owner = [live.run for live in self._lives], self._incoming.owner
        if self._job.open_next is not None:  # agents that hand over are driven where they came in
            for chain in self._lives:
                chain.start(self._finished)
        else:
            lives = [live for live in self._lives if isinstance(live, LiveRun)]
            try:
                if self._visit is not None:  # the run's driver continues its session
                    await self._visit.leave()
            except BaseException as error:
                await self._discard(lives, error)
                raise
            await background.add(lives)
        headers.append(door.location(runs[0].id))
        if not self._job.request.stream:
            position: int | None = None
            if self._group is None:  # each run of a group has a place of its own
                with suppress(StoreError):  # it is queued: that is what the client must know
                    position = await background.position(runs[0].id, owner)
            return Json(door.later(self._writer, runs, position), 202, headers)
        if self._job.open_next is not None:
            return self._stream(headers)
        kept = await KeptRuns.of(self._runs, [[run.start] for run in runs])
        assert self._make_writer is not None
        writer: Any = self._make_writer(kept.runs)
        return kept.answer(writer, headers, frames=number_frames(writer, kept.runs))

    async def _open(self) -> None:
        job, group = self._job, self._group
        name = self._incoming.run_name() if group is None else None
        if job.request.background:
            check_background(job.request, has_place=self._door is not None)
        elif self._lingers:
            check_detach(self._runs, self._answering.settings(), job.request, self._incoming.owner)
        if name is not None:
            name = await check_name(self._runs, job.request, self._incoming.owner, name)
        if job.request.session is not None:
            name = name or new_id("run")
            self._visit = await self._unless_away(self._enter(job.request.session, name))
        lives: list[LiveRun] = []
        try:
            opening, owner = self._answering.opening, self._incoming.owner
            if group is None:
                lives = await self._unless_away(opening.open_runs(owner, job, name or "", self._visit))
            else:
                lives = await self._unless_away(opening.open_group(owner, group))
            if self._make_writer is not None:
                # Nearly always one: a list of one costs a third of what it costs to go through a list.
                self._writer = self._make_writer([lives[0].run] if len(lives) == 1 else [live.run for live in lives])
            if job.added is not None:
                for live in lives:
                    await job.added(live.run)
            if len(lives[0].run.turns) > LIGHT_TURNS:
                await asyncio.sleep(0)
        except BaseException as error:
            await self._discard(lives, error)
            raise
        if self._visit is not None:
            self._runs.sessions.begin(self._visit, [live.run.id for live in lives])
        self._lives = lives
        if job.open_next is not None:
            assert isinstance(self._writer, ChainWriter)
            self._lives = [Chain(live, job.open_next, self._writer) for live in lives]

    async def _discard(self, lives: Sequence[LiveRun], problem: BaseException) -> None:
        """Runs that were opened, and that will not be driven, end: a run that is held and not driven could never go on."""
        for live in lives:
            live.discard(problem.public if isinstance(problem, RondaError) else "the request was broken off")
        if self._visit is not None:
            await self._visit.leave()

    def _unless_away(self, work: Awaitable[T]) -> Awaitable[T]:
        """Until runs have begun, their client need not wait for a database that is away."""
        reach = self._answering.others.reach
        return work if reach is None else reach.wait_for(work)

    async def _enter(self, wish: SessionWish, run: str) -> Visit:
        """Wait for the session, for as long as the client does."""
        if self._job.request.keep != "stored":
            raise BadRequest("'session_id' needs a run that is stored; leave 'store' out", param="session_id")
        entering = asyncio.ensure_future(self._runs.sessions.enter(self._incoming.owner, wish, run))
        watch = Watch(self._incoming.receive, lambda: _stop(entering))
        try:
            return await entering
        except asyncio.CancelledError:
            entering.cancel()
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise BadRequest("the client is gone") from None  # which no client reads
        finally:
            watch.stop()

    def when_over(self, call: Callable[[], None]) -> None:
        """Of a stream: when its first run, and those that go on from it, are over."""
        if (task := self._lives[0].task) is None:
            call()
        else:
            task.add_done_callback(lambda _: call())

    def _cancelled_by_request(self) -> bool:
        """Another request asked for the end of these runs."""
        return any(live.cancel_was_asked for live in self._lives)

    def _stream(self, headers: Sequence[Header]) -> Answer:
        return Answer(
            [live.follow() for live in self._lives],
            number_frames(self._writer, [live.run for live in self._lives]) if self._lingers else self._writer,
            self,
            headers=headers,
            write_error=self._write_error,
            # A client that may lose its connection needs the run's name at once; variants have nothing to say together.
            is_open=self._lingers > 0 or self._group is not None,
            before_head=self._keep_start if self._outlives or self._lingers else None,
        )

    def _finished(self, live: LiveRun | Chain) -> None:
        if live.error is not None:
            self._broken(live.error, live)
        if self._visit is not None and all(one.task is None for one in self._lives) and not self._is_let_go():
            for one in self._lives:
                self._runs.sessions.over_soon(one.run.id)

    def _is_let_go(self) -> bool:
        """Whether a run goes on in the next process, and with its session: no other run does until then."""
        if not self._runs.stopping:
            return False
        runs = [live.run for live in self._lives]
        return any(run.outlives and run.ended is None and not run.is_waiting for run in runs)

    async def _keep_start(self) -> Failure | None:
        """Wait until what the stream's ids name is kept; if that cannot be, why."""
        try:
            for live in self._lives:
                await live.keep()
        except RondaError as error:
            return failure_of(error)
        return None

    async def _drive_side_by_side(self) -> None:
        for live in self._lives:
            live.start()
        try:
            await asyncio.wait([live.task for live in self._lives if live.task is not None])
        except asyncio.CancelledError:
            self._cancel()
            raise
        for live in self._lives:
            if live.error is not None:
                raise live.error

    def _broken(self, error: BaseException, live: LiveRun | Chain) -> RondaError:
        last = live.legs[-1].live if isinstance(live, Chain) else live
        self._answering.broke_down(last, error)
        return _as_ours(error)

    def client_left(self) -> None:
        self._client_left = True
        if not self._lingers:
            self._cancel()
        elif self._lingers != math.inf:
            self._linger()

    def _linger(self) -> None:
        """Let runs go on for a while, and for as long as a client follows them then."""
        if any(live.task is not None for live in self._lives):
            asyncio.get_running_loop().call_later(self._lingers, self._end_lonely)

    def _end_lonely(self) -> None:
        for live in self._lives:
            if not live.followers:
                live.cancel()
        self._linger()

    def cancel_run(self, sibling: int) -> None:
        """The client wants no more of one of the runs."""
        if sibling < len(self._lives):
            self._lives[sibling].cancel_was_asked = True
            self._lives[sibling].cancel()

    def _cancel(self) -> None:
        for live in self._lives:
            live.cancel()

    def _plain(self, headers: Sequence[Header]) -> ASGIApp:
        for live in self._lives:
            if (failure := self._failure_of(live)) is not None:
                return run_error_answer(failure, self._write_error, tuple(headers))
            live.fold_into(self._writer)
        return Json(self._writer.body(), 200, headers)

    def _failure_of(self, live: LiveRun | Chain) -> Failure | None:
        """Why one of the runs has no answer."""
        if self._may_be_cancelled and live.cancel_was_asked and not is_superseded(live.run):
            return None
        if live.error is not None:
            return failure_of(_as_ours(live.error))
        if (end := live.run.ended) is not None and end.reason not in WITHOUT_ANSWER:  # nearly always
            return None
        return None if is_paused(live.run, self._writer) else failure_of_run(live.run)

    def why_unended(self, sibling: int) -> Failure | None:
        live = self._lives[sibling]
        return why_unended(live.run, live.error) if live.error is not None or live.run.is_waiting else None

    def failure(self) -> Failure | None:
        """Why none of the runs has an answer: the first that went wrong says it."""
        failures = [self._failure_of(live) for live in self._lives]
        return failures[0] if all(failures) else None


def is_paused(run: Run, writer: Writer) -> bool:
    """Whether an answer ends here because its run waits for people, in a dialect that can say so."""
    return run.ended is None and isinstance(writer, PausingWriter) and run.is_waiting


def _as_ours(error: BaseException) -> RondaError:
    """What is not ours is for the log only."""
    return error if isinstance(error, RondaError) else RondaError(BROKE_DOWN.message)


def _stop(task: asyncio.Future[Visit]) -> None:
    task.cancel()
