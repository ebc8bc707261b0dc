"""A prompty file as a tool of another: `single` and `agentic`, within what the parent has left."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from tests.prompty.child_files import script, write
from tests.prompty.child_results import CHILD_INPUTS, RESEARCH, heard
from tests.tools.api_server import serve

from ronda import invoke_agent, invoke_agent_async
from ronda.core.parts import SystemTurn, ToolResult, user
from ronda.prompty import load, to_dict
from ronda.prompty.errors import BadPrompty, PromptyNotFound
from ronda.prompty.registry import register_tool
from ronda.providers.script import calls, says
from ronda.trace import to_dict as traced

pytestmark = pytest.mark.usefixtures("nothing_left")


SUMMARY = "tools: [{name: sum_up, kind: prompty, path: child.prompty, mode: single}]"


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
    # … and is shown only to those that declare it.
    assert [spec.name for spec in child.requests[0].tools] == ["deeper"]


# ---- where files may be --------------------------------------------------------------------------------------------


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


# ---- cycles --------------------------------------------------------------------------------------------------------


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
