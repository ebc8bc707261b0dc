"""The flags of all commands but `serve`, and what several of them share."""

from __future__ import annotations

import argparse
from typing import Final, TypeAlias

Group: TypeAlias = argparse._ArgumentGroup

DEFAULT_MODEL: Final = "local:smollm2"
DATABASE_HELP: Final = (
    "a PostgreSQL database that servers share, as postgresql://user@host/name (default: RONDA_DATABASE)"
)


def add_model_flags(parser: argparse.ArgumentParser | Group) -> None:
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


def add_storage_flags(parser: argparse.ArgumentParser) -> None:
    """Where `cli.storage` finds what is kept."""
    parser.add_argument("--data-dir", metavar="DIR", help="the data folder of the server (default: your state folder)")
    parser.add_argument("--database", metavar="URL", help=DATABASE_HELP)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i",
        "--input",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="inputs",
        help="an input of the file; NAME=@FILE takes it from a file, NAME=@@TEXT begins with an @; may be repeated",
    )


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    add_model_flags(parser)
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
    _add_owner(parser)
    add_storage_flags(parser)
    _add_inputs(parser)
    parser.add_argument(
        "prompt",
        nargs="?",
        metavar="PROMPT|FILE.prompty",
        help="what to ask, or a prompty file to run; read from standard input when it is left out",
    )


def add_chat_flags(parser: argparse.ArgumentParser) -> None:
    add_model_flags(parser)
    parser.add_argument("--instructions", metavar="TEXT", default="", help="what the model is told first")
    parser.add_argument("--max-iterations", type=int, metavar="N", help="tool rounds of an answer at most (default 10)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="tokens the model may write at once")
    parser.add_argument(
        "--session", metavar="NAME", help="the session to go on with (default: a new one, named by the time)"
    )
    _add_owner(parser)
    add_storage_flags(parser)


def add_record_flags(parser: argparse.ArgumentParser) -> None:
    add_run_flags(parser)
    parser.add_argument(
        "-o", "--output", dest="record", required=True, metavar="FILE.jsonl", help="the cassette to write"
    )
    parser.add_argument("--run", metavar="ID", help="write down this run of a server, from its journal")


def add_replay_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.jsonl", help="a cassette")
    parser.add_argument(
        "--agent",
        metavar="FILE.prompty",
        help="the agent's file as it is today: its messages, tools and options must be those that were recorded",
    )


def add_branch_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.jsonl", help="a cassette")
    parser.add_argument(
        "--at", type=int, required=True, metavar="ROUND", help="the first round that is live; rounds count from 0"
    )
    parser.add_argument("-m", "--model", required=True, metavar="SPEC", help="the model to ask, as PROVIDER:NAME")
    parser.add_argument("--base-url", metavar="URL", help="where the model's server is")
    parser.add_argument("--tools", metavar="FILE.py", action="append", help="a Python file with tools; may be repeated")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="write all of it to another cassette")


def add_validate_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE.prompty", nargs="+", help="prompty files")
    parser.add_argument("--strict", action="store_true", help="count warnings as problems")


def add_render_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.prompty", help="a prompty file")
    parser.add_argument("--json", action="store_true", help="print the messages as JSON")
    _add_inputs(parser)


def add_schema_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="?", choices=("prompty", "events"), default="prompty", help="of what: prompty, events"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write it to this file instead")


def add_models_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=["list", "pull"],
        default="list",
        help="'list' (the default) shows what is there; 'pull' gets the default model, again if it is there",
    )


def add_keys_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=["create", "list", "revoke"],
        help="'create' prints a new key, once; 'list' shows whose keys there are; 'revoke' ends one",
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="of the key to revoke, as 'list' shows it")
    parser.add_argument(
        "--owner", metavar="NAME", help="whose the new key is: all keys of an owner find what any of them has made"
    )
    add_storage_flags(parser)


def add_page_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["setup"], help="'setup' fetches what is not there yet")
    parser.add_argument(
        "--folder", metavar="DIR", help="where it is kept, as [page] folder says (default ~/.local/share/ronda/page)"
    )


def add_sessions_flags(parser: argparse.ArgumentParser) -> None:
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
    _add_owner(parser)
    add_storage_flags(parser)


def _add_owner(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--owner", metavar="NAME", default="", help="whose sessions, where the server has keys")
