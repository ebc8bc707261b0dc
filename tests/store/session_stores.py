"""What every catalog promises of sessions. See `catalogs` for how to use it."""

from __future__ import annotations

import asyncio

from msgspec import Raw
from tests.store.catalogs import Contract

from ronda.store.approvals import LIFETIME
from ronda.store.marks import LIFETIME as MARKS_LIFETIME
from ronda.store.values.sessions import ROOT, Bounds, Lease, LeaseAnswer, NewNode, SessionRow


def node(parent: int, upto: int, text: bytes = b"[1,2]", run: str = "", count: int = 2) -> NewNode:
    return NewNode(parent, upto, text, count, 1, run)


class SessionsContract(Contract):
    async def test_a_session_is_its_owners_alone(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            assert await sessions.add("ann", "s", node(ROOT, 0, run="run_1"), 10.0, stood_at=ROOT) == (1, True)
            assert await sessions.find("ann", "s") == SessionRow("s", 10.0, 10.0, 1, 2, 5)
            for owner, name in (("bob", "s"), ("", "s"), ("ann", "t")):
                assert await sessions.find(owner, name) is None
                assert await sessions.path(owner, name, 1) == []
                assert await sessions.tips(owner, name) == []
                assert await sessions.node_of(owner, name, "run_1") is None
                assert await sessions.change(owner, name, 20.0, head=ROOT, labels=Raw(b"[]")) is False
                assert await sessions.delete(owner, name) is False
                assert (await sessions.page(owner, 10)).sessions == [] or owner == "ann"
            assert await sessions.add("bob", "s", node(ROOT, 0, b"[]"), 20.0, stood_at=ROOT) == (1, True)
            assert [one.turns for one in await sessions.path("ann", "s", 1)] == [b"[1,2]"]

    async def test_a_session_grows_node_by_node(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            for at in range(3):
                text = b"[%d]" % at
                assert await sessions.add("ann", "s", node(at, 2 * at, text, f"run_{at}"), 10.0 + at, stood_at=at) == (
                    at + 1,
                    True,
                )
            path = await sessions.path("ann", "s", 3)
            assert [(one.number, one.parent, one.upto, one.turns, one.run, one.created) for one in path] == [
                (1, 0, 0, b"[0]", "run_0", 10.0),
                (2, 1, 2, b"[1]", "run_1", 11.0),
                (3, 2, 4, b"[2]", "run_2", 12.0),
            ]
            assert await sessions.path("ann", "s", 2) == path[:2]
            assert await sessions.path("ann", "s", ROOT) == await sessions.path("ann", "s", 4) == []
            assert await sessions.find("ann", "s") == SessionRow("s", 10.0, 12.0, 3, 6, 9)
            assert await sessions.node_of("ann", "s", "run_1") == 2

    async def test_what_goes_on_from_an_earlier_place_leaves_the_rest_as_a_branch(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            await sessions.add("ann", "s", node(ROOT, 0), 1.0, stood_at=ROOT)
            await sessions.add("ann", "s", node(1, 2), 2.0, stood_at=1)
            assert await sessions.add("ann", "s", node(2, 3, b"[9]", count=1), 3.0, stood_at=2) == (
                3,
                True,
            )  # cuts the second
            assert [(tip.number, tip.ends, tip.turns) for tip in await sessions.tips("ann", "s")] == [
                (2, 4, b""),
                (3, 4, b""),
            ]
            assert [one.number for one in await sessions.path("ann", "s", 3)] == [1, 2, 3]
            assert await sessions.change("ann", "s", 4.0, head=2, labels=None) is True
            found = await sessions.find("ann", "s")
            assert found is not None
            assert (found.head, found.ends, found.updated) == (2, 4, 4.0)
            assert await sessions.change("ann", "s", 5.0, head=4, labels=None) is False

    async def test_of_two_that_go_on_from_the_same_place_the_second_is_a_branch(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            await sessions.add("ann", "s", node(ROOT, 0), 1.0, stood_at=ROOT)
            assert await sessions.add("ann", "s", node(1, 2, b"[2]"), 2.0, stood_at=1) == (2, True)
            assert await sessions.add("ann", "s", node(1, 2, b"[3]"), 3.0, stood_at=1) == (3, False)
            assert await sessions.add("ann", "s", node(2, 4, b"[4]"), 4.0) == (4, False)
            found = await sessions.find("ann", "s")
            assert found is not None
            assert found.head == 2

    async def test_a_run_adds_one_node_however_often_it_says_so(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            assert await sessions.add("ann", "s", node(ROOT, 0, run="run_1"), 1.0, stood_at=ROOT) == (1, True)
            assert await sessions.add("ann", "s", node(ROOT, 0, run="run_1"), 2.0, stood_at=ROOT) == (1, True)
            await sessions.add("ann", "s", node(1, 2, run="run_2"), 3.0, stood_at=1)
            assert await sessions.add("ann", "s", node(ROOT, 0, run="run_1"), 4.0, stood_at=ROOT) == (1, False)
            assert await sessions.add("ann", "s", node(2, 4), 5.0, stood_at=2) == (3, True)  # of no run: each counts
            assert await sessions.add("ann", "s", node(3, 6), 6.0, stood_at=3) == (4, True)
            assert await sessions.add("ann", "t", node(ROOT, 0, run="run_1"), 7.0, stood_at=ROOT) == (1, True)

    async def test_a_session_that_is_replaced_is_the_new_node_alone(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            await sessions.add("ann", "s", node(ROOT, 0), 1.0, stood_at=ROOT)
            await sessions.add("ann", "s", node(1, 2), 2.0, stood_at=1)
            await sessions.replace("ann", "s", node(ROOT, 0, b"[7]", count=1), Raw(b'{"title":"x"}'), 3.0)
            assert await sessions.find("ann", "s") == SessionRow("s", 3.0, 3.0, 1, 1, 3, Raw(b'{"title":"x"}'))
            assert [one.turns for one in await sessions.path("ann", "s", 1)] == [b"[7]"]
            assert len(await sessions.tips("ann", "s")) == 1

    async def test_a_name_is_given_once(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            assert await sessions.create("ann", "s", node(ROOT, 0, b"[1]"), Raw(b"{}"), 1.0) is True
            assert await sessions.create("ann", "s", node(ROOT, 0, b"[2]"), Raw(b"{}"), 2.0) is False
            assert [one.turns for one in await sessions.path("ann", "s", 1)] == [b"[1]"]

    async def test_labels_stay_until_they_are_changed(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            await sessions.add("ann", "s", node(ROOT, 0), 1.0, stood_at=ROOT)
            await sessions.change("ann", "s", 2.0, head=None, labels=Raw(b'{"a":1}'))
            await sessions.add("ann", "s", node(1, 2), 3.0, stood_at=1)
            found = await sessions.find("ann", "s")
            assert found is not None
            assert found.labels == Raw(b'{"a":1}')

    async def test_pages_list_what_was_used_last_first_and_each_session_once(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            for at, name in enumerate("abcde"):
                await sessions.add("ann", name, node(ROOT, 0), float(at // 2), stood_at=ROOT)  # some at the same time
            await sessions.add("bob", "x", node(ROOT, 0), 9.0, stood_at=ROOT)
            await sessions.add("ann", "b", node(1, 2), 7.0, stood_at=1)
            names, before, pages = [], None, 0
            while pages == 0 or before is not None:
                page = await sessions.page("ann", 2, before)
                names += [row.name for row in page.sessions]
                before, pages = page.before, pages + 1
            assert (names, pages) == (["b", "e", "d", "c", "a"], 3)
            assert (await sessions.page("ann", 5)).before is None

    async def test_a_deleted_session_is_gone_with_all_it_had(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            await sessions.add("ann", "s", node(ROOT, 0, run="run_1"), 1.0, stood_at=ROOT)
            assert await sessions.delete("ann", "s") is True
            assert await sessions.delete("ann", "s") is False
            assert (await sessions.find("ann", "s"), await sessions.path("ann", "s", 1)) == (None, [])
            assert await sessions.add("ann", "s", node(ROOT, 0, b"[]", "run_1"), 2.0, stood_at=ROOT) == (1, True)

    async def test_the_longest_unused_are_forgotten_first(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            for at, name in enumerate("abcdef"):
                await sessions.add("ann", name, node(ROOT, 0, b"x" * 10), float(at), stood_at=ROOT)

            async def names() -> str:
                return "".join(sorted([row.name for row in (await sessions.page("ann", 10)).sessions]))

            assert await sessions.prune(Bounds(), 100.0) == 0
            assert await sessions.prune(Bounds(max_age=96.0), 100.0) == 4
            assert await names() == "ef"
            for at, name in enumerate("abcd"):
                await sessions.add("ann", name, node(ROOT, 0, b"x" * 10), 10.0 + at, stood_at=ROOT)
            assert await sessions.prune(Bounds(max_count=4), 100.0) == 2
            assert await names() == "abcd"
            assert await sessions.prune(Bounds(max_bytes=25), 100.0) == 2
            assert await names() == "cd"

    async def test_one_owner_does_not_erase_the_sessions_of_another(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            await sessions.add("ann", "old", node(ROOT, 0, b"x" * 40), 1.0, stood_at=ROOT)
            for at in range(20):
                await sessions.add("bob", f"s{at:02}", node(ROOT, 0, b"x" * 10), 10.0 + at, stood_at=ROOT)

            async def counts() -> tuple[int, int]:
                pages = [await sessions.page(owner, 100) for owner in ("ann", "bob")]
                return len(pages[0].sessions), len(pages[1].sessions)

            await sessions.prune(Bounds(max_bytes=100), 100.0)
            assert await counts() == (1, 6)
            await sessions.prune(Bounds(max_count=4), 100.0)
            assert await counts() == (1, 3)
            await sessions.prune(Bounds(owner_count=2), 100.0)
            assert await counts() == (1, 2)
            await sessions.prune(Bounds(owner_bytes=15), 100.0)
            assert await counts() == (0, 1)  # each by its own bound

    async def test_a_clock_that_is_ahead_makes_nothing_old_at_once(self) -> None:
        day, now = 86400.0, 1_000_000_000.0
        async with self.opened() as catalog:
            sessions, month = catalog.sessions, Bounds(max_age=30 * day)
            for at in range(100):
                await sessions.add("ann", f"s{at:03}", node(ROOT, 0), now - at * day / 4, stood_at=ROOT)
            assert await sessions.prune(month, now) == 0
            await sessions.add("ann", "new", node(ROOT, 0), now + 40 * day, stood_at=ROOT)  # the clock is wrong
            for _ in range(3):
                assert await sessions.prune(month, now + 40 * day) == 0
            assert await sessions.prune(month, now) == 0  # and right again
            assert len((await sessions.page("ann", 200)).sessions) == 101

    async def test_what_is_really_old_goes_in_the_course_of_a_day(self) -> None:
        day, now = 86400.0, 1_000_000_000.0
        async with self.opened() as catalog:
            sessions, month = catalog.sessions, Bounds(max_age=30 * day)
            await sessions.add("ann", "old", node(ROOT, 0), now, stood_at=ROOT)
            await sessions.prune(month, now)
            passes = 0
            while not await sessions.prune(month, now + 40 * day):
                passes += 1
            assert 100 < passes < 144  # one every ten minutes

    async def test_a_session_somebody_goes_on_with_is_not_forgotten(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            for at in range(120):
                await sessions.add("ann", f"s{at}", node(ROOT, 0), float(at), stood_at=ROOT)
            await sessions.lease("ann", "s0", Lease("p1", "run_1", 1000.0), 1.0)
            assert await sessions.prune(Bounds(max_count=1), 100.0) == 119
            assert await sessions.find("ann", "s0") is not None

    # ---- leases ------------------------------------------------------------------------------------------------------

    async def test_one_at_a_time_has_a_lease(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            first = Lease("p1", "run_1", 20.0)
            assert await sessions.lease("ann", "s", first, 10.0) == LeaseAnswer(True)
            for other in (Lease("p2", "run_2", 30.0), Lease("p1", "run_3", 30.0)):
                assert await sessions.lease("ann", "s", other, 11.0) == LeaseAnswer(False, first)
                await sessions.release("ann", "s", other)  # which has none
            assert await sessions.lease("bob", "s", Lease("p2", "run_2", 30.0), 11.0) == LeaseAnswer(True)
            assert await sessions.lease("ann", "t", Lease("p2", "run_2", 30.0), 11.0) == LeaseAnswer(True)
            await sessions.release("ann", "s", first)
            assert await sessions.lease("ann", "s", Lease("p2", "run_2", 30.0), 12.0) == LeaseAnswer(True)

    async def test_a_lease_ends_with_what_its_run_added(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            first, second = Lease("p1", "run_1", 20.0), Lease("p2", "run_2", 20.0)
            await sessions.lease("ann", "s", first, 10.0)
            await sessions.add("ann", "s", node(ROOT, 0), 11.0, stood_at=ROOT, release=second)  # which has none
            assert not (await sessions.lease("ann", "s", second, 11.0)).is_ours
            await sessions.add("ann", "s", node(1, 2), 12.0, stood_at=1, release=first)
            assert (await sessions.lease("ann", "s", second, 12.0)).is_ours

    async def test_of_many_who_want_a_lease_at_once_one_gets_it(self) -> None:
        async with self.opened() as catalog:
            wanted = [catalog.sessions.lease("ann", "s", Lease("p", f"run_{at}", 20.0), 10.0) for at in range(20)]
            assert sum([answer.is_ours for answer in await asyncio.gather(*wanted)]) == 1

    async def test_a_lease_that_nobody_renews_ends_and_says_whose_it_was(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            first = Lease("p1", "run_1", 20.0)
            await sessions.lease("ann", "s", first, 10.0)
            assert await sessions.lease("ann", "s", Lease("p2", "run_2", 40.0), 20.5) == LeaseAnswer(True, first)
            await sessions.release("ann", "s", first)  # it comes too late
            answer = await sessions.lease("ann", "s", Lease("p3", "run_3", 40.0), 21.0)
            assert answer == LeaseAnswer(False, Lease("p2", "run_2", 40.0))

    async def test_the_lease_of_a_dead_holder_gives_way_at_once(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            first = Lease("p1", "run_1", 20.0)
            await sessions.lease("ann", "s", first, 10.0)
            second = Lease("p2", "run_2", 40.0)
            assert await sessions.lease("ann", "s", second, 11.0, "p3") == LeaseAnswer(False, first)
            assert await sessions.lease("ann", "s", second, 11.0, "p1") == LeaseAnswer(True, first)

    async def test_renewing_renews_all_of_a_holder_and_tells_which_are_to_make_room(self) -> None:
        async with self.opened() as catalog:
            sessions = catalog.sessions
            for holder, name in (("p1", "s"), ("p1", "t"), ("p2", "u")):
                await sessions.lease("ann", name, Lease(holder, f"run_{name}", 20.0), 10.0)
            assert await sessions.renew("p1", 50.0) == []
            await sessions.interrupt("ann", "t")
            await sessions.interrupt("ann", "u")
            await sessions.interrupt("ann", "nothing")
            assert await sessions.renew("p1", 60.0) == [("ann", "t")]
            assert await sessions.lease("ann", "s", Lease("p3", "r", 90.0), 55.0) == LeaseAnswer(
                False, Lease("p1", "run_s", 60.0)
            )
            assert (await sessions.lease("ann", "u", Lease("p3", "r", 90.0), 55.0)).is_ours
            assert await sessions.renew("p3", 95.0) == []  # it was said to the one before

    # ---- what people have approved in one --------------------------------------------------------------------------------

    async def test_what_was_approved_is_found_in_its_session_alone(self) -> None:
        async with self.opened() as catalog:
            approved = catalog.approved_tools
            assert await approved.find("ann", "s", 1.0) == ()
            await approved.add("ann", "s", ["write", "delete"], 10.0)
            await approved.add("ann", "s", ["write"], 11.0)
            assert await approved.find("ann", "s", 12.0) == ("delete", "write")
            for owner, session in (("bob", "s"), ("", "s"), ("ann", "t")):
                assert await approved.find(owner, session, 12.0) == ()
                await approved.forget(owner, session)
            assert await approved.find("ann", "s", 13.0) == ("delete", "write")
            await approved.forget("ann", "s")
            assert await approved.find("ann", "s", 14.0) == ()

    async def test_what_was_approved_holds_for_as_long_as_its_session_is_used(self) -> None:
        async with self.opened() as catalog:
            approved = catalog.approved_tools
            await approved.add("ann", "s", ["write"], 0.0)
            await approved.add("ann", "t", ["write"], 0.0)
            assert await approved.find("ann", "s", LIFETIME) == ("write",)
            assert await approved.find("ann", "s", 1.9 * LIFETIME) == ("write",)
            assert await approved.find("ann", "t", 1.9 * LIFETIME) == ()
            assert await approved.find("ann", "s", 3.0 * LIFETIME) == ()
            await approved.add("bob", "s", ["read"], 3.0 * LIFETIME)
            assert await approved.find("ann", "s", 1.9 * LIFETIME) == ()  # it is gone, not only too old

    async def test_what_may_send_data_out_is_no_tool_and_goes_with_its_session(self) -> None:
        async with self.opened() as catalog:
            approved = catalog.approved_tools
            await approved.sends.add("ann", "s", ["hash"], 10.0)
            assert await approved.sends.find("ann", "s", 11.0) == ("hash",)
            assert await approved.find("ann", "s", 11.0) == ()
            for owner, session in (("bob", "s"), ("ann", "t")):
                assert await approved.sends.find(owner, session, 11.0) == ()
            await approved.forget("ann", "s")
            assert await approved.sends.find("ann", "s", 12.0) == ()

    # ---- what was read in one ---------------------------------------------------------------------------------------------

    async def test_a_mark_is_found_by_its_owner_from_any_of_its_sources(self) -> None:
        async with self.opened() as catalog:
            marks = catalog.marks
            assert await marks.find("ann", ["session:s"], 1.0) == frozenset()
            await marks.add("ann", ["session:s", "run:r"], ["private"], 10.0)
            await marks.add("ann", ["session:s"], ["untrusted"], 11.0)
            assert await marks.find("ann", ["session:s"], 12.0) == {"private", "untrusted"}
            assert await marks.find("ann", ["run:r", "run:other"], 12.0) == {"private"}
            assert await marks.find("ann", [f"run:{at}" for at in range(1_200)] + ["run:r"], 12.0) == {"private"}
            assert await marks.find("bob", ["session:s", "run:r"], 12.0) == frozenset()
            await marks.copy("ann", "session:s", "session:t", 13.0)
            await marks.forget("ann", "session:s")
            assert await marks.find("ann", ["session:s"], 14.0) == frozenset()
            assert await marks.find("ann", ["session:t"], 14.0) == {"private", "untrusted"}

    async def test_a_mark_that_nobody_asks_for_is_forgotten_in_the_end_and_not_by_a_clock_that_is_ahead(self) -> None:
        async with self.opened() as catalog:
            marks, at = catalog.marks, ["session:s"]
            await marks.add("ann", at, ["private"], 0.0)
            await marks.add("ann", ["session:t"], ["private"], 2.0 * MARKS_LIFETIME)  # the clock jumps
            assert await marks.find("ann", at, 0.5 * MARKS_LIFETIME) == {"private"}  # which counts as a use
            await marks.add("ann", ["session:t"], ["private"], 1.4 * MARKS_LIFETIME)
            assert await marks.find("ann", at, 0.5 * MARKS_LIFETIME) == {"private"}
            for now in (2.0, 2.01, 2.02):  # time goes by
                await marks.add("ann", ["session:t"], ["private"], now * MARKS_LIFETIME)
            assert await marks.find("ann", at, 2.0 * MARKS_LIFETIME) == frozenset()
