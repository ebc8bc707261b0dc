"""The event-stream reader against a reference that sees the whole stream at once, under every way to cut it."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.wire.codec.sse import Frame, FrameTooLarge, SseReader, frame

SPECIMEN = (
    "\ufeff: hello\n\n"
    'data: {"a": 1}\n\n'
    'data: {"b": 2}\n\n'
    "event: delta\r\ndata: é\r\ndata:漢\r\nid: 7\r\n\r\n"
    "data: cr\rdata:  two spaces\r\r"
    "\n\n\r\n\r"
    "retry: 10\nid: only an id\n\n"
    "data\n\n"
    "data:\nevent\n\n"
    ": comment\ndata: mixed\r\n\ndata: [DONE]\n\r\n"
    "event: last\ndata: no blank line"
).encode()

FRAMES = [
    Frame("", b'{"a": 1}'),
    Frame("", b'{"b": 2}'),
    Frame("delta", "é\n漢".encode(), "7"),
    Frame("", b"cr\n two spaces"),
    Frame("", b""),
    Frame("", b""),
    Frame("", b"mixed"),
    Frame("", b"[DONE]"),
    Frame("last", b"no blank line"),
]


def read(*reads: bytes) -> list[Frame]:
    reader = SseReader()
    return [found for data in reads for found in reader.feed(data)] + reader.close()


def read_data(*reads: bytes) -> list[bytes]:
    reader = SseReader()
    return [found for data in reads for found in reader.feed_data(data)] + [last.data for last in reader.close()]


def reference(stream: bytes) -> list[Frame]:
    """The blank line added is our one exception from the standard: an unended last frame counts."""
    return ended([*lines(stream), b""])


def lines(stream: bytes) -> list[bytes]:
    return re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))


def ended(lines: list[bytes]) -> list[Frame]:
    """The standard, line by line."""
    frames: list[Frame] = []
    fields: list[tuple[bytes, bytes]] = []
    for line in lines:
        if line:
            name, value = re.fullmatch(rb"([^:]*)(?:: ?)?(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]  # always matches
            fields.append((name, value))
            continue
        data = [value for name, value in fields if name == b"data"]
        events = [value.decode(errors="replace") for name, value in fields if name == b"event"]
        ids = [value.decode(errors="replace") for name, value in fields if name == b"id" and b"\0" not in value]
        if data:
            frames.append(Frame(events[-1] if events else "", b"\n".join(data), ids[-1] if ids else None))
        fields = []
    return frames


def cut(stream: bytes, places: set[int]) -> list[bytes]:
    edges = [0, *sorted(place for place in places if place < len(stream)), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


# Mostly what means something in the format, so that short streams meet all of it.
SCRAPS = [b"data", b"data: ", b"data:", b"event", b"id", b"retry", b":", b" ", b"\n", b"\n\n", b"\r", b"\r\n", b"\0"]
SCRAPS += [
    b"\xef\xbb\xbf",
    b"\xef",
    b"x",
    "é".encode(),
    b"data: {}\n\n",
    b"event: e\ndata: {}\n\n",
    b"data: {}\r\n\r\n",
]
streams = st.lists(st.sampled_from(SCRAPS), max_size=20).map(b"".join)
cuts = st.sets(st.integers(0, 80), max_size=8)


def test_each_frame_of_the_specimen_is_read_as_written() -> None:
    assert read(SPECIMEN) == FRAMES
    assert reference(SPECIMEN) == FRAMES


def test_one_cut_anywhere_changes_nothing() -> None:
    for place in range(len(SPECIMEN) + 1):
        assert read(SPECIMEN[:place], SPECIMEN[place:]) == FRAMES, place


def test_a_stream_that_arrives_byte_by_byte_is_the_same_stream() -> None:
    assert read(*[bytes([byte]) for byte in SPECIMEN]) == FRAMES


@given(streams, cuts)
def test_any_stream_cut_anywhere_reads_as_the_standard_says(stream: bytes, places: set[int]) -> None:
    assert read(*cut(stream, places)) == reference(stream)


@given(streams, cuts)
def test_feed_data_gives_the_data_of_the_frames_of_feed(stream: bytes, places: set[int]) -> None:
    assert read_data(*cut(stream, places)) == [found.data for found in reference(stream)]


@given(streams)
def test_a_frame_comes_out_with_the_byte_that_ends_it(stream: bytes) -> None:
    reader, seen = SseReader(), list[Frame]()
    for end in range(1, len(stream) + 1):
        seen += reader.feed(stream[end - 1 : end])
        assert seen == ended(lines(stream[:end])[:-1])


def test_empty_reads_change_nothing() -> None:
    assert read(b"", b"\xef", b"", b"\xbb\xbfdata: a\r", b"", b"\n\r", b"", b"\ndata: b\n\n") == [
        Frame("", b"a"),
        Frame("", b"b"),
    ]


def test_a_byte_order_mark_counts_only_at_the_start() -> None:
    assert read(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: not a field\n\n") == [Frame("", b"a")]


def test_a_large_frame_in_many_reads_is_one_frame() -> None:
    payload = b"0123456789" * 30_000
    reads = [b"data: ", *[payload[at : at + 3] for at in range(0, len(payload), 3)], b"\n", b"\n"]
    assert read_data(*reads) == [payload]


def test_an_id_with_a_nul_is_no_id() -> None:
    assert read(b"id: 1\nid: 2\0\ndata: a\n\nid: \0\ndata: b\n\n") == [Frame("", b"a", "1"), Frame("", b"b")]


def test_a_broken_utf8_name_is_replaced_and_data_is_left_alone() -> None:
    assert read(b"event: a\xff\ndata: b\xff\nid: \xff\n\n") == [Frame("a\ufffd", b"b\xff", "\ufffd")]


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("tail", [b"", b"\n\n", b"\n\ndata: y\n\n"])
def test_a_frame_over_the_limit_is_refused_however_it_arrives(step: int, tail: bytes) -> None:
    stream = b"data: ok\n\ndata: " + b"x" * 100 + tail
    reader = SseReader(limit=64)
    with pytest.raises(FrameTooLarge, match="the limit is 64"):
        list(map(reader.feed, [stream[at : at + step] for at in range(0, len(stream), step)]))


def test_many_small_frames_may_together_exceed_the_limit() -> None:
    assert len(SseReader(limit=64).feed(b"data: x\n\n" * 100)) == 100


def test_a_frame_is_written_as_one_data_line() -> None:
    assert frame(b'{"a":1}') == b'data: {"a":1}\n\n'
    assert frame(b"{}", "delta", "7") == b"event: delta\nid: 7\ndata: {}\n\n"


one_line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"))


@given(st.lists(st.tuples(st.binary() | streams, one_line, st.none() | one_line)), cuts)
def test_what_is_written_is_read_back(parts: list[tuple[bytes, str, str | None]], places: set[int]) -> None:
    stream = b"".join(frame(*part) for part in parts)
    expected = [Frame(event, re.sub(rb"\r\n?", b"\n", data), ident) for data, event, ident in parts]
    assert read(*cut(stream, places)) == expected


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "\0"])
def test_a_name_or_id_that_would_break_the_stream_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line end or NUL"):
        frame(b"{}", event=text)
    with pytest.raises(ValueError, match="line end or NUL"):
        frame(b"{}", event_id=text)
