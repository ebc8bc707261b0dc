"""Rendered text → messages: role markers, their attributes, and rich inputs at their place.

A marker is a line of its own: `user:`, `# system:`, `assistant[name=Bob, id=7]:`. Markers are read from a copy of the text in
which everything that is not by the author's own hand is one opaque character, so the roles follow from the template only,
whatever an input says and however it got there. Text of unknown origin is taken for the author's; where
that will not do, `guard` the template before a foreign renderer sees it, and give `parse` the same nonce.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ronda.prompty.message_parts import Message, Part, read_thread, rich_messages, rich_parts
from ronda.prompty.segments import RICH_KINDS, Rich, Segment, TemplateError

# A linear pattern: the regular expression of the spec backtracks without end on a hostile line. ASCII, or `ſystem:` were one.
_MARKER = re.compile(r"(?ai)(?:#\s*)?(system|user|assistant|developer)(?:\[(.*)\])?\s*:")
_ATTRIBUTE = re.compile(r'\s*(\w+)\s*=\s*(?:"([^"]*)"|([^",\]]*))\s*,?\s*')
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_FRACTION = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?", re.ASCII)

MISMATCH = "Role marker nonce mismatch (possible injection)"


class Marker(Struct, frozen=True):
    role: str
    attributes: tuple[tuple[str, str], ...] = ()


class Draft(Struct, frozen=True):
    """A message before its rich inputs are unfolded."""

    role: str
    metadata: dict[str, Any]
    pieces: tuple[Segment, ...]


def parse(
    rendered: str | Sequence[Segment],
    inputs: Mapping[str, Any] | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
    nonce: str | None = None,
) -> list[Message]:
    """The messages of a rendered template.

    What `render` returned knows its rich inputs. For any other text `inputs` holds those whose markers are looked for; `kinds`
    says what they are, threads if nothing is said. Threads that no marker places come last.
    """
    segments = getattr(rendered, "segments", rendered)
    unplaced: list[Message] = []
    if isinstance(segments, str):
        segments = _split(segments, inputs or {}, kinds or {})
        if inputs and not any(segment.rich for segment in segments):
            threads = [
                read_thread(value) for name, value in inputs.items() if (kinds or {}).get(name, "thread") == "thread"
            ]
            unplaced = [message for thread in threads for message in thread or ()]
    messages = [message for draft in _drafts(segments, nonce) for message in _unfold(draft)]
    return messages + unplaced


def read_marker(line: str) -> Marker | None:
    line = line.strip()
    if not line.endswith(":"):
        return None
    found = _MARKER.fullmatch(line)
    if found is None:
        return None
    if found[2] is None:
        return Marker(found[1].lower())
    attributes: list[tuple[str, str]] = []
    at = 0
    while at < len(found[2]):
        pair = _ATTRIBUTE.match(found[2], at)
        if pair is None:
            return None
        attributes.append((pair[1], pair[3].strip() if pair[2] is None else pair[2]))
        at = pair.end()
    return Marker(found[1].lower(), tuple(attributes)) if attributes else None


def coerce(value: str) -> Any:
    """true and false, then whole numbers, then fractions, else text; quoted or not, as the reference has it."""
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if _WHOLE.fullmatch(value) and len(value) <= 300:
        return int(value)
    return float(value) if _FRACTION.fullmatch(value) else value


def guard(template: str, nonce: str) -> str:
    """The template with the nonce in every marker of its author; the other attributes stay."""
    lines = template.split("\n")
    for index, line in enumerate(lines):
        marker = read_marker(line)
        if marker is not None:
            rest = "".join([f', {name}="{value}"' for name, value in marker.attributes if name != "nonce"])
            lines[index] = f'{marker.role}[nonce="{nonce}"{rest}]:' + ("\r" if line.endswith("\r") else "")
    return "\n".join(lines)


def forged_markers(segments: Sequence[Segment]) -> Iterator[tuple[int, int]]:
    """Where the flat text has lines that read as markers and are not the author's: (start, end) of each."""
    authors: set[int] = set()
    at = 0
    for line, insertions in _lines(segments):
        if read_marker(line) is not None:
            authors.add(at)
        at += len(line) + 1 + sum(len(segment.text) - 1 for segment in insertions)
    at = 0
    for line in "".join([segment.text for segment in segments]).split("\n"):
        if at not in authors and read_marker(line) is not None:
            yield at, at + len(line)
        at += len(line) + 1


def _lines(segments: Sequence[Segment]) -> Iterator[tuple[str, list[Segment]]]:
    """The author's lines, with one opaque character for each segment that is not the author's, and those segments."""
    author_text = "".join([segment.text for segment in segments if segment.kind == "literal"])
    opaque = _opaque(author_text)
    insertions = iter([segment for segment in segments if segment.kind != "literal"])
    masked = "".join([segment.text if segment.kind == "literal" else opaque for segment in segments])
    for line in masked.split("\n"):
        yield line, [next(insertions) for _ in range(line.count(opaque))]


def _opaque(author_text: str) -> str:
    """A character that is neither blank nor part of a word, and that the author did not write."""
    for code in range(0xFDD0, 0xFDF0):  # Unicode promises never to give these a meaning
        if chr(code) not in author_text:
            return chr(code)
    raise TemplateError("the template is full of characters that mean nothing")


def _drafts(segments: Sequence[Segment], nonce: str | None) -> Iterator[Draft]:
    opaque = _opaque("".join([segment.text for segment in segments if segment.kind == "literal"]))
    role, metadata, marked = "system", dict[str, Any](), False
    pieces: list[Segment] = []
    for line, insertions in _lines(segments):
        marker = read_marker(line)
        if marker is None:
            pieces += _pieces(line + "\n", insertions, opaque)
            continue
        if marked or _speaks(pieces):
            yield Draft(role, metadata, tuple(pieces))
        role, marked, pieces = marker.role, True, []
        metadata = _metadata(marker, insertions, opaque, nonce)
    if marked or _speaks(pieces):
        yield Draft(role, metadata, tuple(pieces))


def _metadata(marker: Marker, insertions: list[Segment], opaque: str, nonce: str | None) -> dict[str, Any]:
    values = iter(insertions)
    found: dict[str, str] = {}
    for name, value in marker.attributes:
        first, *rest = value.split(opaque)
        for text in rest:
            segment = next(values)
            if segment.rich is not None:
                raise TemplateError(f"the {segment.rich.kind} '{segment.source}' cannot stand in a role marker")
            first += segment.text + text
        found[name] = first
    marker_nonce = found.pop("nonce", None)
    if nonce is not None and marker_nonce != nonce:
        raise TemplateError(MISMATCH)
    return {name: coerce(value) for name, value in found.items()}


def _pieces(line: str, insertions: list[Segment], opaque: str) -> list[Segment]:
    pieces: list[Segment] = []
    for index, text in enumerate(line.split(opaque)):
        if index:
            pieces.append(insertions[index - 1])
        if text:
            pieces.append(Segment("literal", text))
    return pieces


def _speaks(pieces: Sequence[Segment]) -> bool:
    """Is there a message in this? Asked of the author's text and of what is placed in it, never of what an input says."""
    return any(piece.kind != "literal" or piece.text.strip() for piece in pieces)


def _unfold(draft: Draft) -> list[Message]:
    """Threads part the message that holds them. Media stay in a user's message, in place; no other role may hold any, so from
    there they go into a user message of their own."""
    if not any(piece.rich for piece in draft.pieces):
        return [Message(draft.role, (Part("text", _text(draft.pieces)),), draft.metadata)]
    messages: list[Message] = []
    parts: list[Part] = []
    run: list[Segment] = []
    has_input = False  # an input stands in the message being made: there is one, even if it is empty

    def end_run() -> None:
        nonlocal has_input
        has_input = has_input or any(piece.kind == "interp" for piece in run)
        text = _text(run)
        if text.strip():
            parts.append(Part("text", text))
        run.clear()

    def end_message() -> None:
        nonlocal has_input
        end_run()
        if len(parts) == 1 and parts[0].kind == "text":
            parts[0] = Part("text", parts[0].value.strip())
        if parts or has_input:
            messages.append(Message(draft.role, tuple(parts) or (Part("text", ""),), draft.metadata))
        parts.clear()
        has_input = False

    beside = False  # the last message is one of media, made here
    for piece in draft.pieces:
        if piece.rich is None:
            run.append(piece)
            continue
        if piece.rich.kind == "thread":
            end_message()
            messages += rich_messages(piece.rich)
            beside = False
        elif draft.role == "user":
            end_run()
            parts += rich_parts(piece.rich)
        else:
            if _speaks(run):
                end_message()
                beside = False
            run.clear()
            media = tuple(rich_parts(piece.rich))
            if beside:
                messages[-1] = Message("user", messages[-1].content + media)
            else:
                messages.append(Message("user", media))
            beside = True
    end_message()
    return messages


def _text(pieces: Sequence[Segment]) -> str:
    """Newlines at both ends go, and nothing else: lines made of spaces stay."""
    return "".join([piece.text for piece in pieces]).strip("\r\n")


def _split(text: str, inputs: Mapping[str, Any], kinds: Mapping[str, str]) -> list[Segment]:
    """Plain text as segments: the author's, but for these inputs' markers. A thread that is no list of messages stays text."""
    known: dict[str, Rich] = {}
    for name, value in inputs.items():
        for kind in RICH_KINDS:
            if kind == kinds.get(name, "thread") and (kind != "thread" or read_thread(value) is not None):
                known[name] = Rich(name, kind, value, "")
    if not known:
        return [Segment("literal", text)]
    names = "|".join([re.escape(name) for name in sorted(known, key=len, reverse=True)])
    segments: list[Segment] = []
    at = 0
    for found in re.finditer(rf"__PROMPTY_(?:THREAD|IMAGE|FILE|AUDIO)_[0-9a-fA-F]{{8,}}_({names})__", text):
        segments.append(Segment("literal", text[at : found.start()]))
        segments.append(Segment("rich", found[0], found[1], False, known[found[1]]))
        at = found.end()
    segments.append(Segment("literal", text[at:]))
    return segments
