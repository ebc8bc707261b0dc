"""What the real page has sent over its sockets, sent again: the answers have the same kinds of messages, in the same order of
kinds, with the same members, and close with the same code.

The recording does not say what the model was told to say there: the model of the cases that are like it speaks here.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.conformance.app_servers import AppServers
from tests.conformance.app_stream import load_player
from tests.conformance.report import PartResult, Tally, absent

Json = dict[str, Any]

# The page's requests, by what the recording's README says of its sockets, and a case whose model says the like.
_CASES: Final = {
    0: "create-text",
    1: "update-history",
    2: "create-image",
    3: "update-file",
    4: "create-text",
    5: "cancel",
    6: "variant-fails",
}


def run(data: Path) -> PartResult:
    folder = data / "app-stream"
    if not (folder / "front-end.jsonl").is_file():
        return absent("app-stream/front-end.jsonl")
    drive = load_player(folder / "drive.py")
    lines = [json.loads(line) for line in (folder / "front-end.jsonl").read_text(encoding="utf-8").splitlines()]
    tally = Tally()
    with AppServers(folder) as servers:
        for socket, name in _CASES.items():
            recorded = [line for line in lines if line.get("socket") == socket]
            script = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["script"]

            tally.check("sockets", str(socket), partial(_compare, drive, servers, recorded, script))
        for line in lines:
            if line["dir"] == "http":
                tally.check("calls between", f"{line['method']} {line['path']}", partial(_call, servers, line))
    return tally.result()


def _compare(drive: Any, servers: AppServers, recorded: list[Json], script: Json) -> None:
    sent = next(line["msg"] for line in recorded if line["dir"] == ">")
    client: Json = {"send": sent}
    if recorded[-1]["code"] == 4333:
        client |= {"close": {"after": "setCode", "count": 5, "code": 4333}, "linger": 0}
    case = {"client": client, "script": script, "expect": {"code": recorded[-1]["code"]}}
    ours = asyncio.run(drive.play(case, servers.backend("openai"), servers.upstream))
    wrong = drive.judge(case, ours)
    assert not wrong, "; ".join(wrong)
    theirs = [line["msg"] for line in recorded if line["dir"] == "<"]
    mine = [line["msg"] for line in ours if line["dir"] == "<"]
    count = int(theirs[0]["value"])
    assert mine[0] == theirs[0], f"{mine[0]}, not {theirs[0]}"
    assert mine[1 : 1 + count] == theirs[1 : 1 + count], "the opening is another"
    for message in theirs:
        alike = [one for one in mine if one["type"] == message["type"]]
        assert alike, f"no {message['type']}"
        same_tool = [one for one in alike if _name(one) == _name(message) and _ok(one) == _ok(message)]
        assert not same_tool or any(_form(message) <= _form(one) for one in same_tool), f"{message['type']}: {message}"


def _name(message: Json) -> Any:
    return (message.get("data") or {}).get("name")


def _ok(message: Json) -> Any:
    return (message.get("data") or {}).get("ok")


def _form(value: Any, path: str = "") -> set[str]:
    """The paths of all members."""
    if isinstance(value, dict):
        return {f"{path}.{key}" for key in value}.union(*[_form(item, f"{path}.{key}") for key, item in value.items()])
    if isinstance(value, list) and value:
        return _form(value[0], f"{path}[]")
    return set()


def _call(servers: AppServers, line: Json) -> None:
    path = line["path"]
    if line["method"] == "PATCH":  # of one that was made there
        with urllib.request.urlopen(servers.backend("openai") + "/api/design-systems", timeout=60) as answer:
            path = f"/api/design-systems/{json.load(answer)[0]['id']}"
    data = None if line["body"] is None else json.dumps(line["body"]).encode()
    headers = {"content-type": "application/json"}
    asked = urllib.request.Request(servers.backend("openai") + path, data, headers, method=line["method"])
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.status == line["status"], answer.status
