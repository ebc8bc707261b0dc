"""A loaded file and its inputs → messages: template rendered, roles parsed, threads in their place.

    render_prompt(prompty, inputs)           the flat text, which remembers where its pieces came from
    parse_messages(prompty, text, inputs)    messages
    prepare_messages(prompty, inputs)        both, with a thread that the template never mentions behind everything else
    prepare(prompty, inputs)                 inputs with defaults filled in, and their messages, in a span

A file that asks for a renderer or a parser of another kind gets the registered one: something with
`render(prompty, template, inputs)` or `parse(prompty, text)`. Such a renderer returns plain text, so the author's role
markers carry a secret through it, rich inputs are markers that cannot be guessed, and a role marker without the secret is an
attempt to forge one.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.errors import BadRequest
from ronda.prompty.components import get_parser, get_renderer
from ronda.prompty.message_parts import Message, read_message
from ronda.prompty.model import Prompty, Property
from ronda.prompty.roles import guard, parse
from ronda.prompty.segments import RICH_KINDS, RenderedText, Rich, Segment, TemplateError, rich
from ronda.prompty.template import messages_from, render
from ronda.trace.spans import span

_OURS: Final = ("jinja2", "mustache", "", "*")
_DEFAULT_PARSER: Final = ("prompty", "", "*")


def prepare(prompty: Prompty, inputs: Mapping[str, Any] | None) -> tuple[dict[str, Any], list[Message]]:
    """What a caller gives → all inputs of the file, and its messages."""
    with span("prepare", signature="ronda.prepare", inputs=inputs) as emit:
        known = validate_inputs(prompty, inputs)
        messages = prepare_messages(prompty, known)
        emit("result", messages)
        return known, messages


def prepare_messages(prompty: Prompty, inputs: Mapping[str, Any]) -> list[Message]:
    template_format = prompty.template.format
    if template_format.kind in _OURS and prompty.template.parser.kind in _DEFAULT_PARSER:
        kinds = rich_kinds(prompty)
        with _locate_errors(prompty):
            return messages_from(
                prompty.instructions, inputs, kinds, format=template_format.kind, strict=template_format.strict is True
            )
    return parse_messages(prompty, render_prompt(prompty, inputs), inputs)


def render_prompt(prompty: Prompty, inputs: Mapping[str, Any]) -> str:
    template_format = prompty.template.format
    if template_format.kind in _OURS:
        kinds = rich_kinds(prompty)
        with _locate_errors(prompty):
            return render(
                prompty.instructions,
                inputs,
                format=template_format.kind,
                kinds=kinds,
                strict=template_format.strict is True,
            )
    return _foreign(prompty, inputs)


def parse_messages(prompty: Prompty, text: str, inputs: Mapping[str, Any]) -> list[Message]:
    kind = prompty.template.parser.kind
    if kind not in _DEFAULT_PARSER:
        return [read_message(item) for item in get_parser(kind).parse(prompty, text)]
    if isinstance(text, _GuardedText):
        return parse(text.segments, nonce=text.nonce)
    kinds = rich_kinds(prompty)
    return parse(text, {name: inputs[name] for name in kinds if name in inputs}, kinds=kinds)


def rich_kinds(prompty: Prompty) -> dict[str, str]:
    return {one.name: one.kind for one in prompty.inputs if one.kind in RICH_KINDS}


@contextmanager
def _locate_errors(prompty: Prompty) -> Iterator[None]:
    try:
        yield
    except TemplateError as error:
        error.locate(prompty.path, prompty.body_line)
        raise


class _GuardedText(RenderedText):
    """Text of a foreign renderer: the author's markers carry the nonce."""

    nonce: str


def _foreign(prompty: Prompty, inputs: Mapping[str, Any]) -> str:
    nonce = secrets.token_hex(8)
    declared = rich_kinds(prompty)
    rich_inputs: dict[str, Rich] = {}
    for name, value in inputs.items():
        for kind in RICH_KINDS:
            if kind == declared.get(name) and value is not None:
                rich_inputs[name] = rich(name, kind, value)
    values = {**inputs, **{name: one.marker for name, one in rich_inputs.items()}}
    renderer = get_renderer(prompty.template.format.kind)
    text = str(renderer.render(prompty, guard(prompty.instructions, nonce), values))
    made = _GuardedText(_segments(text, list(rich_inputs.values())))
    made.nonce = nonce
    return made


def _segments(text: str, rich_inputs: list[Rich]) -> list[Segment]:
    """The text cut at our own markers, and at no others."""
    segments = [Segment("literal", text)]
    for one in rich_inputs:
        cut: list[Segment] = []
        for segment in segments:
            if segment.kind != "literal":
                cut.append(segment)
                continue
            for index, piece in enumerate(segment.text.split(one.marker)):
                cut += [Segment("rich", one.marker, one.name, False, one)] if index else []
                cut += [Segment("literal", piece)] if piece else []
        segments = cut
    return segments


# What a caller gives and what a file declares → the inputs that its template gets.
#
# As the specification has it: a missing input gets its default, a required one without a default is an error, `example`
# never counts, nothing is checked for its type, and what the file doesn't declare goes through.


def validate_inputs(prompty: Prompty, inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A new dict; neither the caller's nor the file's values are shared with it where they could be changed."""
    known = dict(inputs or {})
    for declared in prompty.inputs:
        if declared.name in known:
            continue
        if declared.default is not None:
            known[declared.name] = copy.deepcopy(declared.default)
        elif declared.required:
            raise BadRequest(f"Missing required input: {declared.name}", param=declared.name, code="missing_input")
    return known


def read_input(prompty: Prompty, name: str, text: str) -> Any:
    """An input from a command line: JSON where the declared kind is no text, else the text as it is."""
    declared = next((one for one in prompty.inputs if one.name == name), Property())
    if declared.kind in ("string", "image", "file", "audio"):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if declared.kind in ("integer", "float", "boolean", "array", "object", "thread"):
            raise BadRequest(
                f"the input '{name}' is not of kind '{declared.kind}': {text[:60]!r}", param=name
            ) from error
        return text


def kept_inputs(prompty: Prompty, inputs: Mapping[str, Any]) -> dict[str, Raw]:
    """What is kept of the inputs. Conversations, images and files are in the run's turns already."""
    rich = {one.name for one in prompty.inputs if one.kind in RICH_KINDS}
    encoded_inputs: dict[str, Raw] = {}
    for name, value in inputs.items():
        if name not in rich:
            try:
                encoded_inputs[name] = Raw(msgspec.json.encode(value))
            except (TypeError, ValueError, RecursionError):  # an object of the caller's, which nothing could bring back
                continue
    return encoded_inputs
