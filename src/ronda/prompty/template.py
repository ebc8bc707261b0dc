"""A template and its inputs → segments, the flat string, or messages. The doors of rendering; plain arguments, no agent.

    render_segments(template, inputs, kinds=…)   text with where it came from
    render(…)                                    the same as one string, which `roles.parse` can still read safely
    messages_from(…)                             messages, with threads and media at their place

`format` chooses the language; `kinds` says which inputs are threads, images, files or sounds. `strict` names the inputs in which
a line like a role marker is an error; `True` makes any forged marker one. Without it such lines are inert text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ronda.prompty.message_parts import Message, rich_messages
from ronda.prompty.roles import MISMATCH, forged_markers, parse
from ronda.prompty.segments import (
    LIMITS,
    RICH_KINDS,
    Budget,
    Limits,
    Out,
    RenderedText,
    Rich,
    Segment,
    StrictViolation,
    TemplateError,
    rich,
)
from ronda.prompty.template_values import plain
from ronda.trace.spans import current_span, span

__all__ = ["Limits", "StrictViolation", "TemplateError", "messages_from", "render", "render_segments"]


def render(
    template: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    format: str = "jinja2",  # noqa: A002  # Prompty's own word: callers say `format="mustache"`
    kinds: Mapping[str, str] | None = None,
    strict: bool | Collection[str] = False,
    limits: Limits = LIMITS,
) -> RenderedText:
    """The flat string; rich inputs are markers in it."""
    return RenderedText(render_segments(template, inputs, format=format, kinds=kinds, strict=strict, limits=limits))


def render_segments(
    template: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    format: str = "jinja2",  # noqa: A002  # Prompty's own word: callers say `format="mustache"`
    kinds: Mapping[str, str] | None = None,
    strict: bool | Collection[str] = False,
    limits: Limits = LIMITS,
) -> tuple[Segment, ...]:
    if len(template) > limits.template:
        raise TemplateError(f"the template is longer than {limits.template} characters")
    engine, _ = _engine(format)
    budget = Budget(limits)
    named = strict if not isinstance(strict, bool) else ()
    try:
        segments = engine(template, _values(inputs or {}, kinds or {}), Out(budget, named), budget)
    except RecursionError:
        raise TemplateError("the template or an input nests too deeply") from None
    if strict:
        _refuse_forged(segments, everything=strict is True)
    return segments


def messages_from(
    template: str,
    inputs: Mapping[str, Any] | None = None,
    kinds: Mapping[str, str] | None = None,
    *,
    format: str = "jinja2",  # noqa: A002  # Prompty's own word: callers say `format="mustache"`
    strict: bool | Collection[str] = False,
    limits: Limits = LIMITS,
) -> list[Message]:
    """Rendered and parsed. A thread the template never mentions comes after everything else."""
    with span("render", signature="ronda.prompty.template.render", inputs=inputs) as emit:
        segments = render_segments(template, inputs, format=format, kinds=kinds, strict=strict, limits=limits)
        if current_span() is not None:  # a tracer wants to know
            emit("result", str(RenderedText(segments)))
    with span("parse", signature="ronda.prompty.roles.parse") as emit:
        if current_span() is not None:
            emit("inputs", {"rendered": str(RenderedText(segments))})
        messages = parse(segments)
        emit("result", messages)
    threads = [
        name for name, kind in (kinds or {}).items() if kind == "thread" and (inputs or {}).get(name) is not None
    ]
    mentioned = _engine(format)[1](template) if threads else frozenset[str]()
    for name in threads:
        if name not in mentioned:
            messages += rich_messages(rich(name, "thread", (inputs or {})[name]))
    return messages


_Render = Callable[[str, Mapping[str, Any], Out, Budget], tuple[Segment, ...]]
_Names = Callable[[str], frozenset[str]]


def _engine(name: str) -> tuple[_Render, _Names]:
    """Imported when asked for: programs that never render do not need Jinja2."""
    if name == "mustache":
        from ronda.prompty import mustache

        return mustache.render, mustache.names
    if name in ("jinja2", "*", ""):
        from ronda.prompty import jinja

        return jinja.render, jinja.names
    raise TemplateError(f"No renderer registered for key: {name}")


def _values(inputs: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in inputs.items():
        kind = next((kind for kind in RICH_KINDS if kind == kinds.get(name)), None)
        if kind is None or value is None or isinstance(value, Rich):
            values[name] = plain(value)
        else:
            values[name] = rich(name, kind, value)
    return values


def _refuse_forged(segments: tuple[Segment, ...], *, everything: bool) -> None:
    spans: list[tuple[int, int, Segment]] = []
    at = 0
    for segment in segments:
        if segment.kind == "interp" and (everything or segment.strict):
            spans.append((at, at + len(segment.text), segment))
        at += len(segment.text)
    for start, end in forged_markers(segments):
        last = bisect_right(spans, end, key=lambda one: one[0]) - 1
        if last >= 0 and spans[last][1] >= start:
            raise StrictViolation(MISMATCH if everything else _segment_text(spans[last][2]))


def _segment_text(segment: Segment) -> str:
    return f"StrictViolation: the strict input '{segment.source}' makes a role marker of the text around it"
