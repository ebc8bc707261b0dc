"""A cassette is played: the loop runs again, with what was recorded in the place of models, tools, people and clocks.

Everything that the loop does is compared with the record: what it sends to models, and what happens. The first difference ends
it, with the path of the value that differs.

    replay      to the end, or to where the record breaks off: its run was cancelled, ran out of time, or its process ended
    branch      up to a round; from there on it is live
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.agent.cassettes.cassette import Cassette, Exchange, Failed
from ronda.agent.cassettes.differences import Difference, compare
from ronda.agent.cassettes.recording import Recorder
from ronda.agent.start import LongResultsWhenNeeded
from ronda.core.events import (
    Answered,
    Asked,
    Checked,
    CheckStage,
    Compacted,
    Event,
    Fact,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    Recovered,
    Released,
    RunFinished,
    RunStarted,
    Steered,
    ToolFinished,
    ToolStarted,
    Warned,
)
from ronda.core.guardrails import GuardrailResult, Guardrails
from ronda.core.parts import NULL, Turn
from ronda.core.plan import ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Emit, Inbox, OpenLongResults, Provider, Show, Tool, ToolContext, ToolOutput
from ronda.drive.driver import Driver
from ronda.errors import BadRequest


class ReplayResult(Struct, frozen=True):
    """How many events and model calls were as recorded. `broken_off`: why the record ends before its run does, if it does."""

    run: Run
    events: int
    calls: int
    broken_off: str | None = None


class _Tape:
    """How far the record has been played."""

    def __init__(self, cassette: Cassette, live_from: int | None = None) -> None:
        self._facts = cassette.facts
        self._exchanges = cassette.exchanges
        self._live_from = live_from  # the round in which the run leaves the record
        self.is_live = False
        self.at = 0  # of the next fact
        self.calls = 0
        self.broken_off: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._gates: dict[str, asyncio.Future[ToolFinished]] = {}
        self._checked: dict[CheckStage, int] = {}  # how many of a stage were played
        self.inbox: Inbox | None = None
        self._told: asyncio.Future[None] | None = None

    @property
    def next(self) -> Fact | None:
        return self._facts[self.at] if self.at < len(self._facts) else None

    @property
    def offered(self) -> ToolSpec | None:
        """The tool that a result of the record brought."""
        return next((spec for fact in self._facts if type(fact) is ToolFinished for spec in fact.offers), None)

    def now(self) -> float:
        if self.is_live:
            return time.time()
        return float(getattr(self.next, "at", 0.0))

    async def sleep(self, seconds: float) -> None:
        if self.is_live:
            await asyncio.sleep(seconds)

    def take(self, fact: Fact) -> None:
        """The loop says that this happened."""
        if type(fact) is ModelStarted and self._live_from is not None and fact.round >= self._live_from:
            self.is_live = True
        if self.is_live:
            return
        recorded = self.next
        where = f"event {self.at + 1}"  # the start is event 0
        if recorded is None:
            raise Difference(where, "$", None, fact)
        if type(fact) is ModelFinished and type(recorded) is ModelFinished:
            fact = replace(fact, first_at=recorded.first_at)  # which depends on who watched
        compare(where, recorded, fact)
        self.at += 1
        if type(fact) is Steered and self._told is not None and not self._told.done():
            self._told.set_result(None)

    async def until_told(self) -> None:
        """What people said while the model answered comes before its answer does."""
        while type(self.next) is Steered and not self.is_live:
            self._told = asyncio.get_running_loop().create_future()
            await self._told

    def look_ahead(self) -> None:
        """After something has happened: is the next thing one that came from outside?"""
        if self.is_live:
            return
        match self.next:
            case None if not self._ends:
                self._break_off("the record ends here")
            case Answered(decision=decision) as answer if decision != "expired" and self.inbox is not None:
                self.inbox.send(replace(answer, at=0.0))
            case Steered() as steered if self.inbox is not None:
                self.inbox.send(replace(steered, at=0.0))
            case RunFinished(reason="cancelled" | "interrupted"):
                self._break_off("the run was cancelled or interrupted here")
            case RunFinished(limit="max_seconds"):
                self._break_off("the run ran out of time here")
            case Released() | Recovered():
                self._break_off("the process that drove the run ended here")
            case ModelInterrupted(cause="process"):
                self._break_off("the model call was broken off here")
            case ToolFinished():
                self._open_gates()
            case None | Answered() | Steered() | RunFinished() | ModelInterrupted():
                pass
            case RunStarted() | ModelStarted() | ModelRetried() | ModelFinished() | ModelFailed() | ToolStarted():
                pass
            case Asked() | Checked() | Compacted() | Warned():
                pass
            case unknown:
                assert_never(unknown)

    @property
    def _ends(self) -> bool:
        return bool(self._facts) and type(self._facts[-1]) is RunFinished

    def _break_off(self, why: str) -> None:
        if not self.broken_off.done():
            self.broken_off.set_result(why)

    # ---- models ------------------------------------------------------------------------------------------------------

    def exchange(self, request: ModelRequest) -> Exchange:
        """What was recorded of this call, once it is found to be the same."""
        number = self.calls
        where = f"the request of model call {number + 1}"
        if number >= len(self._exchanges):
            raise Difference(where, "$", None, list(request.turns)[-1:])
        recorded = self._exchanges[number]
        self.calls += 1
        turns = tuple(request.turns)
        if recorded.turns is None:
            recorded.turns, recorded.choice = turns, request.choice
        compare(where, _request_fields(recorded.turns, recorded.choice), _request_fields(turns, request.choice))
        return recorded

    # ---- tools -------------------------------------------------------------------------------------------------------

    async def result(self, call_id: str) -> ToolFinished:
        """When it is this call's turn to end: calls end in the order in which they did."""
        gate: asyncio.Future[ToolFinished] = asyncio.get_running_loop().create_future()
        self._gates[call_id] = gate
        self._open_gates()
        return await gate

    def _open_gates(self) -> None:
        """For those that ended one right after the other, in the order in which the loop looks at them."""
        waiting = list(self._gates)
        last = -1
        for fact in self._facts[self.at :]:
            if type(fact) is not ToolFinished or fact.result.call_id not in self._gates:
                return
            place = waiting.index(fact.result.call_id)
            if place < last:
                return
            last = place
            gate = self._gates[fact.result.call_id]
            if not gate.done():
                gate.set_result(fact)

    # ---- people, and who judges ----------------------------------------------------------------------------------------

    def judge(self, stage: CheckStage, *seen: object) -> GuardrailResult:
        number = self._checked.get(stage, 0)
        self._checked[stage] = number + 1
        found = [fact for fact in self._facts if type(fact) is Checked and fact.stage == stage]
        if number >= len(found):
            raise Difference(f"the {stage} guardrail", "$", None, number + 1)
        checked = found[number]
        rewrite: Any = checked.rewrite
        if stage == "tool" and isinstance(rewrite, str):
            rewrite = msgspec.json.decode(rewrite)
        return GuardrailResult(checked.allowed, checked.problem, rewrite)

    @property
    def has_summaries(self) -> bool:
        return any(type(fact) is Compacted and fact.summary for fact in self._facts)

    def summarize(self, turns: Sequence[Turn]) -> str:
        recorded = self.next
        if type(recorded) is not Compacted:
            raise ValueError("no summary was recorded here")
        if recorded.failure is not None:
            raise ValueError(recorded.failure)
        return recorded.summary


def _request_fields(turns: tuple[Turn, ...], choice: object) -> dict[str, Any]:
    return {"turns": turns, "choice": choice}


class _PlayedModel:
    def __init__(self, tape: _Tape, live: Provider | None) -> None:
        self._tape = tape
        self._live = live

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        tape = self._tape
        if tape.is_live:
            assert self._live is not None
            return await self._live.call(request, show)
        exchange = tape.exchange(request)
        for previews in exchange.shown:
            show(list(previews))
        await tape.until_told()
        match exchange.outcome:
            case ModelFinished() as finished:
                return finished
            case Failed() as failed:
                raise failed.error
            case None:
                never: asyncio.Future[ModelFinished] = asyncio.get_running_loop().create_future()
                return await never  # until the record breaks off
            case outcome:
                assert_never(outcome)


class _PlayedTool:
    def __init__(self, spec: ToolSpec, tape: _Tape, live: Tool | None) -> None:
        self.spec = replace(spec, timeout=None)
        self._tape = tape
        self._live = live

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        if self._tape.is_live:
            if self._live is None:
                raise BadRequest(f"no tool here runs '{self.spec.name}'; give a file that has it with --tools")
            return await self._live.run(arguments, context)
        finished = await self._tape.result(context.call_id)
        return ToolOutput(
            finished.result.content,
            finished.result.attachments,
            finished.result.failed,
            finished.usage,
            finished.tool_calls,
            None if finished.details == NULL else msgspec.json.decode(finished.details),
            finished.files,
            whole=finished.result.whole,
        )


class _PlayedResults:
    """Results that were too long were shortened when they were recorded. Those that come after the record are shortened now."""

    def __init__(self, tape: _Tape, live: OpenLongResults) -> None:
        self._tape = tape
        self._live = live
        reader = tape.offered
        self.reader = live().reader if reader is None else _PlayedTool(reader, tape, live().reader)

    async def shorten(self, output: ToolOutput, limit: int, spec: ToolSpec, context: ToolContext) -> ToolOutput:
        return await self._live().shorten(output, limit, spec, context) if self._tape.is_live else output


class _PlayingDriver(Driver):
    tape: _Tape

    def record(self, event: Fact) -> None:
        self.tape.take(event)
        super().record(event)
        self.tape.look_ahead()


async def replay(cassette: Cassette, emit: Emit | None = None) -> ReplayResult:
    """Play a cassette to its end. Raises the first Difference. `emit` is told what happens, as of any run."""
    return await _play(cassette.start, _Tape(cassette), None, {}, emit)


async def branch(
    cassette: Cassette,
    at: int,
    model: str,
    provider: Provider,
    tools: Mapping[str, Tool],
    emit: Emit | None = None,
    record: str | os.PathLike[str] | None = None,
) -> ReplayResult:
    """Play the rounds before `at`; from there on ask this model, and run these tools. `record`: a cassette of all of it."""
    rounds = max([exchange.round for exchange in cassette.exchanges], default=-1) + 1
    if not 0 <= at <= rounds:
        raise BadRequest(f"--at is {at}; the cassette has the rounds 0 to {rounds - 1}", param="at")
    start = replace(cassette.start, plan=replace(cassette.start.plan, model=model))
    return await _play(start, _Tape(cassette, at), provider, tools, emit, record)


async def _play(
    start: RunStarted,
    tape: _Tape,
    provider: Provider | None,
    tools: Mapping[str, Tool],
    emit: Emit | None,
    record: str | os.PathLike[str] | None = None,
) -> ReplayResult:
    run = Run(start)
    model: Provider = _PlayedModel(tape, provider)
    taps = [] if emit is None else [emit]
    if record is not None:
        model = recorder = Recorder(record, run, model)
        taps.append(recorder.take)
    played = {spec.name: _PlayedTool(spec, tape, tools.get(spec.name)) for spec in start.plan.tools}
    driver = _PlayingDriver(run, model, played, partial(_tell, taps), None)
    limit = start.plan.limits.result_chars
    driver.long_results = partial(_PlayedResults, tape, LongResultsWhenNeeded(None, None, limit))
    driver.tape = tape
    driver.now = tape.now
    driver.sleep = tape.sleep
    driver.jitter = _no_chance
    driver.inbox = tape.inbox = Inbox(run)
    if start.plan.guards:
        driver.guardrails = Guardrails(*[partial(tape.judge, stage) for stage in ("input", "output", "tool")])
    if tape.has_summaries:
        driver.summarize = tape.summarize
    tape.look_ahead()
    driving = asyncio.ensure_future(_drive(driver))
    try:
        both: list[asyncio.Future[Any]] = [driving, tape.broken_off]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if driving.done():
            driving.result()
    finally:
        driving.cancel()
        await asyncio.wait([driving])
    why = tape.broken_off.result() if tape.broken_off.done() and run.ended is None else None
    if why is None and not tape.is_live and (left := tape.next) is not None:
        raise Difference(f"event {tape.at + 1}", "$", left, None)
    return ReplayResult(run, tape.at, tape.calls, why)


async def _drive(driver: _PlayingDriver) -> None:
    """As `Driver.drive`, but time does not pass."""
    driver.loop = asyncio.get_running_loop()
    assert driver.inbox is not None
    driver.inbox.on_arrival = driver.listen
    await driver._loop()
    driver.flush()


def _no_chance() -> float:
    return 0.0


def _tell(taps: Sequence[Emit], batch: list[Event]) -> None:
    for tap in taps:
        tap(batch)
