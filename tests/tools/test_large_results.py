"""Results of tools that are no text, and so large that writing them takes a while."""

from __future__ import annotations

import base64
import threading
from typing import Any

import msgspec
import pytest
from tests.tools.function_results import result_of

from ronda import tool
from ronda.core.parts import File
from ronda.tools.large_results import encode_in_pieces

LONG = 'ä"\\\n' * 300_000
HEAVY: dict[str, Any] = {
    "numbers": list(range(100_000)),
    "a long text": LONG,
    "long texts": [LONG, "short", LONG],
    "many members": {f"k{n}": {"n": n, "t": "x"} for n in range(50_000)},
    "members that are large": {"a": [LONG], "b": {}, "c": [], "d": {"e": list(range(20_000))}},
    "numbers as keys": {n: [n] * 3 for n in range(20_000)},
    "tuples in lists": [(n, (n, None)) for n in range(20_000)],
    "nothing but lists": [[[]] * 3] * 9_000,
}


@pytest.mark.parametrize("name", HEAVY)
def test_it_is_written_as_in_one_piece_and_no_piece_is_large(name: str) -> None:
    pieces: list[int] = []

    def encode(value: Any) -> bytes:
        written = msgspec.json.encode(value)
        pieces.append(len(written))
        return written

    assert encode_in_pieces(HEAVY[name], encode) == msgspec.json.encode(HEAVY[name])
    assert max(pieces) < 2_000_000
    assert len(pieces) > 1


class Told:
    """Remembers which thread has written it."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def __str__(self) -> str:
        self.threads.add(threading.get_ident())
        return "told"


@pytest.mark.parametrize("count", [1, 6_000], ids=["small", "large"])
def test_it_is_written_beside_the_event_loop(count: int) -> None:
    told = Told()
    loops: list[int] = []

    @tool
    async def numbers() -> list[Any]:
        """Numbers."""
        loops.append(threading.get_ident())
        return [told, *range(count)]

    result = result_of(numbers)

    assert result.content == msgspec.json.encode(["told", *range(count)]).decode()
    assert (told.threads == set(loops)) == (count == 1)


def test_bytes_are_one_file_however_many() -> None:
    data = bytes(range(256)) * 8_193

    @tool
    async def picture() -> bytes:
        """Bytes."""
        return data

    [file] = result_of(picture).attachments

    assert isinstance(file, File)
    assert base64.b64decode((file.data or "").partition(",")[2]) == data
