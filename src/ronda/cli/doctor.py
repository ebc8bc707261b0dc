"""`ronda doctor`: how code that a model writes is isolated on this machine, whether pages can be shown, and what would help."""

from __future__ import annotations

import argparse
import asyncio
import sys

from ronda.sandbox.doctor import examine, examine_python, this_place, write_line
from ronda.sandbox.layers import find_layers
from ronda.tools.page.doctor import examine_page


def doctor(_: argparse.Namespace) -> int:
    isolation = examine(find_layers(), this_place())
    lines = [*isolation, asyncio.run(examine_python(sys.executable)), *examine_page()]
    print("\n".join(map(write_line, lines)))
    return 0 if lines[0].state == "works" else 1
