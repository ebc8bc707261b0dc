"""`ronda sessions`: look at what is kept under a name, move it, copy it.

Also what `ronda run --session` and `ronda chat` need: a run that continues a session.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from ronda.agent import RunOptions, stream_agent
from ronda.cli.progress import short
from ronda.cli.storage import Storage, open_storage
from ronda.cli.table import local_time, print_table
from ronda.core.parts import AssistantTurn, ToolTurn, Turn, UserTurn
from ronda.core.run import Run
from ronda.errors import BadConfig, NotFound
from ronda.host import session_documents
from ronda.host.history import History
from ronda.host.leases import Key, SessionBusy
from ronda.host.sessions import SessionHost
from ronda.store.marks import of_session
from ronda.wire.own.session_fields import LONGEST_NAME, is_name
from ronda.wire.own.sessions import read_document
from ronda.wire.shared.door_request import OnBusy, SessionWish

if TYPE_CHECKING:
    from ronda.files.file_store import FileStore

_AT_ONCE = 100


def sessions(arguments: argparse.Namespace) -> int:
    if arguments.action != "list":
        check_session_name(arguments.name or "")
    asyncio.run(_do(arguments))
    return 0


def check_session_name(name: str) -> str:
    if not is_name(name):
        raise BadConfig(
            f"which session? Say its name, of 1 to {LONGEST_NAME} printable characters; 'ronda sessions list' shows them"
        )
    return name


@asynccontextmanager
async def open_sessions(arguments: argparse.Namespace) -> AsyncIterator[tuple[SessionHost, FileStore | None]]:
    """Those of a data folder or a database, which servers may have open at the same time, and the files there."""
    async with open_storage(arguments) as storage, sessions_in(storage) as host:
        yield host, storage.files


@asynccontextmanager
async def sessions_in(storage: Storage) -> AsyncIterator[SessionHost]:
    async def find_run(run: str, owner: str) -> Run | None:
        return None  # what a server left half done, that server writes back

    host = SessionHost(
        storage.catalog.sessions,
        storage.catalog.claims,
        find_run=find_run,
        cancel=lambda run, owner: None,
        clock=storage.clock,
    )
    try:
        yield host
    finally:
        await host.close()


async def _do(arguments: argparse.Namespace) -> None:
    async with open_storage(arguments, "sessions") as storage, sessions_in(storage) as host:
        key = (arguments.owner, arguments.name or "")
        try:
            match arguments.action:
                case "list":
                    await _list(host, arguments.owner)
                case "show":
                    await _show(host, key)
                case "export":
                    document = await session_documents.export(host, key, arguments.branch, storage.workspaces)
                    print(document.decode())
                case "import":
                    await session_documents.put(host, key, read_document(_read(arguments.other)), storage.workspaces)
                case "fork":
                    made = await session_documents.fork(
                        host,
                        key,
                        arguments.other,
                        num_turns=arguments.num_turns,
                        run=arguments.run,
                        round_index=arguments.round,
                        workspaces=storage.workspaces,
                    )
                    await storage.catalog.marks.copy(key[0], of_session(key[1]), of_session(made), time.time())
                    print(made)
                case _:
                    await _delete(host, key, storage)
        except NotFound as error:
            raise BadConfig(f"{error}; 'ronda sessions list' shows those there are") from error
        except SessionBusy as error:
            raise BadConfig(str(error)) from error


async def _delete(host: SessionHost, key: Key, storage: Storage) -> None:
    if not await session_documents.delete(host, key):
        raise BadConfig(f"there is no session '{key[1]}'; 'ronda sessions list' shows those there are")
    await storage.catalog.approved_tools.forget(*key)
    await storage.catalog.marks.forget(key[0], of_session(key[1]))
    if (files := storage.files) is not None:
        await files.delete_session(*key)
    if (workspaces := storage.workspaces) is not None:
        await workspaces.delete(*key)


def _read(path: str | None) -> bytes:
    if path is None:
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise BadConfig(f"{path} cannot be read: {error.strerror}") from error


async def _list(host: SessionHost, owner: str) -> None:
    rows = [("NAME", "TURNS", "BYTES", "USED", "TITLE")]
    page = await host.store.page(owner, _AT_ONCE)
    while True:
        rows += [
            (row.name, str(row.ends), str(row.size), local_time(row.updated), session_documents.title_of(row) or "")
            for row in page.sessions
        ]
        if page.before is None:
            break
        page = await host.store.page(owner, _AT_ONCE, page.before)
    if len(rows) == 1:
        print("no sessions yet: a request with session_id, or 'ronda chat', begins one", file=sys.stderr)
        return
    print_table(rows)


async def _show(host: SessionHost, key: Key) -> None:
    row = await session_documents.find(host, key)
    for turn in (await host.history(key, row)).turns:
        for line in turn_lines(turn):
            print(line)


def turn_lines(turn: Turn) -> list[str]:
    """What was said, for people: whole texts, and tools in a line each."""
    match turn:
        case UserTurn(parts=parts):
            texts = [getattr(part, "text", None) or f"[{type(part).__name__.lower()}]" for part in parts]
            return ["> " + "\n> ".join("\n".join(texts).split("\n"))]
        case AssistantTurn():
            lines = [turn.text] if turn.text else []
            return [*lines, *[f"[{call.name} {short(call.arguments)}]" for call in turn.calls]]
        case ToolTurn(results=results):
            return [f"[→ {short(result.content)}]" for result in results]
        case _:
            return []


def last_question(history: History) -> tuple[Turn, int] | None:
    """What was asked last, and how many turns there were before it."""
    kept = history.ends[-2][1] if len(history.ends) > 1 else 0
    asked = next((turn for turn in history.turns[kept:] if type(turn) is UserTurn), None)
    return None if asked is None else (asked, kept)


# ---- runs that continue one ------------------------------------------------------------------------------------------

# How a run starts, with what was said before among its options.
Begin: TypeAlias = Callable[[RunOptions], stream_agent]


@asynccontextmanager
async def in_session(arguments: argparse.Namespace, options: RunOptions, begin: Begin) -> AsyncIterator[stream_agent]:
    """A run that continues the session that the flags name."""
    name = check_session_name(arguments.session)
    async with (
        open_sessions(arguments) as (host, files),
        go_on(host, (arguments.owner, name), {**options, "result_files": files}, begin) as events,
    ):
        yield events


@asynccontextmanager
async def go_on(
    host: SessionHost, key: Key, options: RunOptions, begin: Begin, on_busy: OnBusy = "queue", kept: int | None = None
) -> AsyncIterator[stream_agent]:
    """What comes of the run is written back, however it ends. With `kept` it goes on behind so many turns, and what was said
    since then is left on a branch."""
    owner, name = key
    visit = await host.enter(owner, SessionWish(name, "append", on_busy), "")
    if kept is not None:
        visit.history = visit.history.up_to(kept)
    run: Run | None = None
    try:
        async with begin({**options, "history": visit.history.turns, "session": name, "owner": owner}) as events:
            run = events.run
            yield events
    finally:
        if run is not None:
            question = next((turn for turn in reversed(run.start.turns) if type(turn) is UserTurn), None)
            await host.append(visit, run, () if question is None else (question,))
        await visit.leave()
