"""A call of a strict tool → the same call with arguments that satisfy its schema, or with the reason why they cannot.

What satisfies the schema is never changed. What does not is repaired where there is one way to read it, and each repair is
recorded on the call; the rest carries a problem that names the place, and is never run.

Of a tool that is not strict the arguments are its own to judge, but for one habit of models: null for what they leave out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ronda.core.parts import ToolCall
from ronda.core.plan import ToolSpec
from ronda.schema.validate import validator_for

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
