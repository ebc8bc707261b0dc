"""A GGUF file's header → what must be known of a model before it is loaded.

Read without the engine: a file that is missing, cut short or something else altogether is refused in a sentence, where the
engine would only say that it failed. Weights are never touched. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from ronda.errors import BadConfig

_MAGIC = b"GGUF"
_ENDS = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
_CONTROL = 3  # the token type of `<|im_start|>` and its like

# The scalar types by their number in the file; 8 is a string and 9 an array.
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9

# How many bytes so many values of a tensor type take: enough to see that a file was cut. A type not listed is not checked.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip


class Header(Struct, frozen=True):
    """`cache_bytes` is what one token of context costs in memory; `controls` are the tokens that mark turns, by their text.

    `ends` are those with which the model ends its answer.
    """

    name: str
    architecture: str
    size: int
    context: int
    cache_bytes: int
    template: str
    controls: dict[str, int]
    ends: tuple[int, ...] = ()


def read_header(path: Path) -> Header:
    """The header of a model file, or a BadConfig that says what is wrong with it."""
    try:
        state = path.stat()
    except OSError as error:
        raise BadConfig(f"cannot read the model file {path}: {error.strerror}") from error
    return _read_header(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=32)
def _read_header(path: Path, size: int, changed: int) -> Header:
    if size < 24:
        raise broken(path, f"it has {size} bytes")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).header()
    except OSError as error:
        raise BadConfig(f"cannot read the model file {path}: {error.strerror}") from error
    except (struct.error, UnicodeError, IndexError, OverflowError, RecursionError) as error:
        raise broken(path, "its header breaks off") from error


def broken(path: Path, why: str) -> BadConfig:
    return BadConfig(
        f"the model file {path} is broken: {why}; get it again, the default model with 'ronda models pull'"
    )


class _Reader:
    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._at = 0
        self._tokens_at = 0

    def header(self) -> Header:
        if self._data[:4] != _MAGIC:
            raise broken(self._path, "it is not a GGUF file")
        self._at = 4
        version, tensors, count = self._take("<I"), self._take("<Q"), self._take("<Q")
        if version not in (2, 3):
            raise broken(self._path, f"it is GGUF version {version}, and versions 2 and 3 can be read")
        fields: dict[str, Any] = {}
        for _ in range(count):
            key = self._text()
            fields[key] = self._value(self._take("<I"), key)
        self._check_size(tensors, fields.get("general.alignment", 32))
        architecture = str(fields.get("general.architecture", ""))
        if not architecture:
            raise broken(self._path, "it does not say which architecture it has")
        return Header(
            name=str(fields.get("general.name", self._path.stem)),
            architecture=architecture,
            size=len(self._data),
            context=int(fields.get(f"{architecture}.context_length", 2048)),
            cache_bytes=_cache_bytes(fields, architecture),
            template=str(fields.get("tokenizer.chat_template", "")),
            controls=self._controls(fields.get("tokenizer.ggml.token_type")),
            ends=tuple(dict.fromkeys(token for key in _ENDS if isinstance(token := fields.get(key), int))),
        )

    def _take(self, kind: str) -> Any:
        value = struct.unpack_from(kind, self._data, self._at)[0]
        self._at += struct.calcsize(kind)
        return value

    def _text(self) -> str:
        size = self._take("<Q")
        if self._at + size > len(self._data):
            raise IndexError(size)
        text = self._data[self._at : self._at + size]
        self._at += size
        return text.decode()

    def _value(self, kind: int, key: str) -> Any:
        """Arrays are stepped over, but for short ones of numbers and for the token types."""
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            return self._take(_scalar(kind))
        kind, count = self._take("<I"), self._take("<Q")
        if kind == _STRING:
            if key == "tokenizer.ggml.tokens":
                self._tokens_at = self._at
            self._skip_texts(count)
            return None
        if kind == _ARRAY:
            for _ in range(count):
                self._value(_ARRAY, "")
            return None
        size = struct.calcsize(_scalar(kind)) * count
        if self._at + size > len(self._data):
            raise IndexError(size)
        data = self._data[self._at : self._at + size]
        self._at += size
        return array(_scalar(kind)[1], data) if kind in (4, 5) else None

    def _skip_texts(self, count: int) -> None:
        unpack, data, at = struct.Struct("<Q").unpack_from, self._data, self._at
        for _ in range(count):
            at += 8 + unpack(data, at)[0]
        self._at = at

    def _controls(self, kinds: array[int] | None) -> dict[str, int]:
        if kinds is None or not self._tokens_at:
            return {}
        self._at = self._tokens_at
        found, before = {}, 0
        for number in [number for number, kind in enumerate(kinds) if kind == _CONTROL]:
            self._skip_texts(number - before)
            found[self._text()] = number
            before = number + 1
        return found

    def _check_size(self, tensors: int, alignment: int) -> None:
        ends = [0]
        for _ in range(tensors):
            self._text()
            values = 1
            for _ in range(self._take("<I")):
                values *= self._take("<Q")
            kind, offset = self._take("<I"), self._take("<Q")
            per, size = _BLOCKS.get(kind, (1, 0))
            ends.append(offset + values // per * size)
        begin = (self._at + alignment - 1) // alignment * alignment
        if tensors and (expected := begin + max(ends)) > len(self._data):
            raise broken(self._path, f"it has {len(self._data)} bytes of {expected}")


def _scalar(kind: int) -> str:
    if kind not in _SCALARS:
        raise IndexError(kind)
    return _SCALARS[kind]


def _cache_bytes(fields: dict[str, Any], architecture: str) -> int:
    """Keys and values of one token in all layers, as 16-bit numbers. Mixed architectures need less; none needs more."""

    def number(key: str, default: int) -> int:
        value = fields.get(f"{architecture}.{key}")
        return value if isinstance(value, int) else default

    layers = number("block_count", 32)
    heads = number("attention.head_count", 32)
    width = number("embedding_length", 4096) // max(heads, 1)
    each = number("attention.key_length", width) + number("attention.value_length", width)
    per_layer = fields.get(f"{architecture}.attention.head_count_kv", heads)
    shared = sum(per_layer) if isinstance(per_layer, array) else layers * int(per_layer or heads)
    return shared * each * 2


def real_path(path: Path) -> Path:
    """One file, one engine: by whatever name it is called."""
    return Path(os.path.realpath(path))
