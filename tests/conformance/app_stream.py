"""The recorded cases of the app stream, played against `ronda serve` and judged by the data's own player.

Beside what the player looks at: a client that goes away ends the model's streams, and no turn is begun after that; what a
provider said in a turn, with its signatures, is in the next request.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.conformance.app_servers import AppServers
from tests.conformance.report import Excepted, PartResult, Tally, absent

Json = dict[str, Any]

# Where ours is better on purpose, or cannot be the same; each with its reason. None is needed so far.
_EXCEPTIONS: Final[dict[str, str]] = {}


def run(data: Path) -> PartResult:
    folder = data / "app-stream"
    if not (folder / "drive.py").is_file():
        return absent("app-stream/drive.py")
    drive = load_player(folder / "drive.py")
    tally = Tally()
    with AppServers(folder) as servers:
        for path in sorted(folder.glob("*.json")):
            case = json.loads(path.read_text(encoding="utf-8"))
            if "client" in case:
                tally.check("cases", path.stem, partial(_play, drive, servers, path.stem, case))
    return tally.result()


def load_player(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("app_stream_drive", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _play(drive: Any, servers: AppServers, name: str, case: Json) -> None:
    backend = servers.backend(case["backend"])
    lines = asyncio.run(drive.play(_quick(case), backend, servers.upstream))
    wrong = drive.judge(case, lines)
    if wrong and name in _EXCEPTIONS:
        raise Excepted(f"{name}: {_EXCEPTIONS[name]}")
    assert not wrong, "; ".join(wrong)
    if (further := _FURTHER.get(name)) is not None:
        further(lines, _asked(servers))


def _quick(case: Json) -> Json:
    """Nothing is to be seen after a second that was not there then: see `_ends_at_once`."""
    client = case["client"]
    return {**case, "client": {**client, "linger": 1}} if "linger" in client else case


def _asked(servers: AppServers) -> list[Json]:
    with urllib.request.urlopen(servers.upstream + "/__log", timeout=10) as answer:
        log: list[Json] = json.load(answer)["log"]
        return log


# ---- what the player does not look at ---------------------------------------------------------------------------------


def _ends_at_once(lines: list[Json], log: list[Json]) -> None:
    """Cancelled in the middle: within the second that the player waits, every stream was cut off, and none was begun."""
    events = [entry["event"] for entry in log]
    assert events.count("request") == 4, f"{events.count('request')} requests, not one for each variant"
    assert events.count("client gone") == 4, f"the streams went on: {events}"
    assert not any(entry["turn"] for entry in log if entry["event"] == "request"), (
        "a turn was begun after the client left"
    )


def _is_refused(lines: list[Json], log: list[Json]) -> None:
    """What is no JSON object: an error, and a close that says why."""
    (message,) = [line["msg"] for line in lines if line["dir"] == "<"]
    assert message["type"] == "error", message
    close = lines[-1]
    assert close["code"] == 4332, close
    assert 0 < len(close["reason"].encode()) <= 123, close


def _has_the_page(lines: list[Json], log: list[Json]) -> None:
    ends = [line["msg"]["type"] for line in lines if line["dir"] == "<"]
    assert ends.count("variantComplete") == 4, "a step cap is no failure: the file is there"


def _takes_no_prose(lines: list[Json], log: list[Json]) -> None:
    ends = [line["msg"]["type"] for line in lines if line["dir"] == "<"]
    assert (ends.count("variantComplete"), ends.count("variantError")) == (3, 1), "prose is not code"


def _second_turns(log: list[Json]) -> list[Json]:
    found = [entry["body"] for entry in log if entry["event"] == "request" and entry["turn"] > 0]
    assert found, "there was no second turn"
    return found


def _keeps_items(lines: list[Json], log: list[Json]) -> None:
    """OpenAI: reasoning and calls as they came, in their order, and the results by their calls."""
    for body in _second_turns(log):
        kinds = [item.get("type", "message") for item in body["input"]]
        reasoning, call = kinds.index("reasoning"), kinds.index("function_call")
        assert reasoning < call < kinds.index("function_call_output"), kinds
        assert body["input"][reasoning]["id"].startswith("rs_"), "the reasoning item is not the one that came"


def _keeps_blocks(lines: list[Json], log: list[Json]) -> None:
    """Anthropic: the thinking with its signature before the text and the call."""
    for body in _second_turns(log):
        (said,) = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
        assert [block["type"] for block in said] == ["thinking", "text", "tool_use"], said
        assert said[0]["signature"].startswith("SIG"), said[0]
        assert all(tool.get("eager_input_streaming") for tool in body["tools"] if tool["name"] == "create_file")


def _keeps_parts(lines: list[Json], log: list[Json]) -> None:
    """Gemini: the call's part with its signature."""
    for body in _second_turns(log):
        parts = [part for content in body["contents"] if content["role"] == "model" for part in content["parts"]]
        (call,) = [part for part in parts if "functionCall" in part]
        assert call.get("thoughtSignature"), call


_FURTHER: Final[dict[str, Callable[[list[Json], list[Json]], None]]] = {
    "bad-json": _is_refused,
    "bad-shape": _is_refused,
    "cancel": _ends_at_once,
    "create-text": _keeps_items,
    "create-text-anthropic": _keeps_blocks,
    "create-text-gemini": _keeps_parts,
    "text-only": _takes_no_prose,
    "too-many-steps": _has_the_page,
}
