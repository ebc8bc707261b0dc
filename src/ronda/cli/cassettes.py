"""`ronda record`, `ronda replay`, `ronda branch`: a run as a file, the same run without a model, and another way from there."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ronda.agent.cassettes import replay as player
from ronda.agent.cassettes.cassette import Cassette, read_cassette
from ronda.agent.cassettes.differences import Difference
from ronda.agent.cassettes.replay import ReplayResult
from ronda.cli.model import check_model
from ronda.cli.terminal import answer_alone
from ronda.core.events import WITHOUT_ANSWER
from ronda.core.transcript import final_text
from ronda.errors import BadConfig

if TYPE_CHECKING:
    from ronda.drive import Tool


def record(arguments: argparse.Namespace) -> int:
    """What `ronda run` does, written down; or a run of a server's."""
    if arguments.run is not None:
        if arguments.prompt is not None:
            raise BadConfig("--run names a run that is over or under way; there is nothing to ask")
        _write(arguments.record, asyncio.run(_export(arguments)))
        return 0
    from ronda.cli.run import run

    return run(arguments)


def _write(path: str, data: bytes) -> None:
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise BadConfig(f"cannot write {path!r}: {error.strerror}") from error


async def _export(arguments: argparse.Namespace) -> bytes:
    from ronda.agent.cassettes.export import export_run
    from ronda.cli.storage import open_storage

    async with open_storage(arguments, "runs") as storage:
        journal = storage.open_journal()
        try:
            events = await journal.read(arguments.run)
            if not events:
                raise BadConfig(f"the journal in {storage.place} has no run '{arguments.run}'")
            return await export_run(events, await journal.previews(arguments.run))
        finally:
            await journal.close()


def replay(arguments: argparse.Namespace) -> int:
    try:
        cassette = read_cassette(arguments.file)
        if arguments.agent is None:
            played = asyncio.run(player.replay(cassette))
        else:
            from ronda.agent.cassettes.replay_agent import replay as replay_with

            played = replay_with(cassette, arguments.agent)
    except Difference as error:
        print(f"ronda: {error}", file=sys.stderr)
        return 1
    return _print_result(played)


def branch(arguments: argparse.Namespace) -> int:
    check_model(arguments.model, arguments.base_url)
    try:
        cassette = read_cassette(arguments.file)
        with answer_alone() as out:
            played = asyncio.run(_branch(cassette, arguments))
            print(final_text(played.run), file=out)
    except Difference as error:
        print(f"ronda: {error}", file=sys.stderr)
        return 1
    end = played.run.ended
    if end is not None and end.reason in ("failed", "cancelled"):
        print(f"ronda: {end.message}", file=sys.stderr)
        return 1
    return 0


async def _branch(cassette: Cassette, arguments: argparse.Namespace) -> ReplayResult:
    from ronda.agent import where_is
    from ronda.providers import open_provider
    from ronda.server.services.tools_file import load_tools

    where = where_is(arguments.model, arguments.base_url, None)
    provider = open_provider(arguments.model, where)
    tools: dict[str, Tool] = {tool.spec.name: tool for tool in load_tools(arguments.tools or []).tools}
    if cassette.start.file is not None:
        from ronda.agent.reopen import file_of, job_of, reopen

        _, own = await reopen(job_of(file_of(cassette.start), cassette.start), None)
        tools = {**own, **tools}
    return await player.branch(cassette, arguments.at, arguments.model, provider, tools, record=arguments.output)


def _print_result(played: ReplayResult) -> int:
    """What it came to, and on standard output only the answer."""
    end = played.run.ended
    if end is not None and end.reason not in WITHOUT_ANSWER:
        print(end.answer or final_text(played.run))
    why = "" if played.broken_off is None else f"; {played.broken_off}"
    print(f"ronda: {played.calls} model calls and {played.events} events are as recorded{why}", file=sys.stderr)
    return 0
