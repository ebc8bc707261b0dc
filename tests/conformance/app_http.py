"""The HTTP routes beside the app stream's socket, asked in the recorded order: status, members and their types, what errors say.

What the recording's own README calls incidental is not compared: bodies of 422 beyond their form, headers, times and ids.
"""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
import zipfile
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

from tests.conformance.app_servers import AppServers
from tests.conformance.report import Excepted, PartResult, Tally, absent

Json = dict[str, Any]

_EXCEPTIONS: Final[dict[str, str]] = {
    "the backend's own page": "ours says how the server is, in JSON",
    "taken (the service is fake: one pixel)": "ours looks at the page itself, and there is no network here",
}


def run(data: Path) -> PartResult:
    recording = data / "app-stream" / "http.jsonl"
    if not recording.is_file():
        return absent("app-stream/http.jsonl")
    tally = Tally()
    ids: dict[str, str] = {}
    no_browser = '[page]\nchromium = "/nowhere/chromium"\n'
    with (
        AppServers(recording.parent) as servers,
        AppServers(recording.parent, servers.upstream, no_browser) as others,
    ):
        for number, line in enumerate(recording.read_text(encoding="utf-8").splitlines()):
            entry: Json = json.loads(line)
            backend = (others if entry["about"] == "without Chromium" else servers).backend("openai")
            tally.check("routes", f"{number} {entry['about']}", partial(_compare, backend, entry, ids))
    return tally.result()


def _compare(backend: str, entry: Json, ids: dict[str, str]) -> None:
    recorded = entry["response"]
    status, headers, body = _ask(backend, entry["request"], ids)
    if entry["about"] in _EXCEPTIONS:
        assert status < 600
        assert "traceback" not in body.decode("latin-1").lower()
        raise Excepted(f"{entry['about']}: {_EXCEPTIONS[entry['about']]}")
    assert status == recorded["status"], f"{status}, not {recorded['status']}: {body[:200]!r}"
    if "body" in recorded:
        ours = json.loads(body)
        _remember(ours, recorded["body"], ids)
        if status == 422:
            _same_form(ours["detail"][0], {"type": "", "loc": [], "msg": ""}, "detail[0]", exact=False)
        else:
            _same_form(ours, recorded["body"], "body", exact=status >= 400)
    if "zip" in recorded:
        names = recorded["headers"]["content-disposition"]
        assert headers.get("content-disposition") == names, headers.get("content-disposition")
        packed = zipfile.ZipFile(io.BytesIO(body))
        assert sorted(packed.namelist()) == sorted(recorded["zip"]), packed.namelist()
        # The original writes the document anew, in its parser's own way; ours changes the addresses alone.
        assert _tags(packed.read("index.html").decode()) == _tags(recorded["zip"]["index.html"])
    if recorded["status"] == 204:
        assert body == b""
    origin = entry["request"]["headers"].get("origin")
    if origin is not None:
        assert headers.get("access-control-allow-origin") in ("*", origin), "the page's own origin must be let in"


def _ask(backend: str, request: Json, ids: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    path = request["path"]
    for theirs, ours in ids.items():
        path = path.replace(theirs, ours)
    body = request["body"]
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    asked = urllib.request.Request(backend + path, data, request["headers"], method=request["method"])
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[object] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, sorted(attrs, key=str)))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.found.append(data.strip())


def _tags(page: str) -> list[object]:
    parser = _Tags()
    parser.feed(page)
    return parser.found


def _remember(ours: Any, recorded: Any, ids: dict[str, str]) -> None:
    """What was made there under one id was made here under another."""
    if isinstance(ours, dict) and isinstance(recorded, dict) and "id" in recorded:
        ids.setdefault(recorded["id"], str(ours.get("id")))


def _same_form(ours: Any, recorded: Any, path: str, *, exact: bool) -> None:
    assert type(ours) is type(recorded), f"{path} is {ours!r}, not {recorded!r}"
    if isinstance(recorded, dict):
        missing = recorded.keys() - ours.keys()
        assert not missing, f"{path} lacks {sorted(missing)}"
        for key in recorded:
            is_text = key in ("name", "content")
            _same_form(ours[key], recorded[key], f"{path}.{key}", exact=exact or is_text)
    elif isinstance(recorded, list):
        for one, other in zip(ours, recorded, strict=exact or bool(recorded)):
            _same_form(one, other, f"{path}[]", exact=exact)
    elif exact:
        assert ours == recorded, f"{path} is {ours!r}, not {recorded!r}"
