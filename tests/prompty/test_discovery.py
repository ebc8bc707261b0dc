"""What providers say about their models, and what a table adds; and which components a file can ask for."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ronda.errors import BadConfig
from ronda.prompty import InvokerError, ModelInfo, enrich, map_model, map_models, read_capabilities
from ronda.prompty.components import clear_cache, get_executor, get_parser, get_processor, get_renderer, register
from ronda.prompty.discovery import Capabilities, Capability

TABLE = Capabilities(
    {
        "openai": (
            Capability("m-4", 8, ("text",), ("text",)),
            Capability("m-4o", 128, ("text", "image"), ("text",)),
            Capability("embed", 5, ("text",), ()),
            Capability("draw", None, ("text",), ("image",)),
        )
    }
)


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("m-4", 8),
        ("m-4-0613", 8),
        ("m-4:x", 8),
        ("m-4o", 128),
        ("m-4o-mini", 128),
        ("m-45", None),
        ("m-4.1", None),
        ("m", None),
        ("xm-4", None),
    ],
)
def test_the_longest_prefix_counts_and_only_up_to_a_boundary(model: str, window: int | None) -> None:
    assert enrich(ModelInfo(model), "openai", TABLE).context_window == window


def test_what_the_provider_says_wins_an_empty_list_too() -> None:
    said = ModelInfo("m-4o", context_window=9, input_modalities=())

    assert enrich(said, "openai", TABLE) == ModelInfo(
        "m-4o", context_window=9, input_modalities=(), output_modalities=("text",)
    )
    assert enrich(ModelInfo("embed"), "openai", TABLE).output_modalities == ()
    assert enrich(ModelInfo("draw"), "openai", TABLE).context_window is None
    assert enrich(said, "anthropic", TABLE) is said


RECORDS: list[tuple[str, str | None, dict[str, Any], ModelInfo]] = [
    ("openai", "model", {"id": "a"}, ModelInfo("a")),
    ("openai", None, {"id": "a", "object": "model", "owned_by": "me"}, ModelInfo("a", owned_by="me")),
    ("unheard-of", None, {"id": "a", "max_model_len": 5}, ModelInfo("a", context_window=5)),
    ("anthropic", None, {"id": "c", "display_name": "C"}, ModelInfo("c", "C", "anthropic")),
    (
        "anthropic",
        "model",
        {"id": "c", "context_length": 7, "input_modalities": ["text"], "output_modalities": []},
        ModelInfo("c", None, "anthropic", 7, ("text",), ()),
    ),
    ("foundry", "catalog", {"id": "g", "maxContextLength": 8}, ModelInfo("g", context_window=8)),
    ("foundry", None, {"id": "g", "maxContextLength": True}, ModelInfo("g")),
    (
        "foundry",
        "catalog",
        {"id": "g", "inputModalities": ["text"], "outputModalities": []},
        ModelInfo("g", None, None, None, ("text",), ()),
    ),
    (
        "foundry",
        "deployment",
        {"name": "d", "properties": {"model": {"name": "g", "inputModalities": ["text"]}}},
        ModelInfo("d", "g", "azure", None, ("text",)),
    ),
    (
        "foundry",
        "deployment",
        {"name": "d", "modelName": "g", "modelPublisher": "P", "capabilities": {"inputModalities": "text, image"}},
        ModelInfo("d", "g", "P", None, ("text", "image")),
    ),
    (
        "foundry",
        None,
        {"name": "d", "properties": {"model": {"name": "g"}, "capabilities": {"maxContextLength": "16"}}},
        ModelInfo("d", "g", "azure", 16),
    ),
    ("foundry", "deployment", {"properties": None}, ModelInfo("", owned_by="azure")),
]


@pytest.mark.parametrize(("provider", "shape", "raw", "info"), RECORDS)
def test_a_record_becomes_a_model_and_is_kept_whole(
    provider: str, shape: str | None, raw: dict[str, Any], info: ModelInfo
) -> None:
    found = map_model(provider, raw, shape)

    assert found.additional_properties == raw
    assert msgspec.structs.replace(found, additional_properties=None) == info


def test_a_whole_list_is_read_whatever_it_is_called() -> None:
    record = {"id": "a"}

    for answer in ({"data": [record, "?"]}, {"value": [record]}, {"models": [record]}, [record]):
        assert [info.id for info in map_models("openai", answer)] == ["a"]
    assert map_models("openai", {}) == []


def test_a_table_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text(json.dumps({"match": "longest_prefix", "providers": {"p": [{"prefix": "a", "contextWindow": 1}]}}))

    assert read_capabilities(file) == Capabilities({"p": (Capability("a", 1),)})
    file.write_text('{"providers": []}')
    with pytest.raises(BadConfig, match="not a table of model capabilities"):
        read_capabilities(file)


def test_a_component_is_made_once_and_a_missing_one_is_named() -> None:
    register("renderer", "mine", list)

    assert get_renderer("mine") is get_renderer("mine")
    kept = get_renderer("mine")
    clear_cache()
    assert get_renderer("mine") is not kept
    for get, name in (
        (get_renderer, "renderer"),
        (get_parser, "parser"),
        (get_executor, "executor"),
        (get_processor, "processor"),
    ):
        with pytest.raises(InvokerError, match=f"^No {name} registered for key: nobody's$"):
            get("nobody's")
