"""What every journal promises of its lists of runs. Part of `ronda.testing.journals`, whose classes are the ones to run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager

from ronda.core.events import Asked, EndReason, RunFinished, RunStarted, Warned
from ronda.core.parts import user
from ronda.core.plan import Plan, ToolSpec
from ronda.journal import Journal, OpenQuestion, RunPage, RunQuery, RunQuestions, RunState, UnfinishedRun


def _start(run: str, owner: str = "ann", session: str = "", agent: str = "") -> RunStarted:
    return RunStarted(run, Plan("model"), (user("hello"),), 1.0, session=session, owner=owner, agent=agent)


def _names(page: RunPage) -> list[str]:
    return [one.run for one in page.runs]


class RunListContract(ABC):
    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[Journal]: ...

    async def test_29_an_owners_runs_are_listed_the_newest_first(self) -> None:
        async with self.opened() as journal:
            for name, owner in (("a", "ann"), ("b", "bob"), ("c", "ann"), ("d", "")):
                journal.append(name, [_start(name, owner)])
            assert _names(await journal.list_runs(RunQuery("ann"))) == ["c", "a"]
            assert _names(await journal.list_runs(RunQuery("bob"))) == ["b"]
            assert _names(await journal.list_runs(RunQuery(""))) == ["d"]
            assert await journal.list_runs(RunQuery("cay")) == RunPage([])

    async def test_30_a_list_comes_in_pages_that_leave_nothing_out(self) -> None:
        async with self.opened() as journal:
            for number in range(7):
                journal.append(f"r{number}", [_start(f"r{number}")])
                journal.append(f"x{number}", [_start(f"x{number}", "bob")])
            pages = [await journal.list_runs(RunQuery("ann", limit=3))]
            while (before := pages[-1].before) is not None:
                if len(pages) == 1:
                    journal.append("new", [_start("new")])  # which is on a page that was shown already
                pages.append(await journal.list_runs(RunQuery("ann", limit=3, before=before)))
            assert [_names(page) for page in pages] == [["r6", "r5", "r4"], ["r3", "r2", "r1"], ["r0"]]

    async def test_31_a_page_that_is_just_full_is_the_last(self) -> None:
        async with self.opened() as journal:
            for name in ("a", "b"):
                journal.append(name, [_start(name)])
            assert (await journal.list_runs(RunQuery("ann", limit=2))).before is None
            assert (await journal.list_runs(RunQuery("ann", limit=1))).before is not None

    async def test_32_a_list_says_how_each_run_stands(self) -> None:
        ends: dict[EndReason, RunState] = {
            "stop": "finished",
            "length": "finished",
            "content_filter": "finished",
            "tool_calls": "finished",
            "limit": "finished",
            "failed": "failed",
            "cancelled": "cancelled",
        }
        async with self.opened() as journal:
            journal.append("running", [_start("running")])
            await journal.barrier("running")
            for reason in ends:
                journal.append(reason, [_start(reason)])
                if reason in ("stop", "failed"):
                    await journal.barrier(reason)  # so that its end comes with a later commit
                journal.append(reason, [RunFinished(reason, at=2.0)])
                journal.release(reason)
            page = await journal.list_runs(RunQuery("ann"))
            expected = [
                *reversed([(reason, state, False) for reason, state in ends.items()]),
                ("running", "running", True),
            ]
            assert [(one.run, one.state, one.ended is None) for one in page.runs] == expected

    async def test_33_a_run_waits_from_its_release_until_it_goes_on(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [_start("a")])
            for _ in range(2):  # the second time it was only looked at
                journal.release("a", waiting=True)
                assert [one.state for one in (await journal.list_runs(RunQuery("ann"))).runs] == ["waiting"]
                assert await journal.unfinished_runs() == [UnfinishedRun("a", 1, _start("a"), is_waiting=True)]
                await journal.resume("a")
                journal.release("a")
                assert await journal.unfinished_runs() == [UnfinishedRun("a", 1, _start("a"), is_waiting=True)]
                await journal.resume("a")
            journal.append("a", [Warned("on it goes")])
            assert [one.state for one in (await journal.list_runs(RunQuery("ann"))).runs] == ["running"]
            journal.release("a")
            assert [one.state for one in (await journal.list_runs(RunQuery("ann"))).runs] == ["running"]
            assert await journal.unfinished_runs() == [UnfinishedRun("a", 2, _start("a"))]
            await journal.resume("a")
            journal.release("a", waiting=True)
            await journal.resume("a")
            journal.append("a", [RunFinished("stop", at=2.0)])
            journal.release("a")
            assert [one.state for one in (await journal.list_runs(RunQuery("ann"))).runs] == ["finished"]

    async def test_34_a_list_can_be_of_some_runs_alone(self) -> None:
        async with self.opened() as journal:
            for name, session, agent in (("a", "s1", "x"), ("b", "s1", "y"), ("c", "s2", "x"), ("d", "", "")):
                journal.append(name, [_start(name, session=session, agent=agent)])
            journal.append("a", [RunFinished("failed", at=2.0)])
            journal.release("a")
            journal.append("other", [_start("other", "bob", "s1", "x")])
            assert _names(await journal.list_runs(RunQuery("ann", session="s1"))) == ["b", "a"]
            assert _names(await journal.list_runs(RunQuery("ann", agent="x"))) == ["c", "a"]
            assert _names(await journal.list_runs(RunQuery("ann", state="running"))) == ["d", "c", "b"]
            assert _names(await journal.list_runs(RunQuery("ann", state="failed", session="s1", agent="x"))) == ["a"]
            assert _names(await journal.list_runs(RunQuery("ann", state="waiting"))) == []
            assert _names(await journal.list_runs(RunQuery("ann", among=("a", "c", "other")))) == ["c", "a"]
            assert _names(await journal.list_runs(RunQuery("ann", among=()))) == []
            assert _names(await journal.list_runs(RunQuery("ann", state="running", without=("c", "other")))) == [
                "d",
                "b",
            ]
            [one] = (await journal.list_runs(RunQuery("ann", state="failed"))).runs
            assert (one.run, one.session, one.agent, one.state) == ("a", "s1", "x", "failed")

    async def test_35_a_forgotten_run_is_in_no_list(self) -> None:
        async with self.opened() as journal:
            for name in ("a", "b"):
                journal.append(name, [_start(name)])
                journal.release(name)
            assert await journal.forget("b")
            assert _names(await journal.list_runs(RunQuery("ann"))) == ["a"]

    async def test_36_a_run_that_is_held_waits_until_its_next_event(self) -> None:
        async with self.opened() as journal:
            for name in ("a", "b", "c"):
                journal.append(name, [_start(name)])
            await journal.barrier("a")
            for name in ("a", "b", "c"):
                journal.pause(name)
            journal.append("c", [Warned("on it goes, before anybody looks")])
            journal.pause("nobody")
            listed = (await journal.list_runs(RunQuery("ann"))).runs
            assert [(one.run, one.state) for one in listed] == [("c", "running"), ("b", "waiting"), ("a", "waiting")]
            assert _names(await journal.list_runs(RunQuery("ann", state="waiting"))) == ["b", "a"]
            journal.append("a", [Warned("on it goes")])
            journal.release("b")  # without a word about it
            assert _names(await journal.list_runs(RunQuery("ann", state="waiting"))) == ["b"]
            assert await journal.unfinished_runs() == [UnfinishedRun("b", 1, _start("b"), is_waiting=True)]

    async def test_37_what_runs_ask_is_listed_as_it_was_noted_last(self) -> None:
        one, two = [OpenQuestion(Asked(id, f"call_{id}", tool="t"), ToolSpec("t", kind="mcp"), 3) for id in "12"]
        async with self.opened() as journal:
            for name in ("a", "b", "c", "d", "e"):
                journal.append(name, [_start(name, session=f"s{name}")])
            journal.append("other", [_start("other", "bob")])
            journal.note_questions("a", (one, two))
            await journal.barrier("a")
            journal.note_questions("a", (two,))
            journal.release("a", waiting=True)
            journal.note_questions("b", (one,))  # under way
            journal.note_questions("c", ())
            journal.note_questions("e", (one,))
            journal.append("e", [RunFinished("cancelled", at=2.0)])
            journal.release("e")
            journal.note_questions("other", (one,))
            listed = [RunQuestions("c", "sc", ()), RunQuestions("b", "sb", (one,)), RunQuestions("a", "sa", (two,))]
            assert await journal.open_questions("ann", 9) == listed
            assert await journal.open_questions("ann", 2) == listed[:2]
            await journal.resume("a")
            journal.append("a", [Warned("on it goes")])
            journal.note_questions("a", ())
            assert (await journal.open_questions("ann", 9))[-1] == RunQuestions("a", "sa", ())

    async def test_38_a_run_of_which_nothing_is_noted_is_listed_where_it_may_ask(self) -> None:
        async with self.opened() as journal:
            for name in ("waits", "handed out", "never asked"):
                journal.append(name, [_start(name)])
            journal.release("waits", waiting=True)
            journal.expect("ann", ["call_1"], "handed out")
            found = await journal.open_questions("ann", 9)
            assert found == [RunQuestions("handed out", "", None), RunQuestions("waits", "", None)]
