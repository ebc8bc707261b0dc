"""What a model said → the page in it, or nothing: prose is no page.

A page is a whole document, or what stands in `<file>` tags or in a fence that says it is HTML. Every step goes over the text
once.
"""

from __future__ import annotations

import re
from typing import Final

_FILE: Final = re.compile(r"<file\b[^<>]{0,200}>")
_FENCE: Final = re.compile(r"^```[ \t]*(?:html|HTML)[ \t]*$", re.MULTILINE)
_FENCE_END: Final = re.compile(r"^```[ \t]*$", re.MULTILINE)
_BEGIN: Final = re.compile(r"<!doctype\s+html\b|<html\b", re.IGNORECASE)
_END: Final = "</html>"
_TAG: Final = re.compile(r"<[a-zA-Z][^<>]{0,500}>")


def page_in(text: str) -> str | None:
    for inner in (_in_tags(text), _in_fence(text)):
        if inner is not None:
            return _document(inner) or (inner if _TAG.search(inner) else None)
    return _document(text)


def _document(text: str) -> str | None:
    begin = _BEGIN.search(text)
    if begin is None:
        return None
    end = text.lower().rfind(_END)
    return text[begin.start() : end + len(_END)] if end > begin.start() else None


def _in_tags(text: str) -> str | None:
    begin = _FILE.search(text)
    if begin is None:
        return None
    end = text.rfind("</file>")
    return text[begin.end() : end].strip() if end >= begin.end() else None


def _in_fence(text: str) -> str | None:
    """To the last fence: a document may have fences in it."""
    begin = _FENCE.search(text)
    if begin is None:
        return None
    ends = [found.start() for found in _FENCE_END.finditer(text, begin.end())]
    return text[begin.end() : ends[-1]].strip() if ends else None
