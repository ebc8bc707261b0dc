"""What clients are not told: the server's key, where its files are, and their own words over and over."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.interaction.doors import Door
from tests.interaction.upstreams import Act, Upstream, answers, streams
from tests.server.responses_door import post

from ronda.journal.sqlite import SqliteJournal
from ronda.providers import Where, open_provider
from ronda.server.http.failure import without_paths
from ronda.testing import ScriptedModel, says

KEY = "sk-proj-1234567890abcdef"

QUOTED = [
    answers(
        json.dumps(
            {"error": {"message": f"Incorrect API key provided: {KEY}. You can find it.", "type": "x"}}
        ).encode(),
        401,
    ),
    answers(f"no such key: Bearer {KEY}".encode(), 403, "text/plain"),
    answers(b"x" * (500 - 12) + KEY.encode(), 500, "text/plain"),  # cut in the middle of it
    answers(json.dumps({"error": f"bad {KEY}"}).encode(), 400),
]


@pytest.mark.parametrize("spec", ["openai-chat:m", "openai:m", "anthropic:m", "gemini:m", "mistral:m"])
@pytest.mark.parametrize("act", QUOTED, ids=["json", "text", "cut", "string"])
async def test_an_upstreams_error_does_not_show_our_key(door: Door, spec: str, act: Act) -> None:
    async with Upstream(*[act] * 4) as upstream:
        provider = open_provider(spec, Where(upstream.url, key=KEY))
        async with door.serving(provider, retry=_once()) as served:
            answer = await post(served, {"model": "default", "input": "hi"})
            events = await served.events

    assert answer.status >= 400
    assert KEY[:12].encode() not in answer.body
    assert KEY[:12] not in repr(events)
    assert "[the key]" in answer.json["error"]["message"] or act is QUOTED[2]


def _once() -> object:
    from ronda.core.limits import Retry

    return Retry(tries=1)


async def test_nor_does_one_inside_a_stream(door: Door) -> None:
    broken = streams({"error": {"message": f"the key {KEY} was revoked", "code": 401}})
    async with Upstream(broken) as upstream:
        provider = open_provider("openai-chat:m", Where(upstream.url, key=KEY))
        async with door.serving(provider, retry=_once()) as served:
            answer = await post(
                served, {"messages": [{"role": "user", "content": "hi"}], "stream": True}, "/chat/completions"
            )
            events = await served.events

    assert b"was revoked" in answer.body
    assert KEY.encode() not in answer.body
    assert KEY not in repr(events)


# ---- paths -------------------------------------------------------------------------------------------------------------


async def test_a_journal_that_is_gone_is_a_503_without_its_path(
    door: Door, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ronda.journal.sqlite_commits.LOOK_EVERY", 0.0)  # seconds
    journal = SqliteJournal(tmp_path / "journal.db")
    async with door.serving(ScriptedModel(says("a"), says("b"), says("c")), journal=journal) as served:
        fine = await post(served, {"input": "hi"})
        for name in os.listdir(tmp_path):
            os.unlink(tmp_path / name)
        gone = await post(served, {"input": "hi"})
        chat = await post(served, {"messages": [{"role": "user", "content": "hi"}]}, "/chat/completions")

    assert (fine.status, gone.status, chat.status) == (200, 503, 503)
    assert gone.json["error"]["message"] == (
        "the server cannot keep or find this: the file was moved or deleted while it was open; put it back, or start the "
        "server again"
    )
    assert str(tmp_path) not in gone.body.decode() + chat.body.decode()
    assert f"{tmp_path}/journal.db: the file was moved or deleted" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: a\nmodel:\n  id: openai-chat:m\ntools: ${file:missing.json}\n---\nuser:\nhi",
        "---\nname: a\nmodel:\n  id: openai-chat:m\ntools: ${file:../../../etc/passwd}\n---\nuser:\nhi",
        "---\nname: [\n---\nuser:\nhi",
        "no front matter\n---\n",
    ],
)
async def test_an_agent_that_cannot_be_used_does_not_say_where_it_is(door: Door, tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.prompty").write_text(text)
    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
        answer = await post(served, {"model": "broken", "input": "hi"})

    assert str(tmp_path) not in answer.body.decode()
    assert str(tmp_path.parent) not in answer.body.decode()


def test_of_a_path_its_name_is_left(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert without_paths(f"{file} cannot be read") == "a.json cannot be read"
    assert without_paths(f"cannot open '{file}': no") == "cannot open 'a.json': no"
    for kept in (
        "https://host.example/v1/models",
        "POST /v1/messages",
        "/properties/a/type: wrong",
        "docs/a.md",
        "a / b",
    ):
        assert without_paths(kept) == kept


# ---- echoes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"agent_id": "a", "messages": "x" * 5000},
        {"agent_id": "a", "messages": [{"role": "x" * 5000}]},
        {"agent_id": "a", "messages": [], "k" * 5000: 1},
        {"agent_id": "a", "messages": [{"role": "user", "content": "x"}], "unknown": ["x" * 150] * 20},
        {"agent_id": ["x" * 5000], "messages": 3},
    ],
)
async def test_a_422_says_little_of_what_was_sent_again(door: Door, body: object) -> None:
    async with door.serving(ScriptedModel()) as served:
        answer = await post(served, json.dumps(body).encode(), "/agents/completions")

    assert answer.status == 422
    for problem in answer.json["detail"]:
        assert len(json.dumps(problem.get("input", ""))) <= 202
        assert len("".join(map(str, problem["loc"]))) <= 250
        assert len(problem["msg"]) <= 250
