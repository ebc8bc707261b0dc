"""`ronda doctor`: how code that a model writes is isolated on this machine, whether pages can be shown, and what would help."""

from __future__ import annotations

import argparse
import asyncio
import sys

from ronda._extras import has_extra, install
from ronda._islands import island_module
from ronda.errors import BadConfig
from ronda.sandbox.doctor import Line, examine, examine_python, this_place, write_line
from ronda.sandbox.layers import find_layers


def doctor(_: argparse.Namespace) -> int:
    isolation = examine(find_layers(), this_place())
    lines = [*isolation, asyncio.run(examine_python(sys.executable)), *_examine_page()]
    print("\n".join(map(write_line, lines)))
    return 0 if lines[0].state == "works" else 1


def _examine_page() -> list[Line]:
    if not has_extra("page"):
        return [Line("page", "missing", "pages cannot be built, nor pictures of them taken", install("page"))]
    try:
        lines: list[Line] = island_module("ronda.tools.page.doctor").examine_page()  # with aiohttp behind it
    except BadConfig as error:
        return [Line("page", "missing", str(error))]
    return lines
