"""POST /v1/responses/compact: a conversation → what the user said, and a summary of all the rest.

One model call with tools off writes the summary; it travels in the compaction item, and is what the next model is told in the
place of everything before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ronda.core.events import Event
from ronda.core.parts import Text, Turn, UserTurn, user
from ronda.core.plan import NONE
from ronda.core.run import Run
from ronda.core.transcript import final_text
from ronda.errors import BadRequest
from ronda.wire.codec.json import encode
from ronda.wire.openai_responses.encrypted_content import Sealer, wrap_summary
from ronda.wire.openai_responses.input import SUMMARY
from ronda.wire.openai_responses.input_items import write_part
from ronda.wire.openai_responses.resource import response_id, usage_fields
from ronda.wire.openai_responses.server_request import ResponseRequest, request_of
from ronda.wire.shared.failures import Failure
from ronda.wire.shared.fields import read_fields

_TASK: Final = (
    "Sum up this conversation for a reader who continues it and has not seen it. Say what was asked for and why, what was found "
    "out and decided, which tools were called and what they returned, what is done and what is still to be done; keep names, "
    "numbers, paths and exact wording that matter. Write nothing but the summary."
)
_LONGEST: Final = 20_000  # characters of the user's own words that are kept next to the summary

FIELDS: Final[dict[str, str]] = {
    "model": "read",
    "input": "read",
    "previous_response_id": "read",
    "instructions": "read",
    "prompt_cache_key": "passed on",
    "service_tier": "passed on, where it is not auto or default",
    "prompt_cache_options": "passed on: to an upstream of this API; others have no equivalent",
    "prompt_cache_retention": "passed on: to an upstream of this API; others have no equivalent",
    "image": "passed on: to an upstream of this API; others have no equivalent",
}


def compaction_of(body: bytes, sealer: Sealer) -> ResponseRequest:
    fields = read_fields(body)
    if "model" not in fields:
        raise BadRequest("'model' is missing", param="model")
    for name in fields.keys() - FIELDS.keys():
        raise BadRequest(f"'{name[:100]}' is not a field of /responses/compact", param=name[:100])
    request = request_of(fields, sealer)
    return msgspec.structs.replace(request, choice=NONE, max_tool_rounds=0, keep="memory")


def with_task(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    return (*turns, user(_TASK))


class CompactAnswer:
    """The answer to such a request: there is no stream of it."""

    def __init__(self, run: Run, turns: Sequence[Turn]) -> None:
        self._run = run
        self._turns = turns

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        return b""

    def fold(self, sibling: int, batch: Sequence[Event]) -> None:
        pass

    def body(self) -> bytes:
        run = self._run
        digits = run.id.removeprefix("run_")
        items: list[dict[str, Any]] = [
            {
                "type": "message",
                "id": f"msg_{digits}_{index}",
                "status": "completed",
                "role": "user",
                "content": [write_part(part) for part in turn.parts],
            }
            for index, turn in enumerate(_words_of_the_user(self._turns))
        ]
        compaction = {
            "type": "compaction",
            "id": f"cmp_{digits}_{len(items)}",
            "encrypted_content": wrap_summary(final_text(run)),
        }
        return encode(
            {
                "id": response_id(run.id),
                "object": "response.compaction",
                "created_at": int(run.start.at),
                "output": [*items, compaction],
                "usage": usage_fields(run.usage),
            }
        )


def _words_of_the_user(turns: Sequence[Turn]) -> list[UserTurn]:
    """What was asked for, word by word: the newest, as far as they are not too long. Pictures and files are summed up."""
    user_turns: list[UserTurn] = []
    room = _LONGEST
    for turn in reversed(turns):
        if type(turn) is not UserTurn:
            continue
        texts = tuple([part for part in turn.parts if type(part) is Text])
        if texts and texts[0].text.startswith(SUMMARY):
            break  # of a conversation that was compacted before: it is summed up with the rest
        room -= sum(len(part.text) for part in texts)
        if room < 0:
            break
        if texts:
            user_turns.append(UserTurn(texts))
    return user_turns[::-1]
