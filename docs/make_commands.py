"""Writes docs/commands.md from the parsers of the commands. The settings of `ronda serve` have a page of their own."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from ronda.cli.commands import COMMANDS
from ronda.cli.main import command_parsers
from ronda.cli.serve_flags import flag_rows
from ronda.server.setting import LISTENING

PAGE = Path(__file__).parent / "commands.md"

HEAD = """# Commands

Every command of `ronda`. `make docs` writes this page from the parsers; `ronda COMMAND --help` prints the same.

| command | does |
|---|---|
"""


def page() -> str:
    parsers = command_parsers()
    listed = [f"| [`ronda {one.name}`](#ronda-{one.name}) | {one.help} |" for one in COMMANDS]
    return HEAD + "\n".join([*listed, ""]) + "".join(_section(one.name, parsers[one.name]) for one in COMMANDS)


def _section(name: str, parser: argparse.ArgumentParser) -> str:
    settings = {row.name for row in flag_rows()}
    listening = {row.name for row in flag_rows() if row.setting.group == LISTENING}  # not of what listens nowhere
    actions = [one for one in parser._actions if one.dest != "help"]
    has_settings = settings <= {one.dest for one in actions} | listening
    own = [one for one in actions if not (has_settings and one.dest in settings)]
    lines = [f"\n## ronda {name}\n", f"{parser.description}\n"]
    if has_settings:
        lines.append(f"It takes the [settings](settings.md) as flags{', and these:' if own else '.'}\n")
    if own:
        lines += ["| | |", "|---|---|", *_rows(own)]
    return "\n".join(lines) + "\n"


def _rows(actions: list[argparse.Action]) -> Iterator[str]:
    for action in actions:
        shown = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar or action.dest}`"
        if action.option_strings and action.nargs != 0:
            value = (
                "{" + ",".join(map(str, action.choices)) + "}"
                if action.choices
                else action.metavar or action.dest.upper()
            )
            shown += f" `{value}`"
        elif action.choices:
            shown = "`" + "`, `".join(map(str, action.choices)) + "`"
        yield f"| {shown.replace('|', chr(92) + '|')} | {(action.help or '').replace('%%', '%')} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
