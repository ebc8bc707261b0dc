"""Calls in the shapes of public models: each template is known for what it is, and what such a model writes is read."""

from __future__ import annotations

import pytest
from tests.local.markup.outputs import Output, check, outputs, read
from tests.local.markup.shapes import OWN, Shape

from ronda.local.markup import family_of, supports_tools

OUTPUTS = [output for shape in OWN for output in outputs(shape)]


@pytest.mark.parametrize("shape", OWN, ids=[shape.model for shape in OWN])
def test_a_template_is_known_for_what_it_is(shape: Shape) -> None:
    assert family_of(shape.template).name == shape.family
    assert supports_tools(shape.template)


@pytest.mark.parametrize("output", OUTPUTS, ids=[output.id for output in OUTPUTS])
def test_what_a_model_writes_is_read(output: Output) -> None:
    family = family_of(output.shape.template)

    check(output, read(output, family, [output.written]))
    check(output, read(output, family, list(output.written)))
