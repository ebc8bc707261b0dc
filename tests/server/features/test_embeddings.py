"""POST /v1/embeddings with the official client: by a model on this machine, and by a service's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door, soon
from tests.interaction.upstreams import Upstream, answers
from tests.local.test_local_embedder import SIZE, write_model

from ronda.cli.main import parse
from ronda.cli.settings import read_config
from ronda.errors import BadConfig
from ronda.local.bert_gguf import write_gguf
from ronda.providers.script import ScriptedModel
from ronda.store.keys import new_key


def _answer(*vectors: list[float], tokens: int = 7) -> bytes:
    data = [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(vectors)]
    return json.dumps({"object": "list", "data": data, "usage": {"prompt_tokens": tokens}}).encode()


def _service(upstream: Upstream) -> dict[str, Any]:
    return {"embedding_model": "openai-chat:small", "embedding_base_url": upstream.url}


@pytest.mark.xdist_group("local")
async def test_a_model_on_this_machine_makes_the_same_vectors_as_numbers_and_in_base64(
    door: Door, tmp_path: Path
) -> None:
    write_gguf(write_model(tmp_path), tmp_path / "m.gguf")
    spec = f"local:{tmp_path / 'm.gguf'}"
    async with door.serving(ScriptedModel(), embedding_model=spec) as served, soon():
        client = served.client()
        # The SDK asks for base64 by itself, and makes numbers of it.
        packed = await client.embeddings.create(model="default", input=["salt sea", "moon"])
        plain = await client.embeddings.create(model="default", input=["salt sea", "moon"], encoding_format="float")
        long = await client.embeddings.create(model="default", input="sea " * 2000)
    assert [len(one.embedding) for one in packed.data] == [SIZE, SIZE]
    assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-3)
    assert packed.usage.prompt_tokens > 0
    assert "input [0] were cut off" in long.to_json()


async def test_a_service_is_asked_with_the_operators_model_and_its_usage_is_told(door: Door) -> None:
    async with (
        Upstream(answers(_answer([0.5, 1.0], [2.0, 4.0]))) as upstream,
        door.serving(ScriptedModel(), **_service(upstream)) as served,
        soon(),
    ):
        found = await served.client().embeddings.create(model="small", input=["a", "b"], dimensions=2)
    assert upstream.requests == [{"model": "small", "input": ["a", "b"], "dimensions": 2}]
    assert [one.embedding for one in found.data] == [[0.5, 1.0], [2.0, 4.0]]
    assert (found.model, found.usage.prompt_tokens) == ("small", 7)


async def test_a_request_cannot_choose_another_model(door: Door) -> None:
    async with Upstream() as upstream, door.serving(ScriptedModel(), **_service(upstream)) as served, soon():
        with pytest.raises(openai.NotFoundError, match="there is 'small'"):
            await served.client().embeddings.create(model="large", input="a")
    assert upstream.requests == []


async def test_a_key_for_other_models_is_refused(door: Door) -> None:
    async with Upstream() as upstream, door.serving(ScriptedModel(), **_service(upstream)) as served, soon():
        key, row = new_key("ann", 0.0, ("model:other",))
        await served.server.catalog.keys.add(row)
        with pytest.raises(openai.PermissionDeniedError, match="model:small"):
            await served.client(key).embeddings.create(model="default", input="a")
    assert upstream.requests == []


async def test_a_server_without_such_a_model_says_what_helps(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served, soon():
        with pytest.raises(openai.NotFoundError, match="--embedding-model"):
            await served.client().embeddings.create(model="default", input="a")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": [1, 2]}, "input"),
        ({"input": [[1, 2]]}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(door: Door, fields: dict[str, Any], param: str) -> None:
    async with door.serving(ScriptedModel()) as served, soon():
        with pytest.raises(openai.BadRequestError) as refused:
            await served.client().embeddings.create(model="default", **fields)
    assert refused.value.param == param


async def test_a_service_that_fails_is_told_with_its_status(door: Door) -> None:
    async with (
        Upstream(answers(b'{"error": {"message": "too hot"}}', 500)) as upstream,
        door.serving(ScriptedModel(), **_service(upstream)) as served,
        soon(),
    ):
        with pytest.raises(openai.APIStatusError, match="too hot") as failed:
            await served.client().with_options(max_retries=0).embeddings.create(model="default", input="a")
    assert failed.value.status_code == 502


def test_a_name_that_is_no_model_keeps_the_server_from_starting() -> None:
    with pytest.raises(BadConfig, match="--embedding-model is 'gpt'"):
        read_config(parse(["serve", "--model", "script:x.json", "--embedding-model", "gpt"]))
