"""What a model wrote, held against what was asked of it: calls of strict tools, answers that have to be JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from ronda.core.events import ModelFinished
from ronda.core.parts import NULL, AssistantPart, AssistantTurn, ToolCall
from ronda.core.plan import ToolSpec
from ronda.core.run import Run
from ronda.schema.validate import validator_for


def fit_calls(finished: ModelFinished, run: Run) -> tuple[ModelFinished, list[str]]:
    """Calls of strict tools satisfy their schema from here on, or say why not; those of others that run here have no null for
    what may be absent."""
    from ronda.schema.repair import NULL_LEFT_OUT

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


# A call of a strict tool → the same call with arguments that satisfy its schema, or with the reason why they cannot.
#
# What satisfies the schema is never changed. What does not is repaired where there is one way to read it, and each repair is
# recorded on the call; the rest carries a problem that names the place, and is never run.
#
# Of a tool that is not strict the arguments are its own to judge, but for one habit of models: null for what they leave out.

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def without_nulls(call: ToolCall, spec: ToolSpec) -> ToolCall:
    """A call of any tool, without null for what may be absent and may not be null."""
    from ronda.schema.repair import leave_out_nulls

    left = leave_out_nulls(_decode(call.arguments), msgspec.json.decode(spec.parameters))
    if not left.repairs:
        return call
    text = msgspec.json.encode(left.arguments).decode()
    return ToolCall(call.id, call.name, text, call.repairs + left.repairs, call.as_written)


def fit(call: ToolCall, spec: ToolSpec) -> ToolCall:
    arguments = _decode(call.arguments)
    for name in spec.bound:
        arguments.pop(name, None)
    schema = bytes(spec.parameters)
    validator = validator_for(schema)
    problem = validator.explain(arguments)
    if problem is None:
        return call
    from ronda.schema.repair import repair  # most runs never need it

    repaired = repair(arguments, msgspec.json.decode(schema), validator)
    if repaired is None:
        reason = f"the arguments of '{call.name}' do not fit its schema: {problem}"
        return ToolCall(call.id, call.name, call.arguments, call.repairs, call.written, reason)
    text = msgspec.json.encode(repaired.arguments).decode()
    return ToolCall(call.id, call.name, text, call.repairs + repaired.repairs, call.as_written)
