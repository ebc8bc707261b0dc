"""The flags of all commands but `serve`, and what several of them share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

DEFAULT_MODEL: Final = "local:smollm2"
DATABASE_HELP: Final = (
    "a PostgreSQL database that servers share, as postgresql://user@host/name (default: RONDA_DATABASE)"
)


_PLAIN: Final = "text as it is, also at a terminal: no Markdown, no colours, no spinner"


class Flags:
    """What a command takes. A flag is said as its help shows it: its names, and a word for its value. One that is not given
    is None."""

    def __init__(self, parser: argparse._ActionsContainer, features: Sequence[str] = ()) -> None:
        """`features` of other packages, whose settings have flags, too."""
        self._parser = parser
        self.features = features

    def group(self, title: str) -> Flags:
        return Flags(self._parser.add_argument_group(title))

    def text(self, usage: str, help_text: str, **settings: Any) -> None:
        names, _, metavar = usage.replace(", ", ",").partition(" ")
        if metavar:
            settings["metavar"] = metavar
        self._parser.add_argument(*names.split(","), help=help_text, **settings)

    def whole(self, usage: str, help_text: str, **settings: Any) -> None:
        self.text(usage, help_text, type=int, **settings)

    def number(self, usage: str, help_text: str, **settings: Any) -> None:
        self.text(usage, help_text, type=float, **settings)

    def switch(self, usage: str, help_text: str) -> None:
        self.text(usage, help_text, action="store_true", default=None)

    def several(self, usage: str, help_text: str, **settings: Any) -> None:
        self.text(usage, help_text, action="append", **settings)

    def choice(self, usage: str, words: Sequence[str], help_text: str, **settings: Any) -> None:
        self.text(usage, help_text, choices=words, **settings)

    def positional(self, name: str, help_text: str, **settings: Any) -> None:
        self._parser.add_argument(name, help=help_text, **settings)


def add_model_flags(flags: Flags) -> None:
    flags.text(
        "-m, --model SPEC",
        f"the model, as PROVIDER:NAME (default: RONDA_MODEL, 'ronda models default', {DEFAULT_MODEL})",
    )
    flags.text("--profile NAME", "take model, system prompt, temperature, … from [profiles.NAME] of your config.toml")
    flags.text(
        "--base-url URL", "where the model's server is, such as http://127.0.0.1:8000/v1 (default: RONDA_BASE_URL)"
    )
    flags.text("--api-version VERSION", "the version of the provider's API (Anthropic has several)")
    flags.text(
        "--vision",
        "whether the model can see images (default: as far as its name tells); one that cannot gets a note instead",
        action=argparse.BooleanOptionalAction,
    )
    flags.several("--tools FILE.py", "a Python file with functions made tools by @tool; may be repeated")
    flags.text(
        "--mcp-config FILE.json",
        "MCP servers whose tools the model gets (default: the file that MCP_CONFIG_PATH names)",
    )


def add_storage_flags(flags: Flags) -> None:
    """Where `cli.storage` finds what is kept."""
    flags.text("--data-dir DIR", "the data folder of the server (default: your state folder)")
    flags.text("--database URL", DATABASE_HELP)


def _add_inputs(flags: Flags) -> None:
    flags.several(
        "-i, --input NAME=VALUE",
        "an input of the file; NAME=@FILE takes it from a file, NAME=@@TEXT begins with an @; may be repeated",
        default=[],
        dest="inputs",
    )


def add_run_flags(flags: Flags) -> None:
    add_model_flags(flags)
    flags.text("-s, --system, --instructions TEXT", "what the model is told before the prompt")
    flags.number("--temperature X", "how freely the model chooses its words: 0 is the likeliest, 1 is usual")
    flags.whole("--max-iterations N", "tool rounds at most (default 10)")
    flags.text(
        "--tool-choice CHOICE",
        "'auto', 'none', 'required' (the first turn must call a tool), or the name of one tool",
        default="auto",
    )
    flags.whole("--max-tokens N", "tokens the model may write at once")
    flags.switch("--enable-search", "let the model search the web and read its pages")
    flags.text("--search-folder DIR", "let it search this folder of documents instead")
    flags.text(
        "--stream",
        "print the answer as it comes, and tools as they run (default: at a terminal)",
        action=argparse.BooleanOptionalAction,
    )
    flags.several(
        "-a, --attach FILE", "a file that goes along with the prompt: text, image, sound, PDF; may be repeated"
    )
    flags.switch("--json", "print one JSON object: output, model, usage, cost, tool_calls, run_id")
    flags.switch("-q, --quiet", "print the answer only, and nothing of what happens on the way")
    flags.switch(
        "-u, --usage", "say at the end how many tokens it took, and what they cost as far as the provider says so"
    )
    flags.switch("--plain", _PLAIN)
    flags.text("--session NAME", "continue the session of this name, and keep what is said in it")
    _add_owner(flags)
    add_storage_flags(flags)
    _add_inputs(flags)
    flags.positional(
        "prompt",
        "what to ask, or a prompty file to run; text that is piped in is asked with it, or alone, also for '-'",
        nargs="?",
        metavar="PROMPT|FILE.prompty",
    )


def add_chat_flags(flags: Flags) -> None:
    add_model_flags(flags)
    flags.text("-s, --system, --instructions TEXT", "what the model is told first")
    flags.number("--temperature X", "how freely the model chooses its words: 0 is the likeliest, 1 is usual")
    flags.whole("--max-iterations N", "tool rounds of an answer at most (default 10)")
    flags.whole("--max-tokens N", "tokens the model may write at once")
    flags.several("-a, --attach FILE", "a file that goes along with the first question; may be repeated")
    flags.switch("--plain", _PLAIN)
    flags.switch("-c, --continue", "continue the session that was used last")
    flags.text("--session NAME", "the session to continue (default: a new one, named by the time)")
    _add_owner(flags)
    add_storage_flags(flags)
    _add_inputs(flags)
    flags.positional(
        "agent",
        "who answers: a prompty file, or an Agent in Python (default: the model only)",
        nargs="?",
        metavar="FILE.prompty|MODULE:AGENT",
    )


def add_record_flags(flags: Flags) -> None:
    add_run_flags(flags)
    flags.text("-o, --output FILE.jsonl", "the cassette to write", dest="record", required=True)
    flags.text("--run ID", "write down this run of a server, from its journal")


def add_explain_flags(flags: Flags) -> None:
    flags.positional("run", "the id of a run, as 'GET /v1/runs' lists them", metavar="RUN")
    flags.whole("--round N", "this round only; rounds count from 0")
    flags.switch("--json", "all of it, as JSON: one line for each round, with the body")
    flags.text("--base-url URL", "where the model's server was, if not at the provider's own address")
    add_storage_flags(flags)


def add_replay_flags(flags: Flags) -> None:
    flags.positional("file", "a cassette", metavar="FILE.jsonl")
    flags.text(
        "--agent FILE.prompty",
        "the agent's file as it is today: its messages, tools and options must be those that were recorded",
    )


def add_branch_flags(flags: Flags) -> None:
    flags.positional("file", "a cassette", metavar="FILE.jsonl")
    flags.whole("--at ROUND", "the first round that is live; rounds count from 0", required=True)
    flags.text("-m, --model SPEC", "the model to ask, as PROVIDER:NAME", required=True)
    flags.text("--base-url URL", "where the model's server is")
    flags.several("--tools FILE.py", "a Python file with tools; may be repeated")
    flags.text("-o, --output FILE.jsonl", "write all of it to another cassette")


def add_validate_flags(flags: Flags) -> None:
    flags.positional("files", "prompty files, or evaluations", metavar="FILE.prompty|FILE.eval.yaml", nargs="+")
    flags.switch("--strict", "count warnings as problems")


def add_render_flags(flags: Flags) -> None:
    flags.positional("file", "a prompty file", metavar="FILE.prompty")
    flags.switch("--json", "print the messages as JSON")
    _add_inputs(flags)


def add_schema_flags(flags: Flags) -> None:
    flags.positional(
        "what", "of what: prompty, events, eval", nargs="?", choices=("prompty", "events", "eval"), default="prompty"
    )
    flags.text("-o, --output FILE", "write it to this file instead")


def add_init_flags(flags: Flags) -> None:
    flags.positional("folder", "where to write it (default: here)", nargs="?", default=".", metavar="FOLDER")


def add_budget_flags(flags: Flags) -> None:
    flags.positional("action", "what to do (default: show)", nargs="?", choices=("show", "set"), default="show")
    flags.positional(
        "scope", "whose: run, session, key or owner", nargs="?", choices=("run", "session", "key", "owner")
    )
    flags.positional("name", "which: its name, or the id of a key; '*' is each", nargs="?", metavar="NAME")
    flags.text("--per PERIOD", "day, week, month or total", choices=("day", "week", "month", "total"), default="total")
    flags.number("--usd USD", "US dollars; a number below 0 takes the limit back, here and below")
    flags.whole("--tokens N", "input and output tokens")
    flags.whole("--rounds N", "model calls")
    flags.whole("--tool-calls N", "calls of the server's tools")
    flags.number("--seconds S", "the time that runs are driven")
    flags.text("--timezone ZONE", "of the days that are shown (default: UTC)")
    add_storage_flags(flags)


def add_schedule_flags(flags: Flags) -> None:
    flags.positional(
        "action",
        "what to do (default: list)",
        nargs="?",
        choices=("list", "add", "remove", "pause", "resume"),
        default="list",
    )
    flags.positional("id", "remove, pause, resume: which, as 'ronda schedule' shows it", nargs="?", metavar="ID")
    flags.text("--cron EXPRESSION", "add: when, as '0 9 * * 1-5': minute, hour, day, month, day of the week")
    flags.text("--timezone ZONE", "add: whose clocks, such as Europe/Berlin (default: UTC)", default="UTC")
    flags.text("--input TEXT", "add: what the model is asked")
    flags.text("--model NAME", "add: the model or agent of the server that is asked (default: the server's model)")
    flags.text("--session NAME", "add: the session that the runs continue (default: none)")
    flags.text("--name NAME", "add: what you call it", default="")
    flags.choice(
        "--missed WHAT",
        ("skip", "once", "all"),
        "add: what becomes of times at which no server was there: none, the last or each is made up (default: skip)",
        default="skip",
    )
    flags.text("--owner NAME", "add: whose runs they are (default: the owner without a name); list: only this owner's")
    add_storage_flags(flags)


def add_owner_flags(flags: Flags) -> None:
    flags.positional("action", "what to do", choices=("show", "export", "delete"))
    flags.positional("name", "whose data", metavar="NAME")
    flags.positional(
        "file", "of 'export': the archive to write (default: NAME.tar.gz)", nargs="?", metavar="FILE.tar.gz"
    )
    flags.switch("--yes", "of 'delete': do not ask")
    flags.text("--file-store PLACE", "where the server keeps the bytes of files, if it has a --file-store")
    flags.several(
        "--feature NAME",
        "a feature of another package that the server has: its tables are looked at, too; may be repeated",
        default=[],
        dest="features",
    )
    add_storage_flags(flags)


def add_doctor_flags(flags: Flags) -> None:
    flags.text("-m, --model SPEC", "a model to look at, instead of that of the settings: is its key there?")
    flags.text("--config FILE.toml", "settings of a server: does what they ask for work?")
    flags.text("--data-dir DIR", "where the server keeps its data")
    flags.text("--database URL", "the database that servers share")


def add_completion_flags(flags: Flags) -> None:
    flags.positional("shell", "for which shell", choices=("bash", "zsh", "fish"))


def add_models_flags(flags: Flags) -> None:
    flags.positional(
        "action",
        "'list' (the usual) shows what is there; 'pull' gets the small model, again if it is there; 'default SPEC' names the "
        "model that is asked when no other is named, and 'default' says which that is",
        nargs="?",
        choices=["list", "pull", "default"],
        default="list",
    )
    flags.positional("spec", "the model, as PROVIDER:NAME", nargs="?", metavar="SPEC")


def add_keys_flags(flags: Flags) -> None:
    flags.positional(
        "action",
        "'create' prints a new key, once; 'list' shows whose keys there are; 'revoke' ends one; 'audit' shows who did what "
        "for all owners",
        choices=["create", "list", "revoke", "audit"],
    )
    flags.positional("id", "of the key to revoke, as 'list' shows it", nargs="?", metavar="ID")
    flags.text("--owner NAME", "whose the new key is: all keys of an owner find what any of them has made")
    flags.several(
        "--scope SCOPE", "what the new key may do, such as model:NAME or operate; may be repeated (docs/keys.md)"
    )
    flags.text("--expires TIME", "when the new key ends: a number and s, m, h or d, such as 30d")
    add_storage_flags(flags)


def add_page_flags(flags: Flags) -> None:
    flags.positional("action", "'setup' fetches what is not there yet", choices=["setup"])
    flags.text("--folder DIR", "where it is kept, as [page] folder says (default ~/.local/share/ronda/page)")


def add_backup_flags(flags: Flags) -> None:
    flags.positional("file", "the backup to write", metavar="FILE.tar.gz")
    add_storage_flags(flags)


def add_restore_flags(flags: Flags) -> None:
    flags.positional("file", "the backup to read", metavar="FILE.tar.gz")
    add_storage_flags(flags)


def add_sessions_flags(flags: Flags) -> None:
    flags.positional(
        "action",
        "'list' names them; 'show' prints what was said; 'export' prints a document, which 'import' reads; 'fork' copies",
        choices=["list", "show", "export", "import", "fork", "delete"],
    )
    flags.positional("name", "of the session", nargs="?", metavar="NAME")
    flags.positional(
        "other", "the file to import (standard input if left out); the name of the copy", nargs="?", metavar="FILE|NAME"
    )
    flags.whole("--num-turns N", "of a copy: up to the N-th answer")
    flags.text("--run RUN", "of a copy: up to this run")
    flags.whole("--round N", "of a copy: up to this round of the run, from 0")
    flags.text("--branch ID", "which branch to show or export, as 'export' lists them")
    _add_owner(flags)
    add_storage_flags(flags)


def _add_owner(flags: Flags) -> None:
    flags.text("--owner NAME", "whose sessions, where the server has keys", default="")
