"""`ronda …` in a process that kills itself at one of its journal's commits: KILLED is "before 3" or "after 3"."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from ronda.cli.main import main
from ronda.journal.sqlite_commits import Commits

WHEN, AT = os.environ["KILLED"].split()
commit = Commits._write
commits = 0


def commit_or_die(self: Commits, portions: list[Any]) -> Any:
    global commits
    commits += bool(portions)
    if WHEN == "before" and commits == int(AT):
        os.kill(os.getpid(), signal.SIGKILL)
    refused = commit(self, portions)
    if WHEN == "after" and commits == int(AT):
        os.kill(os.getpid(), signal.SIGKILL)
    return refused


Commits._write = commit_or_die  # type: ignore[method-assign]  # in a process that is made for it
sys.exit(main(sys.argv[1:]))
