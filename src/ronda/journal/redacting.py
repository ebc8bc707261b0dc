"""Words that must not be kept: any journal, whose events go through a function first.

    RedactingJournal(journal, redact)    what is appended is kept as `redact` leaves it; what is read is what is kept

Words are redacted wherever they stand: texts, arguments, results, what a door keeps of its request. Names are not: ids, tools,
models and sessions, by which a run is found and driven. A provider's own JSON of a turn may be sealed, so it is never rewritten:
where a word in it would change it is left out, and the turn is told in our words from then on. Previews are not kept at all: a
word may be cut in two between them, and the facts say what they said.

The run that is under way is not touched. The model reads what it was sent, and the client what the model said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.events import PREVIEWS, AgentFile, Event
from ronda.core.parts import AssistantTurn, Audio, Image, Native, Turn, Video
from ronda.journal import Journal, OpenQuestion
from ronda.wire.codec.json import UNREADABLE, encode

Redact: TypeAlias = Callable[[str], str]

# Fields of events, turns and plans whose text is a name, or a word of ours.
_NAMES: Final = frozenset((
    "agent", "agent_id", "api", "bound", "but", "by", "call", "call_id", "cause", "child", "code", "currency", "data", "declared",
    "detail", "exclusive", "format", "group", "hash", "id", "key", "kind", "labels", "links", "marks", "model", "name", "names",
    "native_api", "owner", "parent", "path", "per", "permissions", "provider", "reasoning_effort", "remembered", "role", "run",
    "scope", "sendable", "server", "session", "stage", "stop", "tool", "tool_type", "unit", "whole",
))  # fmt: skip
# In what a door or a session keeps of a request: the same, as JSON has them. What a client notes there may be called anything.
_JSON_NAMES: Final = _NAMES | {"type"}
_JSON_TEXTS: Final = ("arguments", "written")  # of calls: texts that are JSON, as the model wrote it
_CLIENTS_OWN: Final = ("metadata", "inputs")
_OUR_RIGHTS: Final = "rights"  # of a key, in what a run keeps of its request
_WITHOUT_WORDS: Final = (AgentFile, Audio, Image, Video)  # the operator's files, which have a hash; and bytes


class RedactingJournal:
    """All else about it is the journal's own."""

    def __init__(self, journal: Journal, redact: Redact) -> None:
        self.inner = journal
        self._redact = redact

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def watchers(self) -> Any:
        return self.inner.watchers

    @watchers.setter
    def watchers(self, watchers: Any) -> None:
        self.inner.watchers = watchers

    def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
        kept = [redacted(event, self._redact) for event in events if type(event) not in PREVIEWS]
        if kept or not events:
            is_same = len(kept) == len(events) and all(map(_is, kept, events))
            self.inner.append(run, kept, size if is_same else None)

    def note_questions(self, run: str, questions: tuple[OpenQuestion, ...], *, waits: bool = False) -> None:
        self.inner.note_questions(run, tuple([redacted(one, self._redact) for one in questions]), waits=waits)


def redacting(journal: Journal, redact: Redact) -> Journal:
    return cast("Journal", RedactingJournal(journal, redact))


def unwrapped(journal: Journal) -> Journal:
    """The journal itself, for who must know which it is."""
    return journal.inner if isinstance(journal, RedactingJournal) else journal


class RedactedSession:
    """What a session keeps (`store.sessions.Rewrite`)."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact

    def turns(self, turns: bytes) -> bytes:
        before = msgspec.json.decode(turns, type=tuple[Turn, ...])
        after = redacted(before, self._redact)
        return turns if after is before else encode(after)

    def labels(self, labels: Raw) -> Raw:
        return _redacted_json(labels, self._redact, frozenset())


def redacted_conversation(body: bytes, redact: Redact) -> bytes:
    """What a conversation of Mistral's is about. Its own name is a title, and no name by which anything is found."""
    about = msgspec.json.decode(bytes(_redacted_json(Raw(body), redact, _JSON_NAMES)))
    if not isinstance(about, dict) or not isinstance(title := about.get("name"), str):
        return encode(about)
    return encode({**about, "name": redact(title)})


def redacted(value: Any, redact: Redact) -> Any:
    """The same value where nothing in it changes."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Raw):
        return _redacted_json(value, redact, frozenset())
    if isinstance(value, tuple | list):
        found = [redacted(one, redact) for one in value]
        return value if all(map(_is, found, value)) else type(value)(found)
    if isinstance(value, Mapping):
        changed = {key: redacted(one, redact) for key, one in value.items()}
        return value if _are_same(changed, value) else changed
    if isinstance(value, Struct) and not isinstance(value, _WITHOUT_WORDS):
        return _redacted_struct(value, redact)
    return value


def _redacted_struct(value: Struct, redact: Redact) -> Struct:
    changes: dict[str, Any] = {}
    for name in _fields_of(type(value)):
        before = getattr(value, name)
        if name == "about":
            after: Any = _redacted_about(before, redact)
        elif name in _JSON_TEXTS and isinstance(before, str):
            after = _redacted_arguments(before, redact)
        else:
            after = redacted(before, redact)
        if after is not before:
            changes[name] = after
    if isinstance(value, AssistantTurn) and value.native is not None and (changes or _has_words(value.native, redact)):
        changes["native"] = None
    return replace(value, **changes) if changes else value


@cache
def _fields_of(kind: type[Struct]) -> tuple[str, ...]:
    names = _NAMES | {"native"} if kind is AssistantTurn else _NAMES
    return tuple([name for name in kind.__struct_fields__ if name not in names])


def _has_words(native: Native, redact: Redact) -> bool:
    return _redacted_json(native.payload, redact, frozenset()) is not native.payload


def _redacted_about(about: Mapping[str, Raw], redact: Redact) -> Mapping[str, Raw]:
    found = {
        name: value if name == _OUR_RIGHTS else _redacted_json(value, redact, _names_under(name, _JSON_NAMES))
        for name, value in about.items()
    }
    return about if _are_same(found, about) else found


def _names_under(key: str, names: frozenset[str]) -> frozenset[str]:
    return frozenset() if key in _CLIENTS_OWN else names


def _redacted_arguments(text: str, redact: Redact) -> str:
    """JSON in a text: its strings are redacted one by one, so that it stays JSON. What is none is a text."""
    try:
        before = _decode(text)
        after = _redacted_value(before, redact, frozenset())
        return text if after is before else encode(after).decode()
    except (*UNREADABLE, ValueError):
        return redact(text)


def _redacted_json(raw: Raw, redact: Redact, names: frozenset[str]) -> Raw:
    try:
        before = _decode(bytes(raw).decode())
        after = _redacted_value(before, redact, names)
        return raw if after is before else Raw(encode(after))
    except (*UNREADABLE, ValueError):  # nothing of what cannot be looked at is kept
        return Raw(b"null")


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError:  # a number that no computer has: where words change, it becomes a text
        return json.loads(text, parse_float=str, parse_int=str)


def _redacted_value(value: Any, redact: Redact, names: frozenset[str]) -> Any:
    match value:
        case str():
            return redact(value)
        case list():
            found = [_redacted_value(one, redact, names) for one in value]
            return value if all(map(_is, found, value)) else found
        case dict():
            changed: dict[str, Any] = {}
            for key, one in value.items():
                if key in names and isinstance(one, str):
                    changed[key] = one
                elif key == "arguments" and isinstance(one, str):
                    changed[key] = _redacted_arguments(one, redact)
                else:
                    changed[redact(key)] = _redacted_value(one, redact, _names_under(key, names))
            return value if _are_same(changed, value) else changed
        case _:
            return value


def _is(one: object, other: object) -> bool:
    return one is other


def _are_same(one: Mapping[Any, object], other: Mapping[Any, object]) -> bool:
    return one.keys() == other.keys() and all(one[key] is other[key] for key in other)
