"""A backend that keeps what it is told, as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ronda.trace import Emit, Span


class Spy:
    """`tree()` is names and nesting; `told(name)` all that was said of the spans of a name."""

    def __init__(self) -> None:
        self.spans: list[tuple[Span, dict[str, Any]]] = []
        self.open = 0

    @contextmanager
    def __call__(self, span: Span) -> Iterator[Emit]:
        said: dict[str, Any] = {}
        self.spans.append((span, said))
        self.open += 1
        try:
            yield said.__setitem__
        finally:
            self.open -= 1

    def tree(self, parent: Span | None = None) -> list[Any]:
        """A span without any inside is its name; one with some is (name, [those inside])."""
        found: list[Any] = []
        for span, _ in self.spans:
            if (span.parent is None and parent is None) or (
                span.parent is not None and parent is not None and span.parent.id == parent.id
            ):
                inside = self.tree(span)
                found.append((str(span), inside) if inside else str(span))
        return found

    def told(self, name: str) -> list[dict[str, Any]]:
        return [said for span, said in self.spans if span == name]

    def named(self, name: str) -> list[Span]:
        return [span for span, _ in self.spans if span == name]
