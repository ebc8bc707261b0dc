"""A server that ends while a run waits for a person, and the next one, which is given the answer."""

from __future__ import annotations

import itertools
import json
import signal
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.every_door import NAMES, PATHS, body_for
from tests.server.approval_doors import deciding, paused
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


def test_approvals_of_every_door_outlive_kill_9(tmp_path: Path) -> None:
    """The process is killed when the answers have ended, and each door's own request to the next one decides."""
    folder = Folder(tmp_path, call("pay"), "done")
    folder.tools.write_text(TOOLS.replace("@tool\nasync def count", "async def count") + PAY)
    flags, doors = ("--approval-timeout", "0.01"), list(itertools.product(NAMES, (False, True)))
    with folder.serving(*flags) as first:
        waiting = [paused(name, send(first, PATHS[name], body_for(name, stream)), stream) for name, stream in doors]
        first.end(signal.SIGKILL)
    with folder.serving(*flags) as second:
        heard = [send(second, *deciding(one, stream)) for one, (_, stream) in zip(waiting, doors, strict=True)]
        left = get(second, "/agent/approvals")["data"]
        with pytest.raises(urllib.error.HTTPError) as again:
            get(second, f"/agent/approvals/{waiting[0].ids[0]}", {"decision": "approve"})
        again.value.close()

    assert all(b"done" in answer for answer in heard)
    assert (folder.counted, left, again.value.code) == ({"paid": len(doors)}, [], 404)


def send(served: Serving, path: str, body: Any) -> bytes:
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    request = urllib.request.Request(f"{served._url}/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        return bytes(answer.read())


def is_there(served: Serving) -> bool:
    try:
        return bool(get(served, f"/runs/{RUN}"))
    except urllib.error.HTTPError as error:
        error.close()
        return False
