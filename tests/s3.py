"""A stand-in for S3 (moto), in a process of its own: its packages do not go with ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PACKAGES: Final = Path(sys.prefix) / "moto"
MISSING: Final = "moto, which stands in for S3, is not there: 'make test' installs it"


def is_there() -> bool:
    return PACKAGES.is_dir()


def environment(url: str) -> dict[str, str]:
    """What a process that keeps files there needs to know."""
    settings = {"ENDPOINT_URL_S3": url, "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1"}
    return {f"AWS_{name}": value for name, value in settings.items()}


@contextmanager
def serving() -> Iterator[str]:
    """Its address."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    env = {**os.environ, "PYTHONPATH": str(PACKAGES), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        # It writes a line for each request, and stops at a pipe that is full.
        reading = threading.Thread(target=deque, args=(process.stderr, 0), daemon=True)
        try:
            found = next(url for line in process.stderr if (url := re.search(r"http://127\.0\.0\.1:\d+", line)))
            reading.start()
            yield found.group()
        finally:
            process.kill()
            if reading.ident is not None:
                reading.join()
