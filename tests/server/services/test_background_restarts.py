"""Background runs over the end of their server's process: none is lost, no call is made twice, and those that wait wait on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.server.restarts import Folder, call


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_is_driven_and_what_waits_goes_on_in_the_next_process(tmp_path: Path, how: signal.Signals) -> None:
    folder = Folder(tmp_path, call("count"), call("wait"), "over")
    flags = ("--background-runs", "1", "--shutdown-seconds", "0.1")
    with folder.serving(*flags) as first:
        driven = first.ask(background=True, stream=False)
        folder.until("waiting")
        queued = first.ask(background=True, stream=False)
        before = [first.response(run_id)["status"] for run_id in (driven, queued)]
        first.end(how)
    (folder.path / "go on").touch()
    with folder.serving(*flags) as second:
        after = [second.ended(run_id) for run_id in (driven, queued)]
        kinds = [event["type"] for event in second.events(queued.replace("resp_", "run_"))]

    assert before == ["in_progress", "queued"]
    assert [response["status"] for response in after] == ["completed", "completed"]
    assert [response["output"][-1]["content"][0]["text"] for response in after] == ["over", "over"]
    assert folder.counted == {"it": 2}
    assert "recovered" not in kinds  # no process had driven it
