"""A tool that is an agent → a run of its own, within what the run that started it has left.

    single      one model call; a tool call in its answer is an error, since nobody runs it
    agentic     the whole loop

A child is a run with `parent = (run, n)`, in the parent's journal and session. It gets no more rounds, tool calls, tokens and
time than its parent has left, and children that run side by side share that; what it used counts as the parent's. It is
driven in the task of the tool call, so whoever cancels the parent cancels it. What people say to the parent it never hears;
who approves the parent's calls approves its calls, too.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from ronda.agent.join import FileJob, start_job
from ronda.agent.start import RunOptions, Start
from ronda.agent.value import Agent
from ronda.core.events import Answered, Asked
from ronda.core.limits import LIBRARY_ROUNDS
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import BadConfig, RunCancelled, RunEnded
from ronda.prompty.children import Child
from ronda.prompty.model import Prompty
from ronda.tools.agent import STARTED
from ronda.tools.function import to_output
from ronda.trace.spans import span

if TYPE_CHECKING:
    from ronda.core.run import Run
    from ronda.host.run import LiveRun

MAX_DEPTH: Final = 8  # runs, one the child of another


class Family(Struct):
    """What the children of one run have been promised so far, and have not given back."""

    depth: int = 0
    tokens: int = 0
    tool_calls: int = 0
    started: set[str] = msgspec.field(default_factory=set)  # the calls they came from


class Share(Struct, frozen=True):
    """What one child may use. None is as much as it likes."""

    rounds: int
    tool_calls: int | None
    tokens: int | None
    seconds: float | None


async def start_child(
    parent: LiveRun, context: ToolContext, agent: Any, inputs: dict[str, Any], mode: str
) -> ToolOutput:
    family: Family | None = parent.family
    if family is None:
        family = parent.family = Family()
    if family.depth + 1 >= MAX_DEPTH:
        raise BadConfig(f"agents may start each other {MAX_DEPTH} deep at the most")
    share = _share(parent.run, family, context.call_id)
    if share.tokens == 0 or share.tool_calls == 0:
        what = "tokens" if share.tokens == 0 else "tool calls"
        return ToolOutput(f"Error: not started: the run has no {what} left for another agent", failed=True)
    family.tokens += share.tokens or 0
    family.tool_calls += share.tool_calls or 0
    try:
        return await _run(parent, family, share, agent, inputs, mode)
    finally:
        # Given back: what the child did use comes to the parent with the result of the call.
        family.tokens -= share.tokens or 0
        family.tool_calls -= share.tool_calls or 0


def _share(run: Run, family: Family, call_id: str) -> Share:
    """What the parent has left, shared among the agents of this turn that have not begun: side by side, each has its part."""
    limits = run.plan.limits
    family.started.add(call_id)
    waiting = [
        call for call in run.open_calls if call.id not in family.started and run.tools[call.name].declared == STARTED
    ]
    parts = len(waiting) + 1 if run.plan.parallel else 1
    tokens = None if limits.tokens is None else max(0, limits.tokens - run.usage.total - family.tokens) // parts
    calls = (
        None if limits.tool_calls is None else max(0, limits.tool_calls - run.tool_calls - family.tool_calls) // parts
    )
    seconds = None if limits.seconds is None else max(0.001, limits.seconds - run.seconds_driven(time.time()))
    return Share(min(LIBRARY_ROUNDS, limits.rounds - run.tool_rounds), calls, tokens, seconds)


async def _run(
    parent: LiveRun, family: Family, share: Share, agent: Any, inputs: dict[str, Any], mode: str
) -> ToolOutput:
    options: RunOptions = {
        "max_iterations": share.rounds,
        "max_tool_calls": share.tool_calls,
        "max_tokens": share.tokens,
        "max_seconds": share.seconds,
        "retry": parent.run.plan.retry,
        "parallel_tool_calls": parent.run.plan.parallel,
        "guardrails": parent.guardrails,
        "approve": _nobody if parent.approver is None else parent.approver.approve,
        "workspace": parent.workspace,
        "approval_timeout": parent.run.plan.limits.approval_seconds,
        "session": parent.run.start.session,
        "owner": parent.run.start.owner,
        "journal": parent.journal,
        "parent": (parent.run.id, parent.facts),
    }
    if mode == "agentic":
        with span("invoke_agent", signature="ronda.invoke_agent", inputs=inputs) as emit:
            start = await _start(agent, inputs, options, loop=True)
            output = await _outcome(start, family)
            emit("result", output.content)
            return output
    job = _job(agent, inputs)
    with span("run", signature="ronda.run", inputs={"messages": job.messages}) as emit:
        if job.upstream.api in ("embedding", "image"):
            from ronda.agent.pipeline import ask_for_data

            return to_output(await ask_for_data(job))
        start = await start_job(job, None, False, options, loop=False)
        output = await _outcome(start, family)
        emit("result", output.content)
        return output


def _nobody(question: Asked) -> Answered:
    """A child is part of a tool call, which cannot wait until its process is gone: who could answer must be there now."""
    return question.deny("nobody can be asked while an agent runs as a tool; give approve=… to the run that started it")


async def _start(agent: Any, inputs: dict[str, Any], options: RunOptions, *, loop: bool) -> Start:
    if isinstance(agent, Agent):
        return Start(agent, inputs, None, False, options)
    lent = agent.tools if isinstance(agent, Child) else None
    return await start_job(_job(agent, inputs), lent, False, options, loop=loop)


def _job(agent: Any, inputs: dict[str, Any]) -> FileJob:
    prompty = agent.prompty if isinstance(agent, Child) else agent
    if not isinstance(prompty, Prompty):
        raise BadConfig(f"{agent!r} cannot be started with one model call; only a prompty file can")
    return FileJob(prompty, inputs)


async def _outcome(start: Start, family: Family) -> ToolOutput:
    start.live.family = Family(depth=family.depth + 1)
    await start.drive()
    run = start.run
    try:
        result = start.result()
    except RunCancelled:
        raise
    except RunEnded as error:
        output = ToolOutput(f"Error: the agent '{start.agent.name}' has no answer: {error}", failed=True)
    else:
        if run.ended is not None and run.ended.reason == "tool_calls":
            names = ", ".join(f"'{call.name}'" for call in run.open_calls)
            said = f"Error: the agent '{start.agent.name}' asked for {names}, but it is run with a single model call"
            output = ToolOutput(said, failed=True)
        else:
            output = to_output(result)
    return msgspec.structs.replace(output, usage=run.usage, tool_calls=run.tool_calls)
