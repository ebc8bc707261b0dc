"""A tool that is an agent → a run of its own, within what the run that started it has left.

    single      one model call; a tool call in its answer is an error, since it is not run
    agentic     the whole loop

A child is a run with `parent = (run, n)`, in the parent's journal and session. It gets no more rounds, tool calls, tokens and
time than its parent has left, and children that run side by side share that; what it used counts as the parent's. It is
driven in the task of the tool call, so cancelling the parent cancels it. What people say to the parent it never hears;
who approves the parent's calls approves its calls, too.

A follower of the parent reads there what the child writes, as progress of the call, and finds its id, under which it is a run
like any other; its first event has its share of the limits. An answer too long to be read by the parent's model is kept as a file
of the session, where there is a store for files.

Its id follows from the call. So a resumed parent finds the child where it was left, and resumes that, or has
its result. A child that waits for people ends its tool call for now: the parent asks what the child asks, waits with it, and
makes the call again when there is an answer.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.agent.prompty_run import FileJob, start_job
from ronda.agent.reopen import kept_file, restart
from ronda.agent.start import Link, RunOptions, Start
from ronda.agent.toolsets import open_agent
from ronda.agent.value import Agent
from ronda.core.events import Answered, Asked, Event, Fact, RunStarted, TextDelta
from ronda.core.files import PREVIEW_BYTES, FileSource, preview
from ronda.core.limits import MAX_ITERATIONS
from ronda.core.parts import File, user
from ronda.core.run import Run, rebuild
from ronda.drive import ToolContext, ToolOutput, check_answer, child_id
from ronda.drive.contracts import NO_DEPS
from ronda.errors import BadConfig, BadRequest, RunCancelled, RunEnded, quote_names
from ronda.files.file_store import FileFacts, FileStore
from ronda.host.recovery import expiry_facts, recovery_facts
from ronda.prompty.children import INPUT, Child
from ronda.prompty.model import Prompty
from ronda.store import WriteConflict
from ronda.store.files import QuotaExceeded
from ronda.tools.files.reading import READ
from ronda.tools.output import to_output
from ronda.trace.spans import span

if TYPE_CHECKING:
    from ronda.host.run import LiveRun

MAX_DEPTH: Final = 8  # runs, one the child of another
MAX_ANSWER: Final = 64_000  # characters, some 16,000 tokens: as much as the largest budget of a search
SHOWN_CHARS: Final = 16_000


class Family(Struct):
    """What the children of one run have been promised so far, and have not given back."""

    depth: int = 0
    tokens: int = 0
    tool_calls: int = 0
    started: set[str] = msgspec.field(default_factory=set)  # the calls they came from


class VersionedAgent(Struct, frozen=True):
    """An agent that is made when it is called: as it is in `version`, or in the one that its run was begun with."""

    version: int
    open: Callable[[int], Awaitable[Agent]]


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
    child = child_id(context.run, context.round, context.call_id)
    share = _share(parent.run, family, context.call_id)
    begun = await _find_begun(parent, context.call_id, child)
    if begun is None and (share.tokens == 0 or share.tool_calls == 0):
        what = "tokens" if share.tokens == 0 else "tool calls"
        return ToolOutput(f"Error: not started: the run has no {what} left for another agent", failed=True)
    family.tokens += share.tokens or 0
    family.tool_calls += share.tool_calls or 0
    try:
        version = agent.version if isinstance(agent, VersionedAgent) else 0
        link = Link(child, context.call_id, version, tuple(sorted(parent.run.marks)))
        output = await _run(parent, family, share, agent, inputs, mode, link, begun, context)
        return await _shorten(output, parent, context, child)
    finally:
        # Given back: what the child did use comes to the parent with the result of the call.
        family.tokens -= share.tokens or 0
        family.tool_calls -= share.tool_calls or 0


def _share(run: Run, family: Family, call_id: str) -> Share:
    """What the parent has left, shared among the agents of this turn that have not begun: side by side, each has its part."""
    limits = run.plan.limits
    family.started.add(call_id)
    waiting = [call for call in run.open_calls if call.id not in family.started and run.tools[call.name].is_agent]
    parts = len(waiting) + 1 if run.plan.parallel else 1
    tokens = None if limits.tokens is None else max(0, limits.tokens - run.usage.total - family.tokens) // parts
    calls = (
        None if limits.tool_calls is None else max(0, limits.tool_calls - run.tool_calls - family.tool_calls) // parts
    )
    seconds = None if limits.seconds is None else max(0.001, limits.seconds - run.seconds_driven(time.time()))
    return Share(min(MAX_ITERATIONS, limits.rounds - run.tool_rounds), calls, tokens, seconds)


class EarlierChild(Struct, frozen=True):
    """A child that was begun before: by a process that is gone, or until it had to wait."""

    run: Run
    events: list[Event]


async def _find_begun(parent: LiveRun, call: str, child: str) -> EarlierChild | None:
    journal = parent.journal
    if journal is None or not (parent.goes_on or parent.run.answers_for(call)):
        return None
    events = await journal.resume(child)
    if not events:
        return None
    run = rebuild(events)
    if run.ended is None:
        facts = [*recovery_facts(run), *_answers_as_facts(run, parent.run.answers_for(call)), *expiry_facts(run)]
        journal.append(child, facts)
        events += facts
    return EarlierChild(run, events)


def _answers_as_facts(run: Run, answers: list[Answered]) -> list[Fact]:
    """What people answered at the parent: facts of the child, unless it has them."""
    facts: list[Fact] = []
    for answer in answers:
        if answer.decision == "expired" or answer.id not in [question.id for question in run.questions]:
            continue
        try:
            check_answer(run, answer)
        except BadRequest as error:
            answer = Answered(answer.id, "deny", message=str(error), by=answer.by)
        facts.append(replace(answer, at=time.time()))
        run.apply(facts[-1])
    return facts


async def _run(
    parent: LiveRun,
    family: Family,
    share: Share,
    agent: Any,
    inputs: dict[str, Any],
    mode: str,
    link: Link,
    begun: EarlierChild | None,
    context: ToolContext,
) -> ToolOutput:
    options: RunOptions = {
        "max_iterations": share.rounds,
        "max_tool_calls": share.tool_calls,
        "max_tokens": share.tokens,
        "max_seconds": share.seconds,
        "retry": parent.run.plan.retry,
        "parallel_tool_calls": parent.run.plan.parallel,
        "guardrails": parent.guardrails,
        "approve": None if parent.approver is None else parent.approver.approve,
        "permissions": parent.run.plan.permissions,
        "workspace": parent.workspace,
        "approval_timeout": parent.run.plan.limits.approval_seconds,
        "max_result_chars": parent.run.plan.limits.result_chars,
        "session": parent.run.start.session,
        "owner": parent.run.start.owner,
        "journal": parent.journal,
        "parent": (parent.run.id, parent.facts),
        "extensions": parent.extensions,
    }
    if parent.deps is not NO_DEPS:
        options["deps"] = parent.deps
    if mode == "agentic" or begun is not None:
        with span("invoke_agent", signature="ronda.invoke_agent", inputs=inputs) as emit:
            start = await _start(agent, inputs, options, link, begun, stream=parent.run.plan.stream)
            if parent.run.plan.stream:
                start.live.add_tap(partial(_show, context))
            output = await _outcome(start, parent, family)
            emit("result", output.content)
            return output
    job = FileJob(_prompty(agent), inputs)
    with span("run", signature="ronda.run", inputs={"messages": job.messages}) as emit:
        if not job.prompty.has_conversation:
            from ronda.agent.pipeline import ask_for_data

            return to_output(await ask_for_data(job))
        start = await start_job(job, None, False, options, loop=False, link=link)
        output = await _outcome(start, parent, family)
        emit("result", output.content)
        return output


async def _start(
    agent: Any, inputs: dict[str, Any], options: RunOptions, link: Link, begun: EarlierChild | None, *, stream: bool
) -> Start:
    lent = agent.tools if isinstance(agent, Child) else None
    if begun is not None:
        try:
            if isinstance(agent, VersionedAgent):
                agent = await agent.open(begun.run.start.version)
            is_made = isinstance(agent, Agent)
            found = agent if is_made else _as_begun(_prompty(agent), begun.run.start)
            start = await restart(found, inputs if is_made else None, lent, begun.run, begun.events, options)
        except BaseException:
            if (journal := options.get("journal")) is not None:
                journal.release(link.run)
            raise
        start.live.replay(begun.events)
        return start
    if isinstance(agent, VersionedAgent):
        agent = await agent.open(agent.version)
    if isinstance(agent, Agent):
        return Start(await open_agent(agent), inputs, None, stream, options, link=link)
    return await start_job(_job(agent, inputs), lent, stream, options, link=link)


def _show(context: ToolContext, batch: Sequence[Event]) -> None:
    """What a child writes, to the followers of its parent."""
    if text := "".join([event.text for event in batch if type(event) is TextDelta]):
        context.progress(text)


def _as_begun(prompty: Prompty, start: RunStarted) -> Prompty:
    """The file as it was when the child began, whatever became of it since."""
    if start.file is None:
        return prompty
    return kept_file(start.file, None if prompty.host is None else prompty.host.env)


def _job(agent: Any, inputs: dict[str, Any]) -> FileJob:
    if isinstance(agent, Child) and agent.asks:
        return FileJob(agent.prompty, {}, [user(inputs[INPUT])])
    return FileJob(_prompty(agent), inputs)


def _prompty(agent: Any) -> Prompty:
    prompty = agent.prompty if isinstance(agent, Child) else agent
    if not isinstance(prompty, Prompty):
        raise BadConfig(f"{agent!r} cannot be started with one model call; only a prompty file can")
    return prompty


async def _outcome(start: Start, parent: LiveRun, family: Family) -> ToolOutput:
    run, live = start.run, start.live
    live.family = Family(depth=family.depth + 1)
    live.parent = parent
    live.files = parent.files
    live.long_results = parent.long_results
    if run.ended is None:
        await start.drive()
    elif live.journal is not None:  # it had ended when its parent was cut off
        live.journal.release(run.id)
    if run.is_waiting:
        parent.sleeping |= {run.id}
        return ToolOutput("", questions=tuple([_asked_by(run, question) for question in run.questions]))
    try:
        result = start.result()
    except RunCancelled:
        raise
    except RunEnded as error:
        output = ToolOutput(f"Error: the agent '{start.agent.name}' has no answer: {error}", failed=True)
    else:
        if run.ended is not None and run.ended.reason == "tool_calls":
            names = quote_names([call.name for call in run.open_calls])
            text = f"Error: the agent '{start.agent.name}' asked for {names}, but it is run with a single model call"
            output = ToolOutput(text, failed=True)
        else:
            output = to_output(result)
    return replace(output, usage=run.usage, tool_calls=run.tool_calls, marks=tuple(sorted(run.marks)))


def _asked_by(run: Run, question: Asked) -> Asked:
    """A child's question as its parent asks it: with what an answer is checked against, since the parent has no such tool."""
    schema = question.schema if question.child else run.tools[question.tool].parameters
    return replace(question, schema=schema, child=run.id)


async def _shorten(output: ToolOutput, parent: LiveRun, context: ToolContext, child: str) -> ToolOutput:
    """An answer that is too long for the model that asked for it → a file of the session, and its beginning. `child` is the run
    whose answer it is: asking it again finds the same file."""
    store: FileStore | None = parent.files
    if len(output.content) <= MAX_ANSWER or store is None or parent.run.plan.limits.result_chars is None:
        return output
    call = next(call for call in parent.run.open_calls if call.id == context.call_id)
    data = output.content.encode()
    name = f"{call.name}.txt"
    file_id = f"file_{child.removeprefix('run_')[:12]}_r{context.round}_0"
    facts = FileFacts(
        name, "agent_output", source=FileSource(call.name, context.round), session=context.session, id=file_id
    )
    try:
        await store.add(context.owner, data, facts)
    except WriteConflict:  # kept before the process ended that asked first
        pass
    except QuotaExceeded:  # then the model has to read it
        return output
    file = File(None, name, file_id, len(data), "txt", preview(data, PREVIEW_BYTES))
    text = (
        f"{output.content[:SHOWN_CHARS]}\n… (the first {SHOWN_CHARS} of {len(output.content)} characters; "
        f"all of it is the file {name}, id {file_id}, which {READ} reads)"
    )
    return replace(output, content=text, files=(*output.files, file), whole=file_id)
