"""`ronda explain`, as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.commands import shown
from tests.server.restarts import Folder, call


def test_a_run_of_a_server_is_explained_round_by_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Folder(tmp_path / "server", call("count", "one"), "over")
    with folder.serving() as server:
        answer = server.ask(background=True, stream=False)
        server.ended(answer)
    run, storage = answer.replace("resp_", "run_"), ["--data-dir", str(folder.path / "data")]
    words = shown(capsys, "explain", run, *storage)
    lines = shown(capsys, "explain", run, "--json", *storage)
    one = shown(capsys, "explain", run, "--round", "1", *storage)
    missing = shown(capsys, "explain", run, "--round", "7", *storage)
    unknown = shown(capsys, "explain", "run_none", *storage)

    assert (words[0], lines[0], one[0]) == (0, 0, 0), (words, lines, one)
    first, second = [json.loads(line) for line in lines[1].splitlines()]
    assert (first["round"], second["round"], second["prefix"]["broken_at"]) == (0, 1, None)
    assert [message["role"] for message in second["body"]["messages"]] == ["user", "assistant", "tool"]
    assert "round 0:" in words[1]
    assert "as before" in words[1]
    assert "round 0:" not in one[1]
    assert "round 1:" in one[1]
    assert (missing[0], unknown[0]) == (2, 2)
    assert "no round 7" in missing[2]
    assert "run_none" in unknown[2]
