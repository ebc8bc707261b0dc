"""What every catalog promises.

    class TestMine(CatalogContract, FilesContract, SkillsContract, ContainersContract, SessionsContract):
        async def open(self):
            return MyCatalog(...)

`open` gives a catalog on the test's own store. Here are agents, conversations, keys and claims; files, skills and containers are
in `file_stores`, sessions in `session_stores`, and the queue in `queues`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import Raw

from ronda.store import WriteConflict
from ronda.store.agents import AgentRow, AliasRow
from ronda.store.catalog import Catalog
from ronda.store.conversations import ConversationRow, RunRow
from ronda.store.keys import KeyRow, hash_key, new_key


class Contract(ABC):
    @abstractmethod
    async def open(self) -> Catalog:
        """Empty at first."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Catalog]:
        catalog = await self.open()
        try:
            yield catalog
        finally:
            await catalog.close()


class AgentsContract(Contract):
    async def test_an_agent_is_found_by_its_owner_alone(self) -> None:
        async with self.opened() as catalog:
            await catalog.agents.create("ann", "ag_1", b'{"a":1}', 10.0)
            assert await catalog.agents.find("ann", "ag_1") == AgentRow(
                "ag_1", 0, 0, (0,), False, 10.0, 10.0, Raw(b'{"a":1}')
            )
            for owner, agent_id in (("bob", "ag_1"), ("", "ag_1"), ("ann", "ag_2")):
                assert await catalog.agents.find(owner, agent_id) is None

    async def test_nobody_but_its_owner_changes_an_agent(self) -> None:
        async with self.opened() as catalog:
            agents = catalog.agents
            await agents.create("ann", "ag_1", b"1", 10.0)
            await agents.set_alias("ann", "ag_1", "live", 0, 11.0)
            before = await agents.find("ann", "ag_1"), await agents.aliases("ann", "ag_1")
            for owner, agent_id in (("bob", "ag_1"), ("ann", "ag_2")):
                assert await agents.update(owner, agent_id, b"2", True, 20.0) is False
                assert await agents.switch(owner, agent_id, 0, 20.0) is False
                assert await agents.set_alias(owner, agent_id, "live", 0, 20.0) is None
                assert await agents.delete_alias(owner, agent_id, "live") is False
                assert await agents.delete(owner, agent_id) is False
                assert await agents.aliases(owner, agent_id) == []
            assert (await agents.find("ann", "ag_1"), await agents.aliases("ann", "ag_1")) == before

    async def test_an_update_adds_a_version_and_makes_it_the_current_one(self) -> None:
        async with self.opened() as catalog:
            agents = catalog.agents
            await agents.create("ann", "ag_1", b"0", 10.0)
            assert await agents.update("ann", "ag_1", b"1", True, 20.0) is True
            newest = AgentRow("ag_1", 1, 1, (0, 1), True, 10.0, 20.0, Raw(b"1"))
            oldest = AgentRow("ag_1", 0, 1, (0, 1), True, 10.0, 20.0, Raw(b"0"))
            assert [await agents.find("ann", "ag_1", which) for which in (None, 1, "1", 0, "0")] == [
                newest,
                newest,
                newest,
                oldest,
                oldest,
            ]
            for none in (2, -1, "2", "9" * 5000, "live"):
                assert await agents.find("ann", "ag_1", none) is None

    async def test_an_agent_switches_to_versions_that_it_has(self) -> None:
        async with self.opened() as catalog:
            agents = catalog.agents
            await agents.create("ann", "ag_1", b"0", 10.0)
            await agents.update("ann", "ag_1", b"1", False, 20.0)
            assert await agents.switch("ann", "ag_1", 0, 30.0) is True
            assert await agents.switch("ann", "ag_1", 7, 40.0) is False
            assert await agents.find("ann", "ag_1") == AgentRow("ag_1", 0, 0, (0, 1), False, 10.0, 30.0, Raw(b"0"))

    async def test_an_alias_names_a_version_until_it_is_moved_or_deleted(self) -> None:
        async with self.opened() as catalog:
            agents = catalog.agents
            await agents.create("ann", "ag_1", b"0", 10.0)
            await agents.update("ann", "ag_1", b"1", False, 20.0)
            assert await agents.set_alias("ann", "ag_1", "live", 0, 30.0) == AliasRow("live", 0, 30.0, 30.0)
            assert await agents.set_alias("ann", "ag_1", "next", 1, 31.0) == AliasRow("next", 1, 31.0, 31.0)
            assert await agents.set_alias("ann", "ag_1", "live", 1, 32.0) == AliasRow("live", 1, 30.0, 32.0)
            assert await agents.set_alias("ann", "ag_1", "never", 2, 33.0) is None
            assert await agents.aliases("ann", "ag_1") == [
                AliasRow("live", 1, 30.0, 32.0),
                AliasRow("next", 1, 31.0, 31.0),
            ]
            found = await agents.find("ann", "ag_1", "live")
            assert found is not None
            assert found.body == Raw(b"1")
            assert await agents.delete_alias("ann", "ag_1", "live") is True
            assert await agents.delete_alias("ann", "ag_1", "live") is False
            assert await agents.find("ann", "ag_1", "live") is None

    async def test_agents_are_listed_in_the_order_they_were_made(self) -> None:
        async with self.opened() as catalog:
            for agent_id, owner, now in (("ag_3", "ann", 1.0), ("ag_2", "bob", 2.0), ("ag_1", "ann", 3.0)):
                await catalog.agents.create(owner, agent_id, b"{}", now)
            assert [row.id for row in await catalog.agents.of("ann")] == ["ag_3", "ag_1"]
            assert [row.id for row in await catalog.agents.of("cay")] == []

    async def test_a_deleted_agent_is_gone_with_all_it_had(self) -> None:
        async with self.opened() as catalog:
            agents = catalog.agents
            await agents.create("ann", "ag_1", b"0", 10.0)
            await agents.update("ann", "ag_1", b"1", False, 20.0)
            await agents.set_alias("ann", "ag_1", "live", 0, 30.0)
            assert await agents.delete("ann", "ag_1") is True
            assert await agents.find("ann", "ag_1") is None
            await agents.create("ann", "ag_1", b"new", 40.0)
            assert (await agents.aliases("ann", "ag_1"), await agents.find("ann", "ag_1", 1)) == ([], None)

    async def test_an_id_is_given_once(self) -> None:
        async with self.opened() as catalog:
            await catalog.agents.create("ann", "ag_1", b"0", 10.0)
            with pytest.raises(WriteConflict):
                await catalog.agents.create("ann", "ag_1", b"1", 20.0)


class ConversationsContract(Contract):
    async def test_a_conversation_is_its_owners_alone(self) -> None:
        async with self.opened() as catalog:
            talks = catalog.conversations
            await talks.create("ann", "conv_1", b"{}", 10.0, [RunRow("run_1", 3), RunRow("run_2")])
            assert await talks.find("ann", "conv_1") == ConversationRow("conv_1", 10.0, 10.0, Raw(b"{}"))
            assert await talks.runs("ann", "conv_1") == [RunRow("run_1", 3), RunRow("run_2")]
            for owner, conversation_id in (("bob", "conv_1"), ("ann", "conv_2")):
                assert await talks.find(owner, conversation_id) is None
                assert await talks.runs(owner, conversation_id) == []
                assert await talks.delete(owner, conversation_id) is False
                with pytest.raises(WriteConflict):
                    await talks.add_run(owner, conversation_id, 2, "run_3", 20.0)
            assert await talks.runs("ann", "conv_1") == [RunRow("run_1", 3), RunRow("run_2")]

    async def test_of_two_that_go_on_from_the_same_place_one_does(self) -> None:
        async with self.opened() as catalog:
            talks = catalog.conversations
            await talks.create("ann", "conv_1", b"{}", 10.0, [RunRow("run_1")])
            await talks.add_run("ann", "conv_1", 1, "run_2", 20.0)
            for place in (0, 1, 3):
                with pytest.raises(WriteConflict):
                    await talks.add_run("ann", "conv_1", place, "run_3", 30.0)
            assert await talks.runs("ann", "conv_1") == [RunRow("run_1"), RunRow("run_2")]
            assert await talks.find("ann", "conv_1") == ConversationRow("conv_1", 10.0, 20.0, Raw(b"{}"))

    async def test_conversations_are_listed_in_the_order_they_were_begun(self) -> None:
        async with self.opened() as catalog:
            for conversation_id, owner, now in (("conv_3", "ann", 1.0), ("conv_2", "bob", 2.0), ("conv_1", "ann", 3.0)):
                await catalog.conversations.create(owner, conversation_id, b"{}", now)
            assert [row.id for row in await catalog.conversations.of("ann")] == ["conv_3", "conv_1"]

    async def test_the_agent_of_a_conversation_is_known_until_its_next_run(self) -> None:
        async with self.opened() as catalog:
            talks = catalog.conversations
            assert await talks.agents("ann") == {}
            for owner, run_id in (("ann", "conv_1"), ("ann", "conv_2"), ("bob", "conv_3")):
                await talks.create(owner, run_id, b"{}", 10.0, [RunRow("r0"), RunRow("r1")])
            await talks.note_agents([("conv_1", "r1", "ag_1"), ("conv_2", "r0", "ag_1"), ("conv_3", "r1", "ag_3")])
            assert (await talks.agents("ann"), await talks.agents("bob")) == ({"conv_1": "ag_1"}, {"conv_3": "ag_3"})
            await talks.note_agents([("conv_1", "r1", "ag_2"), ("nothing", "r1", "ag_2")])
            assert await talks.agents("ann") == {"conv_1": "ag_2"}
            await talks.add_run("ann", "conv_1", 2, "r2", 20.0)
            assert await talks.agents("ann") == {}
            await talks.delete("bob", "conv_3")
            assert await talks.agents("bob") == {}

    async def test_a_deleted_conversation_is_gone_with_its_runs(self) -> None:
        async with self.opened() as catalog:
            talks = catalog.conversations
            await talks.create("ann", "conv_1", b"{}", 10.0, [RunRow("run_1")])
            assert await talks.delete("ann", "conv_1") is True
            assert (await talks.find("ann", "conv_1"), await talks.runs("ann", "conv_1")) == (None, [])
            with pytest.raises(WriteConflict):
                await talks.add_run("ann", "conv_1", 1, "run_2", 20.0)
            await talks.create("ann", "conv_1", b"{}", 30.0)
            assert await talks.runs("ann", "conv_1") == []

    async def test_an_id_is_given_once(self) -> None:
        async with self.opened() as catalog:
            await catalog.conversations.create("ann", "conv_1", b"{}", 10.0)
            with pytest.raises(WriteConflict):
                await catalog.conversations.create("ann", "conv_1", b"{}", 20.0)


class KeysContract(Contract):
    async def test_keys_are_listed_in_the_order_they_were_made(self) -> None:
        async with self.opened() as catalog:
            assert await catalog.keys.all() == []
            rows = [new_key(owner, now)[1] for owner, now in (("bob", 2.0), ("ann", 1.0), ("bob", 3.0))]
            for row in rows:
                await catalog.keys.add(row)
            assert await catalog.keys.all() == rows

    async def test_a_revoked_key_stays_and_says_since_when(self) -> None:
        async with self.opened() as catalog:
            row = KeyRow("key_1", "ann", hash_key(b"one"), 1.0)
            await catalog.keys.add(row)
            assert await catalog.keys.revoke("key_1", 5.0) is True
            assert await catalog.keys.revoke("key_1", 9.0) is True
            assert await catalog.keys.revoke("key_2", 5.0) is False
            assert await catalog.keys.all() == [KeyRow("key_1", "ann", hash_key(b"one"), 1.0, 5.0)]

    async def test_a_secret_stays_the_same(self) -> None:
        async with self.opened() as catalog:
            seal = await catalog.secret("seal")
            assert len(seal) == 32
            assert await catalog.secret("seal") == seal
            assert await catalog.secret("other") != seal


class ClaimsContract(Contract):
    async def test_what_one_has_claimed_nobody_else_can(self) -> None:
        async with self.opened() as catalog:
            claims = catalog.claims
            assert await claims.claim("ann", "x") is True
            assert await claims.claim("ann", "x") is False
            assert await claims.claim("bob", "x") is True
            assert await claims.claim("ann", "y") is True

    async def test_what_was_let_go_can_be_claimed_again(self) -> None:
        async with self.opened() as catalog:
            claims = catalog.claims
            claims.release("ann", "x")  # which is not claimed
            assert await claims.claim("ann", "x") is True
            claims.release("ann", "x")
            assert await claims.claim("ann", "x") is True

    async def test_names_are_told_apart_however_they_are_put_together(self) -> None:
        async with self.opened() as catalog:
            pairs = [
                ("a", "bc"),
                ("ab", "c"),
                ("", "abc"),
                ("abc", ""),
                ("a", "1:bc"),
                ("a/b", "../c"),
                ("ä\udc80", "\0"),
            ]
            assert [await catalog.claims.claim(*pair) for pair in pairs] == [True] * len(pairs)


class CatalogContract(AgentsContract, ConversationsContract, KeysContract, ClaimsContract):
    """All of these."""


class FeatureTablesContract(Contract):
    """Tables of others beside the catalog's own."""

    FIRST = (("CREATE TABLE spent (owner {text} PRIMARY KEY, cents {big}){by_key}",),)
    SECOND = (*FIRST, ("ALTER TABLE spent ADD COLUMN at {number} DEFAULT 7",))

    async def test_tables_of_others_are_made_and_changed(self) -> None:
        async with self.opened() as catalog:
            catalog.add_tables("budgets", self.SECOND)
            await catalog.write(lambda db: db.execute("INSERT INTO spent (owner, cents) VALUES (?, ?)", ("ann", 3)))
            rows = await catalog.read(lambda db: db.execute("SELECT owner, cents, at FROM spent").fetchall())

        assert [tuple(row) for row in rows] == [("ann", 3, 7.0)]

    async def test_each_has_a_line_of_its_own(self) -> None:
        async with self.opened() as catalog:
            catalog.add_tables("budgets", self.FIRST)
            catalog.add_tables("notices", (("CREATE TABLE notice (id {counted_key}, text {text})",),))
            await catalog.write(lambda db: db.execute("INSERT INTO notice (text) VALUES (?)", ("x",)))
            rows = await catalog.read(lambda db: db.execute("SELECT count(*) FROM spent").fetchall())

        assert rows[0][0] == 0
