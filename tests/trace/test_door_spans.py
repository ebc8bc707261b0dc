"""Every door has a span of its name, with the stages of a file inside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.prompty.child_files import script, write
from tests.trace.spying import Spy

from ronda import Prompty, invoke, invoke_agent, load, prepare, run, turn
from ronda.prompty import clear_connections
from ronda.providers.script import calls, says

PREPARE = ("prepare", ["render", "parse"])
TOOLS = "tools: [{name: look_up, kind: function, parameters: {q: {kind: string}}}]"


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield write(tmp_path, "agent.prompty", "model", TOOLS)
    clear_connections()


@pytest.fixture
def agent(path: Path, spy: Spy) -> Prompty:
    return load(path)


def look_up(q: str) -> str:
    return f"<{q}>"


def test_a_turn_has_its_number(spy: Spy, path: Path) -> None:
    script("model", calls("look_up", q="a"), says("done"))

    assert turn(path, {"q": "go"}, [look_up], turn=3) == "done"

    assert spy.tree() == [("turn 3", ["load", PREPARE, "execute", "execute_tool", "execute", "process"])]
    [said] = spy.told("turn 3")
    assert (said["inputs"], said["result"]) == ({"q": "go"}, "done")


def test_a_turn_without_a_number_is_a_turn(spy: Spy, agent: Prompty) -> None:
    script("model", says("done"))
    spy.spans.clear()

    turn(agent, {"q": "go"}, [look_up])

    assert spy.tree() == [("turn", [PREPARE, "execute", "process"])]


def test_the_stages_stand_alone_where_they_are_called_alone(spy: Spy, agent: Prompty) -> None:
    script("model", says("one"), says("two"))
    spy.spans.clear()

    messages = prepare(agent, {"q": "go"})
    assert run(agent, messages) == "one"
    assert invoke(agent, {"q": "go"}) == "two"

    assert spy.tree() == [PREPARE, ("run", ["execute", "process"]), ("invoke", [PREPARE, "execute", "process"])]
    assert spy.told("render")[0]["result"] == "system:\nHelp.\n\nuser:\ngo"
    assert [one["type"] if "type" in one else one["role"] for one in spy.told("parse")[0]["result"]] == [
        "system",
        "user",
    ]


def test_a_stream_ends_with_a_span_of_what_it_showed(spy: Spy, path: Path) -> None:
    script("model", calls("look_up", q="a"), says("three short words"))

    pieces = list(invoke_agent(path, {"q": "go"}, [look_up], stream=True))

    assert "".join(pieces) == "three short words"
    assert [
        name for name in map(str, (one for one, _ in spy.spans)) if name.startswith(("invoke", "exec", "Prompty"))
    ] == [
        "invoke_agent",
        "execute",
        "execute_tool",
        "execute",
        "PromptyStream",
    ]
    assert spy.told("PromptyStream")[0]["result"] == ["three ", "short ", "words"]
    [whole] = spy.named("invoke_agent")
    assert all(one.parent is not None for one in (*spy.named("execute"), *spy.named("PromptyStream")))
    assert {one.parent.id for one in spy.named("execute") if one.parent is not None} == {whole.id}
    assert spy.open == 0
