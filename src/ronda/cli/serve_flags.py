"""The flags of `ronda serve`, and of whatever else has its settings: in groups, by what an operator looks for."""

from __future__ import annotations

from ronda.cli.flags import DATABASE_HELP, Flags, add_model_flags


def add_serve_flags(flags: Flags) -> None:
    add_model_flags(flags.group("the model"))
    _address(flags.group("where it listens"))
    _settings(flags)


def add_worker_flags(flags: Flags) -> None:
    """All of them but where it listens: it does not."""
    add_model_flags(flags.group("the model"))
    _settings(flags)


def _settings(flags: Flags) -> None:
    _access(flags.group("who may ask"))
    _agents(flags.group("agents and tools"))
    _code(flags.group("code in a sandbox"))
    _search(flags.group("the web"))
    _approvals(flags.group("approvals"))
    _limits(flags.group("limits of a run"))
    _requests(flags.group("limits of a request"))
    _background(flags.group("runs that outlive their request"))
    _storage(flags.group("what is kept, and where"))
    _settings_file(flags.group("settings"))


def _workers(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _address(flags: Flags) -> None:
    flags.text("--host", "the address to listen on (default 127.0.0.1)")
    flags.whole("-p, --port", "the port to listen on (default 1234)")
    flags.text(
        "--workers N",
        "how many processes serve, with one port and one data folder; 'auto' is one for each core (default 1)",
        type=_workers,
    )


def _access(flags: Flags) -> None:
    flags.switch(
        "--insecure", "listen beyond this machine although there are no API keys ('ronda keys create' makes one)"
    )
    flags.several(
        "--allow-host NAME",
        "another name of this server than localhost, such as a proxy has for it, or '*' for any; may be repeated",
        dest="allow_hosts",
    )
    flags.several(
        "--allow-origin ORIGIN",
        "let pages from here use the server, such as http://localhost:3000, or '*' for any; may be repeated",
        dest="allow_origins",
    )
    flags.whole("--mcp-port N", "a second port, on which this server is an MCP server alone (at /mcp)")


def _agents(flags: Flags) -> None:
    flags.text("--agents DIR", "a folder of .prompty files: each is a model name on every door, and an agent_id")
    flags.several(
        "--alias NAME",
        "another name for the model, for clients that insist on theirs, or '*' for any; may be repeated",
        dest="aliases",
    )
    flags.switch(
        "--agent, --agentic",
        "have what an agent works with, for requests that ask for it: Python, a shell, and web search as [search] "
        "in the settings says",
    )
    flags.whole(
        "--max-offered-tools N",
        "of more tools than this a model is shown those that it finds with the tool find_tools (default 64)",
    )
    flags.choice(
        "--tool-calls", ["all", "first"], "run all calls of a turn, or only the first, with a warning (default all)"
    )
    flags.text("--tool-dispatch-url URL", "POST calls of declared tools that nothing here runs to this address")
    flags.number("--tool-dispatch-timeout SECONDS", "how long it may take (default 30)")
    flags.several(
        "--mcp-allow-url URL",
        "an address of MCP servers that requests may name, such as https://mcp.example.com or https://*.example.com/mcp; "
        "may be repeated",
    )
    flags.several(
        "--app-model MODEL",
        "a model that writes pages for /generate-code, instead of --model; give it again for others, which take turns",
    )


def _code(flags: Flags) -> None:
    flags.switch("--enable-code-execution", "lets requests ask for Python, which runs in a sandbox for each session")
    flags.text("--code-exec-python PATH", "the Python inside (default: the one that this server runs on)")
    flags.text(
        "--code-exec-workdir DIR", "the folder in which Python works, for all sessions (default: one for each session)"
    )
    flags.whole(
        "--code-exec-pool N",
        "Pythons that are kept ready for new sessions, so that a first call need not wait (default 0)",
    )
    flags.number("--code-exec-timeout N", "seconds that a call of Python may take (default 60)")
    flags.switch("--enable-shell", "lets requests ask for a shell, which runs in a sandbox for each session")
    flags.text("--shell-path PATH", "the shell inside (default /bin/sh)")
    flags.text("--shell-workdir DIR", "where the folders of the sessions are (default: in the data folder)")
    flags.text("--skills-dir DIR", "where skills are kept (default: with the files of clients)")
    flags.number("--shell-timeout N", "seconds that a call of the shell may take (default 600)")
    flags.choice(
        "--sandbox",
        ("auto", "on", "off"),
        "whether code is isolated; where it cannot be, auto and on refuse (default auto)",
        dest="sandbox_mode",
    )
    flags.choice("--sandbox-profile", ("restricted", "developer"), "what code may read (default restricted)")
    flags.text("--sandbox-network NETWORK", "none, loopback, allow:HOST,… or full (default none)")
    for name, what, default in (
        ("memory-mb", "megabytes", 2048),
        ("cpu-secs", "seconds of the processor", 600),
        ("procs", "processes", 64),
    ):
        flags.whole(
            f"--sb-max-{name} N",
            f"the most {what} of one session's code (default {default})",
            dest=f"sandbox_max_{name.replace('-', '_')}",
        )


def _search(flags: Flags) -> None:
    flags.switch("--enable-search", "let models search the web and read its pages")
    flags.choice(
        "--search-mode",
        ["always", "on-request"],
        "offer the search to every request, or only to those that ask for it (default always)",
    )
    flags.text(
        "--search-embedding-model MODEL",
        "rank what a search finds with the embeddings of this model (default: by words, BM25)",
    )
    flags.several(
        "--fetch-allow ADDRESS",
        "an address that is not public, but that models and requests may name all the same: 10.1.0.0/16, wiki.example:8080; "
        "may be repeated",
    )


def _approvals(flags: Flags) -> None:
    flags.choice(
        "--agent-permission, --code-exec-permission",
        ("auto", "ask", "deny"),
        "whether tools of the server run, wait until a person has approved each call, or are refused (default auto)",
    )
    flags.number(
        "--approval-timeout N",
        "seconds that a stream waits for somebody to decide about a call; then it ends, and the run waits (default 300)",
    )
    flags.choice(
        "--on-approval-timeout",
        ("pause", "deny"),
        "what then becomes of the call: the run waits without its client, or the call is denied (default pause)",
    )
    flags.number("--approval-days N", "days that a run's question stays open; then it counts as a no (default 7)")


def _limits(flags: Flags) -> None:
    flags.whole("--max-tool-rounds N", "rounds a request gets unless it says (default 256)")
    flags.whole("--max-tool-rounds-ceiling N", "the most rounds a request may ask for (default 256)")
    flags.whole(
        "--max-identical-calls N",
        "end a run after so many calls with the same arguments and the same result (default 16)",
    )
    flags.number("--max-run-seconds SECONDS", "the most time one run may take")
    flags.whole("--max-answer-bytes N", "the most that is taken of one answer of a model (default 32 MiB)")
    flags.whole(
        "--max-result-chars N",
        "characters of a tool's result that a model is shown (default 65536); it reads the rest from a file; 0 shows all",
    )
    flags.whole(
        "--context-budget N", "show a model at most so many characters of a conversation, and a summary of the rest"
    )
    flags.whole("--slots N", "how many requests a local model answers at a time (default 8)")
    flags.whole(
        "--context TOKENS", "how many tokens a local model has room for, in all its requests together (default 8192)"
    )


def _requests(flags: Flags) -> None:
    flags.number("--header-seconds N", "the most time a request's head may take to come (default 20)")
    flags.number("--body-seconds N", "the most time in which nothing of a body comes (default 60)")
    flags.number(
        "--stall-seconds N", "a client that takes nothing of its answer for so long counts as gone (default 60)"
    )
    flags.whole(
        "--max-body-memory BYTES",
        "the most bytes that the bodies of all requests being read may hold together (default 512 MiB); then 503",
    )
    flags.whole("--max-upload BYTES", "the most bytes of a file that a client may send to /v1/files (default 512 MiB)")
    flags.number(
        "--shutdown-seconds N",
        "how long runs that somebody waits for may take to end when the server is to end (default 3)",
    )


def _background(flags: Flags) -> None:
    flags.whole(
        "--max-detached N", "the most runs at a time that go on without their clients (on_disconnect; default 100)"
    )
    flags.number(
        "--max-grace N", "the most seconds that a request may ask for with on_disconnect: grace:SECONDS (default 3600)"
    )
    flags.whole(
        "--background-runs N", "the most runs with 'background' that are driven at a time; others wait (default 16)"
    )
    flags.whole("--background-per-owner N", "the same for the runs of one owner (default 16)")
    flags.whole("--background-per-session N", "the same for the runs of one session (default 1)")
    flags.whole(
        "--background-queue N",
        "the most runs with 'background' that may wait; then clients are told to try again (default 1000)",
    )
    flags.number(
        "--keep-previews SECONDS",
        "how long a stream can be had again in the same pieces after its run has ended (default 3600)",
    )
    flags.whole("--keep-previews-bytes N", "of how much, of all runs together (default 64 MiB)")


def _storage(flags: Flags) -> None:
    flags.text("--data-dir DIR", "where runs are journaled (default: your state folder); ':memory:' keeps nothing")
    flags.text("--database URL", DATABASE_HELP)
    flags.number(
        "--lease-seconds N",
        "after how many seconds a process that the database hears nothing of counts as gone (default 5)",
    )
    flags.choice(
        "--queue",
        ["table", "dbos"],
        "with --database: what keeps runs that wait to be driven, a table of Ronda's or DBOS, whose tools show them "
        "(default table)",
    )
    flags.text(
        "--file-store PLACE",
        "where the bytes of files are kept: a folder, or s3://BUCKET/PREFIX (default: in the data folder)",
    )


def _settings_file(flags: Flags) -> None:
    flags.text("--config FILE.toml", "settings from a file; flags win over it")
    flags.switch("--access-log", "log every request")


def add_mcp_flags(flags: Flags) -> None:
    flags.positional("action", "what to do", choices=["serve", "login", "logout"])
    flags.positional("name", "of the MCP server to log in to, as the settings have it", nargs="?", metavar="NAME")
    flags.switch("--no-browser", "login: print the address, and open no browser")
    flags.whole(
        "--login-port N",
        "login: the port of this machine that the browser comes back to (default: any that is free)",
        default=0,
    )
    add_serve_flags(flags)
