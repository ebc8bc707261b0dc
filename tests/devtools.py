"""A browser without a window: it opens a page, and a test asks the page in JavaScript."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.request import Request, urlopen

from tests.timeouts import TIMEOUT
from tests.web.test_web_page import BROWSERS
from websockets.sync.client import ClientConnection, connect


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def opened(
    browser: str, url: str, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Callable[[str], Any]]:
    """The page at `url`: a function that runs an expression in it, waits for its promise, and gives its value."""
    flags = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--remote-debugging-port=0")
    process = subprocess.Popen(
        [browser, *flags], env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stderr is not None
        found = next(filter(None, (re.search(r"ws://([\d.]+:\d+)/", line) for line in process.stderr)))
        with urlopen(Request(f"http://{found[1]}/json/new", method="PUT"), timeout=TIMEOUT) as answer:
            target = json.load(answer)
        with connect(target["webSocketDebuggerUrl"], max_size=None) as devtools:

            def tell(method: str, **given: object) -> Any:
                devtools.send(json.dumps({"id": 1, "method": method, "params": given}))
                return _wait(devtools, lambda message: message.get("id") == 1)["result"]

            def evaluate(expression: str) -> Any:
                said = tell("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
                assert "exceptionDetails" not in said, said
                return said["result"].get("value")

            tell("Page.enable")
            tell("Page.navigate", url=url)
            _wait(devtools, lambda message: message.get("method") == "Page.loadEventFired")
            yield evaluate
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its own processes, too
        process.communicate(timeout=TIMEOUT)


def _wait(devtools: ClientConnection, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    ends = time.monotonic() + TIMEOUT
    while not fits(message := json.loads(devtools.recv(timeout=max(0.0, ends - time.monotonic())))):
        pass
    return cast("dict[str, Any]", message)
