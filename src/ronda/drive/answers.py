"""What a model wrote, held against what was asked of it: calls of strict tools, answers that have to be JSON."""

from __future__ import annotations

import msgspec

from ronda.core.events import ModelFinished
from ronda.core.parts import NULL, AssistantPart, AssistantTurn, ToolCall
from ronda.core.run import Run
from ronda.schema.validate import validator_for


def are_to_fit(turn: AssistantTurn, is_strict: bool) -> bool:
    """Whether calls of a turn must be looked at: most runs have no strict tool, and most calls no null."""
    for part in turn.parts:  # noqa: SIM110  # asked in every round: a generator costs more than the rest of it
        if type(part) is ToolCall and (is_strict or "null" in part.arguments):
            return True
    return False


def fit_calls(finished: ModelFinished, run: Run) -> tuple[ModelFinished, list[str]]:
    """Calls of strict tools satisfy their schema from here on, or say why not; those of others that run here have no null for
    what may be absent."""
    from ronda.schema.repair import NULL_LEFT_OUT
    from ronda.schema.strict import fit, without_nulls  # where nothing is strict, nothing of it is loaded

    parts: list[AssistantPart] = []
    warnings: list[str] = []
    for part in finished.turn.parts:
        spec = run.tools.get(part.name) if type(part) is ToolCall else None
        if type(part) is ToolCall and spec is not None and part.problem is None:
            if spec.strict:
                fitting = fit(part, spec)
            elif spec.kind != "caller" and "null" in part.arguments:
                fitting = without_nulls(part, spec)
            else:
                fitting = part
            # That null stands for what is left out is how strict schemas are answered, and no news.
            if any(not text.endswith(NULL_LEFT_OUT) for text in fitting.repairs[len(part.repairs) :]):
                warnings.append(f"the arguments of '{part.name}' were repaired: {', '.join(fitting.repairs)}")
            part = fitting
        parts.append(part)
    turn = AssistantTurn(tuple(parts), finished.turn.stop, finished.turn.native)
    return msgspec.structs.replace(finished, turn=turn), warnings


def problem_with(text: str, run: Run) -> str | None:
    """What keeps an answer from being the JSON that was asked for."""
    asked = run.plan.options.response_format
    assert asked is not None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError) as error:
        return f"it is not JSON ({error})"
    if asked.type == "json_object" or asked.schema == NULL:
        return None if isinstance(value, dict) or asked.type == "json_schema" else "it is JSON, but not an object"
    return validator_for(bytes(asked.schema)).explain(value)
