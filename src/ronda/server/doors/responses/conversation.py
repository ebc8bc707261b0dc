"""A request → the request with its whole conversation: what it goes on from, and the items it only names.

A response goes on from another (`previous_response_id`) by that one's run: the whole conversation is in the journal, tool
rounds and the model's own JSON included, and our half of a mixed turn with it. Instructions, and what an agent says first,
stand around a conversation and are not carried over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.events import Event, RunStarted
from ronda.core.parts import SystemTurn, ToolTurn, Turn
from ronda.core.run import Run, rebuild
from ronda.core.taint import marks_of
from ronda.core.transcript import UnknownCall, join_turns
from ronda.errors import BadRequest, NotFound
from ronda.server.services.models import Target
from ronda.server.services.runs import Runs
from ronda.wire.openai_responses.client_calls import APPROVAL_ID
from ronda.wire.openai_responses.input import read_items, untold
from ronda.wire.openai_responses.input_items import item_named
from ronda.wire.openai_responses.resource import StoredOptions, conversation, fields_with, response_id, run_id, since_of
from ronda.wire.openai_responses.server_answer import ResponseAnswer
from ronda.wire.openai_responses.server_request import ResponseRequest
from ronda.wire.shared.call_ids import all_renamed, caller_ids, model_ids
from ronda.wire.shared.told_calls import ToldCall, own_id, run_of

if TYPE_CHECKING:
    from ronda.wire.openai_responses.encrypted_content import Sealer


MAX_RECALLED: Final = 64  # responses of one conversation that are read again for the results of their calls
# An item's id: its kind, the response that it is of (`resource.response_id`), and its place there.
_ITEM: Final = re.compile(r"(?:[a-z]{1,12}_)?(?:ronda_)?([0-9a-f]{24}(?:-[0-9]{1,9})?)_(?:in)?[0-9]{1,9}")


class Local(Protocol):
    """Responses that only one connection knows."""

    def find(self, response: str) -> tuple[Run, int] | None:
        """The run, and how many events it has."""


async def join_conversation(
    runs: Runs, sealer: Sealer, request: ResponseRequest, target: Target, owner: str, local: Local | None = None
) -> ResponseRequest:
    """The request with its whole conversation: items that were only named, and what the response before it left."""
    turns, ids = request.turns, request.ids
    if request.items:
        written = _Responses(runs, owner)
        items = list(request.items)
        for at, item_id in request.named:
            items[at] = await _named_item(written, item_id, at)
        known = await _told_calls(written, untold(items))
        continues = request.previous is not None
        read = read_items(items, sealer, known, continues=continues)
        turns, ids = tuple(read.turns), read.ids
    parent = None
    session = request.conversation
    if request.previous is not None:
        before, parent = await _previous(runs, request.previous, owner, local)
        session = "" if request.session is not None else before.start.session  # its code goes on in the same folder
        given = model_ids(before, turns)
        earlier = {caller: model for model, caller in caller_ids(before.start).items()}
        turns = _join_turns(before, all_renamed(turns, {**earlier, **given}))
        ids = {**earlier, **ids, **given}
    lead: tuple[Turn, ...] = () if request.instructions is None else (SystemTurn(request.instructions),)
    answer = replace(request.answer, instructed=bool(lead))
    return replace(request, turns=(*lead, *turns), parent=parent, answer=answer, ids=ids, conversation=session)


async def _previous(runs: Runs, response: str, owner: str, local: Local | None) -> tuple[Run, tuple[str, int]]:
    known = local.find(response) if local is not None else None
    if known is not None:
        return known[0], (known[0].id, known[1])
    events = await runs.read(run_id(response), owner)
    run = rebuild(events) if events else None
    if run is None or fields_with(run) is None:
        raise NotFound(
            f"Previous response with id '{response[:100]}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    if run.ended is None:
        raise BadRequest(f"the response '{response}' is not finished yet", param="previous_response_id")
    return run, (run.id, len(events))


def _join_turns(before: Run, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    carried = conversation(before, fields_with(before) or StoredOptions())
    try:
        return join_turns(carried, turns, before.results)
    except UnknownCall:
        pass
    try:  # some clients send every result of a chain again with each of its requests (Semantic Kernel)
        return join_turns(carried, _unanswered(carried, turns), before.results)
    except UnknownCall as error:
        raise BadRequest(
            f"No tool call found for function call output with call_id {error.call_id[:100]}.", param="input"
        ) from error


def _unanswered(before: Sequence[Turn], turns: Sequence[Turn]) -> list[Turn]:
    """The new turns without results of calls that have theirs."""
    answered = {result.call_id for turn in before if isinstance(turn, ToolTurn) for result in turn.results}
    left: list[Turn] = []
    for turn in turns:
        if not isinstance(turn, ToolTurn):
            left.append(turn)
        elif results := [result for result in turn.results if result.call_id not in answered]:
            left.append(ToolTurn(tuple(results)))
    return left


# ---- items of responses that were made here ---------------------------------------------------------------------------


class _WrittenResponse(Struct, frozen=True):
    run: Run
    options: StoredOptions
    answer: ResponseAnswer


class _Responses:
    """Responses written again from their runs' logs, each once for a request."""

    def __init__(self, runs: Runs, owner: str) -> None:
        self._runs = runs
        self._owner = owner
        self._written: dict[str, _WrittenResponse | None] = {}

    async def of_item(self, item_id: str) -> _WrittenResponse | None:
        """The response that an item is of, by the item's id. A question of an upstream's service has an id of the service's."""
        named = _ITEM.fullmatch(item_id)
        if named is not None:
            response = f"resp_{named[1]}"
        elif item_id.startswith(APPROVAL_ID):
            runs = await self._runs.journal.runs_of_calls(self._owner, [item_id])
            response = response_id(runs[item_id]) if item_id in runs else ""
        else:
            return None
        if response not in self._written:
            self._written[response] = await self._write(response)
        return self._written[response]

    async def _write(self, response: str) -> _WrittenResponse | None:
        events = await self._events(run_id(response))
        run = rebuild(events) if events else None
        since = since_of(response)
        if run is None or (options := fields_with(run)) is None or since > len(events):
            return None
        answer = ResponseAnswer([run], since=since)
        answer.skip(0, events[1:since])
        answer.fold(0, events[max(1, since) :])
        return _WrittenResponse(run, options, answer)

    async def _events(self, run: str) -> list[Event]:
        """Also of a response that is not stored, while it is remembered."""
        events = await self._runs.memory.read(run)
        if events and type(events[0]) is RunStarted and events[0].owner == self._owner:
            return events
        return await self._runs.read(run, self._owner)


async def _named_item(responses: _Responses, item_id: str, at: int) -> Raw:
    found = await responses.of_item(item_id)
    item = None if found is None else item_named(item_id, found.run, found.options, found.answer.items)
    if item is None:
        raise NotFound(f"Item with id '{item_id[:100]}' not found.", param=f"input[{at}].id")
    return item


async def _told_calls(responses: _Responses, ids: Sequence[str]) -> dict[str, ToldCall]:
    """What is known of calls that ran here, by their ids in the conversation. Of a very long one, the newest."""
    found: dict[str, ToldCall] = {}
    runs: set[str] = set()
    for call_id in reversed(ids):
        runs.add(run_of(call_id) or "")
        response = await responses.of_item(call_id) if len(runs) <= MAX_RECALLED else None
        calls = {} if response is None else {own_id(key): call for key, call in response.answer.told.items()}
        told_call = calls.get(call_id)
        if response is not None and told_call is not None and told_call.result is not None:
            spec = response.run.tools.get(told_call.call.name)
            marks = marks_of((*told_call.result.marks, *(() if spec is None else spec.labels)))
            result = replace(told_call.result, call_id=call_id, marks=tuple(sorted(marks)))
            found[call_id] = ToldCall(replace(told_call.call, id=call_id), result)
    return found
