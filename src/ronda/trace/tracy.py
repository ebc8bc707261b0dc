"""Spans → a `.tracy` file for each outermost one, written once when it ends.

    {"runtime": "python", "version": …, "trace": {
        "name", "__time": {"start", "end", "duration"}, "signature", "inputs", "result", "__frames": […], "__usage": {…}}}

Times are UTC, durations milliseconds. `__usage` is the sum of what the spans inside used and of the span's own
`result.usage`, key by key as the provider calls them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from ronda._version import __version__
from ronda.trace.spans import Emit, Span

Frame: TypeAlias = dict[str, Any]

_ONCE = frozenset({"signature", "inputs", "result"})  # said again, the last word counts; of other keys all are kept


class Tracy:
    """A backend that writes into a folder: `Tracer.add("tracy", Tracy("traces"))`."""

    def __init__(self, folder: str | os.PathLike[str] = ".runs") -> None:
        self.folder = Path(folder)
        self._lock = threading.Lock()
        self._open: dict[int, Frame] = {}  # by the id of their span

    @contextmanager
    def __call__(self, span: Span) -> Iterator[Emit]:
        frame: Frame = {"name": str(span), "__time": {"start": _iso(span.began), "end": None, "duration": None}}
        with self._lock:
            # In the order in which they began, whichever ends first.
            outer = self._open.get(span.parent.id) if span.parent is not None else None
            if outer is not None:
                outer.setdefault("__frames", []).append(frame)
            self._open[span.id] = frame

        def emit(key: str, value: Any) -> None:
            if key not in frame or key in _ONCE:
                frame[key] = value
            elif isinstance(frame[key], list):
                frame[key].append(value)
            else:
                frame[key] = [frame[key], value]

        try:
            yield emit
        finally:
            ended = span.began if span.ended is None else span.ended
            frame["__time"] = {
                "start": _iso(span.began),
                "end": _iso(ended),
                "duration": max(0, round((ended - span.began) * 1000)),
            }
            if usage := _usage(frame):
                frame["__usage"] = usage
            with self._lock:
                del self._open[span.id]
            if outer is None:
                self._write(span, ended, frame)

    def _write(self, span: Span, ended: float, frame: Frame) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", span).strip("._")[:80] or "trace"
        stem = f"{name}.{datetime.fromtimestamp(ended, UTC):%Y%m%d.%H%M%S}"
        text = json.dumps({"runtime": "python", "version": __version__, "trace": frame}, indent=2, ensure_ascii=False)
        part = self.folder / f".{stem}.{os.urandom(6).hex()}"
        part.write_bytes(text.encode("utf-8", "backslashreplace"))
        try:
            again = 1
            while True:  # two traces of one name may end in the same second, and neither may be lost
                try:
                    os.link(part, self.folder / f"{stem}{'' if again == 1 else f'.{again}'}.tracy")
                    return
                except FileExistsError:
                    again += 1
        finally:
            with contextlib.suppress(OSError):
                part.unlink()


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _usage(frame: Frame) -> dict[str, Any]:
    """What the spans inside used, then what the span's own result says."""
    total: dict[str, Any] = {}
    for inner in frame.get("__frames", ()):
        _add(total, inner.get("__usage"))
    result = frame.get("result")
    for one in result if isinstance(result, list) else [result]:  # a stream's result is all its pieces
        if isinstance(one, dict):
            _add(total, one.get("usage"))
    return total


def _add(total: dict[str, Any], usage: Any) -> None:
    if not isinstance(usage, dict):
        return
    for key, value in usage.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            total[key] = total.get(key, 0) + value
