"""Agents that clients make: a source of what answers requests, and the addresses to make, change and find them at.

An agent is its owner's only. It names a model of this server and never another: nothing in it widens what the operator
allowed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from starlette.types import ASGIApp

from ronda.core.parts import SystemTurn, Turn
from ronda.errors import BadRequest, NotFound, quote_names
from ronda.server.doors.mistral.endpoint import Asks, matches
from ronda.server.doors.mistral.upstream import Blocked, no_moderation, speaks_mistral, upstream_of, without_hints
from ronda.server.http.incoming import Incoming, Json, NoContent
from ronda.server.services.agents import ServedAgent
from ronda.server.services.models import Models, Target, not_redeclared
from ronda.server.services.runs import new_id
from ronda.server.services.toolbox import Toolbox
from ronda.store.agents import AgentRow, Agents, AliasRow
from ronda.store.values.scopes import Scopes
from ronda.wire.codec.json import encode
from ronda.wire.mistral.agents import AgentBody, keep, read_create, read_stored, read_update, when, write_agent
from ronda.wire.mistral.declarations import raws
from ronda.wire.mistral.server_request import guardrail_level
from ronda.wire.mistral.validation_errors import BODY, refuse
from ronda.wire.shared.capabilities import Need

PREFIX = "ag_"


class StoredAgents:
    """A source of agents: `ID`, or `ID@VERSION`, or `ID@ALIAS`."""

    def __init__(self, rows: Agents, models: Models) -> None:
        self._rows = rows
        self._models = models

    def names(self) -> Iterable[str]:
        return ()  # whose would be listed?

    def names_open_to(self, scopes: Scopes) -> Iterable[str]:
        return ()

    async def find(self, name: str, owner: str) -> ServedAgent | None:
        agent_id, _, version = name.partition("@")
        if not agent_id.startswith(PREFIX):
            return None
        row = await self._rows.find(owner, agent_id, version or None)
        return await self._served(row, owner) if row is not None else None

    async def find_named(self, name: str, owner: str) -> ServedAgent | None:
        """The same by the name that its owner gave it, with `@VERSION` or `@ALIAS` behind it or without."""
        if (found := await self.find(name, owner)) is not None:
            return found
        titles = [(row.id, read_stored(row.body).name) for row in await self._rows.of(owner)]
        by_title, _, version = name.rpartition("@")
        for title, wanted in ((name, ""), (by_title, version)):
            ids = [agent_id for agent_id, one in titles if title and one == title]
            if len(ids) > 1:
                raise BadRequest(
                    f"there are {len(ids)} agents named '{title[:200]}'; name one by its id, such as '{ids[0]}'"
                )
            if ids:
                return await self.find(f"{ids[0]}@{wanted}" if wanted else ids[0], owner)
        return None

    async def _served(self, row: AgentRow, owner: str) -> ServedAgent:
        agent = read_stored(row.body)
        base = await find_model(self._models, agent.model, owner)
        if base is None:
            raise NotFound(
                f"the agent '{row.id}' uses the model '{agent.model[:200]}', which this server does not have; update it",
                param="agent_id",
                code="agent_model_not_found",
            )
        return serve_agent(agent, base, row.id, row.version)


def serve_agent(agent: AgentBody, base: Target, agent_id: str = "", version: int = 0) -> ServedAgent:
    """A model with what an agent brings along."""
    if agent.guardrails and guardrail_level(agent.guardrails) == "always" and not speaks_mistral(base):
        raise Blocked(f"blocked: the agent sets block_on_error, and {no_moderation}", code="guardrail_error")
    options, choice = agent.options()
    extra = {**options.extra, **raws({"guardrails": agent.guardrails or None})}
    options = without_hints(msgspec.structs.replace(options, extra=extra), upstream_of(base.spec)[0])
    declared = agent.declared()
    return ServedAgent(
        name=base.name,
        spec=base.spec,
        provider=base.provider,
        begin=_beginning(base, agent.instructions),
        tools=base.tools,
        declared=(*not_redeclared(base.declared, declared.specs), *declared.specs),
        needs=(*base.needs, *declared.needs),
        choice=choice,
        options=base.options_under(options),
        id=agent_id,
        version=version,
        agent=agent,
    )


def _beginning(base: Target, instructions: str | None) -> Any:
    if not instructions:
        return base.begin
    mine = SystemTurn(instructions)

    def begin(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        return base.begin(turns if turns[:1] == (mine,) else (mine, *turns))

    return begin


async def find_model(models: Models, name: str, owner: str) -> Target | None:
    """A model that agents and conversations may name; none for an agent, which is no model."""
    if name.startswith(PREFIX):
        return None
    try:
        found = await models.find(name, owner)
    except NotFound:
        return None
    return found if found.opener is None else None


# ---- addresses --------------------------------------------------------------------------------------------------------


class AgentsDoor:
    def __init__(
        self,
        agents: Agents,
        models: Models,
        toolbox: Toolbox,
        others: Callable[[Sequence[Need]], Sequence[Need]],
        max_body: int,
    ) -> None:
        self._agents = agents
        self._models = models
        self._toolbox = toolbox
        self._others = others
        self._max_body = max_body

    async def _row(self, incoming: Incoming, version: int | str | None = None) -> AgentRow:
        return await self._find(incoming.owner, incoming.places["agent_id"], version)

    async def _find(self, owner: str, agent_id: str, version: int | str | None = None) -> AgentRow:
        row = await self._agents.find(owner, agent_id, version)
        if row is None:
            raise await self._missing(owner, agent_id, version)
        return row

    async def _missing(self, owner: str, agent_id: str, version: int | str | None = None) -> NotFound:
        known = await self._agents.find(owner, agent_id) is not None
        what = (
            f"the agent '{agent_id[:200]}' has no version '{version}'"
            if known
            else f"the agent '{agent_id[:200]}' does not exist"
        )
        return NotFound(what, param="agent_id", code="agent_not_found")

    async def _check(self, agent: AgentBody, owner: str) -> None:
        if await find_model(self._models, agent.model, owner) is None:
            there_is = quote_names(self._models.names)
            refuse("value_error", (*BODY, "model"), f"this server has no such model; there is {there_is}", agent.model)
        declared = agent.declared()
        self._toolbox.offer(
            declared.specs, 0, needs=self._others(declared.needs)
        )  # says if a name is taken, or something is not here

    async def _check_handoffs(self, handoffs: list[str] | None, owner: str) -> None:
        for index, agent_id in enumerate(handoffs or ()):
            if await self._agents.find(owner, agent_id) is None:
                msg = f"the agent '{agent_id[:200]}' does not exist, so nothing can be handed over to it"
                refuse("value_error", (*BODY, "handoffs", index), msg, agent_id[:200])

    async def create(self, incoming: Incoming) -> ASGIApp:
        agent = await incoming.read(self._max_body, read_create)
        owner = incoming.owner
        await self._check(agent, owner)
        await self._check_handoffs(agent.handoffs, owner)
        agent_id = new_id("ag")
        await self._agents.create(owner, agent_id, keep(agent), time.time())
        return _json(_agent_object(await self._find(owner, agent_id)))

    async def _list_rows(self, incoming: Incoming, asks: Asks) -> list[AgentRow]:
        chat, name, search, agent_id = (
            asks.flag("deployment_chat"),
            asks.text("name"),
            asks.text("search"),
            asks.text("id"),
        )
        sources = asks.texts("sources")
        for source in sources:
            if source not in ("api", "playground", "agent_builder_v1"):
                msg = "Input should be 'api', 'playground' or 'agent_builder_v1'"
                refuse("enum", ("query", "sources"), msg, source)
        if sources and "api" not in sources:
            return []
        metadata = asks.metadata()
        found = []
        for row in await self._agents.of(incoming.owner):
            agent = read_stored(row.body)
            if (
                (chat is None or row.deployment_chat == chat)
                and (name is None or agent.name == name)
                and (search is None or search.lower() in agent.name.lower() or search in row.id)
                and (agent_id is None or row.id == agent_id)
                and (metadata is None or matches(msgspec.json.decode(encode(agent.metadata)), metadata))
            ):
                found.append(row)
        return found

    async def list_agents(self, incoming: Incoming) -> ASGIApp:
        asks = Asks(incoming)
        first, last = asks.page(20)
        return _json([_agent_object(row) for row in (await self._list_rows(incoming, asks))[first:last]])

    async def list_pages(self, incoming: Incoming) -> ASGIApp:
        """The same with a cursor: the last agent of the page before."""
        asks = Asks(incoming)
        size = asks.number("page_size", 20, 1, 1000)
        rows = await self._list_rows(incoming, asks)
        if after := asks.text("page_token"):
            at = next((at for at, row in enumerate(rows) if row.id == after), None)
            if at is None:
                refuse("value_error", ("query", "page_token"), "no page of this list ends there", after)
            rows = rows[at + 1 :]
        more = rows[size - 1].id if len(rows) > size else None
        return _json({"object": "list", "data": [_agent_object(row) for row in rows[:size]], "next_page_token": more})

    async def get(self, incoming: Incoming) -> ASGIApp:
        return _json(_agent_object(await self._row(incoming, Asks(incoming).text("agent_version") or None)))

    async def update(self, incoming: Incoming) -> ASGIApp:
        row = await self._row(incoming)
        before = read_stored(row.body)
        agent, chat = await incoming.read(self._max_body, lambda body: read_update(body, before))
        await self._check(agent, incoming.owner)
        if (
            agent.handoffs is not before.handoffs
        ):  # said anew: who was deleted since must not keep an agent from being changed
            await self._check_handoffs(agent.handoffs, incoming.owner)
        chat = row.deployment_chat if chat is None else chat
        await self._agents.update(incoming.owner, row.id, keep(agent), chat, time.time())
        return _json(_agent_object(await self._row(incoming)))

    async def delete(self, incoming: Incoming) -> ASGIApp:
        if not await self._agents.delete(incoming.owner, incoming.places["agent_id"]):
            raise await self._missing(incoming.owner, incoming.places["agent_id"])
        return NoContent()

    async def switch_version(self, incoming: Incoming) -> ASGIApp:
        version = Asks(incoming).number("version", None)
        owner, agent_id = incoming.owner, incoming.places["agent_id"]
        if not await self._agents.switch(owner, agent_id, version, time.time()):
            raise await self._missing(owner, agent_id, version)
        return _json(_agent_object(await self._row(incoming)))

    async def list_versions(self, incoming: Incoming) -> ASGIApp:
        first, last = Asks(incoming).page(20)
        row = await self._row(incoming)
        return _json([_agent_object(await self._row(incoming, version)) for version in row.versions[first:last]])

    async def get_version(self, incoming: Incoming) -> ASGIApp:
        return _json(_agent_object(await self._row(incoming, incoming.places["version"])))

    async def set_alias(self, incoming: Incoming) -> ASGIApp:
        asks = Asks(incoming)
        alias, version = asks.needed("alias"), asks.number("version", None)
        if not 0 < len(alias) <= 64 or alias.isdecimal() or not alias.isprintable() or "@" in alias:
            msg = "it must be 1 to 64 printable characters, without '@' and not a number"
            refuse("value_error", ("query", "alias"), msg, alias)
        owner, agent_id = incoming.owner, incoming.places["agent_id"]
        row = await self._agents.set_alias(owner, agent_id, alias, version, time.time())
        if row is None:
            raise await self._missing(owner, agent_id, version)
        return _json(_alias(row))

    async def list_aliases(self, incoming: Incoming) -> ASGIApp:
        row = await self._row(incoming)
        return _json([_alias(one) for one in await self._agents.aliases(incoming.owner, row.id)])

    async def delete_alias(self, incoming: Incoming) -> ASGIApp:
        alias = Asks(incoming).needed("alias")
        agent_id = (await self._row(incoming)).id
        if not await self._agents.delete_alias(incoming.owner, agent_id, alias):
            raise NotFound(
                f"the agent '{agent_id}' has no alias '{alias[:100]}'", param="alias", code="alias_not_found"
            )
        return NoContent()


def _agent_object(row: AgentRow) -> dict[str, Any]:
    return write_agent(
        row.id,
        read_stored(row.body),
        version=row.version,
        versions=row.versions,
        created=row.created,
        updated=row.updated,
        deployment_chat=row.deployment_chat,
    )


def _json(value: Any) -> Json:
    return Json(encode(value))


def _alias(row: AliasRow) -> dict[str, Any]:
    return {
        "alias": row.alias,
        "version": row.version,
        "created_at": when(row.created),
        "updated_at": when(row.updated),
    }
