"""Bytes of a `text/event-stream` become frames, and a frame becomes bytes.

Reads may be cut anywhere, also inside a CR LF pair, the byte order mark or a UTF-8 character: the frames are the same.
A frame comes out with the read that holds its blank line, never one read later.

What a frame means is not known here: not that data is JSON, not `[DONE]`, and nothing of reconnecting, so `retry` is
ignored and an `id` belongs to the frame that carries it (the standard's "last event ID" is for a client that reconnects).

The standard: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from typing import Final

from msgspec import Struct

_BOM: Final = b"\xef\xbb\xbf"


class FrameTooLarge(ValueError):
    """One frame is larger than the reader's limit. What the reader says after this means nothing."""


class Frame(Struct, frozen=True, gc=False):
    """One event as sent. `data` may be empty; an `event` of "" is what browsers call "message"."""

    event: str
    data: bytes
    id: str | None = None


class SseReader:
    """Feed it what the socket gave, with `feed` or with `feed_data`, and `close` it likewise when the stream has ended.

    `limit` is for one frame, in bytes, give or take the line ends around it: without it a stream that never sends a
    blank line fills the memory.
    """

    __slots__ = ("_after_cr", "_limit", "_rest", "_start")

    def __init__(self, limit: int = 64 * 1024 * 1024) -> None:
        self._limit = limit
        self._start: bytes | None = b""  # what may yet become a byte order mark; None once that is settled
        self._after_cr = False  # the last read ended in CR: an LF now belongs to it
        # The frame not yet ended, holding no blank line. A bytearray grows in place, so that a large frame in thousands
        # of small reads is not copied at each of them.
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that this read completed."""
        text = self._completed(data)
        if not text:
            return []
        if (plain := _plain(text)) is not None:
            return [Frame("", data) for data in plain]
        return _frames(text)

    def feed_data(self, data: bytes) -> list[bytes]:
        """The data of the frames that this read completed: `feed` for streams where nothing else matters."""
        if self._is_whole(data) and (plain := _plain(data, 2)) is not None:
            self._start = None
            return plain
        text = self._completed(data)
        if not text:
            return []
        if (plain := _plain(text)) is not None:
            return plain
        return [frame.data for frame in _frames(text)]

    def close(self) -> list[Frame]:
        """The last frame if its blank line never came.

        The standard drops it. We do not, because many servers end without that line and the last frame is the one with
        the usage or the error in it. It may have been cut short: only the reader of the data can tell.
        """
        text = bytes(self._rest)
        self._rest.clear()
        return _frames(text) if text else []

    def close_data(self) -> list[bytes]:
        """`close`, as `feed_data` is to `feed`."""
        return [frame.data for frame in self.close()]

    def _is_whole(self, data: bytes) -> bool:
        """Whether it ends with a frame, while nothing is left of earlier reads: then there is nothing to put together."""
        if self._rest or self._start or self._after_cr or len(data) > self._limit:
            return False
        return data.endswith(b"\n\n") and b"\r" not in data

    def _completed(self, data: bytes) -> bytes:
        """All frames that end in this read, with LF as the only line end and without the last blank line."""
        if self._start is not None:
            data = self._without_bom(self._start + data)
        if not data:
            return b""
        if self._after_cr or b"\r" in data:
            data = self._with_lf(data)

        rest = self._rest
        cut = data.rfind(b"\n\n")
        if rest:
            if cut < 0 and not (data.startswith(b"\n") and rest.endswith(b"\n")):
                rest += data
                self._check(len(rest))
                return b""
            data = b"".join((rest, data))
            rest.clear()
            cut = data.rfind(b"\n\n")
        if cut < 0:
            rest += data
            self._check(len(rest))
            return b""
        if cut + 2 < len(data):
            rest += data[cut + 2 :]
            self._check(len(rest))
        if cut > self._limit:
            self._check(max(map(len, data[:cut].split(b"\n\n"))))
        return data[:cut]

    def _without_bom(self, data: bytes) -> bytes:
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._start = data
            return b""
        self._start = None
        return data.removeprefix(_BOM)

    def _with_lf(self, data: bytes) -> bytes:
        # A CR ends its line at once, whatever follows: waiting for a possible LF would hold a finished frame back until
        # the next read, and some servers end their frames with CR only.
        if self._after_cr:
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise FrameTooLarge(f"an event stream frame of {size} bytes or more; the limit is {self._limit}")


def frame(data: bytes, event: str = "", event_id: str | None = None) -> bytes:
    """Write one frame. Line ends within `data` are read back as LF: the format has no way to tell them apart."""
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    written = b"data: %b\n\n" % data
    if event_id is not None:
        written = b"id: %b\n%b" % (_one_line(event_id), written)
    if event:
        written = b"event: %b\n%b" % (_one_line(event), written)
    return written


def _one_line(text: str) -> bytes:
    if "\n" in text or "\r" in text or "\0" in text:
        raise ValueError(f"{text!r} cannot be an event name or id: a line end or NUL in it would change the stream")
    return text.encode()


def _plain(text: bytes, ends: int = 0) -> list[bytes] | None:
    """The data of each frame if every frame is one `data: ` line, as in nearly every read of a chat stream. The last one is
    followed by so many line ends.

    Every separator found has two line ends, so if there are no others no frame has a second line. That settles the
    whole read in three calls into C instead of a few per frame.
    """
    if not text.startswith(b"data: "):
        return None
    found = text[6 : len(text) - ends].split(b"\n\ndata: ")
    return found if text.count(b"\n") == 2 * len(found) - 2 + ends else None


def _frames(text: bytes) -> list[Frame]:
    return [frame for block in text.split(b"\n\n") if (frame := _read(block)) is not None]


def _read(block: bytes) -> Frame | None:
    event = ""
    ident: str | None = None
    data: list[bytes] = []
    for line in block.split(b"\n"):
        if line.startswith(b"data: "):  # the long line: what follows would copy it twice
            data.append(line[6:])
            continue
        # A line without a colon is a field with an empty value; one that begins with a colon is a comment.
        name, _, value = line.partition(b":")
        if value.startswith(b" "):  # one space belongs to the format, a second one to the value
            value = value[1:]
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value:
            ident = value.decode(errors="replace")
    if not data:
        return None
    return Frame(event, data[0] if len(data) == 1 else b"\n".join(data), ident)
