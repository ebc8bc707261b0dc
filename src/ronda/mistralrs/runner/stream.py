"""An answer of the Chat door → its pieces, for a program that does not await."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ronda.agent.thread_reader import ThreadReader
from ronda.errors import RunEnded
from ronda.mistralrs.runner.door import ask, read_failed
from ronda.mistralrs.runner.files import File
from ronda.mistralrs.runner.response import ChatCompletionChunk, Choice, Failed
from ronda.wire.codec.sse import SseReader

if TYPE_CHECKING:
    from typing import Self

    from ronda.server.app import Server

_ERROR: Final = b'{"error":'  # how a stream's last words begin, if it failed: a chunk begins with its id

_read_chunk = msgspec.json.Decoder(ChatCompletionChunk).decode
_read_file = msgspec.json.Decoder(File).decode


class ChatCompletionStream:
    """The pieces of an answer, as they come. Closed early (or left, as a context), it ends the run."""

    def __init__(
        self, server: Server, body: bytes, run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run
    ) -> None:
        """`run` runs a coroutine to its end."""
        self._reader: ThreadReader[bytes] = ThreadReader(partial(ask, server, body), run)
        self._frames = SseReader()
        self._chunks: deque[ChatCompletionChunk | Failed] = deque()
        self._fill()  # a request that makes no sense says so here, and not with the first piece

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChatCompletionChunk:
        while not self._chunks:
            if not self._fill():
                raise StopIteration
        chunk = self._chunks.popleft()
        if isinstance(chunk, Failed):
            self.close()
            raise RunEnded(chunk.error.message)
        return chunk

    def _fill(self) -> bool:
        data = self._reader.next()
        if data is None:
            return False
        for frame in self._frames.feed(data):
            if frame.event == "file_produced":
                file, empty = _read_file(frame.data), [Choice(0)]
                self._chunks.append(ChatCompletionChunk("", empty, 0, "", "", type=frame.event, files=[file]))
            elif frame.data.startswith(_ERROR):
                self._chunks.append(read_failed(frame.data))
            elif frame.data not in (b"", b"[DONE]"):
                self._chunks.append(_read_chunk(frame.data))
        return True

    def close(self) -> None:
        self._reader.close()
        self._chunks.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._reader.let_go()
