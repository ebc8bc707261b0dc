"""Messages that a program wrote or saved → turns. Taken are turns, our turns as JSON, and messages in OpenAI's form, mixed.

{"role": "user", "content": "…"}        what the Chat Completions API takes, tool calls and results included
{"type": "user", "parts": […]}          what `msgspec.json.encode(result.messages)` gives
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Raw

from ronda.core.parts import SystemTurn, ToolTurn, Turn
from ronda.errors import BadRequest

TURNS = get_args(Turn)
_TAGS = frozenset(turn.__struct_config__.tag for turn in TURNS)
Messages: TypeAlias = Sequence[Turn | Mapping[str, Any]]


def read_turns(value: Any, what: str) -> tuple[Turn, ...]:
    """`what` names in the error whose messages they are."""
    form = f"{what} is a list of messages, {{'role': …, 'content': …}}, or of turns"
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise BadRequest(form, param=what)
    items = [item.model_dump(exclude_none=True) if hasattr(item, "model_dump") else item for item in value]
    turns: list[Turn] = []
    for kind, group in itertools.groupby(items, _kind):
        if kind == "":
            raise BadRequest(f"{form}; {next(group)!r:.200} is neither", param=what)
        for turn in _READERS[kind](list(group), what):
            if type(turn) is ToolTurn and turns and type(turns[-1]) is ToolTurn:
                turns[-1] = ToolTurn((*turns[-1].results, *turn.results))
            else:
                turns.append(turn)
    return tuple(turns)


def without_instructions(turns: Sequence[Turn]) -> Sequence[Turn]:
    """What was said: the turns behind the system messages at the beginning."""
    first = next((index for index, turn in enumerate(turns) if type(turn) is not SystemTurn), len(turns))
    return turns[first:]


def _kind(item: Any) -> str:
    if isinstance(item, TURNS):
        return "turns"
    if not isinstance(item, Mapping):
        return ""
    tag = item.get("type")
    if isinstance(tag, str) and tag in _TAGS:  # asked first: a developer's turn has a role, too
        return "json"
    return "openai" if "role" in item else ""


def _from_openai(items: list[Any], what: str) -> Iterable[Turn]:
    from ronda.wire.openai_chat.messages import read_messages  # most conversations are turns

    return read_messages({"messages": _as_json(items, what)})


def _from_json(items: list[Any], what: str) -> Iterable[Turn]:
    try:
        return msgspec.json.decode(_as_json(items, what), type=list[Turn])
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadRequest(f"{what} is not made of turns: {error}", param=what) from error


def _as_json(items: list[Any], what: str) -> Raw:
    try:
        return Raw(msgspec.json.encode(items))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadRequest(f"{what} cannot be said in JSON: {error}", param=what) from error


_READERS = {"turns": lambda items, what: items, "openai": _from_openai, "json": _from_json}
