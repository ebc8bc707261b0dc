"""What every catalog promises: one suite for each of its stores. `open` gives a catalog on the test's own store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import Raw
from msgspec.structs import replace

from ronda.core.containers import StoredContainer
from ronda.core.files import FileSource, StoredFile
from ronda.store import Taken
from ronda.store.agents import AgentRow, AliasRow
from ronda.store.catalog import Catalog
from ronda.store.conversations import ConversationRow, RunRow
from ronda.store.files import FileQuota, QuotaExceeded
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
            for owner, id in (("bob", "ag_1"), ("", "ag_1"), ("ann", "ag_2")):
                assert await catalog.agents.find(owner, id) is None

    async def test_nobody_but_its_owner_changes_an_agent(self) -> None:
        async with self.opened() as catalog:
            agents = catalog.agents
            await agents.create("ann", "ag_1", b"1", 10.0)
            await agents.set_alias("ann", "ag_1", "live", 0, 11.0)
            before = await agents.find("ann", "ag_1"), await agents.aliases("ann", "ag_1")
            for owner, id in (("bob", "ag_1"), ("ann", "ag_2")):
                assert await agents.update(owner, id, b"2", True, 20.0) is False
                assert await agents.switch(owner, id, 0, 20.0) is False
                assert await agents.set_alias(owner, id, "live", 0, 20.0) is None
                assert await agents.delete_alias(owner, id, "live") is False
                assert await agents.delete(owner, id) is False
                assert await agents.aliases(owner, id) == []
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
            for id, owner, now in (("ag_3", "ann", 1.0), ("ag_2", "bob", 2.0), ("ag_1", "ann", 3.0)):
                await catalog.agents.create(owner, id, b"{}", now)
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
            with pytest.raises(Taken):
                await catalog.agents.create("ann", "ag_1", b"1", 20.0)


class ConversationsContract(Contract):
    async def test_a_conversation_is_its_owners_alone(self) -> None:
        async with self.opened() as catalog:
            talks = catalog.conversations
            await talks.create("ann", "conv_1", b"{}", 10.0, [RunRow("run_1", 3), RunRow("run_2")])
            assert await talks.find("ann", "conv_1") == ConversationRow("conv_1", 10.0, 10.0, Raw(b"{}"))
            assert await talks.runs("ann", "conv_1") == [RunRow("run_1", 3), RunRow("run_2")]
            for owner, id in (("bob", "conv_1"), ("ann", "conv_2")):
                assert await talks.find(owner, id) is None
                assert await talks.runs(owner, id) == []
                assert await talks.delete(owner, id) is False
                with pytest.raises(Taken):
                    await talks.add_run(owner, id, 2, "run_3", 20.0)
            assert await talks.runs("ann", "conv_1") == [RunRow("run_1", 3), RunRow("run_2")]

    async def test_of_two_that_go_on_from_the_same_place_one_does(self) -> None:
        async with self.opened() as catalog:
            talks = catalog.conversations
            await talks.create("ann", "conv_1", b"{}", 10.0, [RunRow("run_1")])
            await talks.add_run("ann", "conv_1", 1, "run_2", 20.0)
            for place in (0, 1, 3):
                with pytest.raises(Taken):
                    await talks.add_run("ann", "conv_1", place, "run_3", 30.0)
            assert await talks.runs("ann", "conv_1") == [RunRow("run_1"), RunRow("run_2")]
            assert await talks.find("ann", "conv_1") == ConversationRow("conv_1", 10.0, 20.0, Raw(b"{}"))

    async def test_conversations_are_listed_in_the_order_they_were_begun(self) -> None:
        async with self.opened() as catalog:
            for id, owner, now in (("conv_3", "ann", 1.0), ("conv_2", "bob", 2.0), ("conv_1", "ann", 3.0)):
                await catalog.conversations.create(owner, id, b"{}", now)
            assert [row.id for row in await catalog.conversations.of("ann")] == ["conv_3", "conv_1"]

    async def test_a_deleted_conversation_is_gone_with_its_runs(self) -> None:
        async with self.opened() as catalog:
            talks = catalog.conversations
            await talks.create("ann", "conv_1", b"{}", 10.0, [RunRow("run_1")])
            assert await talks.delete("ann", "conv_1") is True
            assert (await talks.find("ann", "conv_1"), await talks.runs("ann", "conv_1")) == (None, [])
            with pytest.raises(Taken):
                await talks.add_run("ann", "conv_1", 1, "run_2", 20.0)
            await talks.create("ann", "conv_1", b"{}", 30.0)
            assert await talks.runs("ann", "conv_1") == []

    async def test_an_id_is_given_once(self) -> None:
        async with self.opened() as catalog:
            await catalog.conversations.create("ann", "conv_1", b"{}", 10.0)
            with pytest.raises(Taken):
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
            claims.release("ann", "x")  # which nobody has
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


def stored(id: str, hash: str = "aa", size: int = 3, session: str = "", expires: float | None = None) -> StoredFile:
    made = FileSource("user_upload")
    return StoredFile(id, f"{id}.txt", size, hash, "text/plain", 10.0, "user_data", made, "txt", True, session, expires)


class FilesContract(Contract):
    async def add(self, catalog: Catalog, owner: str, *files: StoredFile, quota: FileQuota = FileQuota()) -> None:  # noqa: B008 - frozen
        for file in files:
            await catalog.files.add(owner, file, quota, 10.0, lambda: None)

    async def test_a_file_is_found_and_removed_by_its_owner_alone(self) -> None:
        async with self.opened() as catalog:
            files, dropped = catalog.files, list[str]()
            await self.add(catalog, "ann", stored("f1"))
            for owner, id in (("bob", "f1"), ("", "f1"), ("ann", "f2")):
                assert await files.find(owner, id, 11.0) is None
                assert await files.of(owner, 11.0, "f1") == []
                assert await files.remove(owner, id, dropped.append) is False
            assert dropped == []
            assert await files.find("ann", "f1", 11.0) == stored("f1")
            assert await files.remove("ann", "f1", dropped.append) is True
            assert await files.find("ann", "f1", 11.0) is None
            assert dropped == ["aa"]

    async def test_an_id_is_given_once(self) -> None:
        async with self.opened() as catalog:
            await self.add(catalog, "ann", stored("f1"))
            for owner in ("ann", "bob"):
                with pytest.raises(Taken):
                    await self.add(catalog, owner, stored("f1", "bb"))
            assert await catalog.files.find("ann", "f1", 11.0) == stored("f1")

    async def test_bytes_are_dropped_with_the_last_file_that_has_them(self) -> None:
        async with self.opened() as catalog:
            dropped = list[str]()
            await self.add(catalog, "ann", stored("f1"), stored("f2"))
            await self.add(catalog, "bob", stored("f3"))
            for owner, id in (("ann", "f2"), ("bob", "f3")):
                await catalog.files.remove(owner, id, dropped.append)
                assert dropped == []
            await catalog.files.drop_unknown(["aa", "bb"], dropped.append)
            assert dropped == ["bb"]
            await catalog.files.remove("ann", "f1", dropped.append)
            assert dropped == ["bb", "aa"]

    async def test_what_is_refused_is_not_placed(self) -> None:
        async with self.opened() as catalog:
            placed = list[int]()
            await self.add(catalog, "ann", stored("f1", size=5), stored("f2", size=5))
            for quota in (FileQuota(files=2), FileQuota(size=12)):
                with pytest.raises(QuotaExceeded, match="you keep 2 files of 10 bytes together"):
                    await catalog.files.add("ann", stored("f3"), quota, 10.0, lambda: placed.append(1))
                await catalog.files.add("bob", stored(f"b{quota.files}"), quota, 10.0, lambda: placed.append(2))
            assert placed == [2, 2]
            assert [file.id for file in await catalog.files.of("ann", 10.0)] == ["f1", "f2"]

    async def test_a_file_whose_bytes_cannot_be_placed_is_not_there(self) -> None:
        async with self.opened() as catalog:

            def fail() -> None:
                raise OSError("the disk is full")

            with pytest.raises(OSError, match="the disk is full"):
                await catalog.files.add("ann", stored("f1"), FileQuota(), 10.0, fail)
            assert await catalog.files.of("ann", 10.0) == []

    async def test_what_has_expired_is_not_found_counted_or_listed_and_then_removed(self) -> None:
        async with self.opened() as catalog:
            files, dropped = catalog.files, list[str]()
            await self.add(
                catalog, "ann", stored("f1", expires=20.0), stored("f2", "bb", expires=30.0), stored("f3", "cc")
            )
            assert await files.find("ann", "f1", 19.9) is not None
            assert await files.find("ann", "f1", 20.0) is None
            assert [file.id for file in await files.of("ann", 20.0)] == ["f2", "f3"]
            await files.add("ann", stored("f4", "dd"), FileQuota(files=3), 20.0, lambda: None)
            assert await files.remove_expired(25.0, dropped.append) == 1
            assert dropped == ["aa"]

    async def test_files_of_a_session_stay_and_go_together(self) -> None:
        async with self.opened() as catalog:
            files, dropped = catalog.files, list[str]()
            mine = [stored(f"f{n}", f"{n}", session="s", expires=float(n)) for n in (20, 40)]
            others = [stored("g1", "g", session="t", expires=20.0), stored("g2", "h")]
            await self.add(catalog, "ann", *mine, *others)
            await self.add(catalog, "bob", stored("b1", "b", session="s", expires=20.0))
            await files.prolong("ann", "s", 30.0)
            assert await files.of("ann", 10.0, "s") == [replace(mine[0], expires=30.0), mine[1]]
            assert [file.id for file in await files.of("ann", 25.0)] == ["f20", "f40", "g2"]
            assert await files.find("bob", "b1", 25.0) is None
            assert await files.remove_session("ann", "s", dropped.append) == 2
            assert sorted(dropped) == ["20", "40"]
            assert [file.id for file in await files.of("bob", 10.0)] == ["b1"]


class ContainersContract(Contract):
    async def test_a_container_is_its_owners_alone(self) -> None:
        async with self.opened() as catalog:
            containers = catalog.containers
            assert await containers.find("ann", "s") is None
            assert not await containers.delete("ann", "s")
            first, second = StoredContainer("s", "a", 1.0, 1.0), StoredContainer("t", "b", 2.0, 2.0, 20)
            for one in (second, first):
                await containers.put("ann", one)
            await containers.put("bob", StoredContainer("s", "c", 3.0, 3.0))
            assert await containers.of("ann") in ([first, second], [second, first])
            assert await containers.find("ann", "t") == second
            await containers.put("ann", replace(first, active=9.0))
            assert await containers.find("ann", "s") == replace(first, active=9.0)
            assert await containers.delete("ann", "s")
            assert [one.name for one in await containers.of("ann")] == ["b"]
            assert [one.name for one in await containers.of("bob")] == ["c"]
