"""Forms with files in them (multipart/form-data, RFC 7578): pieces of a body in, however it is cut, parts of the form out.

A file's bytes are passed on as they come: nothing here grows with them.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from ronda.errors import BadRequest

_MOST_PARTS: Final = 2000
_LONGEST_HEAD: Final = 16 * 1024  # bytes of a part's own headers
_LONGEST_BOUNDARY: Final = 200  # RFC 2046 allows 70

_PARAMETER: Final = re.compile(r';\s*([\w!#$&+.^`|~*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))', re.ASCII | re.DOTALL)
_NO_NAME: Final = "the form has a part without a name"
_FORM_DATA: Final = re.compile(rb"--(\S{1,200})\r\n(?:[^\r\n]*\r\n)*?content-disposition:\s*form-data", re.IGNORECASE)


class PartBegan(Struct, frozen=True):
    """`filename` is None for a field that is no file."""

    name: str
    filename: str | None
    content_type: str


class PartData(Struct, frozen=True):
    data: bytes


class PartEnded(Struct, frozen=True):
    pass


FormEvent: TypeAlias = PartBegan | PartData | PartEnded


def boundary_of(content_type: str, beginning: bytes) -> bytes | None:
    """What stands between the parts; None for a body that is no form.

    A client that sends a form under another type is believed by how the body begins: OpenAI's library does so when its low-level
    `post` is handed files, since it leaves its own `application/json` in place.
    """
    kind, _, rest = content_type.partition(";")
    if kind.strip().lower() == "multipart/form-data":
        boundary = _parameters(";" + rest).get("boundary", "")
        if not 0 < len(boundary) <= _LONGEST_BOUNDARY:
            raise BadRequest("the Content-Type multipart/form-data names no boundary")
        return boundary.encode("latin-1", "replace")
    found = _FORM_DATA.match(beginning)
    return None if found is None else found[1]


class FormReader:
    """Feed it a body; it gives the parts in their order. `finish` checks that all of it was there."""

    def __init__(self, boundary: bytes) -> None:
        self._delimiter = b"\r\n--" + boundary
        self._buffer = bytearray(b"\r\n")  # so that the first boundary is like the others
        self._at: Literal["preamble", "boundary", "head", "data", "end"] = "preamble"
        self._parts = 0

    def feed(self, data: bytes) -> list[FormEvent]:
        self._buffer += data
        events: list[FormEvent] = []
        while self._step(events):
            pass
        return events

    def finish(self) -> None:
        if self._at != "end":
            raise BadRequest("the form broke off: its last boundary is not there")

    def _step(self, events: list[FormEvent]) -> bool:
        """Whether there may be more to read in what has come so far."""
        buffer = self._buffer
        match self._at:
            case "preamble" | "data":
                return self._read_data(events)
            case "boundary":
                if buffer.startswith(b"--"):
                    self._at = "end"
                elif (end := buffer.find(b"\r\n")) >= 0:
                    if buffer[:end].strip(b" \t"):
                        raise BadRequest("the form has a line that begins as its boundary does and is none")
                    del buffer[:end]  # its line end may be that of an empty head
                    self._at = "head"
                elif len(buffer) > _LONGEST_HEAD:
                    raise BadRequest("the form has a boundary that does not end")
                else:
                    return False
                return True
            case "head":
                end = buffer.find(b"\r\n\r\n")
                if end < 0 or end > _LONGEST_HEAD:
                    if len(buffer) > _LONGEST_HEAD:
                        raise BadRequest(f"the form has a part with more than {_LONGEST_HEAD} bytes of headers")
                    return False
                events.append(self._begin(bytes(buffer[:end])))
                del buffer[: end + 4]
                self._at = "data"
                return True
            case "end":
                buffer.clear()  # what follows is not read
                return False

    def _read_data(self, events: list[FormEvent]) -> bool:
        """What stands before the next boundary, as far as it is there: that begins with the line end that follows the data."""
        buffer, is_part = self._buffer, self._at == "data"
        found = buffer.find(self._delimiter)
        upto = found if found >= 0 else len(buffer) - len(self._delimiter) + 1
        if upto > 0:
            if is_part:
                events.append(PartData(bytes(buffer[:upto])))
            del buffer[:upto]
        if found < 0:
            return False
        del buffer[: len(self._delimiter)]
        if is_part:
            events.append(PartEnded())
        self._at = "boundary"
        return True

    def _begin(self, head: bytes) -> PartBegan:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise BadRequest(f"the form has more than {_MOST_PARTS} parts")
        fields: dict[str, str] = {}
        for line in head.decode("utf-8", "replace").split("\r\n"):
            name, colon, value = line.partition(":")
            if colon:
                fields[name.strip().lower()] = value.strip()
        disposition = _parameters(fields.get("content-disposition", ""))
        if "name" not in disposition:
            raise BadRequest(_NO_NAME)
        return PartBegan(disposition["name"], _filename(disposition), fields.get("content-type", ""))


def _filename(parameters: dict[str, str]) -> str | None:
    if (extended := parameters.get("filename*")) is not None:
        charset, _, rest = extended.partition("'")
        text = rest.partition("'")[2]
        if charset.lower() in ("utf-8", "iso-8859-1"):
            return unquote(text, encoding=charset, errors="replace")
    plain = parameters.get("filename")
    # Browsers and HTTP libraries write these three so, and nothing else (HTML, "multipart/form-data encoding algorithm").
    return None if plain is None else plain.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")


def _parameters(header: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in _PARAMETER.finditer(header):
        name, quoted, plain = match.groups()
        found[name.lower()] = plain.strip() if quoted is None else re.sub(r'\\(["\\])', r"\1", quoted)
    return found
