"""Prompty's discovery vectors: a provider's record becomes a `ModelInfo`, and the dataset fills in what it lacks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
from tests.conformance.prompty_vectors import Json, canonical, expected_of, run_vectors
from tests.conformance.report import PartResult

from ronda.prompty import ModelInfo, enrich, map_model, read_capabilities


def run(data: Path) -> PartResult:
    return run_vectors(
        data,
        {
            "DiscoveryConformance.enrich": partial(_enriched, data / "prompty" / "data" / "model_capabilities.json"),
            "DiscoveryConformance.mapModel": _mapped,
        },
    )


def _enriched(dataset: Path, vector: Json) -> None:
    info = msgspec.convert(vector["input"], ModelInfo)
    _is(enrich(info, vector["provider"], read_capabilities(dataset)), vector)


def _mapped(vector: Json) -> None:
    _is(map_model(vector["provider"], vector["input"], vector.get("shape")), vector)


def _is(ours: ModelInfo, vector: Json) -> None:
    said, expected = canonical(msgspec.to_builtins(ours)), canonical(expected_of(vector))
    assert said == expected, f"ours {said}, expected {expected}"
