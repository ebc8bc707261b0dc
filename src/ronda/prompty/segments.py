"""What a rendered template is made of, with where each piece came from, and the bounds a render must keep.

A render is not a string but an ordered list of segments: `literal` text the author wrote, `interp` text that came out of
`{{ … }}`, and `rich` inputs (thread, image, file, audio) that stand where a part or messages will be. Joined, their texts
are the flat string. Role markers are looked for in literal text only, so an input cannot forge one: there is nothing to
guess and nothing to escape. Knows no template language and no message.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ronda.errors import BadRequest

RichKind: TypeAlias = Literal["thread", "image", "file", "audio"]
RICH_KINDS: tuple[RichKind, ...] = ("thread", "image", "file", "audio")


_LINE = re.compile(r" \(line (\d+)\)$")


class TemplateError(BadRequest):
    """A template that cannot be read or rendered, or an input that does not fit its place in it.

    Its text ends with the template's line, where that is known; in a file it is the file's, as `path` and `line`.
    """

    path: str | None = None
    line: int | None = None

    @property
    def where(self) -> str:
        """`agent.prompty:12`, as far as it is known."""
        return ":".join(str(part) for part in (self.path, self.line) if part is not None)

    def locate(self, path: str | None, first_line: int) -> None:
        """The template is that of a file, and begins in this line of it; in none, where it was brought in."""
        if path is None or self.path is not None:
            return
        self.path = path
        if first_line and (match := _LINE.search(str(self))) is not None:
            self.line = first_line + int(match[1]) - 1
            self.args = (_LINE.sub("", str(self)),)


class StrictViolation(TemplateError):
    """A strict input holds a line that reads as a role marker."""


class Limits(Struct, frozen=True):
    """How far one render may go. The defaults leave room for any real prompt and stop a hostile one in a second or two."""

    template: int = 1_000_000  # characters of the template itself
    output: int = 4_000_000  # characters written, and of any one text on the way
    steps: int = 500_000  # expressions evaluated, values looked at
    depth: int = 40  # macros inside macros, sections inside sections


LIMITS = Limits()


class Budget:
    """What is left of the limits in one render."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._steps = limits.steps
        self._room = limits.output

    def step(self, count: int = 1) -> None:
        self._steps -= count
        if self._steps < 0:
            raise TemplateError(f"the template does too much: more than {self.limits.steps} steps")

    def write(self, characters: int) -> None:
        self._room -= characters
        if self._room < 0:
            raise TemplateError(f"the template writes too much: more than {self.limits.output} characters")

    def fit(self, characters: int) -> None:
        """Ask before building a text of this size."""
        if characters > self.limits.output:
            raise TemplateError(f"the template builds a text of more than {self.limits.output} characters")

    def weigh(self, value: Any) -> None:
        """Look at all of a value, on the budget: comparing or printing it may cost that much."""
        self.step()
        if isinstance(value, dict):
            for item in value.values():
                self.weigh(item)
        elif isinstance(value, list | tuple):
            for item in value:
                self.weigh(item)


class Rich(Struct, frozen=True, gc=False):
    """A rich input on its way through a template. `marker` stands for it in flat text, new for every render."""

    name: str
    kind: RichKind
    value: Any
    marker: str


def rich(name: str, kind: RichKind, value: Any) -> Rich:
    """The one prefix serves all kinds. Eight digits, as the vectors have it, where the text of the spec says sixteen:
    nothing here depends on their being secret, since placement is read from segments."""
    return Rich(name, kind, value, f"__PROMPTY_THREAD_{secrets.token_hex(4)}_{name}__")


class Segment(Struct, frozen=True):
    """`source` names the input an `interp` or `rich` segment came from; `strict` says that it was checked for markers."""

    kind: Literal["literal", "interp", "rich"]
    text: str
    source: str | None = None
    strict: bool = False
    rich: Rich | None = None


class Fragment(Struct, frozen=True):
    """Rendered text as a value: what a macro returns, what a set block holds. Printed, it keeps where its pieces came from."""

    segments: tuple[Segment, ...]

    @property
    def text(self) -> str:
        for segment in self.segments:
            if segment.rich is not None:
                raise TemplateError(f"the {segment.rich.kind} '{segment.source}' can be placed, not changed as text")
        return "".join([segment.text for segment in self.segments])


class RenderedText(str):
    """The flat string of a render that remembers its segments, so that `parse` need not trust the text."""

    __slots__ = ("segments",)
    segments: tuple[Segment, ...]

    def __new__(cls, segments: Iterable[Segment]) -> RenderedText:
        pieces = tuple(segments)
        self = super().__new__(cls, "".join([segment.text for segment in pieces]))
        self.segments = pieces
        return self


# Wider than the marker itself, as the spec wants it for strict inputs: words may follow the colon.
_LIKE_A_MARKER = re.compile(r"(?im)^[^\S\n]*(?:#[^\S\n]*)?(?:system|user|assistant|developer)(?:\[[^\]\n]*\])?\s*:")


class Out:
    """Collects segments. Text of the author that touches becomes one segment; an empty interpolation still is one."""

    def __init__(self, budget: Budget, strict: Collection[str] = ()) -> None:
        self._budget = budget
        self._strict = strict
        self._done: list[Segment] = []
        self._literal: list[str] = []

    def capture(self) -> Out:
        return Out(self._budget, self._strict)

    def literal(self, text: str) -> None:
        if text:
            self._budget.write(len(text))
            self._literal.append(text)

    def interp(self, text: str, sources: Collection[str] = ()) -> None:
        strict = next((source for source in sources if source in self._strict), None)
        if strict is not None and _LIKE_A_MARKER.search(text):
            raise StrictViolation(
                f"StrictViolation: the strict input '{strict}' has a line that reads as a role marker"
            )
        self._budget.write(len(text))
        self._flush()
        self._done.append(Segment("interp", text, strict or next(iter(sources), None), strict is not None))

    def rich(self, value: Rich) -> None:
        self._budget.write(len(value.marker))
        self._flush()
        self._done.append(Segment("rich", value.marker, value.name, False, value))

    def splice(self, fragment: Fragment) -> None:
        for segment in fragment.segments:
            if segment.kind == "literal":
                self.literal(segment.text)
            else:
                self._budget.write(len(segment.text))
                self._flush()
                self._done.append(segment)

    def finish(self) -> tuple[Segment, ...]:
        self._flush()
        return tuple(self._done)

    def _flush(self) -> None:
        if self._literal:
            self._done.append(Segment("literal", "".join(self._literal)))
            self._literal = []
