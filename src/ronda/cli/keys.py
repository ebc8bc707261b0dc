"""`ronda keys`: make an API key for somebody, list the keys there are, revoke one."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from ronda.cli.storage import open_storage
from ronda.cli.table import local_time, print_table
from ronda.errors import BadConfig
from ronda.store.keys import Keys, new_key

_LONGEST = 64  # characters of an owner's name


def keys(arguments: argparse.Namespace) -> int:
    asyncio.run(_with_keys(arguments))
    return 0


async def _with_keys(arguments: argparse.Namespace) -> None:
    async with open_storage(arguments, "keys") as storage:
        keys = storage.catalog.keys
        match arguments.action:
            case "create":
                await _create(keys, _owner(arguments.owner))
            case "revoke":
                await _revoke(keys, arguments.id)
            case _:
                await _show(keys)


def _owner(name: str | None) -> str:
    if name is None:
        raise BadConfig("whose is the key? Say it with --owner NAME")
    if not (0 < len(name) <= _LONGEST and name.isprintable() and name == name.strip()):
        raise BadConfig(
            f"--owner is {name[:100]!r}; it must be 1 to {_LONGEST} printable characters, without spaces around"
        )
    return name


async def _create(keys: Keys, owner: str) -> None:
    key, row = new_key(owner, time.time())
    await keys.add(row)
    print(key)  # by itself, so that a script can take it
    print(f"this is the key {row.id} of {owner}; keep it now, since it is not shown again", file=sys.stderr)


async def _revoke(keys: Keys, id: str | None) -> None:
    if id is None:
        raise BadConfig("which key? Say its ID, as 'ronda keys list' shows it")
    if not await keys.revoke(id, time.time()):
        raise BadConfig(f"there is no key '{id[:100]}'; 'ronda keys list' shows the IDs of those there are")
    print(f"the key {id} is revoked; a server that runs refuses it from now on", file=sys.stderr)


async def _show(keys: Keys) -> None:
    found = await keys.all()
    if not found:
        print("no keys yet: 'ronda keys create --owner NAME' makes one")
        return
    rows = [("ID", "OWNER", "CREATED", "REVOKED")]
    rows += [
        (row.id, row.owner, local_time(row.created), "-" if row.revoked is None else local_time(row.revoked))
        for row in found
    ]
    print_table(rows)
