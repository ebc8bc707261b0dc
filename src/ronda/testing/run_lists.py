"""What every journal promises of its lists of runs. Part of `ronda.testing.journals`, whose classes are the ones to run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from msgspec import Raw

from ronda.core.events import (
    Asked,
    EndReason,
    ModelFinished,
    ModelStarted,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
    Warned,
)
from ronda.core.parts import AssistantTurn, Text, ToolResult, Usage, user
from ronda.core.plan import Plan, ToolSpec
from ronda.journal import Journal, OpenQuestion, RunPage, RunQuery, RunQuestions, RunState, RunStep, UnfinishedRun
from ronda.journal.tally import Beginning, Figures


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

    async def test_30b_a_run_is_marked_by_its_owner(self) -> None:
        async with self.opened() as journal:
            for name in ("a", "b"):
                journal.append(name, [_start(name)])
            assert await journal.mark_kept("a", "ann", kept=True)
            assert not await journal.mark_kept("b", "bob", kept=True)
            assert not await journal.mark_kept("c", "ann", kept=True)
            assert _names(await journal.list_runs(RunQuery("ann", kept=True))) == ["a"]
            assert _names(await journal.list_runs(RunQuery("ann", kept=False))) == ["b"]
            assert [one.kept for one in (await journal.list_runs(RunQuery("ann"))).runs] == [False, True]
            journal.append("a", [RunFinished("stop")])
            assert _names(await journal.list_runs(RunQuery("ann", kept=True))) == ["a"]
            assert await journal.mark_kept("a", "ann", kept=False)
            assert _names(await journal.list_runs(RunQuery("ann", kept=True))) == []

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
            assert _names(await journal.list_runs(RunQuery("ann", agents=("x",)))) == ["c", "a"]
            assert _names(await journal.list_runs(RunQuery("ann", states=("running",)))) == ["d", "c", "b"]
            assert _names(
                await journal.list_runs(RunQuery("ann", states=("failed",), session="s1", agents=("x",)))
            ) == ["a"]
            assert _names(await journal.list_runs(RunQuery("ann", states=("waiting",)))) == []
            assert _names(await journal.list_runs(RunQuery("ann", names=("a", "c", "other")))) == ["c", "a"]
            assert _names(await journal.list_runs(RunQuery("ann", names=()))) == []
            queued = ("c", "other")
            assert _names(await journal.list_runs(RunQuery("ann", states=("running",), queued=queued))) == ["d", "b"]
            assert _names(await journal.list_runs(RunQuery("ann", states=("queued",), queued=queued))) == ["c"]
            found = await journal.list_runs(RunQuery("ann", states=("queued", "failed"), queued=queued))
            assert [(one.run, one.state) for one in found.runs] == [("c", "queued"), ("a", "failed")]
            [one] = (await journal.list_runs(RunQuery("ann", states=("failed",)))).runs
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
            journal.append("c", [Warned("on it goes, before a reader looks")])
            journal.pause("unknown")
            listed = (await journal.list_runs(RunQuery("ann"))).runs
            assert [(one.run, one.state) for one in listed] == [("c", "running"), ("b", "waiting"), ("a", "waiting")]
            assert _names(await journal.list_runs(RunQuery("ann", states=("waiting",)))) == ["b", "a"]
            journal.append("a", [Warned("on it goes")])
            journal.release("b")  # without a word about it
            assert _names(await journal.list_runs(RunQuery("ann", states=("waiting",)))) == ["b"]
            assert await journal.unfinished_runs() == [UnfinishedRun("b", 1, _start("b"), is_waiting=True)]

    async def test_37_what_runs_ask_is_listed_as_it_was_noted_last(self) -> None:
        one, two = [
            OpenQuestion(Asked(question_id, f"call_{question_id}", tool="t"), ToolSpec("t", kind="mcp"), 3)
            for question_id in "12"
        ]
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

    async def test_53_a_list_tells_what_was_asked_and_what_came_of_it(self) -> None:
        used, of_child = Usage(100, 20, 30, 5, cost=0.25), Usage(7, 3, cost=0.5)
        answer = AssistantTurn((Text("hi"),))
        siblings = Raw(b'["run_a","run_b"]')
        start = RunStarted(
            "a",
            Plan("gpt"),
            (user("before"), user("  What\nis \0 there? " + "x" * 300)),
            1.0,
            parent=("p", 3),
            owner="ann",
            about={"siblings": siblings},
            call="call_0",
        )
        async with self.opened() as journal:
            journal.append("a", [start])
            for number in (0, 1):
                journal.append("a", [ModelStarted(number), ModelFinished(answer, used)])
            journal.append("a", [ToolStarted("c1"), ToolStarted("c1"), ToolStarted("c2")])  # the first was done again
            await journal.barrier("a")
            journal.append("a", [ToolFinished(ToolResult("c1", "x"), usage=of_child, tool_calls=4)])
            journal.append("a", [RunFinished("limit", limit="max_tool_rounds", at=2.0)])
            journal.release("a")
            journal.append("b", [_start("b"), RunFinished("failed", code="model_failed", at=2.0)])
            journal.release("b")
            b, a = (await journal.list_runs(RunQuery("ann"))).runs
            assert a.beginning is not None
            assert len(a.beginning.words) == 160
            assert a.beginning == Beginning("gpt", a.beginning.words, "p", "call_0", "group_a")
            assert a.beginning.words.startswith("What is \0 there? xxx")
            assert a.figures == Figures(2, 6, 207, 43, 60, 10, 1.0, "limit", "max_tool_rounds")
            assert (b.beginning, b.figures) == (
                Beginning("model", "hello"),
                Figures(end="failed", code="model_failed"),
            )

    async def test_54_a_list_tells_of_a_run_that_is_let_go_and_taken_up(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [_start("a")])
            await journal.barrier("a")
            journal.append("a", [ModelStarted(0), ModelFinished(AssistantTurn((Text("x"),)), Usage(1, 2))])
            journal.release("a", waiting=True)
            [one] = (await journal.list_runs(RunQuery("ann"))).runs
            assert one.figures == Figures(1, 0, 1, 2)
            await journal.resume("a")
            journal.append("a", [ModelStarted(1), ModelFinished(AssistantTurn((Text("x"),)), Usage(1, 2))])
            journal.append("a", [RunFinished("stop", at=2.0)])
            journal.release("a")
            [one] = (await journal.list_runs(RunQuery("ann"))).runs
            assert one.figures == Figures(2, 0, 2, 4, end="stop")

    async def test_55_counts_that_no_database_has_room_for_are_cut(self) -> None:
        async with self.opened() as journal:
            journal.append("a", [_start("a"), ModelStarted(0)])
            journal.append("a", [ModelFinished(AssistantTurn((Text("x"),)), Usage(2**62, -5))])
            [one] = (await journal.list_runs(RunQuery("ann"))).runs
            assert one.figures == Figures(1, 0, 2**53, 0)

    async def test_56_a_run_that_waits_within_a_tool_is_listed_as_waiting(self) -> None:
        one = OpenQuestion(Asked("1", "call_1", tool="t", at=3.0))
        async with self.opened() as journal:
            journal.append("a", [_start("a")])
            journal.note_questions("a", (one,), waits=True)
            [listed] = (await journal.list_runs(RunQuery("ann", states=("waiting",)))).runs
            assert listed.questions == (one,)
            journal.note_questions("a", (one,))
            assert _names(await journal.list_runs(RunQuery("ann", states=("running",)))) == ["a"]
            journal.append("a", [RunFinished("cancelled", at=2.0)])
            journal.release("a")
            [listed] = (await journal.list_runs(RunQuery("ann"))).runs
            assert (listed.state, listed.questions) == ("cancelled", ())

    @asynccontextmanager
    async def _some_runs(self) -> AsyncIterator[Journal]:
        """`a` cost money; `c` is a call of it, `d` goes on from it, and `e` from that."""
        async with self.opened() as journal:
            for name, model, words, parent, call in (
                ("a", "gpt", "Weather in Oslo", None, ""),
                ("b", "claude", "ÜBER 100%_of it", None, ""),
                ("c", "gpt", "", ("a", 1), "call_1"),
                ("d", "gpt", "And now?", ("a", 9), ""),
                ("e", "gpt", "And then?", ("d", 9), ""),
            ):
                start = RunStarted(name, Plan(model), (user(words),), 1.0, parent, owner="ann", call=call)
                journal.append(name, [start])
                if name == "a":
                    spent = Usage(1, 1, cost=0.5)
                    journal.append(name, [ModelStarted(0), ModelFinished(AssistantTurn(()), spent)])
                journal.append(name, [RunFinished("stop", at=2.0)])
                journal.release(name)
            theirs = RunStarted("x", Plan("gpt"), (user("Weather"),), 1.0, ("a", 1), owner="bob")
            journal.append("x", [theirs])
            yield journal

    async def test_57_a_list_is_chosen_by_what_runs_are_about(self) -> None:
        async with self._some_runs() as journal:

            async def found(**chosen: object) -> list[str]:
                return _names(await journal.list_runs(RunQuery("ann", **chosen)))  # type: ignore[arg-type]  # below

            assert await found(models=("claude",)) == ["b"]
            assert await found(models=("claude", "gpt"), children=False) == ["e", "d", "b", "a"]
            assert await found(words="weather") == ["a"]
            assert await found(words="100%_") == ["b"]
            assert await found(words="CLAUDE") == ["b"]
            assert await found(words="weather%") == []
            assert await found(words="\0") == []
            assert await found(min_cost=0.5) == ["a"]
            assert await found(min_cost=0.6) == []
            assert await found(parent="a") == ["d", "c"]
            assert await found(parent="") == []
            assert await found(root="a") == ["e", "d", "c", "a"]
            assert await found(root="x") == []
            assert await found(group="") == []

    async def test_58_runs_are_counted_by_state_and_by_time(self) -> None:
        async with self._some_runs() as journal:
            for name in ("f", "g"):
                journal.append(name, [_start(name)])
            listed = (await journal.list_runs(RunQuery("ann"))).runs
            since, until = min(one.started for one in listed), max(one.started for one in listed) + 1
            counts = await journal.count_runs(RunQuery("ann", queued=("g",)), since, until, 4)
            assert counts.states == {"finished": 5, "running": 1, "queued": 1}
            assert sum(sum(piece.values()) for piece in counts.pieces) == 7
            assert len(counts.pieces) == 4
            assert _names(await journal.list_runs(RunQuery("ann", since=since, until=until))) == [*"gfedcba"]
            assert _names(await journal.list_runs(RunQuery("ann", since=until))) == []
            assert _names(await journal.list_runs(RunQuery("ann", until=since))) == []
            later = await journal.count_runs(RunQuery("ann"), until, until + 10, 1)
            assert (later.states, later.pieces) == ({"running": 2}, [{}])  # those without an end
            assert (await journal.count_runs(RunQuery("ann", models=("claude",)), since, until, 1)).pieces == [
                {"finished": 1}
            ]

    async def test_59_runs_of_all_owners_are_listed_and_surveyed(self) -> None:
        async with self._some_runs() as journal:
            for name, code in (("y", "model_failed"), ("z", "model_failed"), ("w", "guardrail")):
                journal.append(name, [_start(name, "bob", agent="x")])
                journal.append(name, [ModelStarted(0), ModelFinished(AssistantTurn(()), Usage(2**52, 3, cost=1e300))])
                journal.append(name, [RunFinished("failed", code=code, at=2.0)])  # type: ignore[arg-type]  # above
                journal.release(name)
            listed = (await journal.list_runs(RunQuery(None))).runs
            assert {(one.run, one.owner) for one in listed} == {
                *[(name, "ann") for name in "abcde"],
                *[(name, "bob") for name in "xyzw"],
            }
            page = await journal.list_runs(RunQuery(None, limit=2))
            assert (_names(page), page.before is not None) == (["w", "z"], True)
            times = [at for one in listed for at in (one.started, one.ended) if at is not None]
            since, until = min(times), max(times) + 1
            counts = await journal.count_runs(RunQuery(None, children=False), since, until, 1)
            assert counts.states == {"finished": 4, "failed": 3, "running": 1}
            survey = await journal.survey_runs(since, until, 1)
            assert survey.steps == [
                RunStep(8, 7, 3, 2**53, 10, 0.5)
            ]  # without the call of another, and with cut figures
            assert [(one.code, one.model, one.agent, one.count) for one in survey.errors] == [
                ("model_failed", "model", "x", 2),
                ("guardrail", "model", "x", 1),
            ]
            assert all(since <= one.last < until for one in survey.errors)
            assert [(one.model, one.runs, one.calls, one.failed) for one in survey.models] == [
                ("gpt", 3, 1, 0),
                ("model", 3, 3, 3),
                ("claude", 1, 0, 0),
            ]
            assert sum(one.cost or 0.0 for one in survey.models) == 0.5
            pieces = (await journal.survey_runs(since, until, 50)).steps
            assert (len(pieces), sum(one.started for one in pieces), sum(one.ended for one in pieces)) == (50, 8, 7)
            later = await journal.survey_runs(until, until + 9, 2)
            assert (later.steps, later.errors, later.models) == ([RunStep(), RunStep()], [], [])
            assert await journal.size() > 0
