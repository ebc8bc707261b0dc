"""`ronda doctor`: how code that a model writes is isolated on this machine, what the settings of a server ask for and whether it
works (every feature is asked), and what would help."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import textwrap
from functools import partial
from typing import TYPE_CHECKING, Final

from ronda._doctor import Line, State, write_line
from ronda._extras import has_extra, install
from ronda._islands import island_module
from ronda.cli.terminal import has_colours
from ronda.errors import BadConfig
from ronda.sandbox.doctor import examine_machine

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig

_NARROWEST: Final = 30  # columns of a text: in a narrower terminal its lines are broken anyway
_COLOURS: Final[dict[State, int]] = {"works": 32, "partly": 33, "missing": 33, "fails": 31}  # green, yellow, red


def doctor(arguments: argparse.Namespace) -> int:
    lines = asyncio.run(_examine(arguments))
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in lines:
        print(write_line(line) if columns is None else _fitting(line, columns))
    fails = any(line.state == "fails" for line in lines)
    isolates = any(line.name == "isolation" and line.state == "works" for line in lines)
    return 0 if isolates and not fails else 1


def _fitting(line: Line, columns: int) -> str:
    """The text in a column of its own, as wide as the terminal lets it be, and what would help below it."""
    name, state = f"{line.name:<11} ", f"{line.state:<8} "
    left = len(name + state)
    wrap = partial(textwrap.wrap, width=max(_NARROWEST, columns - left), break_long_words=False, break_on_hyphens=False)
    rows = wrap(line.text) + (wrap(line.help, initial_indent="→ ", subsequent_indent="  ") if line.help else [])
    if has_colours(sys.stdout):
        state = f"\x1b[{_COLOURS[line.state]}m{state}\x1b[0m"
    return name + state + f"\n{' ' * left}".join(rows)


async def _examine(arguments: argparse.Namespace) -> list[Line]:
    if not has_extra("server"):
        missing = Line("server", "missing", "agents can be run, and not served over HTTP", install("server"))
        return [*await _examine_machine(), missing]
    from ronda.cli.settings import read_config

    source = "those of flags and variables" if arguments.config is None else arguments.config
    try:
        config = read_config(arguments)
        lines = await _ask_features(config)
    except BadConfig as error:
        return [*await _examine_machine(), Line("settings", "fails", str(error))]
    return [*lines, Line("settings", "works", f"{source}: a server can be made of them")]


async def _ask_features(config: ServerConfig) -> list[Line]:
    """Of a server that is made and not started: what clients and runs have made is not touched. Raises BadConfig."""
    from ronda.cli.serve import data_folder, state_folder
    from ronda.journal.memory import MemoryJournal
    from ronda.server.app import Server
    from ronda.server.features.contract import Folders
    from ronda.server.features.running import prepare_features
    from ronda.server.features.table import wanted
    from ronda.server.storage import open_catalog, open_shared

    folder = data_folder(config)
    classes = wanted(config)
    given = await asyncio.to_thread(prepare_features, classes, config, Folders(folder, state_folder()), {})
    shared = await asyncio.to_thread(open_shared, config)
    catalog = await asyncio.to_thread(open_catalog, folder, shared)
    server = Server(config, MemoryJournal(), catalog=catalog, features=classes, given=given, data_folder=folder)
    try:
        return await server.features.doctor()
    finally:
        await server.close()


async def _examine_machine() -> list[Line]:
    return [*await examine_machine(), *await asyncio.to_thread(_examine_page)]


def _examine_page() -> list[Line]:
    if not has_extra("page"):
        return [Line("page", "missing", "pages cannot be built, nor pictures of them taken", install("page"))]
    try:
        lines: list[Line] = island_module("ronda.tools.page.doctor").examine_page()  # with aiohttp behind it
    except BadConfig as error:
        return [Line("page", "missing", str(error))]
    return lines
