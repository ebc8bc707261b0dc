"""A file that runs as a tool of another: within what its parent has left, cancelled with it, and told apart in spans."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.prompty.child_files import script, write
from tests.prompty.child_results import CHILD_INPUTS, RESEARCH, heard
from tests.trace.spying import Spy

from ronda import Cancel, invoke_agent, invoke_agent_async
from ronda.core.events import RunStarted
from ronda.core.parts import ToolResult, Usage, user
from ronda.errors import LimitExceeded, RunCancelled
from ronda.journal.memory import MemoryJournal
from ronda.prompty import load, to_dict
from ronda.prompty.errors import BadPrompty
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.trace import Tracer

# ---- limits --------------------------------------------------------------------------------------------------------

pytestmark = pytest.mark.usefixtures("nothing_left")


def endless(name: str) -> ScriptedModel:
    """Asks for `look_up` for ever."""
    return script(name, *[calls(Call("look_up", {"q": str(n)})) for n in range(50)])


LOOK_UP = "tools: [{name: look_up, kind: function, parameters: {q: string}}]"


def test_a_child_gets_no_more_rounds_than_its_parent_has_left(tmp_path: Path) -> None:
    parent = script("parent", calls("look_up", q="a"), calls("research", q="x"), says("done"))
    child = endless("child")
    write(tmp_path, "child.prompty", "child", LOOK_UP)
    tools = f"{LOOK_UP[:-1]}, {{name: research, kind: prompty, path: child.prompty, mode: agentic}}]"
    top = write(tmp_path, "parent.prompty", "parent", tools)

    assert invoke_agent(top, {"q": "go"}, {"look_up": lambda q: q}, max_iterations=4) == "done"

    assert len(child.heard) == 3  # of four rounds one was over
    text = "Error: the agent 'child' has no answer: Agent loop exceeded 3 iterations"
    assert heard(parent, 2) == [ToolResult("call_1_0", text, failed=True)]


def test_what_a_child_used_counts_as_its_parent_s(tmp_path: Path) -> None:
    script("parent", calls("research", q="x"), calls("look_up", q="a"), says("never"))
    child = endless("child")
    write(tmp_path, "child.prompty", "child", LOOK_UP)
    tools = f"{LOOK_UP[:-1]}, {{name: research, kind: prompty, path: child.prompty, mode: agentic}}]"
    top = write(tmp_path, "parent.prompty", "parent", tools)

    with pytest.raises(LimitExceeded, match="exceeded 4 tool calls"):
        invoke_agent(top, {"q": "go"}, {"look_up": lambda q: q}, max_tool_calls=4)
    assert len(child.heard) == 4  # three calls of its own: the fourth was asked for in vain


def test_a_child_gets_no_more_tokens_than_its_parent_has_left(tmp_path: Path) -> None:
    parent = script("parent", calls("research", q="x"), calls("research", q="y"), says("never"))
    child = endless("child")
    write(tmp_path, "child.prompty", "child", LOOK_UP)
    top = write(tmp_path, "parent.prompty", "parent", RESEARCH)

    # Every answer of a scripted model is 15 tokens: one for the parent, three for the child, and the limit is reached.
    with pytest.raises(LimitExceeded, match="exceeded 60 tokens"):
        invoke_agent(top, {"q": "go"}, {"look_up": lambda q: q}, max_tokens=60)
    assert (len(child.heard), len(parent.heard)) == (3, 2)


def test_children_side_by_side_share_what_is_left(tmp_path: Path) -> None:
    parent = script("parent", calls("one", "two", q="x"), says("done"))
    first, second = endless("first"), endless("second")
    write(tmp_path, "first.prompty", "first", LOOK_UP)
    write(tmp_path, "second.prompty", "second", LOOK_UP)
    tools = (
        "tools: [{name: one, kind: prompty, path: first.prompty, mode: agentic},"
        " {name: two, kind: prompty, path: second.prompty, mode: agentic}]"
    )
    top = write(tmp_path, "parent.prompty", "parent", tools)

    assert invoke_agent(top, {"q": "go"}, {"look_up": lambda q: q}, max_tool_calls=6) == "done"
    # Two calls of the parent's leave four: two for each child, which ask for a third in vain.
    assert (len(first.heard), len(second.heard)) == (3, 3)
    assert [result.failed for result in heard(parent)] == [True, True]


def test_a_child_ends_when_its_parent_is_out_of_time(tmp_path: Path) -> None:
    script("parent", calls("research", q="x"), says("never"))
    child = script("child", calls("wait", q="x"), says("never"))
    ended = []

    async def wait(q: str) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(q)
        return "never"

    write(tmp_path, "child.prompty", "child", LOOK_UP.replace("look_up", "wait"))
    top = write(tmp_path, "parent.prompty", "parent", RESEARCH)

    with pytest.raises(LimitExceeded, match=r"longer than its 1 seconds"):
        invoke_agent(top, {"q": "go"}, [wait], max_seconds=1)
    assert (ended, len(child.heard)) == (["x"], 1)


# ---- one with the parent, and apart from it ------------------------------------------------------------------------


async def test_cancelling_the_parent_cancels_the_child(tmp_path: Path) -> None:
    script("parent", calls("research", q="x"), says("never"))
    child = script("child", calls("wait", q="x"), says("never"))
    cancel = Cancel()
    ended = []

    async def wait(q: str) -> str:
        cancel.cancel()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(q)
        return "never"

    write(tmp_path, "child.prompty", "child", LOOK_UP.replace("look_up", "wait"))
    top = write(tmp_path, "parent.prompty", "parent", RESEARCH)

    journal = MemoryJournal()
    with pytest.raises(RunCancelled):
        await invoke_agent_async(top, {"q": "go"}, [wait], cancel=cancel, journal=journal)
    assert (ended, len(child.heard)) == (["x"], 1)
    ends = [(await journal.read(run))[-1] for run in journal._runs]
    assert [getattr(end, "reason", None) for end in ends] == ["cancelled", "cancelled"]


async def test_a_child_is_a_run_of_its_own_that_knows_its_parent(tmp_path: Path) -> None:
    script("parent", calls("research", q="x"), says("done"))
    script("child", says("found"))
    write(tmp_path, "child.prompty", "child")
    top = write(tmp_path, "parent.prompty", "parent", RESEARCH)
    journal = MemoryJournal()

    await invoke_agent_async(top, {"q": "go"}, journal=journal, session="s1")

    first, second = [await journal.read(run) for run in journal._runs]
    assert isinstance(first[0], RunStarted)
    assert isinstance(second[0], RunStarted)
    assert second[0].parent == (first[0].run, 4)  # started, model started and finished, tool started
    assert (first[0].session, second[0].session) == ("s1", "s1")


async def test_the_parent_s_usage_includes_its_children_s(tmp_path: Path) -> None:
    script("parent", calls("research", q="x"), says("done"))
    script("child", says("found", usage=Usage(100, 20)))
    write(tmp_path, "child.prompty", "child")
    journal = MemoryJournal()

    await invoke_agent_async(write(tmp_path, "parent.prompty", "parent", RESEARCH), {"q": "go"}, journal=journal)

    from ronda.core.run import rebuild

    run = rebuild(await journal.read(next(iter(journal._runs))))
    assert run.usage == Usage(120, 30)


def test_steering_never_reaches_a_child(tmp_path: Path) -> None:
    from ronda.core.steering import Steering

    steering = Steering()
    parent = script("parent", calls("research", q="x"), says("done"))
    child = script("child", calls("look_up", q="x"), says("found"))

    def look_up(q: str) -> str:
        steering.send("hurry")
        return q

    write(tmp_path, "child.prompty", "child", LOOK_UP)
    invoke_agent(
        write(tmp_path, "parent.prompty", "parent", RESEARCH), {"q": "go"}, {"look_up": look_up}, steering=steering
    )

    assert user("hurry") not in child.heard[1]
    assert user("hurry") in parent.heard[1]


# ---- spans ---------------------------------------------------------------------------------------------------------


async def test_the_spans_of_a_parent_with_two_children_are_these(tmp_path: Path) -> None:
    spy = Spy()
    Tracer.add("spy", spy)
    script(
        "parent",
        calls(Call("sum_up", {"q": "x"}), Call("research", {"q": "y"}), Call("look_up", {"q": "z"})),
        calls("look_up", q="again"),
        says("done"),
    )
    script("summary", says("short"))
    script("research", calls(Call("look_up", {"q": "1"}), Call("look_up", {"q": "2"})), says("found"))
    write(tmp_path, "summary.prompty", "summary")
    write(tmp_path, "research.prompty", "research", LOOK_UP)
    tools = (
        f"{LOOK_UP[:-1]}, {{name: sum_up, kind: prompty, path: summary.prompty, mode: single}},"
        " {name: research, kind: prompty, path: research.prompty, mode: agentic}]"
    )
    top = write(tmp_path, "parent.prompty", "parent", tools)

    await invoke_agent_async(top, {"q": "go"}, {"look_up": lambda q: f"<{q}>"})

    prepare = ("prepare", ["render", "parse"])
    single: Any = ("execute_tool", [prepare, ("run", ["execute", "process"])])
    agentic: Any = (
        "execute_tool",
        [("invoke_agent", [prepare, "execute", "execute_tool", "execute_tool", "execute", "process"])],
    )
    assert spy.tree() == [
        (
            "invoke_agent",
            [
                "load",
                prepare,
                "load",
                "load",
                "execute",
                single,
                agentic,
                "execute_tool",
                "execute",
                "execute_tool",
                "execute",
                "process",
            ],
        )
    ]
    assert spy.open == 0
    assert [said["inputs"]["name"] for said in spy.told("execute_tool")] == [
        "sum_up",
        "research",
        "look_up",
        "look_up",
        "look_up",
        "look_up",
    ]
    assert [said["result"] for said in spy.told("execute_tool")] == ["short", "found", "<z>", "<1>", "<2>", "<again>"]


def test_a_file_names_the_agents_beside_it(tmp_path: Path) -> None:
    boss = script("boss", calls("clerk", input="How much?"), calls("summer", q="long"), says("done"))
    script("clerk", says("Twelve."))
    script("summer", says("Short."))
    write(tmp_path, "clerk.prompty", "clerk", body="system:\nYou know prices.\n")
    write(tmp_path, "summer.prompty", "summer", CHILD_INPUTS)
    path = write(tmp_path, "boss.prompty", "boss", "agents: [clerk, summer]", body="user:\ngo\n")

    assert invoke_agent(path) == "done"
    assert [result.content for result in heard(boss)] == ["Twelve."]
    assert [result.content for result in heard(boss, 2)] == ["Short."]
    assert "agents" not in to_dict(load(tmp_path / "clerk.prompty"))


@pytest.mark.parametrize("name", ["nobody", "../elsewhere/other", "boss\\0"])
def test_an_agent_that_is_not_there_is_named_before_a_model_is_called(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere", "other.prompty", "other")
    model = script("boss", says("never"))
    path = write(tmp_path / "here", "boss.prompty", "boss", f'agents: ["{name}"]', body="user:\ngo\n")

    with pytest.raises(BadPrompty):
        invoke_agent(path)
    assert model.heard == []
