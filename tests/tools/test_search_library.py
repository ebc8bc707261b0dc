"""A program's own agent that searches: `web_search`, and `Runner`, each in loops of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ronda import Agent, ChatCompletionRequest, Runner, run_agent, web_search
from ronda.core.parts import ToolTurn
from ronda.errors import BadConfig, BadRequest
from ronda.testing import ScriptedModel, calls, says
from ronda.wire.web.search import EXTRACT, SEARCH


def handbook(folder: Path) -> dict[str, Any]:
    (folder / "tea.md").write_text("# Tea\n\nWater at eighty degrees for green tea.\n")
    (folder / "salt.md").write_text("# Salt\n\nIt comes from the sea.\n")
    return {"folder": str(folder), "address": "https://wiki.example/"}


def found(model: ScriptedModel, at: int = 1) -> Any:
    turn = model.heard[at][-1]
    assert isinstance(turn, ToolTurn)
    return msgspec.json.decode(turn.results[0].content)


def test_an_agent_of_a_program_searches_a_folder(tmp_path: Path) -> None:
    model = ScriptedModel(calls(SEARCH, query="green tea"), says("At eighty degrees [1]."))
    agent = Agent(model, tools=web_search(handbook(tmp_path), options={"search_context_size": "low"}))

    result = run_agent(agent, "How hot?")

    assert result.output == "At eighty degrees [1]."
    assert [(one["number"], one["url"]) for one in found(model)["output"]] == [(1, "https://wiki.example/tea.md")]


def test_numbers_begin_anew_in_each_run(tmp_path: Path) -> None:
    model = ScriptedModel(calls(SEARCH, query="salt"), says("[1]"), calls(SEARCH, query="tea"), says("[1]"))
    agent = Agent(model, tools=web_search(handbook(tmp_path)))

    for _ in range(2):
        run_agent(agent, "go")

    assert [found(model, at)["output"][0]["number"] for at in (1, 3)] == [1, 1]


def test_a_runner_searches_with_a_function_that_awaits_or_with_settings(tmp_path: Path) -> None:
    async def find(query: str) -> list[dict[str, str]]:
        return [{"title": "Tea", "description": "", "url": "tea", "content": query}]

    for options in ({"search_callback": find}, {"search": handbook(tmp_path)}):
        model = ScriptedModel(
            calls(SEARCH, query="green tea"), says("Here [1]."), calls(EXTRACT, url="http://127.0.0.1/"), says("No.")
        )
        runner = Runner(model, enable_search=True, **options)

        for stream in (False, True):
            request = ChatCompletionRequest(messages="How hot?", stream=stream)
            answer = runner.send_chat_completion_request(request)
            if stream:
                progress = [chunk.data for chunk in answer if chunk.type is not None]
                assert progress[-1]["error_code"] == "url_not_allowed"
            else:
                assert answer.choices[0].message.annotations[0]["url_citation"]["title"] == "Tea"


def test_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"options\.search_context_size"):
        web_search(options={"search_context_size": "huge"})
    with pytest.raises(BadConfig, match="is not there"):
        web_search({"folder": str(tmp_path / "none")})
