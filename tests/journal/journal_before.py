"""A server's files as an earlier version left them, kept as SQL: what every later version must still be able to read.

    python -m tests.journal.journal_before FOLDER       write them as this version does

`before/` was written once, and is never written again: a version that cannot read it has broken somebody's data. A change
of the format adds a folder beside it.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.interaction.golden_bytes import ASK, exchange, lookup

from ronda.core.events import ModelFinished, ModelStarted, RunStarted, ToolStarted
from ronda.core.limits import Retry
from ronda.core.parts import AssistantTurn, Text, ToolCall, user
from ronda.core.plan import Plan
from ronda.journal.sqlite import SqliteJournal
from ronda.providers.script import Call, Line, ScriptedModel, calls, says
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.store.sqlite_catalog import SqliteCatalog

BEFORE: Final = Path(__file__).parent / "before"
FILES: Final = ("journal", "catalog")
UNFINISHED: Final = "run_" + "0" * 24
QUESTION: Final = {"role": "user", "content": "When?"}


def served(folder: Path, *lines: Line) -> Server:
    config = ServerConfig(model="script:test", retry=Retry(tries=1))
    return Server(
        config,
        SqliteJournal(str(folder / "journal.db")),
        provider=ScriptedModel(*lines),
        tools=[lookup],
        catalog=SqliteCatalog(str(folder / "catalog.db")),
    )


async def close(server: Server) -> None:
    await server.runs.close()
    await server.runs.journal.close()
    await server.catalog.close()


async def asked(server: Server, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    status, _, data = (await exchange(create_app(server), path, body, method)).partition(b"\n")
    assert status == b"200", data
    return json.loads(data)


def opened(folder: Path) -> Path:
    """The files of `before/`, as a server finds them."""
    for name in FILES:
        db = sqlite3.connect(folder / f"{name}.db")
        db.executescript((BEFORE / f"{name}.sql").read_text())
        db.close()
    return folder


# ---- writing ----------------------------------------------------------------------------------------------------------


async def _fill(folder: Path) -> dict[str, Any]:
    """One run of each kind, and what is said of those that can be asked for again."""
    look = calls("lookup", q="Lisbon", text="Looking.")
    server = served(
        folder,
        says("Hello."),
        look,
        says("Warm."),
        Line(calls=(Call("lookup", {"q": "Oslo"}), Call("ask", {"question": "Which day?"}))),
        look,
        says("Cold.", reasoning="Hm."),
        look,
        says("Wet.", reasoning="Hm."),
    )
    asks = {"type": "function", "function": ASK}
    chat = {"model": "default", "messages": [QUESTION]}
    await asked(server, "POST", "/v1/chat/completions", chat)
    await asked(server, "POST", "/v1/chat/completions", chat)
    waits = await asked(server, "POST", "/v1/chat/completions", {**chat, "tools": [asks]})
    talk = await asked(server, "POST", "/v1/conversations", {"model": "default", "inputs": "When?"})
    made = await asked(server, "POST", "/v1/responses", {"model": "default", "input": "When?", "metadata": {"a": "b"}})
    journal = server.runs.journal
    call = ToolCall("call_0", "lookup", '{"q":"Rome"}')
    journal.append(
        UNFINISHED,
        [
            RunStarted(UNFINISHED, Plan("script:test", (lookup.spec,)), (user("When?"),), 1.0),
            ModelStarted(0, at=2.0),
            ModelFinished(AssistantTurn((Text("Looking."), call), "tool_calls"), at=3.0),
            ToolStarted("call_0", 4.0, "lookup"),
        ],
    )
    await journal.barrier(UNFINISHED)
    history = await asked(server, "GET", f"/v1/conversations/{talk['conversation_id']}/history")
    await close(server)
    return {"waits": waits["choices"][0]["message"], "response": made, "history": history}


def write(to: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        answers = asyncio.run(_fill(Path(name)))
        to.mkdir(parents=True, exist_ok=True)
        (to / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
        for file in FILES:
            db = sqlite3.connect(Path(name) / f"{file}.db")
            marks = [
                f"PRAGMA {mark} = {db.execute(f'PRAGMA {mark}').fetchone()[0]};"
                for mark in ("application_id", "user_version")
            ]
            (to / f"{file}.sql").write_text("\n".join([*marks, *db.iterdump()]) + "\n")
            db.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
