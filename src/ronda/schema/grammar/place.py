"""One schema in its document, being read: what stands in it, and how to go on from here to what it is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

from msgspec import Struct

from ronda.schema.bounds import escape
from ronda.schema.grammar.algebra import Algebra
from ronda.schema.grammar.numbers import is_number
from ronda.schema.grammar.regex import Unreadable, analyse
from ronda.schema.grammar.shapes import Ref, Shape, Unsupported


class Document(Protocol):
    """What is asked of whoever knows all the schemas there are."""

    algebra: Algebra

    def shape(self, node: Any, base: str, pointer: str, *, loose: bool) -> Shape: ...

    def reference(self, text: Any, base: str, pointer: str, *, loose: bool) -> Shape: ...

    def both(self, shape: Shape, reference: Ref, pointer: str, combine: Callable[[], Shape]) -> Shape: ...

    def expand(self, key: str) -> Shape: ...


class Place(Struct, frozen=True):
    """`loose` shapes admit at least what the schema does, the others at most that."""

    document: Document
    node: dict[str, Any]
    base: str
    pointer: str
    loose: bool

    def both(self, one: Shape, other: Shape, keyword: str) -> Shape:
        try:
            return self.document.algebra.intersect(one, other, loose=self.loose)
        except Unsupported as error:
            raise self._refused(keyword, error) from None

    def without(self, one: Shape, other: Shape, keyword: str) -> Shape:
        try:
            return self.document.algebra.exclude(one, other)
        except Unsupported as error:
            raise self._refused(keyword, error) from None

    def _refused(self, keyword: str, why: Any) -> Unsupported:
        text = str(why)
        return Unsupported(text if text.startswith("/") else f"{self.pointer}/{keyword}: {text}")

    def sub(self, node: Any, *steps: str | int, loose: bool | None = None) -> Shape:
        return self.document.shape(node, self.base, self.at(*steps), loose=self.loose if loose is None else loose)

    def at(self, *steps: str | int) -> str:
        return self.pointer + "".join(f"/{escape(str(step))}" for step in steps)

    def is_readable(self, pattern: str, *steps: str) -> bool:
        """Whether a pattern can be enforced. Where more may be admitted, one that cannot be is left out."""
        try:
            analyse(pattern)
        except (Unreadable, ValueError) as error:
            if self.loose:
                return False
            raise Unsupported(f"{self.at(*steps)}: {error}, which cannot be enforced") from None
        return True

    # ---- what stands in it, where it is what it should be --------------------------------------------------------------

    def listed(self, keyword: str) -> list[Any]:
        found = self.node.get(keyword)
        return found if isinstance(found, list) else []

    def members(self, keyword: str) -> dict[str, Any]:
        found = self.node.get(keyword)
        return found if isinstance(found, dict) else {}

    def size(self, keyword: str) -> int | None:
        value = self.node.get(keyword)
        return max(0, int(value)) if is_number(value) else None

    def fraction(self, keyword: str) -> Fraction | None:
        value = self.node.get(keyword)
        return Fraction(str(value)) if is_number(value) and math.isfinite(value) else None
