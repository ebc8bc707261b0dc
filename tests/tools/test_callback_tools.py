"""A function registered by name alone: called with keywords, or with name and arguments, in a thread or on the loop."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.tools.callback import CallbackTool

CONTEXT = ToolContext("run_1", "s", 0, "c1")
SPEC = ToolSpec("greet")


async def run(function: Any, **arguments: Any) -> ToolOutput:
    return await CallbackTool(SPEC, function).run(arguments, CONTEXT)


async def test_arguments_come_as_keywords() -> None:
    assert await run(lambda name: f"hi {name}", name="ann") == ToolOutput("hi ann")


async def test_an_async_function_is_awaited() -> None:
    async def greet(name: str) -> dict[str, str]:
        return {"hi": name}

    assert await run(greet, name="ann") == ToolOutput('{"hi":"ann"}')


async def test_name_and_arguments_are_given_to_who_asks_for_them() -> None:
    def greet(name: str, args: dict[str, Any]) -> str:
        return f"{name}: {args}"

    def greet_too(name: str, arguments: dict[str, Any]) -> str:
        return f"{name}: {arguments}"

    assert await run(greet, who="ann") == ToolOutput("greet: {'who': 'ann'}")
    assert await run(greet_too, who="ann") == ToolOutput("greet: {'who': 'ann'}")


async def test_a_plain_function_runs_in_a_thread() -> None:
    def where() -> str:
        return "main" if threading.current_thread() is threading.main_thread() else "thread"

    assert await run(where) == ToolOutput("thread")


async def test_what_it_raises_is_raised() -> None:
    def greet() -> str:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        await run(greet)
