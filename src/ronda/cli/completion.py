"""`ronda completion bash|zsh|fish`: a script for the shell, printed from the parser, so that Tab knows every command and flag.

Written here rather than by argcomplete or shtab: the first starts Python at each Tab, and the second has no fish. Little
is completed: commands, flags, words that a flag or an argument may be, and otherwise files.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from typing import Final

_SHELLS: Final = ("bash", "zsh", "fish")


def completion(arguments: argparse.Namespace) -> int:
    from ronda.cli.main import command_parsers  # which imports the table of commands that this one is in

    parsers = command_parsers()
    match arguments.shell:
        case "bash":
            print(_bash(parsers))
        case "zsh":
            print("#compdef ronda\nautoload -U +X bashcompinit && bashcompinit\n" + _bash(parsers))
        case _:
            print("\n".join(_fish(parsers)))
    return 0


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [name for action in parser._actions for name in action.option_strings]


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """What the first argument of a command may be, where that is one of a few."""
    found = [action.choices for action in parser._actions if not action.option_strings and action.choices]
    return [str(word) for word in found[0]] if found else []


def _bash(parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    cases = "\n".join(
        f'    {name}) flags="{" ".join(_flags(parser))}"; words="{" ".join(_words(parser))}" ;;'
        for name, parser in parsers.items()
    )
    choices = "\n".join(
        f'    {flag}) COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$word")); return ;;'
        for flag, words in sorted(_choices(parsers).items())
    )
    return f"""_ronda() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" flags words
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(parsers)} --help --version" -- "$word"))
    return
  fi
  case "$before" in
{choices}
  esac
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  if [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$word"))
  elif [ -n "$words" ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _ronda ronda"""


def _choices(parsers: Mapping[str, argparse.ArgumentParser]) -> dict[str, list[str]]:
    """Flags whose value is one of a few words, in all commands the same."""
    found: dict[str, list[str]] = {}
    for parser in parsers.values():
        for action in parser._actions:
            if action.choices and action.option_strings:
                found.update({name: [str(word) for word in action.choices] for name in action.option_strings})
    return found


def _fish(parsers: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    yield "complete -c ronda -n __fish_use_subcommand -f"
    for name, parser in parsers.items():
        yield f"complete -c ronda -n __fish_use_subcommand -f -a {name} -d {_quoted(parser.description or '')}"
        inside = f"-n '__fish_seen_subcommand_from {name}'"
        if words := _words(parser):
            yield f"complete -c ronda {inside} -f -a '{' '.join(words)}'"
        for action in parser._actions:
            if not action.option_strings:
                continue
            names = " ".join(
                f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in action.option_strings
            )
            value = (
                f" -x -a '{' '.join(map(str, action.choices))}'"
                if action.choices
                else " -r"
                if action.nargs != 0
                else ""
            )
            yield f"complete -c ronda {inside} {names}{value} -d {_quoted(action.help or '')}"


def _quoted(text: str) -> str:
    """The first sentence, as fish reads it."""
    sentence = re.split(r"(?<=[.;:]) ", " ".join(text.replace("%%", "%").split()))[0].rstrip(";:")
    return "'" + sentence.replace("\\", "\\\\").replace("'", "\\'") + "'"
