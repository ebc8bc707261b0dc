"""Custom tools, as OpenAI's APIs have them (what the model writes is text, perhaps after a grammar) ⇄ a function of one text.

No other upstream has such tools, and the loop looks into arguments; so a model is offered a function with `input`, and its call
goes to the client as the call of a custom tool.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from ronda.core.plan import ToolSpec
from ronda.wire.codec.json import decode_or, encode
from ronda.wire.shared.functions import must_be_name


class Format(Struct, frozen=True):
    """What the text must be like. Responses says the grammar here, Chat Completions one level deeper."""

    type: str = "text"
    syntax: str | None = None
    definition: str = ""
    grammar: Format | None = None


class _Input(Struct, frozen=True, forbid_unknown_fields=True):
    input: str


def custom_spec(name: str | None, description: str | None, form: Format | None, path: str) -> ToolSpec:
    instructions = "What the tool is given, as it is."
    if form is not None and form.type == "grammar":
        grammar = form.grammar or form
        instructions += f" It must follow this grammar ({grammar.syntax or 'lark'}):\n{grammar.definition}"
    schema = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": instructions}},
        "required": ["input"],
        "additionalProperties": False,
    }
    return ToolSpec(
        name=must_be_name(name, f"{path}.name"),
        description=description or "",
        parameters=Raw(msgspec.json.encode(schema)),
        kind="caller",
    )


def input_of(arguments: str) -> str:
    """The text that a custom tool is called with. A model that did not write it as it was declared meant what it wrote."""
    return decode_or(_Input(arguments), _Input, arguments).input


def arguments_for(text: str) -> str:
    """The arguments of the function, from the text that a client brings back."""
    return encode({"input": text}).decode()
