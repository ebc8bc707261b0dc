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
from ronda.cli.approve import TerminalApproval
from ronda.cli.files import environment, is_file, load_file, read_inputs
from ronda.cli.flags import DEFAULT_MODEL
from ronda.cli.model import check_file_model, check_model
from ronda.cli.progress import show_events
from ronda.cli.terminal import answer_alone, as_utf8
from ronda.core.plan import Options, ToolChoice
from ronda.errors import BadConfig, LimitExceeded, RunEnded, ToolMissing, UpstreamError
from ronda.prompty.model import Prompty
from ronda.server.resources.mcp_settings import read_servers

if TYPE_CHECKING:
    from ronda.server.resources.tools_file import ToolsFile
    from ronda.tools.mcp.config import McpServer


def run(arguments: argparse.Namespace) -> int:
    try:
        with answer_alone() as out:
            loaded = _with_search(_load(arguments.tools or []), arguments)
            if is_file(arguments.prompt):
                _run_file(arguments, loaded, out)
            else:
                _run_prompt(arguments, loaded, out)
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


def _load(paths: list[str]) -> ToolsFile:
    from ronda.server.resources.tools_file import load_tools

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


def _run_prompt(arguments: argparse.Namespace, loaded: ToolsFile, out: TextIO) -> None:
    if arguments.inputs:
        raise BadConfig("-i gives an input to a prompty file, and the prompt is none")
    prompt = _prompt(arguments.prompt)
    if arguments.max_tokens is not None and arguments.max_tokens < 1:
        raise BadConfig(f"--max-tokens is {arguments.max_tokens}; it must be at least 1")
    model = DEFAULT_MODEL if arguments.model is None else arguments.model
    check_model(model, arguments.base_url)
    servers = _servers(arguments)
    names = None if servers else [tool.spec.name for tool in loaded.tools]
    agent = Agent(
        model=model,
        base_url=arguments.base_url,
        api_version=arguments.api_version,
        vision=arguments.vision,
        instructions=arguments.instructions,
        tools=loaded.tools,
        options=Options(max_tokens=arguments.max_tokens),
        tool_choice=_choice(arguments.tool_choice, names),
    )
    asyncio.run(_run_with(servers, agent, prompt, loaded, arguments, out))


def _servers(arguments: argparse.Namespace) -> list[McpServer]:
    from ronda.cli.serve import state_folder  # with a server's settings behind it

    return read_servers(arguments.mcp_config or os.environ.get("MCP_CONFIG_PATH") or None, logins=state_folder())


async def _run_with(
    configs: list[McpServer],
    agent: Agent,
    prompt: str,
    loaded: ToolsFile,
    arguments: argparse.Namespace,
    out: TextIO,
) -> None:
    """With the tools of MCP servers beside its own."""
    if not configs:
        await _run(agent, prompt, msgspec.structs.replace(loaded, tools=()), arguments, out)
        return
    from ronda.tools.mcp.servers import McpServers

    servers = McpServers(configs, [tool.spec.name for tool in loaded.tools])
    try:
        await servers.ready()
        for one in servers.status():
            if one.last_error is not None:
                print(f"ronda: the MCP server {one.name!r}: {one.last_error}", file=sys.stderr)
        await _run(agent, prompt, msgspec.structs.replace(loaded, tools=tuple(servers.tools())), arguments, out)
    finally:
        await servers.close()


def _prompt(text: str | None) -> str:
    if text is None:
        if sys.stdin.isatty():
            print("What do you want to ask? (Ctrl-D ends it)", file=sys.stderr)
        text = sys.stdin.read()
    elif "." in text or "/" in text:  # what is nothing but the name of a file is hardly meant as a prompt
        if os.path.isdir(text):
            raise BadConfig(f"{text} is a folder; name a .prompty file in it, or a prompt")
        if os.path.isfile(text):
            raise BadConfig(f"{text} is a file, but no .prompty file; 'ronda run < {text}' asks what it says")
    if not text.strip():
        raise BadConfig("there is nothing to ask; give a prompt, or write it to standard input")
    return as_utf8(text, "the prompt")


def _run_file(arguments: argparse.Namespace, loaded: ToolsFile, out: TextIO) -> None:
    if arguments.instructions:
        raise BadConfig("--instructions belong to a prompt; a prompty file brings its own")
    if arguments.tool_choice != "auto":
        raise BadConfig("--tool-choice belongs to a prompt; a prompty file decides by itself")
    if arguments.max_tokens is not None:
        raise BadConfig("--max-tokens belongs to a prompt; a prompty file says maxOutputTokens in its model's options")
    prompty = load_file(arguments.prompt, arguments.model, arguments.base_url, DEFAULT_MODEL)
    inputs = read_inputs(prompty, arguments.inputs)
    if servers := _servers(arguments):
        from ronda.prompty.mcp import register

        register(servers)  # the file says which of them it uses
    check_file_model(prompty, environment(arguments.prompt))
    if not prompty.has_conversation:
        _print(invoke_agent(prompty, inputs), out)
    else:
        asyncio.run(_run(prompty, inputs, loaded, arguments, out))


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
    agent: Agent | Prompty, inputs: Inputs, loaded: ToolsFile, flags: argparse.Namespace, out: TextIO
) -> None:
    approval = TerminalApproval()
    options: RunOptions = {
        "approve": approval,
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
    async with events_of as events:
        approval.run = events.run
        await show_events(events, out, as_they_come=flags.stream)
        _print("" if flags.stream else events.result, out)


def _print(result: Any, out: TextIO) -> None:
    print(result if isinstance(result, str) else msgspec.json.encode(result).decode(), file=out)
