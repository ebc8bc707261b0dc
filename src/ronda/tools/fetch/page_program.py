"""The text of pages, told by a program of its own: frames come over its channel, and for each it says what the page says.

    {"kind": "html" | "pdf", "url": …}\n<bytes>   →   {"title": …, "text": …}, or {"problem": …}

A frame is four bytes of length, and the bytes. Run as a text by a Python in a sandbox, it imports nothing of ours; what it has in
common with readers in our own process is imported from here (`text`). Each page is read by a child of its own, which ends with
it: what a hostile one does to the libraries is gone with the child, and they are imported once for all.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import struct
from html import unescape
from typing import Any

MAX_TEXT = 2_000_000  # characters of one page
# Characters of HTML in which the article is looked for: 2 s; of a longer page all text is taken.
MAX_ARTICLE = 1_000_000
MAX_PDF_PAGES = 500
CHANNEL = "RONDA_CHANNEL"

# Bounded in each part, for a page of nothing but `<title` would take hours.
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{0,1000})", re.IGNORECASE)


def read_html(source: str, url: str) -> tuple[str, str]:
    """Its title and its text."""
    from trafilatura import extract, html2txt

    title = _TITLE.search(source)
    text = extract(source, url=url, include_comments=False) if len(source) <= MAX_ARTICLE else None
    text = text or html2txt(_as_document(source))
    return _one_line(unescape(title[1])) if title else "", text[:MAX_TEXT].strip()


def _as_document(source: str) -> str:
    """`html2txt` takes nothing for a document that lacks one of its two elements."""
    lower = source.lower()
    if "<body" not in lower:
        source = f"<body>{source}</body>"
    return source if "<html" in lower else f"<html>{source}</html>"


def read_pdf(data: bytes) -> tuple[str, str]:
    """Its title and its text."""
    from pypdf import PdfReader

    document = PdfReader(io.BytesIO(data))
    title = str((document.metadata and document.metadata.title) or "")
    pieces: list[str] = []
    size = 0
    for page in document.pages[:MAX_PDF_PAGES]:
        pieces.append(page.extract_text())
        size += len(pieces[-1])
        if size > MAX_TEXT:
            break
    return _one_line(title), "\n\n".join(pieces)[:MAX_TEXT].strip()


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


# ---- the program -------------------------------------------------------------------------------------------------------


def main() -> None:
    channel = int(os.environ.pop(CHANNEL))
    import pypdf
    import trafilatura  # both before the first child: it has them then

    del pypdf, trafilatura
    _write(channel, b"")  # ready
    while True:
        try:
            (length,) = struct.unpack("!I", _exactly(channel, 4))
            request = _exactly(channel, length)
        except EOFError:
            return
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            if status:
                _write(channel, b'{"problem": "ended"}')
        else:
            _answer(channel, request)


def _answer(channel: int, request: bytes) -> None:
    """In the child, which ends here. Whatever happens, its answer is given once: its status says whether it has answered."""
    status = 1
    try:
        head, _, data = request.partition(b"\n")
        wanted: dict[str, Any] = json.loads(head)
        seconds: int = wanted["seconds"]
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        try:
            read = (
                read_pdf(data) if wanted["kind"] == "pdf" else read_html(data.decode("utf-8", "replace"), wanted["url"])
            )
            report = {"title": read[0], "text": read[1]}
        except Exception as error:  # hostile pages bring anything out of the parsers
            report = {"problem": type(error).__name__}
        frame = json.dumps(report).encode("ascii")
        status = 0
        _write(channel, frame)
    finally:
        os._exit(status)


def _exactly(channel: int, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = os.read(channel, min(count - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _write(channel: int, frame: bytes) -> None:
    view = memoryview(struct.pack("!I", len(frame)) + frame)
    while view:
        view = view[os.write(channel, view) :]


if __name__ == "__main__":
    main()
