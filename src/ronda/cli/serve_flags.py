"""The flags of `ronda serve`, and of whatever else has its settings: made from the settings' table (`server.setting`)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

from ronda.cli.flags import Flags
from ronda.server.features.table import all_rows
from ronda.server.setting import LISTENING, SETTINGS, Row, member_rows


def add_serve_flags(flags: Flags) -> None:
    _add_settings(flags)


def add_worker_flags(flags: Flags) -> None:
    """All of them but where it listens: it does not."""
    _add_settings(flags, without=LISTENING)


def add_mcp_flags(flags: Flags) -> None:
    """Likewise: it speaks over the pipes of its process."""
    flags.positional("action", "what to do", choices=["serve", "login", "logout"])
    flags.positional("name", "of the MCP server to log in to, as the settings have it", nargs="?", metavar="NAME")
    flags.switch("--no-browser", "login: print the address, and open no browser")
    flags.whole(
        "--login-port N",
        "login: the port of this machine that the browser comes back to (default: any that is free)",
        default=0,
    )
    _add_settings(flags, without=LISTENING)


def flag_rows(features: Sequence[str] = ()) -> Sequence[Row]:
    """Every setting that has a flag, and every member of a table that has one. `features` are those of other packages."""
    rows = [one for row in all_rows(features) for one in (row, *member_rows(row))]
    return [row for row in rows if row.setting.flag]


def _add_settings(flags: Flags, without: str = "") -> None:
    groups: dict[str, Flags] = {}
    for row in flag_rows(flags.features):
        title = row.setting.group
        if title != without:
            if title not in groups:
                groups[title] = flags.group(title)
            _add_flag(groups[title], row)
    groups[SETTINGS].text("--config FILE.toml", "settings from a file; flags and RONDA_… variables win over it")


def _add_flag(flags: Flags, row: Row) -> None:
    """A flag of the setting's type. What it is given is parsed into the setting's name; None if it is not given."""
    setting = row.setting
    default = f": {setting.default}" if setting.default else f" {row.default_text}"
    help_text = f"{setting.help} (default{default})" if row.default_text else setting.help
    options: dict[str, Any] = {"dest": row.name}
    if row.is_list:
        options["action"] = "append"
    if row.name == "model":
        options["action"] = _FirstAndMore
    if row.choices:
        options["choices"] = row.choices
    elif row.kinds == (bool,):
        options["action"] = argparse.BooleanOptionalAction if row.default is None else "store_true"
        options["default"] = None
    elif row.kinds[0] in (int, float):
        options["type"] = row.kinds[0] if len(row.kinds) == 1 else partial(_number_or_word, get_args(row.kinds[1]))
    flags.text(setting.flag, help_text.replace("%", "%%"), **options)


class _FirstAndMore(argparse.Action):
    """The first model is the server's own; those that come after it are `more_models`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is None:
            setattr(namespace, self.dest, values)
        else:
            namespace.more_models = [*getattr(namespace, "more_models", ()), values]


def _number_or_word(words: Sequence[str], text: str) -> int | str:
    if text in words:
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number, and not {' or '.join(words)}") from None
