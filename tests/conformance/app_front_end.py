"""What the real page has sent over its sockets, sent again, to a server whose model says what was said there.

What the model said stands in the recording: its thoughts, its words, its edits, and the pages that came of its files. So every
variant is told by ours as it was there: the same messages in the same order, with the same texts, tools, summaries and page.

The recording lacks, and so nothing is compared of: how the model's words were cut and when they came; which variant was served
first; the pages of sockets 2, 4 and 6, of which it has the lengths and 320 characters (they are taken from socket 0, which has
pages with that beginning); the rest of what was cancelled (the same). What its README calls wrong is left out: `toolStart` of a
file that is being written names a wrong path there. Words of errors are an SDK's.
"""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from tests.conformance.app_servers import AppServers
from tests.conformance.app_stream import load_player
from tests.conformance.report import PartResult, Tally, absent

Json = dict[str, Any]

_CANCELLED: Final = 4333
_OURS: Final = ("usage", "variantModels")  # messages that the page passes over, or has in debug mode alone


def run(data: Path) -> PartResult:
    folder = data / "app-stream"
    if not (folder / "front-end.jsonl").is_file():
        return absent("app-stream/front-end.jsonl")
    drive = load_player(folder / "drive.py")
    lines = [json.loads(line) for line in (folder / "front-end.jsonl").read_text(encoding="utf-8").splitlines()]
    sockets = sorted({line["socket"] for line in lines if "socket" in line})
    pages = _whole_pages(lines)
    tally = Tally()
    with AppServers(folder) as servers:
        for socket in sockets:
            recorded = [line for line in lines if line.get("socket") == socket]
            tally.check("sockets", str(socket), partial(_compare, drive, servers, recorded, pages))
        for line in lines:
            if line["dir"] == "http":
                tally.check("calls between", f"{line['method']} {line['path']}", partial(_call, servers, line))
    return tally.result()


def _compare(drive: Any, servers: AppServers, recorded: list[Json], pages: list[str]) -> None:
    theirs = [_restored(variant, pages) for variant in _variants(recorded)]
    client: Json = {"send": next(line["msg"] for line in recorded if line["dir"] == ">")}
    code = recorded[-1]["code"]
    if code == _CANCELLED:
        client |= {"close": {"after": "setCode", "count": 5, "code": _CANCELLED}, "linger": 0}
    turns = [_turns(variant, pages) for variant in theirs]
    script = {"lanes": turns}
    case = {"client": client, "script": script, "expect": {"code": code}}
    lines = asyncio.run(drive.play(case, servers.backend("openai"), servers.upstream))
    wrong = drive.judge(case, lines)
    assert not wrong, "; ".join(wrong)
    assert _opening(lines) == _opening(recorded), "the opening is another"
    told = [_told(variant) for variant in _variants(lines)]
    expected = [_told(variant) for variant in theirs]
    if code == _CANCELLED:  # wherever that was: a beginning of the same
        whole = [_told_whole(one) for one in turns]
        assert all(any(_begins(one, other) for other in whole) for one in [*told, *expected]), "another beginning"
        return
    # Which variant the model spoke to first is not in the recording: they are found by what was said.
    assert sorted(map(str, told)) == sorted(map(str, expected)), _difference(told, expected)


# ---- what a recording says -----------------------------------------------------------------------------------------------


def _opening(lines: list[Json]) -> list[Json]:
    messages = [line["msg"] for line in lines if line["dir"] == "<"]
    return messages[: 1 + int(messages[0]["value"])]


def _variants(lines: list[Json]) -> list[list[Json]]:
    """The messages of each, behind the opening."""
    messages = [line["msg"] for line in lines if line["dir"] == "<"]
    count = int(messages[0]["value"])
    rest = [message for message in messages[1 + count :] if message["type"] not in _OURS]
    return [[message for message in rest if message["variantIndex"] == index] for index in range(count)]


def _whole_pages(lines: list[Json]) -> list[str]:
    """Those that models have written, as far as the recording has them."""
    sent = {line["socket"]: line["msg"] for line in lines if line["dir"] == ">"}
    created = [line for line in lines if line["dir"] == "<" and sent[line["socket"]]["generationType"] == "create"]
    codes = [line["msg"]["value"] for line in created if line["msg"]["type"] == "setCode"]
    return list(dict.fromkeys(code for code in codes if code.endswith("</html>")))


def _restored(variant: list[Json], pages: list[str]) -> list[Json]:
    """With pages in the places where the recording has their lengths alone."""
    results = [message["data"]["output"] for message in variant if message["type"] == "toolResult"]
    restored = []
    for message in variant:
        if message["type"] == "setCode" and (cut := re.fullmatch(r"<(\d+) characters>", message["value"])):
            [output] = results
            message = {**message, "value": _page_with(output["preview"].removesuffix("..."), pages)[: int(cut[1])]}
        restored.append(message)
    return restored


def _page_with(beginning: str, pages: list[str]) -> str:
    [page] = [one for one in pages if one.startswith(beginning)]
    return page


def _turns(variant: list[Json], pages: list[str]) -> list[Json]:
    """What the model said, for the fake one to say again. A turn ends with its tool's result."""
    if variant[-1]["type"] == "variantError":
        return [{"status": 400}]
    turns: list[Json] = [{}]
    for message in variant:
        turn = turns[-1]
        match message["type"]:
            case "thinking" | "assistant" as kind:
                name = "thinking" if kind == "thinking" else "text"
                turn[name] = turn.get(name, "") + message["value"]
            case "toolStart":
                turn["calls"] = [_call_of(message, variant, pages)]
            case "toolResult":
                turns.append({})
    return turns


def _call_of(start: Json, variant: list[Json], pages: list[str]) -> Json:
    name, arguments = start["data"]["name"], start["data"]["input"]
    if name == "edit_file":  # its texts are shorter than what the page cuts
        return {"name": name, "args": {"path": arguments["path"], "edits": arguments["edits"]}}
    *_, code = [message["value"] for message in variant if message["type"] == "setCode"]
    return {"name": name, "args": {"path": "index.html", "content": _page_with(code, pages)}}


# ---- what is compared of it ----------------------------------------------------------------------------------------------


def _told(variant: list[Json]) -> list[Any]:
    """The messages of a variant, without where texts were cut: words of one id, and states of the page, are one each."""
    told: list[Any] = []
    for (kind, _), group in groupby(variant, key=lambda message: (_kind(message), message.get("eventId"))):
        messages = list(group)
        match kind:
            case "thinking" | "assistant":
                told.append((kind, "".join(message["value"] for message in messages)))
            case "page":
                told.append((kind, _page_of(messages)))
            case "toolStart":
                data = messages[0]["data"]
                told.append((kind, data["name"], data["input"] if data["name"] != "create_file" else None))
            case "toolResult":
                told.append((kind, messages[0]["data"]))
            case _:
                told.append((kind,))
    return told


def _kind(message: Json) -> str:
    return "page" if message["type"] in ("setCode", "chunk") else str(message["type"])


def _page_of(messages: list[Json]) -> str:
    """The page in the end of some messages that make it grow."""
    code = ""
    for message in messages:
        code = message["value"] if message["type"] == "setCode" else code + message["value"]
    return code


def _told_whole(turns: list[Json]) -> list[Any]:
    """What a cancelled variant would have told, as far as it can have come."""
    [call] = turns[0]["calls"]
    return [
        ("thinking", turns[0]["thinking"]),
        ("assistant", turns[0]["text"]),
        ("toolStart", call["name"], None),
        ("page", call["args"]["content"]),
    ]


def _begins(told: list[Any], whole: list[Any]) -> bool:
    *before, last = told or [None]
    if last is None:
        return True
    kind, *rest = whole[len(before)]
    return before == whole[: len(before)] and last[0] == kind and str(rest[-1] or "").startswith(str(last[-1] or ""))


def _difference(told: list[Any], expected: list[Any]) -> str:
    ours = [one for one in told if one not in expected]
    return f"told: {ours}; there: {[one for one in expected if one not in told]}"[:2000]


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
