"""What was fetched → its title and its text: the article of an HTML page, the pages of a PDF, plain text as it is.

`trafilatura` and `pypdf` are imported with the first page. Both are slow on purpose-built input, so they run in threads and on
a bounded number of bytes.
"""

from __future__ import annotations

import io
import re
from html import unescape
from typing import Final

from msgspec import Struct

from ronda.errors import ToolFailed
from ronda.tools.fetch.fetcher import FetchedPage

HTML: Final = ("text/html", "application/xhtml+xml")
PDF: Final = "application/pdf"
TYPES: Final = (
    *HTML,
    PDF,
    "text/*",
    "application/json",
    "application/xml",
    "application/rss+xml",
    "application/atom+xml",
)
MAX_TEXT: Final = 2_000_000  # characters of one page
MAX_ARTICLE: Final = (
    1_000_000  # characters of HTML in which the article is looked for: 2 s; of a longer page all text is taken
)
MAX_PDF_PAGES: Final = 500

# Bounded in each part, for a page of nothing but `<title` would hold every thread for hours.
_TITLE: Final = re.compile(r"<title[^<>]{0,200}>([^<]{0,1000})", re.IGNORECASE)
_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset=[\"']?([a-zA-Z0-9_.:-]{2,40})", re.IGNORECASE)


class Text(Struct, frozen=True):
    title: str
    text: str


class Unreadable(ToolFailed):
    """A document that cannot be read."""


def to_text(page: FetchedPage) -> Text:
    """Takes a while: call it in a thread. Raises Unreadable."""
    if page.content_type == PDF or page.data.startswith(b"%PDF-"):
        return _pdf(page.data)
    text = _decode_page(page)
    if page.content_type in HTML or (not page.content_type and "<html" in text[:1000].lower()):
        return _html(text, page.url)
    return Text("", text[:MAX_TEXT].strip())


def _html(source: str, url: str) -> Text:
    from trafilatura import extract, html2txt

    title = _TITLE.search(source)
    try:
        text = extract(source, url=url, include_comments=False) if len(source) <= MAX_ARTICLE else None
        text = text or html2txt(_as_document(source))
    except Exception as error:  # hostile HTML brings anything out of the parsers
        raise Unreadable(f"the page cannot be read: {type(error).__name__}") from error
    return Text(_one_line(unescape(title[1])) if title else "", text[:MAX_TEXT].strip())


def _as_document(source: str) -> str:
    """`html2txt` takes nothing for a document that lacks one of its two elements."""
    lower = source.lower()
    if "<body" not in lower:
        source = f"<body>{source}</body>"
    return source if "<html" in lower else f"<html>{source}</html>"


def _pdf(data: bytes) -> Text:
    from pypdf import PdfReader

    try:
        document = PdfReader(io.BytesIO(data))
        title = str((document.metadata and document.metadata.title) or "")
        pieces: list[str] = []
        size = 0
        for page in document.pages[:MAX_PDF_PAGES]:
            pieces.append(page.extract_text())
            size += len(pieces[-1])
            if size > MAX_TEXT:
                break
    except Exception as error:  # as does a hostile PDF
        raise Unreadable(f"the PDF cannot be read: {type(error).__name__}") from error
    return Text(_one_line(title), "\n\n".join(pieces)[:MAX_TEXT].strip())


def _decode_page(page: FetchedPage) -> str:
    """By what the server says, else what the page says of itself, else UTF-8."""
    found = _CHARSET.search(page.data[:2000]) if page.content_type in HTML else None
    for charset in (page.charset, found[1].decode() if found else None):
        if charset:
            try:
                return page.data.decode(charset, "replace").lstrip("\ufeff")
            except (LookupError, UnicodeError):
                continue
    return page.data.decode("utf-8-sig", "replace")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
