"""Spans as lines on stderr: where one begins, and how long it took."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ronda.trace.spans import Emit, Span, ignore


@contextmanager
def console(span: Span) -> Iterator[Emit]:
    """A backend: `Tracer.add("console", console)`."""
    _line(f"▶ {span}")
    try:
        yield ignore
    finally:
        ended = span.began if span.ended is None else span.ended
        _line(f"◀ {span} ({round((ended - span.began) * 1000)}ms)")


def _line(text: str) -> None:
    sys.stderr.write(f"[prompty] {text}\n".encode(errors="replace").decode())
    sys.stderr.flush()
