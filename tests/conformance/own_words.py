"""Calls in models' own words: templates and outputs of our own making, in the shapes of public ones (`local.markup.shapes`).

Of every shape that we know ourselves: its template is taken for no other, and what such a model writes is read whole, character
by character and cut in two at every place; the same for shapes of which the family is learned from the template. Of shapes that
the engine works out, what such a model writes is read by its parser, if engine and default model are installed. Nothing of it is
recorded, so it is played whatever data there is.
"""

from __future__ import annotations

import asyncio
import importlib.util
from functools import partial
from pathlib import Path

from tests.conformance.report import PartResult, Tally, same
from tests.local.markup.foreign_shapes import FOREIGN, KNOWN_TO_THE_ENGINE, LEARNED
from tests.local.markup.learning import learned
from tests.local.markup.outputs import Output, check, outputs, read
from tests.local.markup.parsing import parse
from tests.local.markup.shapes import OWN, Shape
from tests.local.markup.templates import OTHERS

from ronda.local.engine import Engine
from ronda.local.files import DEFAULT, ModelFile, default_path
from ronda.local.machine import Sizing
from ronda.local.markup import Family, family_of


def run(data: Path) -> PartResult:
    tally = Tally()
    for shape in OWN:
        tally.check("templates", shape.model, partial(_is_known, shape))
        family = family_of(shape.template)
        for output in outputs(shape):
            tally.check("outputs, whole and at every cut", output.id, partial(_is_read, output, family))
    for shape in LEARNED:
        tally.check("templates that are taken for no other", shape.model, partial(_is_not_known, shape.template))
        family = learned(shape)
        for output in outputs(shape):
            tally.check(
                "outputs of learned templates, whole and at every cut", output.id, partial(_is_read, output, family)
            )
    for name, template in OTHERS.items():
        tally.check("templates that are taken for no other", name, partial(_is_not_known, template))
    path = default_path()
    if path is not None and importlib.util.find_spec("xllamacpp") is not None:
        for shape in [*FOREIGN, *KNOWN_TO_THE_ENGINE]:
            asyncio.run(_play_foreign(ModelFile(DEFAULT, path), shape, tally))
    return tally.result()


async def _play_foreign(file: ModelFile, shape: Shape, tally: Tally) -> None:
    engine = Engine(file, Sizing(slots=1, context=1024, tokens=1024, batch=32), shape.template)
    try:
        await engine.load()
        tally.check("templates that are taken for no other", shape.model, partial(_is_not_known, shape.template))
        for output in outputs(shape):
            if output.calls and not output.thought:
                tally.check("outputs, by the engine", output.id, partial(_is_parsed, engine, output))
    finally:
        engine.close()


def _is_parsed(engine: Engine, output: Output) -> None:
    check(output, parse(engine, output))


def _is_known(shape: Shape) -> None:
    same(family_of(shape.template).name, shape.family, "family")


def _is_not_known(template: str) -> None:
    same(family_of(template).name, "generic", "family")


def _is_read(output: Output, family: Family) -> None:
    text = output.written
    whole = read(output, family, [text])
    check(output, whole)
    same(read(output, family, list(text)), whole, "turn, character by character")
    for cut in range(1, len(text)):
        same(read(output, family, [text[:cut], text[cut:]]), whole, f"turn, cut at {cut}")
