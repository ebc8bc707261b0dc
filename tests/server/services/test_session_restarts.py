"""A server that ends while a run continues a session, and the next one on the same data folder."""

from __future__ import annotations

import json
import signal
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.server.restarts import Folder, Serving, call
from tests.timeouts import TIMEOUT

from ronda.core.calls import OUTCOME_UNKNOWN

TURNS: list[Any] = [[call("count"), call("wait"), "done"], ["On we go."]]


def session(serving: Serving) -> list[str]:
    with urllib.request.urlopen(f"{serving._url}/sessions/s", timeout=TIMEOUT) as answer:
        return [message["content"] or "" for message in json.load(answer)["messages"]]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_run_had_come_to_is_in_its_session(tmp_path: Path, how: signal.Signals) -> None:
    folder = Folder(tmp_path, *TURNS)
    with folder.serving("--shutdown-seconds", "0.1") as first:
        asking = threading.Thread(target=first.ask_and_stay, args=["run_ofsession1"], kwargs={"session_id": "s"})
        asking.start()
        folder.until("waiting")
        first.end(how)
        asking.join(TIMEOUT)
    with folder.serving() as second:
        assert second.ask_and_stay("run_ofsession2", session_id="s", input="And now?")
        said = session(second)
    assert said[:3] == ["go", "", "counted"]
    assert said[3] == ""
    assert said[4] == OUTCOME_UNKNOWN or "may have taken effect" in said[4]
    assert said[5:] == ["And now?", "On we go."]
    assert folder.counted == {"it": 1}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_goes_on_in_the_next_process_keeps_its_session(tmp_path: Path, how: signal.Signals) -> None:
    """Another request waits for it, and goes on from what it came to."""
    folder = Folder(tmp_path, *TURNS)
    with folder.serving("--shutdown-seconds", "0.1") as first:
        first.ask(on_disconnect="detach", session_id="s")
        folder.until("waiting")
        first.end(how)
    (tmp_path / "waiting").unlink()
    with folder.serving() as second:
        asking = threading.Thread(
            target=second.ask_and_stay, args=["run_ofsession2"], kwargs={"session_id": "s", "input": "And now?"}
        )
        asking.start()
        (tmp_path / "go on").touch()
        asking.join(TIMEOUT)
        said = session(second)
    assert [text for text in said if text] == ["go", "counted", said[4], "done", "And now?", "On we go."]
    assert folder.counted == {"it": 1}
