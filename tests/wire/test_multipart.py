"""Forms with files, cut at any place; hostile ones are refused in a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.errors import BadRequest
from ronda.wire.codec.multipart import FormReader, PartBegan, PartData, PartEnded, boundary_of

FORM = (
    b"a preamble\r\n--xyz\r\n"
    b'Content-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n--xyz  \r\n'
    b'content-disposition: form-data; name="file"; filename="a \\"b\\".csv"\r\nContent-Type: text/csv\r\n\r\n'
    b"x\r\n--xy\r\n-y\r\n\r\n--xyz\r\n"
    b"Content-Disposition: form-data; name=\"f\"; filename*=UTF-8''caf%C3%A9.txt\r\n\r\n\r\n--xyz--\r\nan epilogue"
)
PARTS = [
    (PartBegan("purpose", None, ""), b"user_data"),
    (PartBegan("file", 'a "b".csv', "text/csv"), b"x\r\n--xy\r\n-y\r\n"),
    (PartBegan("f", "café.txt", ""), b""),
]


def read(boundary: bytes, *pieces: bytes) -> list[tuple[PartBegan, bytes]]:
    reader = FormReader(boundary)
    parts: list[tuple[PartBegan, bytes]] = []
    ended = 0
    for piece in pieces:
        for event in reader.feed(piece):
            match event:
                case PartBegan():
                    parts.append((event, b""))
                case PartData(data):
                    parts[-1] = (parts[-1][0], parts[-1][1] + data)
                case PartEnded():
                    ended += 1
    reader.finish()
    assert ended == len(parts)
    return parts


def test_a_form_gives_its_parts_wherever_it_is_cut() -> None:
    assert read(b"xyz", FORM) == PARTS
    assert read(b"xyz", *[bytes([byte]) for byte in FORM]) == PARTS
    for at in range(len(FORM)):
        assert read(b"xyz", FORM[:at], FORM[at:]) == PARTS


@given(data=st.binary(max_size=80) | st.text(alphabet="\r\n-xyz", max_size=60).map(str.encode), at=st.integers(0, 200))
def test_any_bytes_but_the_boundary_come_through(data: bytes, at: int) -> None:
    if b"\r\n--b0undary" in b"\r\n" + data:
        return
    form = b'--b0undary\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n' + data + b"\r\n--b0undary--"
    assert read(b"b0undary", form[:at], form[at:]) == [(PartBegan("f", "a", ""), data)]


def test_memory_does_not_grow_with_a_file() -> None:
    reader = FormReader(b"b")
    reader.feed(b'--b\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n')
    for _ in range(50):
        assert sum(len(event.data) for event in reader.feed(bytes(10_000)) if isinstance(event, PartData)) >= 9_990
    assert len(reader._buffer) < 10


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        (FORM[:-20], "broke off"),
        (b"", "broke off"),
        (b"--xyz\r\nContent-Type: text/plain\r\n\r\n", "without a name"),
        (b"--xyz\r\n\r\n\r\n", "without a name"),
        (b"--xyz\r\n" + b"x" * 20_000, "bytes of headers"),
        (b"--xyzq\r\n", "is none"),
        (b"--xyz" + b" " * 20_000, "does not end"),
        (b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 2001, "more than 2000 parts"),
    ],
)
def test_a_broken_form_is_refused(form: bytes, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        read(b"xyz", form)


def test_a_boundary_is_in_the_type_or_at_the_beginning_of_the_body() -> None:
    assert boundary_of("multipart/form-data; boundary=abc", b"") == b"abc"
    assert boundary_of('Multipart/Form-Data; charset=x; boundary="a b"', b"") == b"a b"
    lied = b'--0123abc\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n'
    assert boundary_of("application/json", lied) == b"0123abc"
    assert boundary_of("", b"--q\r\nContent-Type: a/b\r\ncontent-disposition: form-data") == b"q"
    for body in (b'{"a": 1}', b"--0123\r\n", b"", b"-- \r\ncontent-disposition: form-data"):
        assert boundary_of("application/json", body) is None
    for nothing in (
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=" + "x" * 201,
    ):
        with pytest.raises(BadRequest, match="no boundary"):
            boundary_of(nothing, b"")
