"""`ronda record`, `ronda replay` and `ronda branch`, as a person types them."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import script, shown
from tests.server.restarts import Folder, call

TOOLS = '''
from ronda import tool

@tool
async def weather(city: str) -> str:
    """How the weather is."""
    return f"sunny in {city}"
'''

PROMPTY = """---
name: forecast
model:
  id: "{model}"
inputs:
  - name: city
    kind: string
---
system:
Be brief.
user:
How is {{{{city}}}}?
"""


def asks(city: str) -> dict[str, Any]:
    return {"calls": [{"name": "weather", "arguments": {"city": city}}]}


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    return str(path)


def test_what_is_recorded_is_played_again(tmp_path: Path, tools: str, capsys: pytest.CaptureFixture[str]) -> None:
    cassette, model = str(tmp_path / "run.jsonl"), script(tmp_path, asks("Rome"), "Sunny.")
    recorded = shown(capsys, "record", "-o", cassette, "-m", model, "--tools", tools, "How is Rome?")
    Path(tools).unlink()  # neither tools nor the model are needed
    (tmp_path / "script.json").unlink()
    code, out, err = shown(capsys, "replay", cassette)

    assert recorded[:2] == (0, "Sunny.\n")
    assert (code, out) == (0, "Sunny.\n")
    assert "2 model calls" in err


def test_a_difference_is_said_with_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cassette = tmp_path / "run.jsonl"
    shown(capsys, "record", "-o", str(cassette), "-m", script(tmp_path, "Sunny."), "How is Rome?")
    lines = [json.loads(line) for line in cassette.read_text().splitlines()]
    for line in lines:
        if line["line"] == "event" and line["event"]["type"] == "model_finished":
            line["event"]["turn"]["parts"][0]["text"] = "Rainy."
    cassette.write_text("\n".join(map(json.dumps, lines)))
    code, out, err = shown(capsys, "replay", str(cassette))

    assert (code, out) == (1, "")
    assert '$.turn.parts[0].text: recorded "Rainy.", now "Sunny."' in err


def test_a_file_that_has_changed_since_is_told_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, cassette = tmp_path / "forecast.prompty", str(tmp_path / "run.jsonl")
    file.write_text(PROMPTY.format(model=script(tmp_path, "Sunny.")))
    recorded = shown(capsys, "record", "-o", cassette, "-i", "city=Rome", str(file))
    same = shown(capsys, "replay", cassette, "--agent", str(file))
    file.write_text(file.read_text().replace("Be brief", "Be verbose"))
    code, _, err = shown(capsys, "replay", cassette, "--agent", str(file))

    assert (recorded[0], recorded[1], same[0]) == (0, "Sunny.\n", 0), (recorded, same)
    assert code == 1
    assert '$[0].text: recorded "Be brief.", now "Be verbose."' in err


def test_a_branch_goes_on_live_from_a_round(tmp_path: Path, tools: str, capsys: pytest.CaptureFixture[str]) -> None:
    cassette, branched = str(tmp_path / "run.jsonl"), str(tmp_path / "branch.jsonl")
    shown(
        capsys,
        "record",
        "-o",
        cassette,
        "-m",
        script(tmp_path, asks("Rome"), "Sunny."),
        "--tools",
        tools,
        "How is Rome?",
    )
    # Of the other model the first turn is not asked for: it was played.
    other = script(tmp_path, "never said", asks("Oslo"), "Rome and Oslo are sunny.")
    flags = ("--at", "1", "-m", other, "--tools", tools, "-o", branched)
    code, out, err = shown(capsys, "branch", cassette, *flags)
    again = shown(capsys, "replay", branched)

    assert (code, out) == (0, "Rome and Oslo are sunny.\n"), err
    assert again[:2] == (0, "Rome and Oslo are sunny.\n"), again
    assert "3 model calls" in again[2]


@pytest.mark.parametrize("at", ["-1", "9"])
def test_a_branch_begins_in_a_round_that_is_there(tmp_path: Path, at: str, capsys: pytest.CaptureFixture[str]) -> None:
    cassette, model = str(tmp_path / "run.jsonl"), script(tmp_path, "Sunny.")
    shown(capsys, "record", "-o", cassette, "-m", model, "How is Rome?")
    code, _, err = shown(capsys, "branch", cassette, "--at", at, "-m", model)

    assert (code, f"--at is {at}" in err) == (2, True)


def test_what_is_no_cassette_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.jsonl").write_text("what")
    no_file = shown(capsys, "replay", str(tmp_path / "none.jsonl"))
    none = shown(capsys, "replay", str(tmp_path / "x.jsonl"))
    unwritable = shown(capsys, "record", "-o", str(tmp_path / "no" / "x.jsonl"), "-m", script(tmp_path, "hi"), "hi")

    assert (no_file[0], none[0], unwritable[0]) == (2, 2, 2)
    assert "Traceback" not in no_file[2] + none[2] + unwritable[2]


@pytest.mark.parametrize("kept_in", ["folder", "database"])
def test_a_run_of_a_server_is_written_down_and_played(
    kept_in: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Folder(tmp_path / "server", call("count", "one"), call("count", "two", "three"), "over")
    database = ["--database", request.getfixturevalue("postgres")] if kept_in == "database" else []
    storage = database or ["--data-dir", str(folder.path / "data")]
    cassettes = [tmp_path / "from the journal.jsonl", tmp_path / "from the server.jsonl"]
    with folder.serving(*database) as server:
        run = server.ask(background=True, stream=False)
        server.ended(run)
        name = run.replace("resp_", "run_")
        with urllib.request.urlopen(f"{server.url}/runs/{name}/cassette") as answer:
            cassettes[1].write_bytes(answer.read())
    exported = shown(capsys, "record", "-o", str(cassettes[0]), "--run", name, *storage)
    played = [shown(capsys, "replay", str(cassette)) for cassette in cassettes]

    assert exported[0] == 0, exported
    assert [one[:2] for one in played] == [(0, "over\n")] * 2, played
    assert folder.counted == {"one": 1, "two": 1, "three": 1}
    assert cassettes[0].read_bytes() == cassettes[1].read_bytes()

    unknown = shown(capsys, "record", "-o", str(cassettes[0]), "--run", "run_none", *storage)
    assert (unknown[0], "has no run 'run_none'" in unknown[2]) == (2, True), unknown
