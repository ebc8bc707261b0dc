"""A session's turns, and what a request brings → the conversation that the request means.

Clients differ: some send the whole conversation again, as far as they saw it; others only what is new. What a request brings is
compared with the visible turns of the session: what people said, and what an assistant answered, whatever it called on the way.

    it begins with all of them                      go on: rounds of tools that the client never saw are put back
    it shares a beginning, or is one                branch there
    it shares nothing, and has no answer            append
    it shares nothing, and has one                  it is the conversation: branch at the root

Instructions are the request's only: a session has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ronda.core.parts import AssistantTurn, File, SystemTurn, Text, ToolCall, ToolTurn, Turn, UserPart, UserTurn

SessionMode: TypeAlias = Literal["auto", "append", "replace"]

NOTHING: Final[frozenset[int]] = frozenset()

# What a person asked, and what the answer may look like to a client: both without spaces.
Exchange: TypeAlias = tuple[str, str]


class SplicedConversation(Struct, frozen=True):
    """The conversation; it goes on from the first `kept` turns of the session, and its last `new` turns are the request's."""

    turns: tuple[Turn, ...]
    kept: int
    new: int
    shared: int = 0  # how many visible turns both have


class _Visible(Struct, frozen=True, gc=False):
    """What one of the two said, up to where the other did: these turns, from `begins` on, before `ends`."""

    begins: int
    ends: int
    question: tuple[object, ...] = ()  # by a person
    texts: frozenset[str] | None = None  # by an assistant: what it may look like to a client
    calls: tuple[tuple[str, str], ...] = ()


def splice(
    stored: Sequence[Turn], incoming: Sequence[Turn], mode: SessionMode = "auto", own: Collection[int] = NOTHING
) -> SplicedConversation:
    """`own`: places of turns in the session that no request brought, such as what was said to a run under way."""
    if mode == "replace" or not stored:
        return _from_root(incoming)
    if mode == "append":
        return _append(stored, incoming)
    now = list(_visible(incoming))
    before, has_more = _shared_beginning(_visible(stored, own), now)
    shared = len(before)
    if shared == 0:
        if any(one.texts is not None for one in now):
            return _from_root(incoming)
        return _append(stored, incoming)
    turns: list[Turn] = []
    kept = at = 0
    for old, new in zip(before, now, strict=False):
        turns += [turn for turn in incoming[at : new.ends] if type(turn) is SystemTurn]
        turns += stored[kept : old.ends]
        kept, at = old.ends, new.ends
    if not has_more:
        turns += stored[kept:]
        kept = len(stored)
    # Results of calls that the session waits for are the only thing in a shared turn that it does not have.
    late = _late_results(stored[before[shared - 1].begins : kept], incoming[now[shared - 1].begins : at])
    rest = (*late, *incoming[at:])
    return SplicedConversation((*turns, *rest), kept, len(rest), shared)


def exchanges(turns: Sequence[Turn]) -> Iterator[Exchange]:
    """What was asked and answered in a conversation, as a client has it."""
    question = ""
    for one in _visible(turns):
        if one.texts is None:
            question = str(one.question[0])
        else:
            yield from [(question, text) for text in one.texts if text]


def last_exchanges(turns: Sequence[Turn], asked: int) -> Iterator[Exchange]:
    """How a client may have what a run answered. The first `asked` of the turns are what it was asked with: what people said to
    it on the way is no question of its own."""
    question = next((turn for turn in reversed(turns[:asked]) if type(turn) is UserTurn), None)
    if question is not None and any(type(turn) is AssistantTurn for turn in turns[asked:]):
        words = str(_question_key(question)[0])
        yield from [(words, text) for text in _answer(turns, asked, len(turns)).texts or () if text]


def _from_root(incoming: Sequence[Turn]) -> SplicedConversation:
    return SplicedConversation(tuple(incoming), 0, len(incoming))


def _append(stored: Sequence[Turn], incoming: Sequence[Turn]) -> SplicedConversation:
    first = next((index for index, turn in enumerate(incoming) if type(turn) is not SystemTurn), len(incoming))
    return SplicedConversation((*incoming[:first], *stored, *incoming[first:]), len(stored), len(incoming) - first)


def _visible(turns: Sequence[Turn], own: Collection[int] = NOTHING) -> Iterator[_Visible]:
    """One after the other: a request that only brings something new differs from the first."""
    begins: int | None = None  # of an answer: all that an assistant said and did until another role speaks
    for index, turn in enumerate(turns):
        if type(turn) is UserTurn and index not in own:
            if begins is not None:
                yield _answer(turns, begins, index)
            begins = None
            yield _Visible(index, index + 1, _question_key(turn))
        elif begins is None and type(turn) is AssistantTurn:
            begins = index
    if begins is not None:
        yield _answer(turns, begins, len(turns))


def _answer(turns: Sequence[Turn], begins: int, ends: int) -> _Visible:
    """Clients keep all that was said in an answer, or only its last words."""
    while type(turns[ends - 1]) is SystemTurn:
        ends -= 1
    answers = [turn for turn in turns[begins:ends] if type(turn) is AssistantTurn]
    texts = frozenset(
        {_without_space("".join([one.text or one.refusal for one in answers])), _without_space(answers[-1].text)}
    )
    calls = tuple([(call.name, _without_space(call.arguments)) for one in answers for call in one.calls])
    return _Visible(begins, ends, texts=texts, calls=calls)


def _question_key(turn: UserTurn) -> tuple[object, ...]:
    text = _without_space("".join([part.text for part in turn.parts if type(part) is Text]))
    # What is known of where a file comes from may change, and it is the same file.
    return (text, *[_plain(part) for part in turn.parts if type(part) is not Text])


def _plain(part: UserPart) -> UserPart:
    return replace(part, marks=()) if type(part) is File and part.marks else part


def _without_space(text: str) -> str:
    """Doors and clients divide and trim text in their own ways."""
    return "".join(text.split())


def _shared_beginning(before: Iterator[_Visible], now: Sequence[_Visible]) -> tuple[list[_Visible], bool]:
    """The beginning that both have, as the session has it; and whether the session goes on behind it."""
    shared: list[_Visible] = []
    for old in before:
        if len(shared) == len(now) or not _is_same(old, now[len(shared)]):
            return shared, True
        shared.append(old)
    return shared, False


def _is_same(old: _Visible, new: _Visible) -> bool:
    if old.texts is None or new.texts is None:
        return old.texts is new.texts and old.question == new.question
    if old.texts.isdisjoint(new.texts):
        return False
    calls = iter(old.calls)  # of which the client has seen its own
    return all(call in calls for call in new.calls)


def _late_results(stored: Sequence[Turn], incoming: Sequence[Turn]) -> tuple[Turn, ...]:
    last = next((index for index in range(len(stored) - 1, -1, -1) if type(stored[index]) is AssistantTurn), None)
    if last is None:
        return ()
    asked = stored[last]
    assert type(asked) is AssistantTurn
    answered = {one.call_id for turn in stored[last + 1 :] if type(turn) is ToolTurn for one in turn.results}
    is_open = {part.id for part in asked.parts if type(part) is ToolCall} - answered
    results = [one for turn in incoming if type(turn) is ToolTurn for one in turn.results if one.call_id in is_open]
    return (ToolTurn(tuple(results)),) if results else ()
