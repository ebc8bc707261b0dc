"""One turn of a conversation with an agent: `turn`, with everything that Prompty's loop can be told.

It is `invoke_agent` under the specification's names. What differs: tools run one after another unless asked otherwise, the
loop runs only where something can run the calls (else they are the result), events come as `on_event(type, data)`, and the
result can be had raw or cast to a type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from ronda.agent.blocking import blocking
from ronda.agent.cancel import Cancel
from ronda.agent.join import FileJob, Source, start_job
from ronda.agent.pipeline import ask_for_data, check_at_once
from ronda.agent.start import RunOptions, Start
from ronda.agent.streams import PromptyStream, signature_of
from ronda.agent.value import Agent, AnyAgent, Inputs, Tools
from ronda.core.events import Event, ModelFinished
from ronda.core.limits import Retry
from ronda.core.output import final_text
from ronda.core.run import Run
from ronda.errors import BadRequest
from ronda.prompty.results import cast
from ronda.prompty.turn_events import OnTurnEvent, TurnEvents
from ronda.trace.spans import span


async def turn_async(
    agent: AnyAgent,
    inputs: Inputs | None = None,
    tools: Tools | None = None,
    *,
    max_iterations: int = 10,
    max_llm_retries: int = 3,
    on_event: OnTurnEvent | None = None,
    cancel: Cancel | None = None,
    context_budget: int | None = None,
    guardrails: Any = None,
    steering: Any = None,
    parallel_tool_calls: bool = False,
    raw: bool = False,
    turn: int | str | None = None,
    compaction: Any = None,
    target_type: type[Any] | None = None,
) -> Any:
    """Run an agent to its answer.

    Args:
        agent: A path, a loaded prompty file, or an agent made in code.
        inputs: What the file declares; or the messages of a conversation to go on with.
        tools: Functions, or name → function, laid over the agent's for this turn alone.
        max_iterations: Tool rounds at most; then `RuntimeError: Agent loop exceeded N iterations`.
        max_llm_retries: How often a model call is tried in all.
        on_event: Called with each event's type and data, from the loop's thread. What it raises is logged and forgotten.
        cancel: A `Cancel`; it works from any thread.
        context_budget: How many characters of conversation the model is shown at the most.
        guardrails: A `Guardrails` for what goes in, what comes out and what is called.
        steering: A `Steering`, into which people may speak while the turn is under way.
        parallel_tool_calls: Run the calls of a round side by side.
        raw: Return the model's last answer as it is, for `process`.
        turn: A number for the span: `turn 3`.
        compaction: Who sums up what the budget cuts.
        target_type: Cast the result to this type.
    """
    if max_llm_retries < 1:
        raise BadRequest(
            f"max_llm_retries is {max_llm_retries}; a call is tried at least once", param="max_llm_retries"
        )
    options: RunOptions = {
        "max_iterations": max_iterations,
        "retry": Retry(initial_interval=1.0, exponent=2.0, max_interval=60.0, tries=max_llm_retries),
        "cancel": cancel,
        "parallel_tool_calls": parallel_tool_calls,
        "context_budget": context_budget,
        "guardrails": guardrails,
        "steering": steering,
        "compaction": compaction,
    }
    name = "turn" if turn is None else f"turn {turn}"
    one = _Turn(Source(agent), inputs, tools, options, on_event)
    if one.source.wants_stream and not raw:
        check_at_once(one.source, inputs, name)
        return PromptyStream(one.begin_stream, name=name, inputs=inputs)
    with span(name, signature=signature_of(name), inputs=inputs) as emit:
        result = await one.run(raw)
        if target_type is not None and not raw:
            result = cast(result, target_type)
        emit("result", result)
        return result


turn = blocking(turn_async, "turn")


class _Turn(Struct, frozen=True):
    source: Source
    inputs: Inputs | None
    tools: Tools | None
    options: RunOptions
    on_event: OnTurnEvent | None

    async def run(self, raw: bool) -> Any:
        found = self.source.resolve()
        if isinstance(found, Agent):
            start = Start(
                found, () if self.inputs is None else self.inputs, self.tools, False, self._run_options(final_text)
            )
        else:
            job = FileJob(found, self.inputs)
            if not found.has_conversation:
                return await ask_for_data(job)
            start = await self._begin(job, stream=False)
        last = _Last()
        start.live.add_tap(last.take)
        await start.drive()
        result = start.result()
        return last.finished if raw else result

    async def begin_stream(self) -> Start:
        return await self._begin(FileJob(self.source.file(), self.inputs), stream=True)

    async def _begin(self, job: FileJob, *, stream: bool) -> Start:
        return await start_job(job, self.tools, stream, self._run_options(job.read), loop=None)

    def _run_options(self, read: Callable[[Run], Any]) -> RunOptions:
        if self.on_event is None:
            return self.options
        return {**self.options, "on_event": TurnEvents(self.on_event, read)}


class _Last:
    """The model's last answer, as it came."""

    finished: ModelFinished | None = None

    def take(self, batch: Sequence[Event]) -> None:
        for event in batch:
            if type(event) is ModelFinished:
                self.finished = event
