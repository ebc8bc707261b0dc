"""One turn of a conversation with an agent: `turn`, with everything that Prompty's loop can be told.

It is `invoke_agent` under the specification's names. What differs: tools run one after another unless asked otherwise, the
loop runs only where something can run the calls (else they are the result), events come as `on_event(type, data)`, and the
result can be had raw or cast to a type.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ronda.agent.blocking import blocking
from ronda.agent.cancel import Cancel
from ronda.agent.pipeline import Call
from ronda.agent.prompty_run import Source, read_answer
from ronda.agent.start import RunOptions
from ronda.agent.toolsets import Tools
from ronda.agent.value import AnyAgent, Inputs
from ronda.core.limits import MAX_ITERATIONS, Retry
from ronda.core.transcript import final_text
from ronda.errors import BadRequest
from ronda.prompty.model import Prompty
from ronda.prompty.turn_events import OnTurnEvent, TurnEvents


async def turn_async(
    agent: AnyAgent,
    inputs: Inputs | None = None,
    tools: Tools | None = None,
    *,
    max_iterations: int = MAX_ITERATIONS,
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
        inputs: What the file declares; or the messages of a conversation to continue.
        tools: Functions, or name → function, laid over the agent's for this turn only.
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
    source = Source(agent)
    if on_event is not None:
        read = partial(read_answer, source.found) if isinstance(source.found, Prompty) else final_text
        options["on_event"] = TurnEvents(on_event, read)
    name = "turn" if turn is None else f"turn {turn}"
    call = Call(source, inputs, tools, options, name, loop=None, raw=raw)
    return await call.answer(None if raw else target_type)


turn = blocking(turn_async, "turn")
