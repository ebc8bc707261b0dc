"""A call of a strict tool → the same call with arguments that satisfy its schema, or with the reason why they cannot.

What satisfies the schema is never changed. What does not is repaired where there is one way to read it, and each repair is
recorded on the call; the rest carries a problem that names the place, and is never run.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ronda.core.parts import ToolCall
from ronda.core.plan import ToolSpec
from ronda.schema.validate import validator_for

_decode = msgspec.json.Decoder(dict[str, Any]).decode


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
