"""`ronda`: its words → a command and what it was told, or what is wrong with them."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable
from typing import Any

from ronda._version import __version__
from ronda.cli.commands import COMMANDS
from ronda.cli.flags import Flags
from ronda.cli.terminal import leave_quietly, prepare_streams
from ronda.errors import BadConfig, BadRequest


def main(arguments: list[str] | None = None) -> int:
    flags = parse(arguments)
    if flags.command is None:
        _parser()[0].print_help(sys.stderr)
        return 2
    prepare_streams()
    try:
        code: int = flags.call(flags)
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
        hint = _closest(word, commands) + "'ronda --help' lists them"
    return f"there is no command '{word}'; {hint}"


def _not_understood(command: str, parser: argparse.ArgumentParser, word: str) -> str:
    if not word.startswith("-"):
        quotes = "; put quotes around a prompt of several words" if command == "run" else ""
        return f"'{word}' is one argument too many{quotes}"
    flag = word.partition("=")[0]
    hint = _closest(flag, re.findall(r"--[a-z-]+", parser.format_help()))
    help = f"ronda {command} --help" if command else "ronda --help"
    return f"there is no flag '{flag}'; {hint}'{help}' lists them"


def _closest(word: str, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, words, 1)
    return f"did you mean '{close[0]}'? " if close else ""


class _Parser(argparse.ArgumentParser):
    """A flag is given by its whole name: an abbreviation would change its meaning when another flag is added."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Said in our words: those of argparse are others in each version of Python."""
        if action.choices is not None and value not in action.choices:
            words = " ".join([self.prog, *action.option_strings[-1:], str(value)])
            hint = _closest(str(value), action.choices) + f"choose from {', '.join(action.choices)}"
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
    for command in COMMANDS:
        made = commands.add_parser(
            command.name, help=command.help, description=command.description, usage=command.usage
        )
        made.set_defaults(call=command.call)
        command.add_flags(Flags(made))
    return parser, commands.choices


if __name__ == "__main__":
    sys.exit(main())
