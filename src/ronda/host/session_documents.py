"""Sessions as their owners handle them: looked at, saved, brought in, copied, changed, deleted.

The same over HTTP, in Python and in a shell.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from ronda.core.parts import AssistantTurn, ToolTurn, Turn
from ronda.drive.offload import aside
from ronda.errors import BadRequest, NotFound
from ronda.host.history import History, new_node
from ronda.host.leases import Key
from ronda.host.sessions import MADE_NAME, SessionHost
from ronda.store.values.sessions import NO_LABELS, ROOT, NodeRow, SessionRow
from ronda.wire.codec.json import encode
from ronda.wire.own.sessions import Labels, SessionDocument, SessionFile, write_document
from ronda.wire.shared.door_request import OnBusy

SHOWN_BRANCHES: Final = 100

_decode_labels = msgspec.json.Decoder(Labels).decode


class SessionExists(BadRequest):
    status_hint = 409

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a session '{name}' already; choose another id", param="id", code="session_exists")


class WorkspaceFiles(Protocol):
    """The files that the tools of sessions work on, where there are such tools."""

    async def read(self, owner: str, session: str) -> list[SessionFile]: ...

    async def write(self, owner: str, session: str, files: Sequence[SessionFile]) -> None: ...


def title_of(row: SessionRow) -> str | None:
    return _decode_labels(row.labels).title


def summary_of(row: SessionRow) -> dict[str, Any]:
    labels = _decode_labels(row.labels)
    return {
        "id": row.name,
        "object": "session",
        "created_at": row.created,
        "updated_at": row.updated,
        "turns": row.ends,
        "bytes": row.size,
        "title": labels.title,
        "metadata": labels.metadata or {},
        "branch": str(row.head),
    }


async def find(host: SessionHost, key: Key) -> SessionRow:
    row = await host.find(key)
    if row is None:
        raise NotFound(f"Session {key[1]} not found", param="id", code="session_not_found")
    return row


async def export(
    host: SessionHost, key: Key, branch: str | None = None, workspaces: WorkspaceFiles | None = None
) -> bytes:
    """The document of a session as it stands, or of one of its branches."""
    row = await find(host, key)
    history = await host.history(key, row) if branch is None else await _branch(host, key, row, branch)
    head = {**summary_of(row), "branches": await branches_of(host, key, row)}
    files = [] if workspaces is None else await workspaces.read(*key)
    return await aside(write_document, history.turns, head, files)


async def branches_of(host: SessionHost, key: Key, row: SessionRow) -> list[dict[str, Any]]:
    """The newest of a session's branches."""
    return [_branch_shown(tip, row) for tip in (await host.store.tips(*key))[-SHOWN_BRANCHES:]]


def _branch_shown(tip: NodeRow, row: SessionRow) -> dict[str, Any]:
    return {
        "id": str(tip.number),
        "run": tip.run or None,
        "turns": tip.ends,
        "created_at": tip.created,
        "is_head": tip.number == row.head,
    }


async def _branch(host: SessionHost, key: Key, row: SessionRow, branch: str) -> History:
    history = await host.read(key, branch_number(branch), row.size)
    if not history.turns:
        raise no_branch(row, branch)
    return history


def no_branch(row: SessionRow, branch: str) -> NotFound:
    return NotFound(f"the session '{row.name}' has no branch '{branch[:40]}'", param="branch", code="branch_not_found")


def branch_number(branch: str) -> int:
    return int(branch) if branch.isdecimal() and len(branch) < 10 else -1


async def put(host: SessionHost, key: Key, document: SessionDocument, workspaces: WorkspaceFiles | None = None) -> None:
    """A document becomes the session of this name, in the place of one that there may be. Where no tool works on files, those of
    a document are left out."""
    node = await aside(new_node, ROOT, 0, document.turns)
    async with _exclusive(host, key, "reject"):
        if workspaces is not None:
            await workspaces.write(*key, document.files)
        await host.store.replace(*key, node, _write_labels(document.labels), host.now())


async def change(
    host: SessionHost, key: Key, labels: Labels, given: Sequence[str], branch: str | None = None
) -> SessionRow:
    """Those labels that are `given`, and the branch that the session continues."""
    row = await find(host, key)
    old = _decode_labels(row.labels)
    new = msgspec.structs.replace(old, **{name: getattr(labels, name) for name in given})
    head = None if branch is None else branch_number(branch)
    async with _exclusive(host, key, "reject"):
        if not await host.store.change(*key, host.now(), head=head, labels=_write_labels(new)):
            raise no_branch(row, branch or "")
    return await find(host, key)


async def delete(host: SessionHost, key: Key) -> bool:
    """Also what continues it ends."""
    async with _exclusive(host, key, "interrupt"):
        return await host.store.delete(*key)


async def fork(
    host: SessionHost,
    key: Key,
    name: str | None = None,
    *,
    num_turns: int | None = None,
    run: str | None = None,
    round_index: int | None = None,
    workspaces: WorkspaceFiles | None = None,
) -> str:
    """A copy under another name: of all, up to an answer (the `num_turns`-th), or up to a round of a run."""
    row = await find(host, key)
    if run is None:
        history = await host.history(key, row)
        turns = history.turns if num_turns is None else history.turns[: _answers_end(history.turns, num_turns)]
    else:
        turns = await _up_to_round(host, key, row, run, round_index)
    name = name or f"{MADE_NAME}{os.urandom(12).hex()}"
    node = await aside(new_node, ROOT, 0, turns)
    if not await host.store.create(key[0], name, node, row.labels or NO_LABELS, host.now()):
        raise SessionExists(name)
    if workspaces is not None:
        await workspaces.write(key[0], name, await workspaces.read(*key))
    return name


def _answers_end(turns: Sequence[Turn], count: int) -> int:
    """Behind the answer of this number; behind all where there are fewer."""
    for index, turn in enumerate(turns):
        if type(turn) is AssistantTurn and not turn.calls:
            count -= 1
            if not count:
                return index + 1
    return len(turns)


async def _up_to_round(
    host: SessionHost, key: Key, row: SessionRow, run: str, round_index: int | None
) -> tuple[Turn, ...]:
    number = await host.store.node_of(*key, run)
    path = [] if number is None else await host.store.path(*key, number)
    if not path:
        raise NotFound(f"the session '{row.name}' has no run '{run[:100]}'", param="run", code="run_not_found")
    node, turns = path[-1], (await host.read(key, path[-1].number, row.size)).turns
    if round_index is None:
        return turns
    rounds = [index for index in range(node.upto + node.asked, len(turns)) if type(turns[index]) is AssistantTurn]
    if round_index >= len(rounds):
        raise BadRequest(f"the run '{run}' has {len(rounds)} rounds, which count from 0", param="round")
    end = rounds[round_index] + 1
    return turns[: end + 1] if end < len(turns) and type(turns[end]) is ToolTurn else turns[:end]


def _write_labels(labels: Labels) -> Raw:
    return Raw(encode(labels))


@asynccontextmanager
async def _exclusive(host: SessionHost, key: Key, on_busy: OnBusy) -> AsyncIterator[None]:
    """While no run continues the session."""
    hold = await host.leases.take(key, "", on_busy)
    try:
        yield
    finally:
        await hold.release()
