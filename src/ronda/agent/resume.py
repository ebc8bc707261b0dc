"""A run that waits for people, or that a crash cut off → the same run, driven on: in this process or in another one.

Its journal says what it was told to do, what has happened, and the file that its agent was read from. What no journal can hold
is given again: an agent that was made in code, and functions that were given for the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ronda.agent.approve import Approve, Decision, answer_to
from ronda.agent.blocking import blocking
from ronda.agent.cancel import Cancel
from ronda.agent.checks import RUN_OPTIONS, misfit, unknown_name
from ronda.agent.prompty_run import Source
from ronda.agent.reopen import file_of, restart
from ronda.agent.result import Result, outcome
from ronda.agent.start import OnEvent, RunOptions
from ronda.agent.toolsets import Tools
from ronda.agent.value import AnyAgent, Inputs
from ronda.core.events import Answered, Event, RunFinished
from ronda.core.guardrails import Guardrails
from ronda.core.run import Run, rebuild
from ronda.core.steering import Steering
from ronda.drive import Inbox, Summarize
from ronda.errors import AlreadyAnswered, BadRequest, NotFound
from ronda.host.extension import Extension
from ronda.host.recovery import expiry_facts, previews_of_round, recovery_facts
from ronda.trace.spans import span

if TYPE_CHECKING:
    from ronda.files.file_store import FileStore
    from ronda.journal import Journal


class ResumeOptions(TypedDict, total=False):
    """What a run is driven with. What it was told to do (limits, tools, options) is in its journal."""

    approve: Approve | None
    on_event: OnEvent | None
    cancel: Cancel | None
    steering: Steering | None
    guardrails: Guardrails | None
    compaction: Summarize | AnyAgent | None
    workspace: str | os.PathLike[str] | None
    result_files: str | os.PathLike[str] | FileStore | None
    deps: Any
    extensions: Sequence[Extension]


async def resume_agent_async(
    run_id: str,
    answers: Mapping[str, Decision] | None = None,
    *,
    journal: Journal,
    agent: AnyAgent | None = None,
    inputs: Inputs | None = None,
    tools: Tools | None = None,
    **options: Unpack[ResumeOptions],
) -> Result:
    """Continue a run that waits for people (`result.questions`), or that was cut off: its `Result`, as of `run_agent`.

    Args:
        run_id: The run: `result.run_id`, or `error.run` of a `RunWaiting`.
        answers: By the ids of the questions: True, False, or `question.approve(…)`, `question.deny(…)`. A question that is not
            answered here stays open: `approve` is asked, or the run waits again.
        journal: Where the run is kept.
        agent: The agent it was started with, where that was made in code. A file is in the journal, as it was then; one that is
            given goes before it.
        inputs: What fills the bound parameters of its tools. Those of a file are in the journal.
        tools: Tools that were given for this run only. A call of one that is not given again fails, and the model is told.
        options: `approve`, `on_event` (called with what happens from here on), `cancel`, `steering`, `guardrails`,
            `compaction`, `workspace`, `result_files`, `deps`, `extensions`.
    """
    if (unknown := unknown_name(options, ResumeOptions.__annotations__)) is not None:
        name, hint = unknown
        raise TypeError(f"unknown option {name!r}; {hint} What a run was told to do is in its journal")
    if journal is None:
        raise BadRequest("resume_agent needs journal=…: where the run was kept from its start", param="journal")
    if (wrong := misfit({**options, "journal": journal}, RUN_OPTIONS)) is not None:
        raise BadRequest(wrong[1], param=wrong[0])
    with span("resume_agent", signature="ronda.resume_agent", inputs={"run": run_id}) as emit:
        run, events = await _read(run_id, journal)
        try:
            driven_with: RunOptions = {**options, "journal": journal}  # type: ignore[typeddict-item]  # fewer, and the same
            found = file_of(run.start) if agent is None else Source(agent).resolve()
            start = await restart(found, inputs, tools, run, events, driven_with)
            if (inbox := start.live.inbox) is None:
                inbox = start.live.inbox = Inbox(run)
            previews = await journal.previews(run.id)
            if closed := [*recovery_facts(run, previews_of_round(events, previews)), *expiry_facts(run)]:
                journal.append(run.id, closed)
            start.live.replay([*events, *closed])
            for question_id, decision in (answers or {}).items():
                inbox.send(_answer(run, question_id, decision))
        except BaseException:
            await _let_go(run.id, journal)
            raise
        await start.drive()
        result = outcome(start)
        emit("result", None if result.questions else result.output)
        return result


resume_agent = blocking(resume_agent_async, "resume_agent")


async def _read(run_id: str, journal: Journal) -> tuple[Run, list[Event]]:
    events = await journal.read(run_id)
    if not events:
        raise NotFound(f"the journal has no run '{run_id}'", param="run_id")
    if type(events[-1]) is not RunFinished:
        events = await journal.resume(run_id)
        run = rebuild(events)
        if run.ended is None:
            return run, events
        await _let_go(run_id, journal)  # it ended meanwhile
    raise AlreadyAnswered(f"run '{run_id}' is over: there is nothing to continue")


async def _let_go(run_id: str, journal: Journal) -> None:
    journal.release(run_id)
    await journal.barrier(run_id)


def _answer(run: Run, question_id: str, decision: Any) -> Answered:
    question = next((one for one in run.questions if one.id == question_id), None)
    if question is None:  # the inbox says what is wrong with it
        return Answered(question_id, "deny")
    try:
        return answer_to(question, decision)
    except TypeError as error:
        raise BadRequest(str(error), param="answers") from error
