"""`ronda keys`: make an API key for an owner, list the keys there are, revoke one."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

from ronda.cli.storage import open_storage
from ronda.cli.table import local_time, print_table
from ronda.errors import BadConfig, BadRequest
from ronda.store.audit import Act
from ronda.store.catalog import Catalog
from ronda.store.keys import MAX_OWNER, KeyRow, Keys, new_key
from ronda.store.values.scopes import check_scopes

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_DAYS = 3650  # ten years: a key that is to last longer needs no end
_SHOWN_ACTS = 100


def keys(arguments: argparse.Namespace) -> int:
    asyncio.run(_with_keys(arguments))
    return 0


async def _with_keys(arguments: argparse.Namespace) -> None:
    async with open_storage(arguments, "keys") as storage:
        catalog = storage.catalog
        match arguments.action:
            case "create":
                expires = None if arguments.expires is None else time.time() + _seconds(arguments.expires)
                await _create(catalog, _owner(arguments.owner), _scopes(arguments.scope or ()), expires)
            case "revoke":
                await _revoke(catalog, arguments.id)
            case "audit":
                await _show_acts(catalog)
            case _:
                await _show(catalog.keys)


def _owner(name: str | None) -> str:
    if name is None:
        raise BadConfig("whose is the key? Say it with --owner NAME")
    if not (0 < len(name) <= MAX_OWNER and name.isprintable() and name == name.strip()):
        raise BadConfig(
            f"--owner is {name[:100]!r}; it must be 1 to {MAX_OWNER} printable characters, without spaces around"
        )
    return name


def _scopes(given: Sequence[str]) -> tuple[str, ...]:
    try:
        return check_scopes(given)
    except BadRequest as error:
        raise BadConfig(f"--scope: {error}") from error


def _seconds(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    seconds = int(number) * _SECONDS.get(unit, 0) if number.isascii() and number.isdigit() and len(number) < 10 else 0
    if not 0 < seconds <= _MAX_DAYS * 86400:
        raise BadConfig(
            f"--expires is {text[:40]!r}; it must be a number and s, m, h or d, such as 30d, and at most {_MAX_DAYS}d"
        )
    return seconds


async def _create(catalog: Catalog, owner: str, scopes: Sequence[str], expires: float | None) -> None:
    key, row = new_key(owner, time.time(), scopes, expires)
    await catalog.audit.add(_act("key.create", row.id, f"owner {owner}; scopes {' '.join(scopes) or 'none'}"))
    await catalog.keys.add(row)
    print(key)  # by itself, so that a script can take it
    print(f"this is the key {row.id} of {owner}; keep it now, since it is not shown again", file=sys.stderr)


async def _revoke(catalog: Catalog, key_id: str | None) -> None:
    if key_id is None:
        raise BadConfig("which key? Say its ID, as 'ronda keys list' shows it")
    if not await catalog.keys.revoke(key_id, time.time()):
        raise BadConfig(f"there is no key '{key_id[:100]}'; 'ronda keys list' shows the IDs of those there are")
    await catalog.audit.add(_act("key.revoke", key_id))
    print(f"the key {key_id} is revoked; a server that runs refuses it from now on", file=sys.stderr)


def _act(act: str, subject: str, details: str = "") -> Act:
    return Act(time.time(), "", "", act, subject, "command", details)


async def _show_acts(catalog: Catalog) -> None:
    """The newest at the end, as in a log."""
    found = await catalog.audit.page(_SHOWN_ACTS)
    if not found:
        print("nothing was done for all owners yet")
        return
    rows = [("AT", "ACT", "SUBJECT", "BY", "KEY", "FROM", "DETAILS")]
    rows += [
        (local_time(one.at), one.act, one.subject, one.owner or "-", one.actor or "-", one.client or "-", one.details)
        for one in reversed(found)
    ]
    print_table(rows)


async def _show(keys: Keys) -> None:
    found = await keys.all()
    if not found:
        print("no keys yet: 'ronda keys create --owner NAME' makes one")
        return
    rows = [("ID", "OWNER", "CREATED", "LAST USED", "SCOPES", "ENDS")]
    rows += [
        (
            row.id,
            row.owner,
            local_time(row.created),
            "-" if row.used is None else local_time(row.used),
            " ".join(sorted(row.rights or ())) or "-",
            _end(row),
        )
        for row in found
    ]
    print_table(rows)


def _end(row: KeyRow) -> str:
    if row.revoked is not None:
        return f"revoked {local_time(row.revoked)}"
    return "-" if row.expires is None else local_time(row.expires)
