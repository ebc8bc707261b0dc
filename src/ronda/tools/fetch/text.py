"""What was fetched → its title and its text: the article of an HTML page, the pages of a PDF, plain text as it is.

What reads HTML and PDF is imported with the first page, and slow on purpose-built input: pages of strangers are read in a process
of their own (`page_worker`), the operator's own documents in a thread (`to_text`).
"""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec import Struct

from ronda.errors import ToolFailed
from ronda.tools.fetch.fetcher import FetchedPage
from ronda.tools.fetch.page_program import MAX_TEXT, read_html, read_pdf

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

_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset=[\"']?([a-zA-Z0-9_.:-]{2,40})", re.IGNORECASE)


class Text(Struct, frozen=True):
    title: str
    text: str


class Unreadable(ToolFailed):
    """A document that cannot be read."""


class Source(Struct, frozen=True):
    """A page whose text has to be looked for: HTML as UTF-8, or a PDF."""

    kind: Literal["html", "pdf"]
    data: bytes


def prepare(page: FetchedPage) -> Text | Source:
    """What is plain text is read at once, within the time that its bytes take to be looked at."""
    if page.content_type == PDF or page.data.startswith(b"%PDF-"):
        return Source("pdf", page.data)
    text = _decode_page(page)
    if page.content_type in HTML or (not page.content_type and "<html" in text[:1000].lower()):
        return Source("html", text.encode("utf-8", "replace"))
    return Text("", text[:MAX_TEXT].strip())


def to_text(page: FetchedPage) -> Text:
    """Takes a while, and for a hostile page minutes: call it in a thread, for documents that are trusted. Raises Unreadable."""
    source = prepare(page)
    if isinstance(source, Text):
        return source
    try:
        if source.kind == "pdf":
            return Text(*read_pdf(source.data))
        return Text(*read_html(source.data.decode(), page.url))
    except Exception as error:  # hostile pages bring anything out of the parsers
        raise Unreadable(why_unreadable(source, type(error).__name__)) from error


def why_unreadable(source: Source, problem: str) -> str:
    return f"the {'PDF' if source.kind == 'pdf' else 'page'} cannot be read: {problem}"


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
