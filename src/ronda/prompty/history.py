"""What was said before, put among the messages that a prompty file renders to.

It stands where the file has its `thread`, and else before the file's last user message, which is the question of this run. The
instructions are the file's of today: those that the history begins with are left out, and so are examples that both have.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ronda.core.parts import Text, Turn, UserTurn
from ronda.prompty.model import Prompty
from ronda.wire.shared.conversation import without_instructions

_MARK: Final = secrets.token_hex(16)  # stands where the conversation goes; no client can guess it
PLACE_OF_THREAD: Final = [{"role": "user", "content": _MARK}]


def thread_of(prompty: Prompty, inputs: Mapping[str, Any]) -> str | None:
    """The input that a conversation is the value of, if it was given none."""
    return next((one.name for one in prompty.inputs if one.kind == "thread" and one.name not in inputs), None)


def place_in(rendered: Sequence[Turn]) -> int | None:
    """Where a file that was given `PLACE_OF_THREAD` has its thread."""
    return next(
        (index for index, turn in enumerate(rendered) if type(turn) is UserTurn and turn.parts == (Text(_MARK),)), None
    )


def with_history(rendered: Sequence[Turn], history: Sequence[Turn]) -> list[Turn]:
    place = place_in(rendered)
    if place is not None:
        before, after = rendered[:place], rendered[place + 1 :]
    else:
        users = [index for index, turn in enumerate(rendered) if type(turn) is UserTurn]
        place = users[-1] if users else len(rendered)
        before, after = rendered[:place], rendered[place:]
    turns = without_instructions(history)
    examples = without_instructions(before)
    if examples and list(turns[: len(examples)]) == list(examples):
        turns = turns[len(examples) :]
    return [*before, *turns, *after]
