"""The flags of `ronda serve`, and of whatever else has its settings: in groups, by what an operator looks for."""

from __future__ import annotations

import argparse

from ronda.cli.flags import DATABASE_HELP, Group, add_model_flags


def add_serve_flags(parser: argparse.ArgumentParser) -> None:
    add_model_flags(parser.add_argument_group("the model"))
    _address(parser.add_argument_group("where it listens"))
    _settings(parser)


def add_worker_flags(parser: argparse.ArgumentParser) -> None:
    """All of them but where it listens: it does not."""
    add_model_flags(parser.add_argument_group("the model"))
    _settings(parser)


def _settings(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [FLAG ...]"  # all of them in a row would fill a screen before the first is explained
    _access(parser.add_argument_group("who may ask"))
    _agents(parser.add_argument_group("agents and tools"))
    _code(parser.add_argument_group("code in a sandbox"))
    _search(parser.add_argument_group("the web"))
    _approvals(parser.add_argument_group("approvals"))
    _limits(parser.add_argument_group("limits of a run"))
    _requests(parser.add_argument_group("limits of a request"))
    _background(parser.add_argument_group("runs that outlive their request"))
    _storage(parser.add_argument_group("what is kept, and where"))
    _settings_file(parser.add_argument_group("settings"))


def _workers(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _address(group: Group) -> None:
    group.add_argument("--host", help="the address to listen on (default 127.0.0.1)")
    group.add_argument("-p", "--port", type=int, help="the port to listen on (default 1234)")
    group.add_argument(
        "--workers",
        type=_workers,
        metavar="N",
        help="how many processes serve, with one port and one data folder; 'auto' is one for each core (default 1)",
    )


def _access(group: Group) -> None:
    group.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="listen beyond this machine although there are no API keys ('ronda keys create' makes one)",
    )
    group.add_argument(
        "--allow-host",
        dest="allow_hosts",
        metavar="NAME",
        action="append",
        help="another name of this server than localhost, such as a proxy has for it, or '*' for any; may be repeated",
    )
    group.add_argument(
        "--allow-origin",
        dest="allow_origins",
        metavar="ORIGIN",
        action="append",
        help="let pages from here use the server, such as http://localhost:3000, or '*' for any; may be repeated",
    )
    group.add_argument(
        "--mcp-port", type=int, metavar="N", help="a second port, on which this server is an MCP server alone (at /mcp)"
    )


def _agents(group: Group) -> None:
    group.add_argument(
        "--agents",
        metavar="DIR",
        help="a folder of .prompty files: each is a model name on every door, and an agent_id",
    )
    group.add_argument(
        "--alias",
        dest="aliases",
        metavar="NAME",
        action="append",
        help="another name for the model, for clients that insist on theirs, or '*' for any; may be repeated",
    )
    group.add_argument(
        "--agent",
        "--agentic",
        action="store_true",
        default=None,
        help="have what an agent works with, for requests that ask for it: Python, a shell, and web search as [search] "
        "in the settings says",
    )
    group.add_argument(
        "--max-offered-tools",
        type=int,
        metavar="N",
        help="of more tools than this a model is shown those that it finds with the tool find_tools (default 64)",
    )
    group.add_argument(
        "--tool-calls",
        choices=["all", "first"],
        help="run all calls of a turn, or only the first, with a warning (default all)",
    )
    group.add_argument(
        "--tool-dispatch-url", metavar="URL", help="POST calls of declared tools that nothing here runs to this address"
    )
    group.add_argument(
        "--tool-dispatch-timeout", type=float, metavar="SECONDS", help="how long it may take (default 30)"
    )
    group.add_argument(
        "--mcp-allow-url",
        metavar="URL",
        action="append",
        help="an address of MCP servers that requests may name, such as https://mcp.example.com or https://*.example.com/mcp; "
        "may be repeated",
    )
    group.add_argument(
        "--app-model",
        metavar="MODEL",
        action="append",
        help="a model that writes pages for /generate-code, instead of --model; give it again for others, which take turns",
    )


def _code(group: Group) -> None:
    group.add_argument(
        "--enable-code-execution",
        action="store_true",
        default=None,
        help="lets requests ask for Python, which runs in a sandbox for each session",
    )
    group.add_argument(
        "--code-exec-python", metavar="PATH", help="the Python inside (default: the one that this server runs on)"
    )
    group.add_argument(
        "--code-exec-workdir",
        metavar="DIR",
        help="the folder in which Python works, for all sessions (default: one for each session)",
    )
    group.add_argument(
        "--code-exec-pool",
        type=int,
        metavar="N",
        help="Pythons that are kept ready for new sessions, so that a first call need not wait (default 0)",
    )
    group.add_argument(
        "--code-exec-timeout", type=float, metavar="N", help="seconds that a call of Python may take (default 60)"
    )
    group.add_argument(
        "--enable-shell",
        action="store_true",
        default=None,
        help="lets requests ask for a shell, which runs in a sandbox for each session",
    )
    group.add_argument("--shell-path", metavar="PATH", help="the shell inside (default /bin/sh)")
    group.add_argument(
        "--shell-workdir",
        metavar="DIR",
        help="where the folders of the sessions are (default: in the data folder)",
    )
    group.add_argument("--skills-dir", metavar="DIR", help="where skills are kept (default: with the files of clients)")
    group.add_argument(
        "--shell-timeout", type=float, metavar="N", help="seconds that a call of the shell may take (default 600)"
    )
    group.add_argument(
        "--sandbox",
        dest="sandbox_mode",
        choices=("auto", "on", "off"),
        help="whether code is isolated; where it cannot be, auto and on refuse (default auto)",
    )
    group.add_argument(
        "--sandbox-profile", choices=("restricted", "developer"), help="what code may read (default restricted)"
    )
    group.add_argument(
        "--sandbox-network", metavar="NETWORK", help="none, loopback, allow:HOST,… or full (default none)"
    )
    for name, what, default in (
        ("memory-mb", "megabytes", 2048),
        ("cpu-secs", "seconds of the processor", 600),
        ("procs", "processes", 64),
    ):
        group.add_argument(
            f"--sb-max-{name}",
            dest=f"sandbox_max_{name.replace('-', '_')}",
            type=int,
            metavar="N",
            help=f"the most {what} of one session's code (default {default})",
        )


def _search(group: Group) -> None:
    group.add_argument(
        "--enable-search", action="store_true", default=None, help="let models search the web and read its pages"
    )
    group.add_argument(
        "--search-mode",
        choices=["always", "on-request"],
        help="offer the search to every request, or only to those that ask for it (default always)",
    )
    group.add_argument(
        "--search-embedding-model",
        metavar="MODEL",
        help="rank what a search finds with the embeddings of this model (default: by words, BM25)",
    )
    group.add_argument(
        "--fetch-allow",
        metavar="ADDRESS",
        action="append",
        help="an address that is not public, but that models and requests may name all the same: 10.1.0.0/16, wiki.example:8080; "
        "may be repeated",
    )


def _approvals(group: Group) -> None:
    group.add_argument(
        "--agent-permission",
        "--code-exec-permission",
        choices=("auto", "ask", "deny"),
        help="whether tools of the server run, wait until a person has approved each call, or are refused (default auto)",
    )
    group.add_argument(
        "--approval-timeout",
        type=float,
        metavar="N",
        help="seconds that a stream waits for somebody to decide about a call; then it ends, and the run waits (default 300)",
    )
    group.add_argument(
        "--on-approval-timeout",
        choices=("pause", "deny"),
        help="what then becomes of the call: the run waits without its client, or the call is denied (default pause)",
    )
    group.add_argument(
        "--approval-days",
        type=float,
        metavar="N",
        help="days that a run's question stays open; then it counts as a no (default 7)",
    )


def _limits(group: Group) -> None:
    group.add_argument(
        "--max-tool-rounds", type=int, metavar="N", help="rounds a request gets unless it says (default 256)"
    )
    group.add_argument(
        "--max-tool-rounds-ceiling", type=int, metavar="N", help="the most rounds a request may ask for (default 256)"
    )
    group.add_argument(
        "--max-identical-calls",
        type=int,
        metavar="N",
        help="end a run after so many calls with the same arguments and the same result (default 16)",
    )
    group.add_argument("--max-run-seconds", type=float, metavar="SECONDS", help="the most time one run may take")
    group.add_argument(
        "--max-answer-bytes",
        type=int,
        metavar="N",
        help="the most that is taken of one answer of a model (default 32 MiB)",
    )
    group.add_argument(
        "--max-result-chars",
        type=int,
        metavar="N",
        help="characters of a tool's result that a model is shown (default 65536); it reads the rest from a file; 0 shows all",
    )
    group.add_argument(
        "--context-budget",
        type=int,
        metavar="N",
        help="show a model at most so many characters of a conversation, and a summary of the rest",
    )
    group.add_argument(
        "--slots", type=int, metavar="N", help="how many requests a local model answers at a time (default 8)"
    )
    group.add_argument(
        "--context",
        type=int,
        metavar="TOKENS",
        help="how many tokens a local model has room for, in all its requests together (default 8192)",
    )


def _requests(group: Group) -> None:
    group.add_argument(
        "--header-seconds", type=float, metavar="N", help="the most time a request's head may take to come (default 20)"
    )
    group.add_argument(
        "--body-seconds", type=float, metavar="N", help="the most time in which nothing of a body comes (default 60)"
    )
    group.add_argument(
        "--stall-seconds",
        type=float,
        metavar="N",
        help="a client that takes nothing of its answer for so long counts as gone (default 60)",
    )
    group.add_argument(
        "--max-body-memory",
        type=int,
        metavar="BYTES",
        help="the most bytes that the bodies of all requests being read may hold together (default 512 MiB); then 503",
    )
    group.add_argument(
        "--max-upload",
        type=int,
        metavar="BYTES",
        help="the most bytes of a file that a client may send to /v1/files (default 512 MiB)",
    )
    group.add_argument(
        "--shutdown-seconds",
        type=float,
        metavar="N",
        help="how long runs that somebody waits for may take to end when the server is to end (default 3)",
    )


def _background(group: Group) -> None:
    group.add_argument(
        "--max-detached",
        type=int,
        metavar="N",
        help="the most runs at a time that go on without their clients (on_disconnect; default 100)",
    )
    group.add_argument(
        "--max-grace",
        type=float,
        metavar="N",
        help="the most seconds that a request may ask for with on_disconnect: grace:SECONDS (default 3600)",
    )
    group.add_argument(
        "--background-runs",
        type=int,
        metavar="N",
        help="the most runs with 'background' that are driven at a time; others wait (default 16)",
    )
    group.add_argument(
        "--background-per-owner", type=int, metavar="N", help="the same for the runs of one owner (default 16)"
    )
    group.add_argument(
        "--background-per-session", type=int, metavar="N", help="the same for the runs of one session (default 1)"
    )
    group.add_argument(
        "--background-queue",
        type=int,
        metavar="N",
        help="the most runs with 'background' that may wait; then clients are told to try again (default 1000)",
    )
    group.add_argument(
        "--keep-previews",
        type=float,
        metavar="SECONDS",
        help="how long a stream can be had again in the same pieces after its run has ended (default 3600)",
    )
    group.add_argument(
        "--keep-previews-bytes", type=int, metavar="N", help="of how much, of all runs together (default 64 MiB)"
    )


def _storage(group: Group) -> None:
    group.add_argument(
        "--data-dir",
        metavar="DIR",
        help="where runs are journaled (default: your state folder); ':memory:' keeps nothing",
    )
    group.add_argument("--database", metavar="URL", help=DATABASE_HELP)
    group.add_argument(
        "--lease-seconds",
        type=float,
        metavar="N",
        help="after how many seconds a process that the database hears nothing of counts as gone (default 5)",
    )
    group.add_argument(
        "--queue",
        choices=["table", "dbos"],
        help="with --database: what keeps runs that wait to be driven, a table of Ronda's or DBOS, whose tools show them "
        "(default table)",
    )
    group.add_argument(
        "--file-store",
        metavar="PLACE",
        help="where the bytes of files are kept: a folder, or s3://BUCKET/PREFIX (default: in the data folder)",
    )


def _settings_file(group: Group) -> None:
    group.add_argument("--config", metavar="FILE.toml", help="settings from a file; flags win over it")
    group.add_argument("--access-log", action="store_true", default=None, help="log every request")


def add_mcp_flags(parser: argparse.ArgumentParser) -> None:
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
    add_serve_flags(parser)
