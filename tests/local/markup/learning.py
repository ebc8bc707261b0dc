"""What is learned from a template, without an engine: Jinja itself renders it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tests.local.markup.shapes import TOOLS, Call, Shape

from ronda.local.markup import Family
from ronda.local.markup.learned import learn, written_after


def writer(shape: Shape) -> Callable[[Sequence[Call]], str]:
    """What the shape's template writes of calls, without its roles."""
    environment = ImmutableSandboxedEnvironment()
    environment.filters["items"] = lambda value: value.items()
    template = environment.from_string(shape.template)

    def render(calls: Sequence[Call]) -> str:
        called = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
        message = {"role": "assistant", "content": "", "tool_calls": called}
        asked = template.render(messages=[], tools=TOOLS, add_generation_prompt=True)
        whole = template.render(messages=[message], tools=TOOLS)
        return written_after(asked, whole).removesuffix("<|im_end|>\n")

    return render


def learned(shape: Shape) -> Family:
    family = learn(writer(shape), shape.think)
    assert family is not None
    return family
