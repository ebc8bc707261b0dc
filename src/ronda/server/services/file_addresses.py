"""Files that a request names by their address, for models whose API takes none: fetched before the run begins.

An upstream that takes addresses fetches them itself. What was fetched is part of the run, so that it is fetched once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeGuard

from msgspec.structs import replace

from ronda.core.parts import File, Turn, UserPart, UserTurn
from ronda.drive.offload import load
from ronda.errors import BadRequest

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig

MAX_FILES: Final = 10  # of one request: as large as its body may be, all together


def named_files(turns: Sequence[Turn]) -> list[File]:
    return [part for turn in turns if type(turn) is UserTurn for part in turn.parts if _is_named(part)]


def _is_named(part: UserPart) -> TypeGuard[File]:
    return type(part) is File and part.data is not None and part.data.startswith(("http://", "https://"))


async def with_files(config: ServerConfig, turns: Sequence[Turn], named: Sequence[File]) -> tuple[Turn, ...]:
    """The turns with the files themselves where they are `named`. Raises BadRequest."""
    await load("ronda.tools.fetch.files")
    from ronda.tools.fetch.addresses import AllowList
    from ronda.tools.fetch.fetcher import Fetcher, FetchFailed
    from ronda.tools.fetch.files import fetch_file

    addresses = list(dict.fromkeys((file.data or "", file.name) for file in named))
    if len(addresses) > MAX_FILES:
        raise BadRequest(f"the request names {len(addresses)} files by their addresses; it may name {MAX_FILES}")
    fetcher = Fetcher(AllowList.parse(config.fetch_allow), routes=config.fetch_routes)
    failure: Exception | None = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {one: group.create_task(fetch_file(fetcher, *one)) for one in addresses}
    except* FetchFailed as failed:
        failure = failed.exceptions[0]
    if failure is not None:  # raised out here: before Python 3.11.4, what `except*` raises is put into a group
        raise BadRequest(str(failure)) from failure
    files = {one: task.result() for one, task in tasks.items()}

    def found(part: UserPart) -> UserPart:
        return files[part.data or "", part.name] if _is_named(part) else part

    return tuple(
        [replace(turn, parts=tuple(map(found, turn.parts))) if type(turn) is UserTurn else turn for turn in turns]
    )
