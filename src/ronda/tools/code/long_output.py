"""Output that is too long for a model: it is shown the beginning and the end, and code can read all of it from a file.

The file is in a hidden folder of the session's own, so that it is no result of the code; the code may do with it what it likes.
"""

from __future__ import annotations

import asyncio
import codecs

from ronda.errors import BadRequest
from ronda.sandbox.box import Sandbox
from ronda.sandbox.names import clean_name
from ronda.sandbox.process import Capture
from ronda.sandbox.workspace import write_input

FOLDER = ".outputs"
_MOST_BYTES = 4 * 1024 * 1024  # of a stream that are kept


def text_decoder() -> codecs.IncrementalDecoder:
    """For a stream that is watched: a character whose bytes come in two pieces is one."""
    return codecs.getincrementaldecoder("utf-8")("replace")


class LongCapture(Capture):
    """A capture that has all of a stream, too, up to a bound."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.data = bytearray()

    def add(self, data: bytes) -> None:
        super().add(data)
        self.data += data[: _MOST_BYTES - len(self.data)]


async def shown_text(capture: LongCapture, sandbox: Sandbox, name: str) -> str:
    """What the model reads of a stream. `name` is for the file, if there has to be one."""
    if not capture.is_cut:
        return capture.text()
    path = f"{FOLDER}/{clean_name(name)}.txt"
    whole = "all" if capture.total == len(capture.data) else f"the first {len(capture.data)}"
    try:
        await asyncio.to_thread(write_input, sandbox.workspace, path, bytes(capture.data), sandbox.user)
    except BadRequest:  # something else is there, or the disk is full
        return capture.text()
    return capture.text(f"; {whole} of them are in {path}")
