"""What a server remembers of sessions saves work, and changes nothing: the upstream is sent the same, and so is the journal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.interaction.doors import Door, Json
from tests.interaction.upstreams import Exchange as Call
from tests.interaction.upstreams import Upstream
from tests.server.session_doors import weather

from ronda.core.parts import Turn
from ronda.core.run import rebuild
from ronda.host import sessions
from ronda.journal.sqlite import SqliteJournal
from ronda.server.services.admission import named_run
from ronda.store.sqlite_catalog import SqliteCatalog

SYSTEM: Json = {"role": "system", "content": "Be kind."}


def question(at: int) -> Json:
    return {"role": "user", "content": f"What about {at}? " + "Please. " * 20}


REQUESTS: list[Json] = [
    *[{"messages": [question(at)]} for at in range(6)],
    *[{"messages": [SYSTEM, question(at)]} for at in range(6, 9)],
    {"messages": [question(9)], "n": 2},
    {"messages": [question(0), {"role": "assistant", "content": "Sunny 1."}, question(10)]},  # a branch
    *[{"messages": [question(at)]} for at in range(11, 14)],
    {"messages": [question(20)], "session_mode": "replace"},
    *[{"messages": [question(at)]} for at in range(21, 24)],
]


async def answer(call: Call) -> None:
    """A tool first, then a word that says how long the conversation is."""
    messages = call.json["messages"]
    if messages[-1]["role"] == "user" and len(messages) % 3:
        function = {"name": "weather", "arguments": '{"city":"Paris"}'}
        calls = [{"id": f"c{len(messages)}", "type": "function", "function": function}]
        message: Json = {"role": "assistant", "content": None, "tool_calls": calls}
    else:
        message = {"role": "assistant", "content": f"Sunny {len(messages)}."}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    whole = {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    await call.answer(json.dumps(whole).encode())


async def test_what_is_remembered_changes_nothing(door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[list[Json]] = []
    conversations: list[list[list[Turn]]] = []
    for known in (sessions.KNOWN_BYTES, 0):
        monkeypatch.setattr(sessions, "KNOWN_BYTES", known)
        folder = tmp_path / str(known)
        folder.mkdir()
        journal = SqliteJournal(str(folder / "journal.db"))
        catalog = SqliteCatalog(str(folder / "catalog.db"))
        async with (
            Upstream(*[answer] * 100) as upstream,
            door.serving(upstream.url, weather, journal=journal, catalog=catalog) as served,
        ):
            runs = []
            for at, request in enumerate(REQUESTS):
                named = {} if request.get("n") else {"x-ronda-run": f"run_number{at:04}"}
                reply = await served.post({**request, "session_id": "s"}, headers=named)
                assert reply.status == 200, reply.body
                runs += [named_run("", name) for name in named.values()]
            bodies.append(sorted(upstream.requests, key=json.dumps))
            conversations.append([rebuild(await journal.read(run)).turns for run in runs])
    assert bodies[0] == bodies[1]
    assert conversations[0] == conversations[1]
    assert max([len(turns) for turns in conversations[0]]) > 30
