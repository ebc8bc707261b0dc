"""Templates of which we have no family: how they write calls is learned from them, and what such a model writes is read."""

from __future__ import annotations

import pytest
from tests.local.markup.foreign_shapes import FOREIGN, LEARNED
from tests.local.markup.learning import learned, writer
from tests.local.markup.outputs import Output, check, outputs, read
from tests.local.markup.shapes import OWN, Shape

from ronda.local.markup.learned import learn

OUTPUTS = [output for shape in LEARNED for output in outputs(shape)]
# Shapes that we know, and that can be learned from templates, too.
LEARNABLE = ("Qwen3-Coder", "GLM 4.6", "GLM 4.7", "Hunyuan 3", "MiniMax M2", "Kimi K2", "DeepSeek V3.1")


@pytest.mark.parametrize("output", OUTPUTS, ids=[output.id for output in OUTPUTS])
def test_what_such_a_model_writes_is_read(output: Output) -> None:
    family = learned(output.shape)

    check(output, read(output, family, [output.written]))
    check(output, read(output, family, list(output.written)))


@pytest.mark.parametrize("shape", [one for one in OWN if one.model in LEARNABLE], ids=lambda shape: shape.model)
def test_what_is_learned_reads_what_our_own_family_reads(shape: Shape) -> None:
    family = learned(shape)

    for output in outputs(shape):
        if output.calls and not output.thought:
            check(output, read(output, family, [output.written]))


@pytest.mark.parametrize("shape", [one for one in FOREIGN if one not in LEARNED], ids=lambda shape: shape.model)
def test_another_notation_is_not_learned_or_read_as_it_is(shape: Shape) -> None:
    family = learn(writer(shape), shape.think)

    if family is not None:
        for output in outputs(shape):
            check(output, read(output, family, [output.written]))


@pytest.mark.parametrize("text", ["", "look_up", "look_up harbour meadow orchard pebble go_home quarry thistle", "<a>"])
def test_a_template_that_writes_something_else_teaches_nothing(text: str) -> None:
    assert learn(lambda _: text) is None
