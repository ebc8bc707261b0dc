"""`ronda run`: one prompt, one answer."""

from __future__ import annotations

import argparse
import asyncio
import sys

from ronda.agent import Agent, stream_agent
from ronda.cli.main import DEFAULT_MODEL
from ronda.core.events import ModelFinished, ModelRetried, TextDelta, ToolFinished, ToolStarted, Warned
from ronda.core.plan import ToolChoice
from ronda.errors import BadConfig, RunEnded


def run(asked: argparse.Namespace) -> int:
    prompt = asked.prompt if asked.prompt is not None else sys.stdin.read()
    if not prompt.strip():
        raise BadConfig("there is nothing to ask; give a prompt, or write it to standard input")
    tools = []
    if asked.tools:
        from ronda.server.toolbox import load_tools

        tools = [tool for path in asked.tools for tool in load_tools(path)[0]]
    agent = Agent(
        model=asked.model or DEFAULT_MODEL,
        base_url=asked.base_url,
        instructions=asked.instructions,
        tools=tools,
        tool_choice=_choice(asked.tool_choice, [tool.spec.name for tool in tools]),
    )
    try:
        asyncio.run(_run(agent, prompt, asked))
    except RunEnded as error:
        print(f"ronda: {error}", file=sys.stderr)
        return 1
    return 0


def _choice(said: str, names: list[str]) -> ToolChoice:
    if said == "required" and not names:
        raise BadConfig("--tool-choice required needs a tool; give a file of them with --tools")
    if said in ("auto", "none", "required"):
        return ToolChoice(said)  # type: ignore[arg-type]  # one of the three, as just seen
    if said not in names:
        raise BadConfig(f"--tool-choice names {said!r}; there is {', '.join(names) or 'no tool'}")
    return ToolChoice("required", (said,), named=True)


async def _run(agent: Agent, prompt: str, asked: argparse.Namespace) -> None:
    options = {} if asked.max_iterations == 10 else {"max_iterations": asked.max_iterations}
    async with stream_agent(agent, prompt, **options) as events:
        names: dict[str, str] = {}
        async for event in events:
            match event:
                case TextDelta(text=text) if asked.stream:
                    print(text, end="", flush=True)
                case ModelFinished(turn=turn):
                    names |= {call.id: call.name for call in turn.calls}
                case ToolStarted(call_id=id):
                    _note(f"[{names.get(id, id)} …]", asked.stream)
                case ToolFinished(result=result):
                    state = "failed" if result.failed else "done"
                    _note(f"[{names.get(result.call_id, result.call_id)} {state}]", asked.stream)
                case ModelRetried(reason=reason, wait=wait):
                    _note(f"[{reason}; trying again in {wait:.0f} s]", asked.stream)
                case Warned(message=message):
                    print(f"ronda: {message}", file=sys.stderr)
                case _:
                    pass
        print() if asked.stream else print(events.result)


def _note(text: str, wanted: bool) -> None:
    if wanted:
        print(text, file=sys.stderr, flush=True)
