"""No request makes all others wait until something is imported: what is slow to import is imported beside the event loop."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# Of one statement: so few small modules take a millisecond or two each.
MOST = 5
SLOW = (
    "mcp",
    "mcp_types",
    "pydantic",
    "pydantic_core",
    "aiohttp",
    "anyio",
    "jinja2",
    "yaml",
    "lxml",
    "trafilatura",
    "pypdf",
    "PIL",
)
ROOT = Path(__file__).parents[2]


def test_nothing_that_is_slow_to_import_is_imported_by_the_event_loop() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.server.import_walk"], capture_output=True, text=True, timeout=600, cwd=ROOT
    )

    assert done.returncode == 0, done.stderr
    found: list[tuple[list[str], str, str]] = json.loads(done.stdout)
    slow = [
        (place, asked, modules[:3])
        for modules, place, asked in found
        if len(modules) > MOST or any(name.partition(".")[0] in SLOW for name in modules)
    ]
    assert slow == []
