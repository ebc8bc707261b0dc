"""What was changed of a conversation to make it fit a wire: told by the code that changed it, where it did so.

A wire's writer works on a copy and tells a `Changes` of every id it had to make up, every thought it left out, every picture
it could only mention. The caller can then say what would become of a conversation; nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Raw, Struct

from ronda.core.parts import AssistantTurn, ToolResult, ToolTurn, Turn
from ronda.core.plan import Options
from ronda.wire.openai_chat import API as CHAT

Kind: TypeAlias = Literal[
    "id_rewritten",
    "name_rewritten",
    "arguments_rewritten",
    "reasoning_dropped",
    "seal_refused",  # thoughts, or other things, that the server that is asked could not open
    "members_dropped",  # what another vendor said of a message besides its words
    "text_dropped",
    "media_noted",  # a picture, a sound, a file that became a note to the model
    "role_changed",
    "message_added",
    "result_added",
    "result_dropped",
    "results_reordered",
    "option_unsent",
    "option_changed",
]

# What the caller of a run should hear of: something it said does not reach the model.
_WARNED: Final = frozenset({"media_noted", "option_unsent", "seal_refused"})


class Change(Struct, frozen=True):
    """`turn` is which of the turns it happened to, none for the request as a whole; `part` is which result of it."""

    kind: Kind
    what: str
    why: str
    turn: int | None = None
    part: int = 0


class Changes:
    """The changes of one request, in the order they were made. `turn` is the one being written."""

    __slots__ = ("found", "turn")

    def __init__(self) -> None:
        self.found: list[Change] = []
        self.turn: int | None = None

    def tell(self, kind: Kind, what: str, why: str) -> None:
        change = Change(kind, what, why, self.turn)
        if change not in self.found:
            self.found.append(change)

    def tell_of_options(self, options: Options, api: str) -> None:
        for name in unheard(options, api):
            self.tell("option_changed", f"'{name}' is not sent", "only the dialect it was said in has an equivalent")

    def forget(self, of_request: bool = False) -> None:
        """Written anew: all of it, or what is said of the request as a whole."""
        self.found = [change for change in self.found if change.turn is not None] if of_request else []
        self.turn = None

    @property
    def warnings(self) -> tuple[str, ...]:
        return warnings_of(self.found)


class _Unreported(Changes):
    def tell(self, kind: Kind, what: str, why: str) -> None:
        return


UNREPORTED: Final = _Unreported()  # for writers whose caller does not ask


def unheard(options: Options, api: str) -> list[str]:
    """Fields that only an upstream of the caller's own dialect would have been sent."""
    return [] if options.native_api in ("", api) else list(options.native)


def passed_on(extra: Mapping[str, Raw], own: frozenset[str], changes: Changes) -> Mapping[str, Raw]:
    """The fields that Ronda does not know, without those that the request has itself: its key would be there twice, or say
    something else than the loop does."""
    if own.isdisjoint(extra):
        return extra
    for name in own & extra.keys():
        changes.tell(
            "option_unsent", f"'{name}' is not sent", "a request of this API has that field, and it says something else"
        )
    return {name: value for name, value in extra.items() if name not in own}


def said_elsewhere(
    extra: Mapping[str, Raw],
    options: Options,
    known: frozenset[str],
    usual: Mapping[str, tuple[bytes, ...]],
    changes: Changes,
) -> Mapping[str, Raw]:
    """The fields of a request that came by Chat Completions, whose clients send what any server may know: without those that an
    API does not have. `usual`: values that change nothing, so that they need not be reported."""
    if options.native_api != CHAT or known >= extra.keys():
        return extra
    for name, value in extra.items():
        if name not in known and bytes(value) not in (b"null", *usual.get(name, ())):
            changes.tell("option_unsent", f"'{name}' is not sent", "the model's API has no such field")
    return {name: value for name, value in extra.items() if name in known}


class Projection(Struct, frozen=True):
    """A request as a provider would send it, and what was changed for that. `url` and `headers` have no secrets in them."""

    body: bytes
    changes: tuple[Change, ...] = ()
    api: str = ""  # the dialect that the body is in
    url: str = ""
    headers: Mapping[str, str] = {}


def warnings_of(changes: Iterable[Change]) -> tuple[str, ...]:
    """Sentences for the caller, each once."""
    texts = [f"{change.what}: {change.why}" for change in changes if change.kind in _WARNED]
    return tuple(dict.fromkeys(texts))


def repairs(turns: Sequence[Turn], repaired: Sequence[Turn]) -> list[Change]:
    """What a history's repair did to it, read off its outcome. Changes are named by the turns as they were given."""
    if repaired is turns:
        return []
    found: list[Change] = []
    repaired_ids = {id(result) for turn in repaired if type(turn) is ToolTurn for result in turn.results}
    result_ids = {id(result) for turn in turns if type(turn) is ToolTurn for result in turn.results}
    at = {id(turn): index for index, turn in enumerate(turns)}
    before: int | None = None  # where the assistant turn that is being answered stands
    for turn in repaired:
        if type(turn) is AssistantTurn:
            before = at[id(turn)]
        elif type(turn) is ToolTurn and id(turn) not in at and before is not None:
            calling_turn = turns[before]
            assert type(calling_turn) is AssistantTurn
            names = {call.id: call.name for call in calling_turn.calls}
            found += [
                Change("result_added", f"the call '{names[one.call_id]}' is answered in its place", _NO_ANSWER, before)
                for one in turn.results
                if id(one) not in result_ids
            ]
            behind = [id(one) for one in _results_behind(turns, before) if id(one) in repaired_ids]
            if behind != [id(one) for one in turn.results if id(one) in result_ids]:
                what = "the results are put behind their calls, in the order of the calls"
                found.append(Change("results_reordered", what, _ORDER, before))
    for index, turn in enumerate(turns):
        if type(turn) is ToolTurn:
            for part, one in enumerate(turn.results):
                if id(one) not in repaired_ids:
                    what = f"the result for '{one.call_id}' is left out"
                    found.append(Change("result_dropped", what, _NO_CALL, index, part))
    return sorted(found, key=lambda change: change.turn or 0)


_NO_ANSWER: Final = "every call must have a result, and this one has none"
_NO_CALL: Final = "no assistant turn just before it made that call, or it was answered already"
_ORDER: Final = "results go back right behind their calls, in the order the model asked"


def _results_behind(turns: Sequence[Turn], before: int) -> list[ToolResult]:
    """The results that stand behind an assistant turn."""
    results: list[ToolResult] = []
    for turn in turns[before + 1 :]:
        if type(turn) is not ToolTurn:
            break
        results += turn.results
    return results


def origins(turns: Sequence[Turn], repaired: Sequence[Turn]) -> list[int | None]:
    """Where each repaired turn stood before; one that was put together stands for the call it answers."""
    at = {id(turn): index for index, turn in enumerate(turns)}
    found: list[int | None] = []
    for turn in repaired:
        found.append(at.get(id(turn), found[-1] if found else None))
    return found
