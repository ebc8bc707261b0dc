"""A server that ends while a run waits for a person, and the next one, which is given the answer."""

from __future__ import annotations

import json
import signal
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.server.restarts import TOOLS, Folder, Serving, call
from tests.timeouts import TIMEOUT

PAY = '''
@tool(approval="ask")
async def pay() -> str:
    """Pay."""
    return await count("paid")
'''
RUN = "run_waits123"


def get(served: Serving, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(served._url + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        return json.load(answer)


def follow(served: Serving, until: bytes) -> None:
    """Read the run's events up to one of this kind."""
    with urllib.request.urlopen(f"{served._url}/runs/{RUN}/events", timeout=TIMEOUT) as events:
        assert any(line.strip() == b"event: " + until for line in events)


@pytest.mark.parametrize("decision", ["approve", "deny"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_waits_is_answered_in_the_next_process(tmp_path: Path, how: signal.Signals, decision: str) -> None:
    """Its client, who has not said that the run is to go on without it, is there until the process ends."""
    folder = Folder(tmp_path, call("pay"), "done")
    folder.tools.write_text(TOOLS.replace("@tool\nasync def count", "async def count") + PAY)
    with folder.serving() as first:
        asking = threading.Thread(target=first.ask_and_stay, args=(RUN,))
        asking.start()
        while asking.is_alive() and not is_there(first):
            pass
        follow(first, b"asked")
        first.end(how)
        asking.join()
    with folder.serving() as second:
        waiting = get(second, f"/runs/{RUN}")
        [question] = waiting["questions"]
        get(second, f"/runs/{RUN}/answer", {"id": question["id"], "decision": decision})
        follow(second, b"run_finished")
        ended = get(second, f"/runs/{RUN}")

    assert (waiting["state"], question["tool"]) == ("waiting", "pay")
    assert (ended["state"], ended["result"]["text"]) == ("finished", "done")
    assert folder.counted == ({"paid": 1} if decision == "approve" else {})


def is_there(served: Serving) -> bool:
    try:
        return bool(get(served, f"/runs/{RUN}"))
    except urllib.error.HTTPError as error:
        error.close()
        return False
