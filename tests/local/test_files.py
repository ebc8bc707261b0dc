"""Model files: found by name and by path, and refused in a sentence when they cannot be loaded."""

from __future__ import annotations

import argparse
import re
import struct
from pathlib import Path

import pytest

from ronda.errors import BadConfig
from ronda.local.command import models
from ronda.local.files import ModelFile, find_model, list_models
from ronda.local.gguf import Header, read_header

_TEXT, _ARRAY, _U32, _I32 = 8, 9, 4, 5
TOKENS = ["a", "<|im_start|>", "b", "<|im_end|>"]
KINDS = [1, 3, 1, 3]


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def gguf(*, version: int = 3, template: str = "{{ messages }}", weights: int = 72) -> bytes:
    """A file with one tensor of 64 values of 20 bytes in 32."""
    pairs = [
        pair("general.architecture", _TEXT, text("llama")),
        pair("general.name", _TEXT, text("Tiny")),
        pair("llama.context_length", _U32, struct.pack("<I", 2048)),
        pair("llama.block_count", _U32, struct.pack("<I", 2)),
        pair("llama.embedding_length", _U32, struct.pack("<I", 64)),
        pair("llama.attention.head_count", _U32, struct.pack("<I", 4)),
        pair("llama.attention.head_count_kv", _U32, struct.pack("<I", 2)),
        pair("tokenizer.ggml.tokens", _ARRAY, struct.pack("<IQ", _TEXT, 4) + b"".join(map(text, TOKENS))),
        pair("tokenizer.ggml.token_type", _ARRAY, struct.pack("<IQ4i", _I32, 4, *KINDS)),
        pair("tokenizer.chat_template", _TEXT, text(template)),
    ]
    tensor = text("output.weight") + struct.pack("<IQQIQ", 2, 32, 2, 3, 32)
    head = b"GGUF" + struct.pack("<IQQ", version, 1, len(pairs)) + b"".join(pairs) + tensor
    return head + b"\0" * (-len(head) % 32) + b"\0" * weights


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.gguf").write_bytes(gguf())
    return tmp_path


def test_a_header_says_what_must_be_known(folder: Path) -> None:
    header = read_header(folder / "tiny.gguf")

    # Two layers, two heads for keys and two for values of 16 numbers each, two bytes a number.
    assert header == Header(
        "Tiny", "llama", header.size, 2048, 2 * 2 * 32 * 2, "{{ messages }}", {"<|im_start|>": 1, "<|im_end|>": 3}
    )


def test_a_model_is_found_by_name_by_file_and_by_path(folder: Path) -> None:
    file = ModelFile("tiny", (folder / "tiny.gguf").resolve())

    assert find_model("tiny", folder) == file
    assert find_model("tiny.gguf", folder) == file
    assert find_model(str(folder / "tiny.gguf")) == file


def test_the_default_is_found_in_its_package(model_file: ModelFile) -> None:
    assert find_model("smollm2") == model_file
    assert list_models()[0] == model_file
    assert read_header(model_file.path).context == 8192


@pytest.mark.parametrize("name", ["huge", "huge.gguf", "/nowhere/huge.gguf"])
def test_a_missing_model_is_told_with_the_way_out(folder: Path, name: str) -> None:
    with pytest.raises(BadConfig, match=f"no model.*{re.escape(name)}.*local:tiny.*ronda models pull"):
        find_model(name, folder)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it has 0 bytes"),
        (b"<!DOCTYPE html><title>Sign in</title>", "it is not a GGUF file"),
        (gguf(version=1), "it is GGUF version 1"),
        (gguf()[:300], "its header breaks off"),
        (gguf(weights=40), r"it has \d+ bytes of \d+"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60), "its header breaks off"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "its header breaks off"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "it does not say which architecture"),
    ],
)
def test_a_broken_file_is_told_with_the_way_out(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "tiny.gguf").write_bytes(content)

    with pytest.raises(BadConfig, match=f"tiny.gguf is broken: {why}.*ronda models pull"):
        find_model("tiny", tmp_path)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = gguf()
    path = tmp_path / "tiny.gguf"
    for size in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:size])
        with pytest.raises(BadConfig):
            read_header(path)


def test_the_command_lists_what_there_is(model_file: ModelFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert models(argparse.Namespace(action="list")) == 0

    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["MODEL", "SIZE", "CALLS", "CONTEXT", "FILE"]
    assert first.split()[:3] == ["local:smollm2", "98", "MB"]
    assert first.endswith(str(model_file.path))
