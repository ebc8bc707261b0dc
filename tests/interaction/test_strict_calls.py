"""A strict tool, and a model that writes its arguments in every wrong way: nothing invalid runs, nothing valid changes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ronda import Agent, invoke_agent
from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.schema.validate import Validator
from ronda.testing import Call, Line, ScriptedModel, says

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "unit": {"enum": ["celsius", "kelvin"]},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
valid = st.fixed_dictionaries(
    {"city": st.text("abc é", min_size=1, max_size=5), "days": st.integers(1, 9)},
    optional={"unit": st.sampled_from(["celsius", "kelvin"])},
)
anything = st.dictionaries(
    st.sampled_from(["city", "days", "unit", "City", "more"]),
    st.one_of(
        st.none(), st.booleans(), st.integers(-20, 20), st.text("abc1", max_size=3), st.just("CELSIUS"), st.just([1])
    ),
)


def spoilt(text: str, how: str) -> str:
    match how:
        case "fenced":
            return f"```json\n{text}\n```"
        case "comma":
            return text[:-1] + ",}" if len(text) > 2 else text
        case "cut":
            return text[: len(text) // 2]
        case "prose":
            return f"Here you are: {text} I hope it helps."
        case _:
            return text


class Recorder:
    def __init__(self) -> None:
        self.spec = ToolSpec("forecast", "Ask.", parameters=_raw(SCHEMA), strict=True)
        self.ran: list[dict[str, Any]] = []

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        self.ran.append(arguments)
        return ToolOutput(f"done {len(self.ran)}")


def _raw(schema: dict[str, Any]) -> Any:
    from msgspec import Raw
    from msgspec import json as encoder

    return Raw(encoder.encode(schema))


def played(texts: list[str]) -> list[dict[str, Any]]:
    tool = Recorder()
    lines = [Line(calls=(Call("forecast", text, f"c{n}"),)) for n, text in enumerate(texts)]
    # A good call between bad ones, so that the run is not ended for three unreadable ones in a row.
    script = [line for bad in lines for line in (bad, Line(calls=(Call("forecast", {"city": "x", "days": 1}, "ok"),)))]
    model = ScriptedModel(*script, says("done"))
    assert invoke_agent(Agent(model, tools=[tool]), "go", max_iterations=50) == "done"
    return [arguments for arguments in tool.ran if arguments != {"city": "x", "days": 1}]


@given(st.lists(st.tuples(anything, st.sampled_from(["", "fenced", "comma", "cut", "prose"])), max_size=4))
def test_no_call_that_does_not_satisfy_a_strict_schema_is_run(asked: list[tuple[dict[str, Any], str]]) -> None:
    ran = played([spoilt(json.dumps(arguments), how) for arguments, how in asked])

    assert [arguments for arguments in ran if Validator(SCHEMA).problems(arguments)] == []


@given(st.lists(st.tuples(valid, st.sampled_from(["", "fenced", "comma", "prose"])), max_size=4))
def test_every_valid_call_is_run_unchanged(asked: list[tuple[dict[str, Any], str]]) -> None:
    ran = played([spoilt(json.dumps(arguments), how) for arguments, how in asked])

    assert ran == [arguments for arguments, _ in asked if arguments != {"city": "x", "days": 1}]


@given(valid)
def test_a_cut_call_is_never_run(arguments: dict[str, Any]) -> None:
    assert played([spoilt(json.dumps(arguments), "cut")]) == []
