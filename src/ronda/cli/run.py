"""`ronda run`: one prompt, or one prompty file, and one answer."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from ronda.agent import Agent, Inputs, RunOptions, invoke_agent, stream_agent
from ronda.agent.result import Result
from ronda.cli.approve import TerminalApproval
from ronda.cli.attachments import question_with
from ronda.cli.beside import ToolPrints, beside_the_answer
from ronda.cli.files import MAX_INPUT, environment, is_file, load_file, read_inputs, with_sampling
from ronda.cli.model import check_file_model, check_model, choose_model, sampling_of
from ronda.cli.preferences import fill_in
from ronda.cli.progress import show_events, warn_if_cut_off
from ronda.cli.screen import Screen, open_screen
from ronda.cli.terminal import answer_alone, as_utf8, is_piped
from ronda.core.events import Answered, Asked
from ronda.core.plan import ToolChoice
from ronda.errors import BadConfig, LimitExceeded, RunEnded, ToolMissing, UpstreamError
from ronda.prompty.model import Prompty
from ronda.server.features.mcp.read_servers import read_servers

if TYPE_CHECKING:
    from ronda.server.services.tools_file import ToolsFile
    from ronda.tools.mcp.config import McpServer


def run(arguments: argparse.Namespace) -> int:
    try:
        with answer_alone() as out:
            screen = _screen(arguments, out)
            with beside_the_answer(screen.aside) as prints:
                fill_in(arguments, for_file=is_file(arguments.prompt))
                loaded = _with_search(_load(arguments.tools or []), arguments)
                if is_file(arguments.prompt):
                    _run_file(arguments, loaded, screen, prints)
                else:
                    _run_prompt(arguments, loaded, screen, prints)
    except ToolMissing as error:
        print(f"ronda: {error}; give a file that has it with --tools", file=sys.stderr)
        return 2
    except LimitExceeded as error:
        print(f"ronda: {error}; --max-iterations allows more", file=sys.stderr)
        return 1
    except (RunEnded, UpstreamError) as error:
        print(f"ronda: {error}", file=sys.stderr)
        return 1
    return 0


def _screen(arguments: argparse.Namespace, out: TextIO) -> Screen:
    as_they_come = False if arguments.json else arguments.stream
    return open_screen(
        out, as_they_come=as_they_come, quiet=bool(arguments.quiet), plain=bool(arguments.plain or arguments.json)
    )


def _load(paths: list[str]) -> ToolsFile:
    from ronda.server.services.tools_file import load_tools

    loaded = load_tools(paths)
    if loaded.callbacks and not loaded.tools:
        raise BadConfig(f"the tools file {paths[0]!r} has only callbacks, which need a server; make tools with @tool")
    return loaded


def _with_search(loaded: ToolsFile, arguments: argparse.Namespace) -> ToolsFile:
    if not arguments.enable_search and arguments.search_folder is None:
        return loaded
    from ronda.tools.search.library import web_search

    found = web_search(None if arguments.search_folder is None else {"folder": arguments.search_folder})
    return msgspec.structs.replace(loaded, tools=(*loaded.tools, *found))


def _run_prompt(arguments: argparse.Namespace, loaded: ToolsFile, screen: Screen, prints: ToolPrints) -> None:
    if arguments.inputs:
        raise BadConfig("-i gives an input to a prompty file, and the prompt is none")
    question = question_with(_prompt(arguments.prompt), arguments.attach or [])
    sampling = sampling_of(arguments)
    model, base_url = choose_model(arguments.model, arguments.base_url)
    check_model(model, base_url)
    servers = _servers(arguments)
    names = None if servers else [tool.spec.name for tool in loaded.tools]
    agent = Agent(
        model=model,
        base_url=base_url,
        api_version=arguments.api_version,
        vision=arguments.vision,
        instructions=arguments.system or "",
        tools=loaded.tools,
        options=sampling,
        tool_choice=_choice(arguments.tool_choice, names),
    )
    asyncio.run(_run_with(servers, agent, question, loaded, arguments, screen, prints))


def _servers(arguments: argparse.Namespace) -> list[McpServer]:
    from ronda.cli.serve import state_folder  # with a server's settings behind it

    return read_servers(arguments.mcp_config or os.environ.get("MCP_CONFIG_PATH") or None, logins=state_folder())


async def _run_with(
    configs: list[McpServer],
    agent: Agent,
    question: Inputs,
    loaded: ToolsFile,
    arguments: argparse.Namespace,
    screen: Screen,
    prints: ToolPrints,
) -> None:
    """With the tools of MCP servers besides its own."""
    if not configs:
        await _run(agent, question, msgspec.structs.replace(loaded, tools=()), arguments, screen, prints)
        return
    from ronda.tools.mcp.servers import McpServers

    servers = McpServers(configs, [tool.spec.name for tool in loaded.tools])
    try:
        await servers.ready()
        for one in servers.status():
            if one.last_error is not None:
                print(f"ronda: the MCP server {one.name!r}: {one.last_error}", file=sys.stderr)
        await _run(
            agent, question, msgspec.structs.replace(loaded, tools=tuple(servers.tools())), arguments, screen, prints
        )
    finally:
        await servers.close()


def _prompt(prompt: str | None) -> str:
    """What is asked, with what stands on standard input below it: `cat report.txt | ronda run "Sum this up"`."""
    if prompt == "-":  # as many commands have it
        prompt = None
    text = prompt
    if text is None:
        if sys.stdin.isatty():
            print("What do you want to ask? (Ctrl-D ends it)", file=sys.stderr)
        text = _read_input()
    elif "." in text or "/" in text:  # what is nothing but the name of a file is hardly meant as a prompt
        if os.path.isdir(text):
            raise BadConfig(f"{text} is a folder; name a .prompty file in it, or a prompt")
        if os.path.isfile(text):
            raise BadConfig(f"{text} is a file, but no .prompty file; 'ronda run < {text}' asks what it says")
    if prompt is not None and is_piped(sys.stdin) and (piped := _read_input()).strip():
        text = f"{text}\n\n{piped}"
    if not text.strip():
        raise BadConfig("there is nothing to ask; give a prompt, or write it to standard input")
    return as_utf8(text, "the prompt")


def _read_input() -> str:
    text = sys.stdin.read(MAX_INPUT + 1)
    if len(text) > MAX_INPUT:
        raise BadConfig(
            f"standard input has more than {MAX_INPUT // 1_000_000} million characters, which no model takes"
        )
    return text


def _run_file(arguments: argparse.Namespace, loaded: ToolsFile, screen: Screen, prints: ToolPrints) -> None:
    if arguments.system:
        raise BadConfig("--system belongs to a prompt; a prompty file brings its own instructions")
    if arguments.attach:
        raise BadConfig("-a belongs to a prompt; a prompty file takes files as inputs (-i NAME=@FILE)")
    if arguments.tool_choice != "auto":
        raise BadConfig("--tool-choice belongs to a prompt; a prompty file decides by itself")
    sampling = sampling_of(arguments)
    prompty = load_file(arguments.prompt, arguments.model, arguments.base_url, default=choose_model(None, None))
    prompty = with_sampling(prompty, sampling.temperature, sampling.max_tokens)
    inputs = read_inputs(prompty, arguments.inputs)
    if servers := _servers(arguments):
        from ronda.prompty.mcp import register

        register(servers)  # the file says which of them it uses
    check_file_model(prompty, environment(arguments.prompt))
    if not prompty.has_conversation:
        screen.answer(invoke_agent(prompty, inputs))
    else:
        asyncio.run(_run(prompty, inputs, loaded, arguments, screen, prints))


def _choice(text: str, names: list[str] | None) -> ToolChoice:
    """`names` are not known before MCP servers are connected."""
    if text == "required" and names == []:
        raise BadConfig("--tool-choice required needs a tool; give a file of them with --tools")
    if text in ("auto", "none", "required"):
        return ToolChoice(text)  # type: ignore[arg-type]  # one of the three, as just seen
    if names is not None and text not in names:
        raise BadConfig(f"--tool-choice names {text!r}; there is {', '.join(names) or 'no tool'}")
    return ToolChoice("required", (text,), named=True)


async def _run(
    agent: Agent | Prompty,
    inputs: Inputs,
    loaded: ToolsFile,
    flags: argparse.Namespace,
    screen: Screen,
    prints: ToolPrints,
) -> None:
    approval = TerminalApproval()

    def approve(question: Asked) -> Answered:
        with screen.paused():
            return approval(question)

    options: RunOptions = {
        "approve": approve,
        "guardrails": loaded.guardrails,
        "compaction": loaded.compaction,
    }
    if getattr(flags, "record", None) is not None:
        options["record"] = flags.record
    if flags.max_iterations is not None:
        options["max_iterations"] = flags.max_iterations

    def begin(options: RunOptions) -> stream_agent:
        return stream_agent(agent, inputs, loaded.tools or None, **options)

    if flags.session is None:
        if flags.owner:
            raise BadConfig("--owner goes with --session: it says whose session that is")
        events_of: AbstractAsyncContextManager[stream_agent] = begin(options)
    else:
        from ronda.cli.sessions import in_session

        events_of = in_session(flags, options, begin)
    if isinstance(agent, Prompty) and agent.outputs and flags.stream is None:
        screen.as_they_come = False  # half of a JSON document is of no use
    with screen:
        async with events_of as events:
            approval.run = events.run
            await show_events(events, screen, prints=prints)
            screen.answer(_report(events) if flags.json else events.result)
            warn_if_cut_off(events.run, screen)
            if flags.usage:
                screen.usage(events.run.usage)


def _report(events: stream_agent) -> dict[str, Any]:
    """What `--json` prints: the answer, and what it took to get there."""
    done = Result(events.result, events.run)
    return {
        "output": done.output,
        "model": events.run.plan.model,
        "run_id": done.run_id,
        "usage": done.usage,
        "cost": done.cost,
        "tool_calls": done.tool_calls,
    }
