"""A BERT model as `sentence-transformers` keeps it, a folder of safetensors and a vocabulary → a GGUF file that llama.cpp runs.

The numbers are copied as they are; what changes is the names of the tensors, and how it is said what they are for. The form is
described in ggml's docs/gguf.md, the names in llama.cpp's convert_hf_to_gguf.py.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

from ronda.errors import BadConfig

_ALIGNMENT: Final = 32
_COPY: Final = 4 * 1024 * 1024  # bytes at a time
_F32: Final = 0  # of ggml's types
_UINT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9  # of GGUF's values
_INT32: Final = 5
_MEAN: Final = 1  # pooling: the mean of all tokens, as sentence-transformers does
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3  # kinds of tokens
_SPECIAL: Final = {  # what each is there for; a text stands between the two that it begins and ends with
    "unknown": "[UNK]",
    "padding": "[PAD]",
    "mask": "[MASK]",
    "cls": "[CLS]",
    "bos": "[CLS]",
    "seperator": "[SEP]",
    "eos": "[SEP]",
}

_NAMES: Final = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}
_LAYER_NAMES: Final = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


class _Config(Struct):
    model_type: str
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_hidden_layers: int
    max_position_embeddings: int
    layer_norm_eps: float = 1e-12


class _Tensor(Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def write_gguf(folder: Path, target: Path) -> None:
    """The file is there whole or not at all. Raises BadConfig."""
    half = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        config = msgspec.json.decode((folder / "config.json").read_bytes(), type=_Config)
        if config.model_type != "bert":
            raise BadConfig(f"the model in {folder} is {config.model_type!r}; only 'bert' can be used so")
        tokens = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        with (folder / "model.safetensors").open("rb") as source, half.open("wb") as out:
            _write(source, out, config, tokens)
        half.replace(target)
    except (OSError, msgspec.MsgspecError, struct.error, ValueError) as error:
        raise BadConfig(f"the model in {folder} cannot be made a GGUF file: {error}") from error
    finally:
        half.unlink(missing_ok=True)


def _write(source: BinaryIO, out: BinaryIO, config: _Config, tokens: Sequence[str]) -> None:
    (size,) = struct.unpack("<Q", source.read(8))
    header: dict[str, Any] = msgspec.json.decode(source.read(size))
    base = 8 + size
    found = {name: msgspec.convert(value, _Tensor) for name, value in header.items() if name != "__metadata__"}
    tensors = [(ours, found[name]) for name in found if (ours := _gguf_name(name)) is not None]
    if any(tensor.dtype != "F32" for _, tensor in tensors):
        raise ValueError("its numbers are not of 32 bits")
    values = [*_values(config, tokens)]
    out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)))
    out.writelines(values)
    place = 0
    for name, tensor in tensors:
        out.write(_text(name) + struct.pack("<I", len(tensor.shape)))
        out.write(struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape)) + struct.pack("<IQ", _F32, place))
        start, end = tensor.data_offsets
        place += _pad(end - start)
    out.write(bytes(_pad(out.tell()) - out.tell()))
    for _, tensor in tensors:
        start, end = tensor.data_offsets
        source.seek(base + start)
        left = end - start
        while left and (piece := source.read(min(left, _COPY))):
            out.write(piece)
            left -= len(piece)
        out.write(bytes(_pad(end - start) - (end - start)))


def _gguf_name(name: str) -> str | None:
    """None for what is not needed."""
    stem, _, kind = name.rpartition(".")
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{kind}"
    parts = stem.split(".", 3)
    if parts[:2] == ["encoder", "layer"] and len(parts) == 4 and parts[3] in _LAYER_NAMES:
        return f"blk.{parts[2]}.{_LAYER_NAMES[parts[3]]}.{kind}"
    return None


def _values(config: _Config, tokens: Sequence[str]) -> Iterator[bytes]:
    numbers = {
        "bert.block_count": config.num_hidden_layers,
        "bert.context_length": config.max_position_embeddings,
        "bert.embedding_length": config.hidden_size,
        "bert.feed_forward_length": config.intermediate_size,
        "bert.attention.head_count": config.num_attention_heads,
        "bert.pooling_type": _MEAN,
        "general.alignment": _ALIGNMENT,
        "general.file_type": _F32,
        "tokenizer.ggml.token_type_count": 2,
    }
    for name, token in _SPECIAL.items():
        if token in tokens:
            numbers[f"tokenizer.ggml.{name}_token_id"] = tokens.index(token)
    yield _text("general.architecture") + struct.pack("<I", _STRING) + _text("bert")
    yield _text("tokenizer.ggml.model") + struct.pack("<I", _STRING) + _text("bert")
    yield _text("bert.attention.causal") + struct.pack("<I?", _BOOL, False)
    yield _text("bert.attention.layer_norm_epsilon") + struct.pack("<If", _FLOAT32, config.layer_norm_eps)
    for name, number in numbers.items():
        yield _text(name) + struct.pack("<II", _UINT32, number)
    texts = b"".join([_text(_piece(token)) for token in tokens])
    yield _text("tokenizer.ggml.tokens") + struct.pack("<IIQ", _ARRAY, _STRING, len(tokens)) + texts
    kinds = [_UNKNOWN if token == "[UNK]" else _CONTROL if _is_special(token) else _NORMAL for token in tokens]
    head = struct.pack("<IIQ", _ARRAY, _INT32, len(tokens))
    yield _text("tokenizer.ggml.token_type") + head + struct.pack(f"<{len(kinds)}i", *kinds)


def _is_special(token: str) -> bool:
    return token.startswith("[") and token.endswith("]") and len(token) > 2


def _piece(token: str) -> str:
    """llama.cpp marks the beginning of a word, BERT what is none."""
    if _is_special(token):
        return token
    return token[2:] if token.startswith("##") else f"\u2581{token}"


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _pad(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
