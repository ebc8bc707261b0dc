"""`ronda explain`, as a person types it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.commands import shown
from tests.server.restarts import Folder, call

from ronda.core.events import ModelFinished, ModelStarted, RunFinished, RunStarted
from ronda.core.parts import AssistantTurn, Text, user
from ronda.core.plan import Plan
from ronda.journal.sqlite import SqliteJournal


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


async def _keep_run(path: Path) -> None:
    journal = SqliteJournal(str(path))
    start = RunStarted("run_1", Plan("anthropic:claude-x"), (user("Hi"),))
    said = ModelFinished(AssistantTurn((Text("Hello."),)))
    journal.append("run_1", [start, ModelStarted(0), said, RunFinished("stop")])
    await journal.barrier("run_1")
    await journal.close()


def test_an_address_that_is_not_kept_is_said_to_be_the_usual_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(_keep_run(tmp_path / "journal.db"))
    words = ("explain", "run_1", "--data-dir", str(tmp_path))
    usual = shown(capsys, *words)
    named = shown(capsys, *words, "--base-url", "http://127.0.0.1:9")

    [first, *_] = usual[1].splitlines()
    assert first == "round 0: POST https://api.anthropic.com/v1/messages (unless the server had a --base-url)"
    assert named[1].splitlines()[0] == "round 0: POST http://127.0.0.1:9/v1/messages"
