"""A prompty file as a tool of another: `single` and `agentic`, within what the parent has left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.prompty.child_files import script, write
from tests.tools.api_server import serve
from tests.trace.spying import Spy

from ronda import Cancel, invoke_agent, invoke_agent_async
from ronda.core.events import RunStarted
from ronda.core.parts import SystemTurn, ToolResult, ToolTurn, Usage, user
from ronda.errors import LimitExceeded, RunCancelled
from ronda.journal.memory import MemoryJournal
from ronda.prompty import clear_connections, load, to_dict
from ronda.prompty.errors import BadPrompty, PromptyNotFound
from ronda.prompty.registry import clear_tools, register_tool
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.trace import Tracer
from ronda.trace import to_dict as traced


@pytest.fixture(autouse=True)
def nothing_registered() -> Iterator[None]:
    yield
    clear_connections()
    clear_tools()
    Tracer.clear()


def heard(model: ScriptedModel, call: int = 1) -> list[ToolResult]:
    """The results that the model was sent with a call."""
    turn = model.heard[call][-1]
    assert isinstance(turn, ToolTurn)
    return list(turn.results)


SUMMARY = "tools: [{name: sum_up, kind: prompty, path: child.prompty, mode: single}]"
RESEARCH = "tools: [{name: research, kind: prompty, path: child.prompty, mode: agentic}]"
CHILD_INPUTS = "description: Sums a text up.\ninputs:\n  q: {kind: string, required: true, description: The text.}"


def test_a_single_child_answers_with_one_model_call(tmp_path: Path) -> None:
    parent = script("parent", calls("sum_up", q="a long text"), says("done"))
    child = script("child", says("short"))
    write(tmp_path, "child.prompty", "child", CHILD_INPUTS)

    assert invoke_agent(write(tmp_path, "parent.prompty", "parent", SUMMARY), {"q": "go"}) == "done"

    assert heard(parent) == [ToolResult("call_0_0", "short")]
    assert child.heard == [[SystemTurn("Help."), user("a long text")]]
    [spec] = parent.requests[0].tools
    assert (spec.name, spec.description) == ("sum_up", "Sums a text up.")
    assert bytes(spec.parameters) == (
        b'{"type":"object","properties":{"q":{"type":"string","description":"The text."}},"required":["q"]}'
    )


def test_an_agentic_child_runs_its_own_loop_with_its_own_tools(tmp_path: Path) -> None:
    parent = script("parent", calls("research", q="whales"), says("done"))
    child = script("child", calls("look_up", q="whales"), calls("look_up", q="size"), says("they are large"))
    found: list[str] = []

    def look_up(q: str) -> str:
        found.append(q)
        return f"about {q}"

    register_tool("look_up", look_up)
    tools = "tools: [{name: look_up, kind: function, parameters: {q: string}}]"
    write(tmp_path, "child.prompty", "child", tools)

    assert invoke_agent(write(tmp_path, "parent.prompty", "parent", RESEARCH), {"q": "go"}) == "done"

    assert found == ["whales", "size"]
    assert heard(parent) == [ToolResult("call_0_0", "they are large")]
    assert heard(child, 2) == [ToolResult("call_1_0", "about size")]


def test_a_tool_call_of_a_single_child_is_an_error_result(tmp_path: Path) -> None:
    parent = script("parent", calls("sum_up", q="x"), says("done"))
    child = script("child", calls("anything", n=1), says("never said"))
    write(tmp_path, "child.prompty", "child")

    assert invoke_agent(write(tmp_path, "parent.prompty", "parent", SUMMARY), {"q": "go"}) == "done"

    assert len(child.heard) == 1
    text = "Error: the agent 'child' asked for 'anything', but it is run with a single model call"
    assert heard(parent) == [ToolResult("call_0_0", text, failed=True)]


def test_a_single_child_with_tools_of_its_own_runs_none_of_them(tmp_path: Path) -> None:
    parent = script("parent", calls("sum_up", q="x"), says("done"))
    child = script("child", calls("look_up", q="x"), says("never said"))
    register_tool("look_up", lambda q: pytest.fail("nobody runs it"))
    write(
        tmp_path, "child.prompty", "child", "tools: [{name: look_up, kind: function, parameters: {q: {kind: string}}}]"
    )

    assert invoke_agent(write(tmp_path, "parent.prompty", "parent", SUMMARY), {"q": "go"}) == "done"

    assert len(child.heard) == 1
    assert heard(parent)[0].failed


def test_a_single_child_that_answers_in_the_wrong_form_is_not_asked_again(tmp_path: Path) -> None:
    parent = script("parent", calls("sum_up", q="x"), says("done"))
    child = script("child", says("no JSON"), says('{"n": 1}'))
    write(tmp_path, "child.prompty", "child", "outputs: {n: {kind: integer}}")

    assert invoke_agent(write(tmp_path, "parent.prompty", "parent", SUMMARY), {"q": "go"}) == "done"

    assert len(child.heard) == 1
    assert heard(parent) == [ToolResult("call_0_0", "no JSON")]


def test_a_child_s_structured_answer_is_json_for_the_parent(tmp_path: Path) -> None:
    parent = script("parent", calls("sum_up", q="x"), says("done"))
    script("child", says('{"n": 1}'))
    write(tmp_path, "child.prompty", "child", "outputs: {n: {kind: integer}}")

    invoke_agent(write(tmp_path, "parent.prompty", "parent", SUMMARY), {"q": "go"})

    assert heard(parent) == [ToolResult("call_0_0", '{"n":1}')]


async def test_a_child_may_ask_for_an_embedding(tmp_path: Path) -> None:
    async with serve() as api:
        api.answers["/v1/embeddings"] = web.json_response({"data": [{"index": 0, "embedding": [0.5, 1]}]})
        parent = script("parent", calls("sum_up", q="x"), says("done"))
        write(tmp_path, "child.prompty", "unused")
        (tmp_path / "child.prompty").write_text(
            "---\nmodel: {id: e, provider: openai, apiType: embedding,"
            f" connection: {{kind: anonymous, endpoint: '{api.url}/v1'}}}}\n---\n{{{{ q }}}}\n"
        )

        top = write(tmp_path, "parent.prompty", "parent", SUMMARY)
        assert await invoke_agent_async(top, {"q": "go"}) == "done"

    assert heard(parent) == [ToolResult("call_0_0", "[0.5,1]")]


def test_bindings_come_from_the_parent_s_inputs_and_win_over_the_model(tmp_path: Path) -> None:
    parent = script("parent", calls("ask", q="hi", tone="rude"), says("done"))
    child = script("child", says("ok"))
    inputs = "inputs: {q: {kind: string, required: true}, tone: {kind: string, required: true}, size: {kind: string}}"
    write(tmp_path, "child.prompty", "child", inputs, "user:\n{{ tone }} {{ q }}{{ size }}\n")
    tools = "tools: [{name: ask, kind: prompty, path: child.prompty, bindings: {tone: manner, size: nowhere}}]"
    top = write(tmp_path, "parent.prompty", "parent", f"{tools}\ninputs: {{manner: polite, q: go}}")

    invoke_agent(top)

    assert child.heard == [[user("polite hi")]]
    assert bytes(parent.requests[0].tools[0].parameters) == (
        b'{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}'
    )


def test_an_input_with_a_default_need_not_be_given_and_a_thread_is_not_shown(tmp_path: Path) -> None:
    parent = script("parent", calls("sum_up", q="x"), says("done"))
    child = script("child", says("ok"))
    inputs = "inputs: {q: {kind: string, required: true, default: hi}, earlier: {kind: thread}}"
    write(tmp_path, "child.prompty", "child", inputs, "user:\n{{ q }}\n")

    invoke_agent(write(tmp_path, "parent.prompty", "parent", SUMMARY), {"q": "go"})

    assert bytes(parent.requests[0].tools[0].parameters) == b'{"type":"object","properties":{"q":{"type":"string"}}}'
    assert child.heard == [[user("x")]]


def test_a_child_that_fails_is_news_for_the_parent_s_model(tmp_path: Path) -> None:
    parent = script("parent", calls("research", q="x"), says("done"))
    script("child", calls("nothing_like_it"))
    write(tmp_path, "child.prompty", "child")

    assert invoke_agent(write(tmp_path, "parent.prompty", "parent", RESEARCH), {"q": "go"}) == "done"

    text = "Error: the agent 'child' has no answer: Tool not registered: nothing_like_it"
    assert heard(parent) == [ToolResult("call_0_0", text, failed=True)]


def test_what_is_given_to_a_run_also_runs_what_its_children_declare(tmp_path: Path) -> None:
    script("parent", calls("research", q="x"), says("done"))
    child = script("child", calls("deeper", q="y"), says("mid"))
    below = script("below", calls("look_up", q="z"), says("found"))
    tools = "tools: [{name: deeper, kind: prompty, path: below.prompty, mode: agentic}]"
    write(tmp_path, "child.prompty", "child", tools)
    write(tmp_path, "below.prompty", "below", "tools: [{name: look_up, kind: function, parameters: {q: string}}]")
    top = write(tmp_path, "parent.prompty", "parent", RESEARCH)

    assert invoke_agent(top, {"q": "go"}, tools={"look_up": lambda q: f"<{q}>"}) == "done"

    assert heard(below) == [ToolResult("call_0_0", "<z>")]
    # … and is shown to nobody who does not declare it.
    assert [spec.name for spec in child.requests[0].tools] == ["deeper"]


# ---- where files may be ------------------------------------------------------------------------------------------------


def test_a_child_s_path_starts_at_its_parent_s_folder(tmp_path: Path) -> None:
    script("parent", calls("outer", q="x"), says("done"))
    script("child", calls("inner", q="x"), says("mid"))
    script("below", says("deep"))
    write(tmp_path, "a/b/below.prompty", "below")
    write(
        tmp_path,
        "a/child.prompty",
        "child",
        "tools: [{name: inner, kind: prompty, path: b/below.prompty, mode: single}]",
    )
    top = write(
        tmp_path,
        "parent.prompty",
        "parent",
        "tools: [{name: outer, kind: prompty, path: a/child.prompty, mode: agentic}]",
    )

    assert invoke_agent(top, {"q": "go"}) == "done"


def tool_at(path: str) -> str:
    return f"tools: [{{name: t, kind: prompty, path: {path}}}]"


@pytest.mark.parametrize("path", ["../child.prompty", "/etc/passwd", "link.prompty"])
def test_a_child_outside_of_the_folder_is_refused_before_a_model_is_called(tmp_path: Path, path: str) -> None:
    model = script("parent", says("never"))
    (tmp_path / "in").mkdir()
    outside = write(tmp_path, "child.prompty", "parent")
    (tmp_path / "in" / "link.prompty").symlink_to(outside)

    with pytest.raises(BadPrompty, match="resolves outside allowed roots") as refused:
        invoke_agent(write(tmp_path, "in/parent.prompty", "parent", tool_at(path)), {"q": "go"})
    assert (refused.value.field, model.heard) == ("tools.t.path", [])


def test_a_child_that_is_not_there_is_refused_before_a_model_is_called(tmp_path: Path) -> None:
    script("parent", says("never"))

    with pytest.raises(PromptyNotFound, match=r"Referenced file not found: child\.prompty"):
        invoke_agent(write(tmp_path, "parent.prompty", "parent", tool_at("child.prompty")), {"q": "go"})


def test_a_child_that_is_broken_is_refused_with_its_own_name_and_line(tmp_path: Path) -> None:
    script("parent", says("never"))
    (tmp_path / "child.prompty").write_text("---\nname: [\n---\nhi\n")

    with pytest.raises(BadPrompty, match="Invalid frontmatter YAML") as refused:
        invoke_agent(write(tmp_path, "parent.prompty", "parent", tool_at("child.prompty")), {"q": "go"})
    assert refused.value.path == str(tmp_path / "child.prompty")


# ---- cycles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        ({"a": "a"}, "a.prompty → a.prompty"),
        ({"a": "b", "b": "a"}, "a.prompty → b.prompty → a.prompty"),
        ({"a": "b", "b": "c", "c": "b"}, "b.prompty → c.prompty → b.prompty"),
    ],
    ids=["itself", "each other", "further down"],
)
def test_files_that_start_each_other_in_a_circle_are_refused(
    tmp_path: Path, files: dict[str, str], circle: str
) -> None:
    model = script("m", says("never"))
    for name, other in files.items():
        write(tmp_path, f"{name}.prompty", "m", tool_at(f"./{other}.prompty"))

    with pytest.raises(BadPrompty) as refused:
        invoke_agent(tmp_path / "a.prompty", {"q": "go"})

    assert str(refused.value) == f"the tool 't' goes round in a circle: {circle}"
    assert model.heard == []


def test_what_a_file_was_loaded_with_holds_for_the_files_below_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    tool = "tools:\n  - {{name: {0}, kind: prompty, path: {1}, mode: agentic}}\ninputs: {{q: x}}"
    script("outer", calls("middle"), says("outer is done"))
    middle = script("middle-model", calls("inner"), says("middle is done"))
    script("inner-model", says("inner is done"))
    write(shared, "middle.prompty", "'${env:MIDDLE}'", tool.format("inner", "inner.prompty"))
    write(shared, "inner.prompty", "'${env:INNER}'", "inputs: {q: x}")
    path = write(tmp_path / "own", "outer.prompty", "outer", tool.format("middle", shared / "middle.prompty"))

    with pytest.raises(BadPrompty, match="outside allowed roots"):
        invoke_agent(path)
    env = {"MIDDLE": "middle-model", "INNER": "inner-model"}
    prompty = load(path, allowed_file_roots=[shared], env=env)

    assert invoke_agent(prompty) == "outer is done"
    assert [result.content for result in heard(middle)] == ["inner is done"]
    assert "inner-model" not in f"{prompty!r} {traced(prompty)}"
    assert "host" not in to_dict(prompty)
    assert load(path) == prompty


def test_two_tools_may_be_the_same_file(tmp_path: Path) -> None:
    parent = script("parent", calls("one", "two", q="x"), says("done"))
    script("child", says("1"), says("2"))
    write(tmp_path, "child.prompty", "child")
    tools = "tools: [{name: one, kind: prompty, path: child.prompty}, {name: two, kind: prompty, path: child.prompty}]"

    assert invoke_agent(write(tmp_path, "parent.prompty", "parent", tools), {"q": "go"}) == "done"
    assert sorted(result.content for result in heard(parent)) == ["1", "2"]


def test_files_may_not_start_each_other_too_deep(tmp_path: Path) -> None:
    script("m", says("never"))
    for n in range(12):
        write(tmp_path, f"f{n}.prompty", "m", tool_at(f"f{n + 1}.prompty"))
    write(tmp_path, "f12.prompty", "m")

    with pytest.raises(BadPrompty, match=r"8 deep at the most: f0\.prompty → f1\.prompty"):
        invoke_agent(tmp_path / "f0.prompty", {"q": "go"})


# ---- limits ------------------------------------------------------------------------------------------------------------


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


# ---- one with the parent, and apart from it ----------------------------------------------------------------------------


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


# ---- spans -------------------------------------------------------------------------------------------------------------


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
