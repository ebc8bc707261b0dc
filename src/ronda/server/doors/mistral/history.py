"""What was said in a conversation, read from the journal: its runs → entries for people, turns for the model.

A run that failed or was cancelled left the conversation as it was, and so did those of the same request that handed over to
it. One that is under way keeps others from going on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import WITHOUT_ANSWER, Event
from ronda.core.parts import SystemTurn, Turn
from ronda.core.run import Run, rebuild
from ronda.core.transcript import UnknownCall, join_turns
from ronda.errors import BadRequest, NotFound
from ronda.server.services.runs import Runs
from ronda.store.conversations import Conversations, RunRow
from ronda.wire.codec.json import encode
from ronda.wire.mistral.conversation_answer import entries_of
from ronda.wire.mistral.conversations import ConversationBody
from ronda.wire.mistral.entries import decode_entries, turns_of
from ronda.wire.mistral.handoffs import answers_of, handed_before, handoff_of
from ronda.wire.shared.door_request import AnswerOptions

_FEW: Final = 8  # runs that failed at the end of a conversation: more than clients try again


class Busy(BadRequest):
    """Another request is being answered in this conversation."""

    status_hint = 409


class ConversationRun(Struct, frozen=True):
    """A run of a conversation, as far as it belongs to it."""

    row: RunRow
    run: Run
    events: list[Event]

    @property
    def entries(self) -> list[dict[str, Any]]:
        return entries_of(self.run, self.events)[: self.row.upto]


class History(Struct, frozen=True):
    """`lost`: the journal has forgotten all that was said. `count`: of all runs of the conversation, read or not."""

    runs: list[ConversationRun]
    busy: bool
    lost: bool
    count: int = 0

    @property
    def last(self) -> ConversationRun | None:
        """The last run that counts."""
        return self.runs[-1] if self.runs else None

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [entry for one in self.runs for entry in one.entries]

    def before(self, run_id: str) -> list[RunRow]:
        """The runs up to an entry, the last of them cut behind it."""
        rows: list[RunRow] = []
        for one in self.runs:
            entries = one.entries
            at = next((at for at, entry in enumerate(entries) if entry["id"] == run_id), None)
            if at is not None:
                whole = one.row.upto is None and at == len(entries) - 1
                return [*rows, one.row if whole else RunRow(one.row.run, at + 1)]
            rows.append(one.row)
        raise NotFound(
            f"the conversation has no entry '{run_id[:200]}'; its history lists them",
            param="from_entry_id",
            code="entry_not_found",
        )


async def read_history(runs: Runs, rows: Sequence[RunRow], owner: str) -> History:
    found: list[ConversationRun] = []
    busy = lost = False
    for row in rows:
        events = await runs.read(row.run, owner)
        if not events:
            # Forgotten, as the oldest are first; or never kept, where a crash came before its first event was.
            lost = True
            continue
        run = rebuild(events)
        if run.ended is not None and run.ended.reason not in WITHOUT_ANSWER:
            found.append(ConversationRun(row, run, events))
            continue
        busy = busy or run.ended is None
        if led := handed_before(run):  # so many runs led to this one
            del found[-led:]
    return History(found, busy, lost and not found, len(rows))


async def newest_first(
    conversations: Conversations, owner: str, conversation_id: str
) -> AsyncGenerator[tuple[int, RunRow], None]:
    """The runs of a conversation with their positions: the last by itself, since that is mostly all that is asked for."""
    before: int | None = None
    while some := await conversations.last_runs(owner, conversation_id, before, 1 if before is None else _FEW):
        for position, row in some:
            yield position, row
        if (before := some[-1][0]) == 0:
            return


async def read_end(runs: Runs, rows: AsyncIterator[tuple[int, RunRow]], owner: str) -> History:
    """As much of the history as it takes to go on from it: the last run that counts has all that was said. Only where a
    conversation was begun again within a run, and nothing has been said since, those before it are read, too. `rows` are the
    newest first."""
    found: list[ConversationRun] = []
    busy = lost = False
    leave_out = count = 0
    async for position, row in rows:
        count = count or position + 1
        if leave_out:
            leave_out -= 1
            continue
        events = await runs.read(row.run, owner)
        if not events:
            lost = True
            continue
        run = rebuild(events)
        if run.ended is None or run.ended.reason in WITHOUT_ANSWER:
            busy = busy or run.ended is None
            leave_out = handed_before(run)
            continue
        found.insert(0, ConversationRun(row, run, events))
        if row.upto is None:
            break
    return History(found, busy, lost and not found, count)


def agent_after(about: ConversationBody, last: ConversationRun | None) -> ConversationBody:
    """The conversation as it stands behind an entry: with the agent that was handed over to last, if one was."""
    if about.agent_id is None or last is None:
        return about
    handoff = handoff_of(last.run) if last.row.upto is None else None
    kept = last.run.start.about.get("agent_id")
    now = handoff.next.id if handoff is not None else None if kept is None else msgspec.json.decode(kept, type=str)
    return about if now is None else with_agent(about, now)


def with_agent(about: ConversationBody, agent: str) -> ConversationBody:
    """The same version of its agent, or another agent as it is now."""
    if agent == about.agent_id:
        return about
    return msgspec.structs.replace(about, agent_id=agent, agent_version=None)


def turns_before(runs: Sequence[ConversationRun]) -> tuple[Turn, ...]:
    """What the model is shown of what was said: all that the last run had and added, its instructions aside."""
    if not runs:
        return ()
    last = runs[-1]
    if last.row.upto is None:
        return turns_in(last.run)
    return join_history(turns_before(runs[:-1]), runs[-2].run if len(runs) > 1 else None, turns_of(_read(last.entries)))


def _read(entries: list[dict[str, Any]]) -> Any:
    return decode_entries(encode(entries))


def place_of(turns: tuple[Turn, ...], opened: tuple[Turn, ...], answer: AnswerOptions) -> dict[str, Raw]:
    """Where in what a model is shown the conversation stands: an agent puts its own words around it, and will again."""
    count = len(turns)
    at = next((at for at in range(len(opened) - count + 1) if opened[at : at + count] == turns), None)
    return answer.about if at is None else {**answer.about, "place": Raw(encode((at, count)))}


def turns_in(run: Run) -> tuple[Turn, ...]:
    """The conversation as the run left it, without what its agent said around it."""
    if (place := run.start.about.get("place")) is None:
        first = next((at for at, turn in enumerate(run.turns) if type(turn) is not SystemTurn), len(run.turns))
        return tuple(run.turns[first:])
    at, count = msgspec.json.decode(place, type=tuple[int, int])
    return (*run.start.turns[at : at + count], *run.generated)


def join_history(before: tuple[Turn, ...], last: Run | None, new: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The new turns behind the old ones; our half of a turn whose other half is the caller's next to it."""
    try:
        return join_turns(before, new, answers_of(last) if last is not None else ())
    except UnknownCall as error:
        raise BadRequest(
            f"a function.result answers the call {error.call_id[:100]!r}, which the conversation does not wait for",
            param="inputs",
            code="unknown_tool_call",
        ) from error
