"""`ronda`: its words → a command and what it was told, or what is wrong with them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, NoReturn

from ronda._extras import MissingPackages
from ronda._suggest import did_you_mean
from ronda._version import __version__
from ronda.cli.commands import COMMANDS, call_feature, feature_commands
from ronda.cli.flags import Flags
from ronda.cli.terminal import leave_quietly, prepare_streams
from ronda.errors import BadConfig, BadRequest


def main(arguments: list[str] | None = None) -> int:
    try:
        flags = parse(arguments)
    except BadConfig as error:  # of a feature that is named
        print(f"ronda: {error}", file=sys.stderr)
        return 2
    if flags.command is None:
        print(_what_next(), file=sys.stderr)
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
        print(": ".join(part for part in ("ronda", where, f"{error}{_way_out(error)}") if part), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _what_next() -> str:
    """For a person who typed 'ronda' and nothing else."""
    return """usage: ronda COMMAND [FLAG ...]

    ronda run "Why is the sky blue?"        ask a model once
    ronda chat                              talk with a model, or with an agent
    ronda init my-agent                     write a project: agent, tool, test
    ronda serve                             serve models and agents over HTTP, with a page at /ui
    ronda models default ollama:qwen3       choose the model that is asked when you name none

'ronda --help' lists all commands, 'ronda COMMAND --help' explains one."""


def _way_out(error: BadConfig | BadRequest) -> str:
    """What the library cannot say, since only a command has flags."""
    if isinstance(error, MissingPackages) and error.extra == "local":
        return "; or ask another model: --model ollama:qwen3, --model openai:gpt-5.5, …"
    if isinstance(error, BadRequest) and error.code == "missing_input":
        return f"; give it with -i {error.param}=…"
    return ""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    words = sys.argv[1:] if arguments is None else arguments
    parser, commands = _parser(words)
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
        hint = _hint(word, commands, "'ronda --help' lists them")
    return f"there is no command '{word}'; {hint}"


def _not_understood(command: str, parser: argparse.ArgumentParser, word: str) -> str:
    if not word.startswith("-"):
        quotes = "; put quotes around a prompt of several words" if command == "run" else ""
        return f"'{word}' is one argument too many{quotes}"
    flag = word.partition("=")[0]
    help_text = f"ronda {command} --help" if command else "ronda --help"
    flags = re.findall(r"--[a-z-]+", parser.format_help())
    hint = _hint(flag, flags, f"'{help_text}' lists them")
    return f"there is no flag '{flag}'; {hint}"


def _hint(word: str, known: Iterable[str], more: str) -> str:
    return f"{did_you_mean(word, known)} {more}".lstrip()


def command_parsers() -> Mapping[str, argparse.ArgumentParser]:
    """The parser of each command, by its name."""
    return _parser()[1]


_ARGUMENT: Final = re.compile(r"argument (?P<flag>\S+): (?P<wrong>.*)", re.DOTALL)
_NO_NUMBER: Final = re.compile(r"invalid (?P<kind>int|float) value: (?P<value>.*)", re.DOTALL)


class _Help(argparse.HelpFormatter):
    """Fills paragraphs, as usual; examples stand line by line."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return "".join(f"{indent}{line}" for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


class _Parser(argparse.ArgumentParser):
    """A flag is given by its whole name: an abbreviation would change its meaning when another flag is added."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """In one line: eight lines of usage above it hide what is wrong."""
        missing = message.removeprefix("the following arguments are required: ").split(", ")
        for action in self._actions:
            if action.choices and action.dest in missing:
                self.exit(2, f"ronda: {self.prog!r} needs a word behind it: {', '.join(action.choices)}\n")
        from_argparse = message.startswith(("argument ", "the following "))  # ours say the way out themselves
        hint = f"; '{self.prog} --help' says what it takes" if from_argparse else ""
        self.exit(2, f"ronda: {self._plain(message)}{hint}\n")

    def _plain(self, message: str) -> str:
        """What argparse says, in words of ours."""
        if message.startswith("the following "):
            return f"{self.prog!r} needs {message.partition(': ')[2]}"
        if (found := _ARGUMENT.match(message)) is None:
            return message
        flag, wrong = found["flag"].rpartition("/")[2], found["wrong"]
        if number := _NO_NUMBER.match(wrong):
            return f"{flag} is {number['value']}; it is a {'whole ' if number['kind'] == 'int' else ''}number"
        if wrong == "expected one argument":
            return f"{flag} needs something behind it"
        if wrong.startswith("ignored explicit argument"):
            return f"{flag} takes nothing behind it"
        return message

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Said in our words: those of argparse are others in each version of Python."""
        if action.choices is not None and value not in action.choices:
            words = " ".join([self.prog, *action.option_strings[-1:], str(value)])
            hint = _hint(str(value), action.choices, f"choose from {', '.join(action.choices)}")
            raise argparse.ArgumentError(None, f"there is no '{words}'; {hint}")


def _named_features(words: Sequence[str]) -> list[str]:
    """Features of other packages, whose settings have flags: they must be known before the flags are read."""
    named = [after for word, after in pairwise(words) if word == "--feature" and not after.startswith("-")]
    return named + [word.partition("=")[2] for word in words if word.startswith("--feature=")]


def _parser(words: Sequence[str] = ()) -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(
        prog="ronda",
        description="Runs the agent loop: calls a model, runs the tools it asks for, until there is an answer.",
        epilog="Models are named PROVIDER:NAME, such as openai-chat:NAME (any server that speaks Chat Completions, with "
        "--base-url), local:NAME (a GGUF file on this machine) or script:FILE.json (plays the turns in the file).",
    )
    parser.add_argument("--version", action="version", version=f"ronda {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for command in COMMANDS:
        made = commands.add_parser(
            command.name,
            help=command.help,
            description=command.description,
            usage=command.usage,
            epilog=command.epilog,
            formatter_class=_Help,
        )
        made.set_defaults(call=command.call)
        command.add_flags(Flags(made, _named_features(words)))
    for feature in feature_commands(words[0] if words else ""):
        made = commands.add_parser(feature.name, help=feature.help, description=feature.description)
        made.set_defaults(call=partial(call_feature, feature))
        feature.add_flags(made)
    return parser, commands.choices


if __name__ == "__main__":
    sys.exit(main())
