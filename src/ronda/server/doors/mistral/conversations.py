"""Conversations that the server keeps: started with an agent or a model, continued, restarted from any entry, and read.

Each answer is a run, or several where agents hand over; the conversation is the list of its runs, and with the agent that the
last of them leaves it to. One request at a time continues a conversation: another one meanwhile is a 409.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, structs
from starlette.types import ASGIApp

from ronda.core.events import WITHOUT_ANSWER, Asked, Event, RunFinished
from ronda.core.parts import AssistantTurn, Turn
from ronda.core.plan import AUTO
from ronda.core.run import Run, rebuild
from ronda.errors import NotFound, RondaError, quote_names
from ronda.host.supervisor import Supervisor
from ronda.server.answering.chain import read_chain
from ronda.server.answering.continuation import resume_answer
from ronda.server.answering.exchange import Answering, Exchange
from ronda.server.answering.opening import Job, OnOpened
from ronda.server.answering.stored_answers import follow_answer, standing, unfinished_body
from ronda.server.doors.mistral.agents import find_model, serve_agent
from ronda.server.doors.mistral.completions import find_agent
from ronda.server.doors.mistral.endpoint import Asks, matches, mistral_error
from ronda.server.doors.mistral.handoffs import HandoffOffer, Handoffs
from ronda.server.doors.mistral.history import (
    Busy,
    ConversationRun,
    History,
    agent_after,
    join_history,
    newest_first,
    place_of,
    read_end,
    read_history,
    turns_before,
    with_agent,
)
from ronda.server.doors.mistral.upstream import fit_to_upstream, without_prompt
from ronda.server.http.incoming import Header, Incoming, Json, NoContent
from ronda.server.services.agents import ServedAgent
from ronda.server.services.models import Models, Target
from ronda.server.services.runs import new_id
from ronda.store import StoreError, WriteConflict
from ronda.store.catalog import Catalog
from ronda.store.conversations import ConversationRow, Conversations, RunRow
from ronda.store.marks import of_session
from ronda.wire.codec.json import encode
from ronda.wire.mistral.conversation_answer import ConversationAnswer
from ronda.wire.mistral.conversations import (
    ConversationBody,
    Wish,
    keep_conversation,
    read_append,
    read_conversation,
    read_restart,
    read_start,
    restart_body,
    write_conversation,
)
from ronda.wire.mistral.declarations import raws, read_args
from ronda.wire.mistral.entries import end_in_prefix, keep_inputs, turns_of
from ronda.wire.mistral.handoffs import about_ways, calls_for_caller, first_leg, handed_before, handoff_of, ways_of
from ronda.wire.mistral.server_request import CompletionRequest, guardrail_level
from ronda.wire.mistral.validation_errors import BODY, refuse
from ronda.wire.shared.approvals import Decision


class _Kept:
    """Runs become part of their conversation, one after another. Which agent the last of them leaves it with is noted with it
    where that is sure, and else when it has ended, so that lists of conversations read no runs."""

    def __init__(
        self,
        conversations: Conversations,
        supervisor: Supervisor,
        owner: str,
        conversation_id: str,
        about: ConversationBody,
        count: int,
        before: Sequence[RunRow] | None = None,
    ) -> None:
        """`before`: the runs of others that a new conversation begins with; None for one that is there."""
        self._conversations = conversations
        self._supervisor = supervisor
        self._owner = owner
        self._id = conversation_id
        self._about = about
        self._count = count
        self._before = before
        self._last: Run | None = None

    async def add(self, run: Run) -> None:
        conversations, at = self._conversations, run.start.at
        agent = self._about.agent_id if ways_of(run) is None and not handed_before(run) else None
        if self._before is None:
            await conversations.add_run(self._owner, self._id, self._count, run.id, at, agent)
        else:
            rows = [*self._before, RunRow(run.id)]
            await conversations.create(self._owner, self._id, keep_conversation(self._about), at, rows, agent)
            self._before = None
        self._count += 1
        self._last = None if agent is not None else run

    def note(self) -> None:
        """What was begun here is over."""
        run = self._last
        if run is None or run.ended is None or self._about.agent_id is None:
            return
        counts = run.ended.reason not in WITHOUT_ANSWER
        agent = agent_after(self._about, ConversationRun(RunRow(run.id), run, []) if counts else None).agent_id
        if agent is not None:
            noting = self._conversations.note_agents([(self._id, run.id, agent)])
            self._supervisor.do(f"the note of the agent of the conversation {self._id}", noting)


# ---- answering --------------------------------------------------------------------------------------------------------


class ConversationsDoor:
    def __init__(
        self,
        answering: Answering,
        models: Models,
        handoffs: Handoffs,
        catalog: Catalog,
        supervisor: Supervisor,
        max_body: int,
    ) -> None:
        self._answering = answering
        self._models = models
        self._handoffs = handoffs
        self._catalog = catalog
        self._supervisor = supervisor
        self._max_body = max_body

    def _adder(self, keep: _Kept) -> OnOpened:
        """A run becomes part of a conversation before it is driven."""

        async def add(run: Run) -> None:
            try:
                await keep.add(run)
            except BaseException as error:
                # Its input is in the journal already: say there that nothing came of it.
                why = error.public if isinstance(error, RondaError) else str(error)
                why = "the conversation went on" if isinstance(error, WriteConflict) else why
                end = RunFinished("cancelled", message=why, at=time.time())
                run.apply(end)
                self._answering.runs.journal.append(run.id, [end])
                self._answering.runs.journal.release(run.id)
                if isinstance(error, WriteConflict):
                    raise Busy(str(error), code="conversation_busy") from error
                raise

        return add

    async def _find_target(self, about: ConversationBody, owner: str) -> Target:
        if about.agent is not None:
            base = await find_model(self._models, about.agent.model, owner)
            if base is None:
                there_is = quote_names(self._models.names)
                raise NotFound(
                    f"the model '{about.agent.model[:200]}' does not exist here; there is {there_is}",
                    param="model",
                    code="model_not_found",
                )
            return serve_agent(about.agent, base)
        assert about.agent_id is not None
        version = about.agent_version
        return await find_agent(
            self._models, about.agent_id if version is None else f"{about.agent_id}@{version}", owner
        )

    async def _answer(
        self,
        incoming: Incoming,
        conversation_id: str,
        about: ConversationBody,
        wish: Wish,
        turns: tuple[Turn, ...],
        parent: ConversationRun | None,
        keep: _Kept | None,
    ) -> ASGIApp:
        from_run = (parent.run.id, len(parent.events)) if parent is not None else None
        target = await self._find_target(about, incoming.owner)
        job = await self._job(incoming, conversation_id, about, wish, target, turns, from_run, keep, 0)
        outlives, door = keep is not None, _Place(conversation_id)
        exchange = Exchange(
            self._answering, incoming, job, ConversationAnswer, mistral_error, outlives=outlives, door=door
        )
        answer = await exchange.answer()
        exchange.when_over(partial(self._catalog.claims.release, incoming.owner, _claim_of(conversation_id)))
        if keep is not None:
            exchange.when_over(keep.note)
        return answer

    @asynccontextmanager
    async def _hold_conversation(self, owner: str, conversation_id: str) -> AsyncIterator[None]:
        """No other request, here or in another process, is answered in a conversation until this answer is over."""
        if not await self._catalog.claims.claim(owner, _claim_of(conversation_id)):
            raise _busy(conversation_id)
        try:
            yield
        except BaseException:
            self._catalog.claims.release(owner, _claim_of(conversation_id))
            raise

    async def _job(
        self,
        incoming: Incoming,
        conversation_id: str,
        about: ConversationBody,
        wish: Wish,
        target: Target,
        turns: tuple[Turn, ...],
        parent: tuple[str, int] | None,
        keep: _Kept | None,
        handed: int,
    ) -> Job:
        """What one agent is asked. A choice among the tools was made for the first; the rest of the request is for all."""
        options, choice = read_args(wish.args, (*BODY, "completion_args"))
        if wish.args is not None and wish.args.tool_choice is not None:
            if handed:
                choice = AUTO
            else:
                target = structs.replace(target, choice=AUTO)
        guards = wish.guardrails
        if guards is None and isinstance(target, ServedAgent):
            guards = target.agent.guardrails
        more = {
            "conversation": conversation_id,
            "model": target.name,
            "agent_id": about.agent_id,
            "prefix": True if end_in_prefix(wish.entries) else None,
            "metadata": about.metadata,
        }
        request = CompletionRequest(
            model=target.name,
            turns=turns,
            choice=choice,
            options=options,
            stream=wish.stream,
            max_tool_rounds=wish.max_tool_rounds,
            truncates=wish.truncates,
            lingers=wish.lingers,
            permission=wish.permission,
            disabled_tools=wish.disabled_tools,
            background=wish.background,
            conversation=conversation_id,
            parent=parent,
            keep="memory" if keep is None else "stored",
            about={**raws(more), "inputs": keep_inputs(wish.entries)},
            hints=raws({"guardrails": wish.guardrails, "metadata": about.metadata}),
            guardrail_level=guardrail_level(guards) if guards else "no",
        )
        given = HandoffOffer(target)
        if isinstance(target, ServedAgent) and target.agent.handoffs:
            given = await self._handoffs.offer_handoffs(target, incoming.owner, request, wish.execution)
        target = given.target
        request = structs.replace(request, about={**request.about, **about_ways(given.ways, handed)})

        async def ask_next(agent: ServedAgent, turns: tuple[Turn, ...], parent: tuple[str, int], handed: int) -> Job:
            now = structs.replace(about, agent_id=agent.id, agent_version=None)
            rest = structs.replace(wish, entries=[])
            return await self._job(
                incoming, conversation_id, now, rest, agent, without_prompt(turns), parent, keep, handed
            )

        added = None if keep is None else self._adder(keep)
        following = None
        if given.ways is not None:
            following = self._handoffs.next_of(incoming.owner, given, ask_next, added)
        return Job(fit_to_upstream(request, target), target, place_of, following, added)

    async def start(self, incoming: Incoming) -> ASGIApp:
        about, wish = await incoming.read(self._max_body, read_start)
        return await self._begin(incoming, about, wish, [], turns_of(wish.entries), None)

    async def _begin(
        self,
        incoming: Incoming,
        about: ConversationBody,
        wish: Wish,
        rows: list[RunRow],
        turns: tuple[Turn, ...],
        parent: ConversationRun | None,
    ) -> ASGIApp:
        """A new conversation, with these runs before its own."""
        conversation_id, owner = new_id("conv"), incoming.owner
        keep = (
            _Kept(self._catalog.conversations, self._supervisor, owner, conversation_id, about, len(rows), rows)
            if wish.store
            else None
        )
        async with self._hold_conversation(owner, conversation_id):
            return await self._answer(incoming, conversation_id, about, wish, turns, parent, keep)

    async def append(self, incoming: Incoming) -> ASGIApp:
        wish = await incoming.read(self._max_body, read_append)
        row = await self._row(incoming)
        if wish.confirmations:
            return await self._confirm(incoming, row, wish)
        async with self._hold_conversation(incoming.owner, row.id):
            history = _must_be_there(await self._end(incoming.owner, row.id), row)
            if history.busy:
                raise _busy(row.id)
            last = history.last
            whole = last.run if last is not None and last.row.upto is None else None
            if not wish.entries and (whole is None or handoff_of(whole) is None or calls_for_caller(whole)):
                refuse("missing", (*BODY, "inputs"), "Field required")
            turns = join_history(turns_before(history.runs), whole, turns_of(wish.entries))
            about = agent_after(read_conversation(row.body), last)
            keep = (
                _Kept(self._catalog.conversations, self._supervisor, incoming.owner, row.id, about, history.count)
                if wish.store
                else None
            )
            return await self._answer(incoming, row.id, about, wish, turns, last, keep)

    async def _end(self, owner: str, conversation_id: str) -> History:
        async with aclosing(newest_first(self._catalog.conversations, owner, conversation_id)) as rows:
            return await read_end(self._answering.runs, rows, owner)

    async def _last_events(self, owner: str, conversation_id: str) -> list[Event]:
        """Of the last run of a conversation, whatever came of it."""
        rows = await self._catalog.conversations.last_runs(owner, conversation_id)
        return await self._answering.runs.read(rows[0][1].run, owner) if rows else []

    async def _confirm(self, incoming: Incoming, row: ConversationRow, wish: Wish) -> ASGIApp:
        """Continue the answer that waits for these confirmations: it is the conversation's last."""
        last = await self._last_events(incoming.owner, row.id)
        questions = [event for event in last if type(event) is Asked]
        decisions: list[Decision] = []
        for index, one in enumerate(wish.confirmations):
            fits = [question.id for question in questions if one.tool_call_id in (question.call_id, question.id)]
            if not fits:
                msg = "no call of this conversation waits for a confirmation"
                refuse("value_error", (*BODY, "tool_confirmations", index, "tool_call_id"), msg, one.tool_call_id)
            decisions.append(Decision(fits[-1], "approve" if one.confirmation == "allow" else "deny"))

        def make_writer(runs: Sequence[Run], since: Sequence[int]) -> ConversationAnswer:
            return ConversationAnswer(runs)

        return await resume_answer(
            self._answering, incoming, decisions, wish.stream, lambda run: True, make_writer, mistral_error
        )

    async def restart(self, incoming: Incoming) -> ASGIApp:
        body, wish = await incoming.read(self._max_body, read_restart)
        row = await self._row(incoming)
        history = await self._history(incoming, row, await self._catalog.conversations.runs(incoming.owner, row.id))
        rows = history.before(body.from_entry_id)
        shared = [ConversationRun(kept, one.run, one.events) for kept, one in zip(rows, history.runs, strict=False)]
        last = shared[-1]
        about = restart_body(agent_after(read_conversation(row.body), last), body)
        whole = last.run if last.row.upto is None else None
        turns = join_history(turns_before(shared), whole, turns_of(wish.entries))
        if not wish.entries and isinstance(turns[-1], AssistantTurn):
            refuse("missing", (*BODY, "inputs"), "Field required: the conversation ends with an answer there")
        return await self._begin(incoming, about, wish, rows, turns, last)

    async def _row(self, incoming: Incoming) -> ConversationRow:
        conversation_id = incoming.places["conversation_id"]
        row = await self._catalog.conversations.find(incoming.owner, conversation_id)
        if row is None:
            raise NotFound(
                f"the conversation '{conversation_id[:200]}' does not exist",
                param="conversation_id",
                code="conversation_not_found",
            )
        return row

    async def _history(self, incoming: Incoming, row: ConversationRow, rows: list[RunRow]) -> History:
        return _must_be_there(await read_history(self._answering.runs, rows, incoming.owner), row)

    async def list_conversations(self, incoming: Incoming) -> ASGIApp:
        asks = Asks(incoming)
        first, last = asks.page(100)
        metadata = asks.metadata()
        found = []
        for row in await self._catalog.conversations.of(incoming.owner):
            about = read_conversation(row.body)
            if metadata is None or matches(msgspec.json.decode(encode(about.metadata)), metadata):
                found.append(row)
        return Json(encode(await self._list(incoming, found[first:last])))

    async def _list(self, incoming: Incoming, rows: Sequence[ConversationRow]) -> list[dict[str, Any]]:
        """Runs are read where it is not noted yet which agent the last one leaves its conversation with."""
        conversations, owner = self._catalog.conversations, incoming.owner
        agents = await conversations.agents(owner)
        shown: list[dict[str, Any]] = []
        noted: list[tuple[str, str, str]] = []
        for row in rows:
            about = read_conversation(row.body)
            if about.agent_id is not None and (agent := agents.get(row.id)) is not None:
                about = with_agent(about, agent)
            elif about.agent_id is not None and (newest := await conversations.last_runs(owner, row.id)):
                end = await self._end(owner, row.id)
                about = agent_after(about, end.last)
                if about.agent_id is not None and not end.busy and end.runs:
                    noted.append((row.id, newest[0][1].run, about.agent_id))
            shown.append(write_conversation(row.id, about, row.created, row.updated))
        if noted:
            with suppress(StoreError):  # a full disk keeps no client from reading: the next list looks again
                await conversations.note_agents(noted)
        return shown

    async def _conversation_object(self, incoming: Incoming, row: ConversationRow) -> dict[str, Any]:
        about = read_conversation(row.body)
        if about.agent_id is not None:
            about = agent_after(about, (await self._end(incoming.owner, row.id)).last)
        return write_conversation(row.id, about, row.created, row.updated)

    async def get(self, incoming: Incoming) -> ASGIApp:
        """With stream=true, its last answer. Of one that runs in the background, how that stands."""
        row = await self._row(incoming)
        last = await self._last_events(incoming.owner, row.id)
        if last and (newest := rebuild(last)).id != (first := first_leg(newest)):
            last = await self._answering.runs.read(first, incoming.owner)
        if Asks(incoming).flag("stream"):
            if not last:
                raise NotFound(f"the conversation '{row.id}' has no answer to follow", code="run_not_found")
            return await follow_answer(self._answering.runs, incoming, ConversationAnswer, [last])
        shown = await self._conversation_object(incoming, row)
        run = rebuild((await read_chain(self._answering.runs, last, incoming.owner))[-1]) if last else None
        if run is not None and run.start.outlives:
            position = (
                None if run.ended is not None else await self._answering.background.position(run.id, incoming.owner)
            )
            shown |= standing([run], position)
        return Json(encode(shown))

    async def delete(self, incoming: Incoming) -> ASGIApp:
        row = await self._row(incoming)
        await self._catalog.conversations.delete(incoming.owner, row.id)
        await self._catalog.approved_tools.forget(incoming.owner, row.id)
        await self._catalog.marks.forget(incoming.owner, of_session(row.id))
        return NoContent()

    async def history(self, incoming: Incoming) -> ASGIApp:
        row = await self._row(incoming)
        entries = (
            await self._history(incoming, row, await self._catalog.conversations.runs(incoming.owner, row.id))
        ).entries
        return Json(encode({"object": "conversation.history", "conversation_id": row.id, "entries": entries}))

    async def messages(self, incoming: Incoming) -> ASGIApp:
        row = await self._row(incoming)
        entries = (
            await self._history(incoming, row, await self._catalog.conversations.runs(incoming.owner, row.id))
        ).entries
        found = [entry for entry in entries if entry["type"] in ("message.input", "message.output")]
        return Json(encode({"object": "conversation.messages", "conversation_id": row.id, "messages": found}))


class _Place(Struct, frozen=True):
    """An answer is found where its conversation is."""

    conversation: str

    def location(self, run: str) -> Header:
        return b"location", f"/v1/conversations/{self.conversation}".encode()

    def later(self, writer: ConversationAnswer, runs: Sequence[Run], position: int | None) -> bytes:
        return unfinished_body(writer, runs, position)


def _busy(conversation_id: str) -> Busy:
    return Busy(
        f"another request is being answered in the conversation '{conversation_id}'; wait for it",
        code="conversation_busy",
    )


def _claim_of(conversation_id: str) -> str:
    return f"conversation {conversation_id}"


# ---- reading ----------------------------------------------------------------------------------------------------------


def _must_be_there(history: History, row: ConversationRow) -> History:
    if history.lost:
        raise NotFound(
            f"what was said in the conversation '{row.id}' is not kept any more; start another one",
            param="conversation_id",
            code="conversation_gone",
        )
    return history
