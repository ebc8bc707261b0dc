"""A request → the request with its whole conversation: what it goes on from, and the items it only names.

A response goes on from another (`previous_response_id`) by that one's run: the whole conversation is in the journal, tool
rounds and the model's own JSON included, and our half of a mixed turn with it. Instructions, and what an agent says first,
stand around a conversation and are not carried over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw
from msgspec.structs import replace

from ronda.core.parts import SystemTurn, ToolTurn, Turn
from ronda.core.run import Run, rebuild
from ronda.core.transcript import UnknownCall, join_turns
from ronda.errors import BadRequest, NotFound
from ronda.server.resources.models import Target
from ronda.wire.call_ids import all_renamed, caller_ids, model_ids
from ronda.wire.openai_responses.input import read_items
from ronda.wire.openai_responses.input_items import item_named
from ronda.wire.openai_responses.resource import StoredOptions, conversation, fields_with, run_id
from ronda.wire.openai_responses.server_answer import ResponseAnswer
from ronda.wire.openai_responses.server_request import ResponseRequest

if TYPE_CHECKING:
    from ronda.server.app import Server


class Local(Protocol):
    """Responses that only one connection knows."""

    def find(self, response: str) -> Run | None: ...


async def join_conversation(
    server: Server, request: ResponseRequest, target: Target, owner: str, local: Local | None = None
) -> ResponseRequest:
    """The request with its whole conversation: items that were only named, and what the response before it left."""
    turns, ids = request.turns, request.ids
    if request.named:
        found = {at: await _named_item(server, id, owner, at) for at, id in request.named}
        read = read_items(request.items, await server.responses.sealer(owner), found)
        turns, ids = tuple(read.turns), read.ids
    parent = None
    session = request.conversation
    if request.previous is not None:
        before, parent = await _previous(server, request.previous, owner, local)
        session = "" if request.session is not None else before.start.session  # its code goes on in the same folder
        given = model_ids(before, turns)
        earlier = {caller: model for model, caller in caller_ids(before.start).items()}
        turns = _join_turns(before, all_renamed(turns, {**earlier, **given}))
        ids = {**earlier, **ids, **given}
    lead: tuple[Turn, ...] = () if request.instructions is None else (SystemTurn(request.instructions),)
    answer = replace(request.answer, instructed=bool(lead))
    return replace(request, turns=(*lead, *turns), parent=parent, answer=answer, ids=ids, conversation=session)


async def _previous(server: Server, response: str, owner: str, local: Local | None) -> tuple[Run, tuple[str, int]]:
    run = local.find(response) if local is not None else None
    if run is not None:
        return run, (run.id, len(run.turns))
    events = await server.runs.read(run_id(response), owner)
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


async def _named_item(server: Server, id: str, owner: str, at: int) -> Raw:
    run = "run_" + (id.split("_")[1].partition("-")[0] if id.count("_") == 2 else "")
    events = await server.runs.read(run, owner)
    item = None
    if events:
        found = rebuild(events)
        if (kept := fields_with(found)) is not None:
            written = ResponseAnswer([found])
            written.fold(0, events[1:])
            item = item_named(id, found, kept, written.items)
    if item is None:
        raise NotFound(f"Item with id '{id[:100]}' not found.", param=f"input[{at}].id")
    return item
